"""``hloop oracle``, ``hloop run --requires-verdict`` and ``hloop compare --paired``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hloop.report.oracle import Question, run_oracle
from hloop.report.oraclespec import read_spec
from oracle_case import execute_plainly, write_case


@pytest.fixture(scope="module", autouse=True)
def plainly() -> Iterator[None]:
    """Run the paths without Snakemake: whole runs are in tests/report/test_oracle_runs.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hloop.report.oracle.execute", execute_plainly)
        yield


@pytest.fixture(scope="module")
def green(plainly: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("green")
    spec = write_case(root, workers=[2])
    run_oracle(spec, root / "o", root, questions=[Question.EQUALITY])
    return root


def test_a_fail_exits_1_and_says_where_the_rows_part(hloop, tmp_path):
    spec = write_case(tmp_path, "parts", workers=[2, 3])
    outcome = hloop("oracle", "--spec", spec, "--run-dir", tmp_path / "o", "--repo-root", tmp_path)
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "equality at 2 workers: FAIL (2 of 3 identical)",
        "  seed 6: v parts at step 2: 2.0 against 4.0, by at most 2",
        "equality at 3 workers: not run",
        "ORACLE case: FAIL",
        "as the spec says: the slow path it is",
        f"verdict: {tmp_path}/o/verdict.json",
    ]


def test_a_green_exits_0_with_the_verdict_as_json(hloop, tmp_path):
    spec = write_case(tmp_path, workers=[2])
    outcome = hloop(
        *("oracle", "--spec", spec, "--run-dir", tmp_path / "o", "--repo-root", tmp_path),
        *("--legs", "reproducibility", "--json"),
    )
    assert (outcome.code, outcome.document["verdict"]) == (0, "GREEN")
    assert outcome.document == json.loads((tmp_path / "o/verdict.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--spec", "x"], "give --spec and --run-dir"),
        (["--spec", "x", "--run-dir", "y", "--legs", "speed"], "expected some of equality"),
        (["--spec", "x", "--run-dir", "y"], "cannot be read"),
    ],
)
def test_what_cannot_be_answered_exits_2(hloop, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    outcome = hloop("oracle", *arguments)
    assert (outcome.code, message in outcome.err) == (2, True)


def test_check_exits_0_where_the_settings_are_covered(hloop, green, tmp_path):
    bound = json.loads((green / "o/verdict.json").read_text())["legs"][0]["settings"]
    (tmp_path / "s.json").write_text(json.dumps(bound))
    arguments = ("--verdict", green / "o/verdict.json", "--settings", tmp_path / "s.json")
    outcome = hloop("oracle", "check", *arguments)
    assert (outcome.code, outcome.out) == (0, "covered: yes\n")


def test_check_exits_1_and_says_why_where_they_are_not(hloop, green, tmp_path):
    (tmp_path / "s.json").write_text('{"workers": 8}')
    arguments = ("--verdict", green / "o/verdict.json", "--settings", tmp_path / "s.json")
    outcome = hloop("oracle", "check", *arguments)
    expected = "covered: no\n  - workers is 8; the verdict is bound to 2\n"
    assert (outcome.code, outcome.out) == (1, expected)


def test_check_exits_2_where_the_spec_was_changed(hloop, green, tmp_path):
    (tmp_path / "spec.yaml").write_text("schema: x\n")
    (tmp_path / "verdict.json").write_bytes((green / "o/verdict.json").read_bytes())
    arguments = ("--verdict", tmp_path / "verdict.json", "--settings", tmp_path / "spec.yaml")
    assert hloop("oracle", "check", *arguments).code == 2


def test_check_exits_2_where_the_verdict_was_changed(hloop, tmp_path):
    spec = write_case(tmp_path, "parts", workers=[2])
    hloop("oracle", "--spec", spec, "--run-dir", tmp_path / "o", "--repo-root", tmp_path)
    verdict = tmp_path / "o/verdict.json"
    text = verdict.read_text().replace("FAIL", "GREEN")
    verdict.unlink()
    verdict.write_text(text)
    outcome = hloop("oracle", "check", "--verdict", verdict, "--settings", verdict)
    assert (outcome.code, "its rows say otherwise" in outcome.err) == (2, True)


def test_a_run_that_the_verdict_does_not_cover_does_not_begin(hloop, green, tmp_path):
    plan = read_spec(green / "o/spec.yaml", green).plan("fast", 3, 60)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    outcome = hloop(
        *("run", "--plan", tmp_path / "plan.json", "--run-dir", tmp_path / "run"),
        *("--repo-root", green, "--requires-verdict", green / "o/verdict.json"),
    )
    assert "jobs.fast: workers is 3; the verdict is bound to 2" in outcome.err
    assert (outcome.code, (tmp_path / "run").exists()) == (2, False)


def test_paired_refuses_the_slow_path(hloop, green):
    runs = ("--baseline", green / "o/slow", "--candidate", green / "o/fast-2")
    outcome = hloop("compare", *runs, "--paired", "--spec", green / "o/spec.yaml")
    assert (outcome.code, "a run of the slow path" in outcome.err) == (2, True)


def test_paired_needs_the_spec(hloop, green):
    runs = ("--baseline", green / "o/slow", "--candidate", green / "o/fast-2")
    assert "--paired needs --spec" in hloop("compare", *runs, "--paired").err
