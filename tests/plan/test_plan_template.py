"""Templates: the published rule where it applies, and every other brace kept."""

import pytest
from hloop.errors import PlanError
from hloop.plan.template import render, uses_run_dir
from hypothesis import given
from hypothesis import strategies as st

ROOT, RUN = "/r{x}", "/r{x}/runs/{{1}}"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PIECES = st.lists(
    st.sampled_from(["{repo_root}", "{run_dir}", "{{", "}}", "$", '"a"', "name", "\n", "é"])
)


@given(TEXT)
def test_a_text_without_braces_stays(text: str) -> None:
    text = text.replace("{", "").replace("}", "")
    assert render(text, ROOT, RUN) == text


@given(TEXT)
def test_doubled_braces_become_single_ones(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert render(doubled, ROOT, RUN) == text


@given(PIECES)
def test_a_valid_text_is_rendered_as_str_format_does(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert render(text, ROOT, RUN) == text.format(repo_root=ROOT, run_dir=RUN)


@given(PIECES)
def test_one_single_brace_keeps_every_other_as_written(pieces: list[str]) -> None:
    text = "".join(["{print $1} ", *pieces])
    expected = text.replace("{repo_root}", "\0").replace("{run_dir}", RUN).replace("\0", ROOT)
    assert render(text, ROOT, RUN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{"a": 1}}', '{"a": 1}'),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ('{"out": "{run_dir}/x"}', '{"out": "/run/x"}'),
        ("{print $1}", "{print $1}"),
        ("${shell_variable}", "${shell_variable}"),
        ("${run_dir_x}", "${run_dir_x}"),
        ("${run_dirs}", "${run_dirs}"),
        ("${run_dir:-/tmp}", "${run_dir:-/tmp}"),
        ("{{runs_dir}}", "{runs_dir}"),
        ("d = {}; e = {1: {}}", "d = {}; e = {1: {}}"),
        ("f'{x!r:>10}'", "f'{x!r:>10}'"),
        ("{out_dir}/{root}/{run_id}", "{out_dir}/{root}/{run_id}"),
        ("{a,b}{1..3}", "{a,b}{1..3}"),
        ("{run_dir = $1; print run_dir}", "{run_dir = $1; print run_dir}"),
        ("{", "{"),
        ("}{run_dir}", "}/run"),
    ],
)
def test_braces_of_other_languages_need_no_care(text: str, expected: str) -> None:
    assert render(text, "/root", "/run") == expected


NEAR_MISSES = {
    "{run_dir}": [
        *("{runs_dir}", "{run_dirs}", "{run-dir}", "{RUN_DIR}", "{ run_dir }", "{rundir}"),
        *("{runDir}", "{run dir}", "{run.dir}", "{run_dri}", "{run_di}", "{run_directory}"),
        *("{run_dir!s}", "{run_dir:>40}", "{run_dir.name}", "{run_dir/x.json}", "{run_dir"),
    ],
    "{repo_root}": [
        *("{repo-root}", "{repos_root}", "{REPO_ROOT}", "{ repo_root}", "{reporoot}"),
        *("{repository_root}", "{repo_roots}", "{repo_root[0]}", "{repo_rooot}"),
    ],
}


@pytest.mark.parametrize(
    ("text", "meant"), [(text, meant) for meant, texts in NEAR_MISSES.items() for text in texts]
)
def test_a_near_miss_is_refused_with_the_name_that_was_meant(text: str, meant: str) -> None:
    with pytest.raises(PlanError, match=f"Write {meant};"):
        render(f'{{"out": "{text}', ROOT, RUN)


@pytest.mark.parametrize("text", ["{run_dir}", "x/{run_dir}/y", '{"a": "{run_dir}"}'])
def test_a_text_with_the_run_directory_uses_it(text: str) -> None:
    assert uses_run_dir(text)


@pytest.mark.parametrize("text", ["run_dir", "{{run_dir}}", "{repo_root}", '{"run_dir": 1}'])
def test_a_text_without_the_run_directory_does_not_use_it(text: str) -> None:
    assert not uses_run_dir(text)
