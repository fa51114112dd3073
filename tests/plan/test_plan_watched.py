"""What budget.watch and budget.fail_on mean to a run."""

from __future__ import annotations

import pytest
from hloop.plan.watched import compile_fail_on, watch_parts


@pytest.mark.parametrize(
    ("template", "parts"),
    [
        ("tb/*", ("tb", "*")),
        ("{run_dir}/tb/*", ("tb", "*")),
        ("./tb//x/", ("tb", "x")),
        ("tb/**", ("tb", "**", "*")),
        ("tb/{{a}}", ("tb", "{a}")),
        ("tb/{a}", ("tb", "{a}")),
    ],
)
def test_a_pattern_is_one_below_the_run_directory(template: str, parts: tuple[str, ...]) -> None:
    assert watch_parts(template) == parts


@pytest.mark.parametrize(
    "template",
    ["/tmp/x", "a/../../b", "{run_dir}", "{run_dir}x/y", "a/{run_dir}/b", "{repo_root}/a", "."],
)
def test_a_pattern_that_leads_elsewhere_is_none(template: str) -> None:
    with pytest.raises(ValueError):
        watch_parts(template)


def test_what_python_may_read_otherwise_one_day_is_read_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    compile_fail_on("[[a]")
    assert not recwarn


@pytest.mark.parametrize("text", ["(", "(?P<a>x)(?P<a>y)", "x" * 1001])
def test_what_is_no_pattern_says_why(text: str) -> None:
    with pytest.raises(ValueError, match="regular expression|characters"):
        compile_fail_on(text)
