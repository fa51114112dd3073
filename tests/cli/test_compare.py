"""``hloop compare`` on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import typer
from hloop.cli import compare as compare_module
from hloop.errors import ReportError
from synthetic_run import SyntheticRun, make_pair
from typer.testing import CliRunner

Pair = tuple[SyntheticRun, SyntheticRun]

app = typer.Typer()
app.command("compare")(compare_module.command)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path / "repo")


def invoke(pair: Pair, *options: str) -> tuple[int, str]:
    paths = ["--baseline", str(pair[0].paths.root), "--candidate", str(pair[1].paths.report)]
    result = CliRunner().invoke(app, [*paths, *options])
    return result.exit_code, result.stdout


def test_runs_that_agree_exit_0(pair: Pair) -> None:
    assert invoke(pair)[0] == 0


def test_runs_that_do_not_agree_exit_1(pair: Pair) -> None:
    pair[1].rewrite(**{"a/report.json": "{}"})
    assert invoke(pair)[0] == 1


def test_what_cannot_be_answered_is_an_error_that_exits_2(pair: Pair) -> None:
    with pytest.raises(ReportError) as raised:
        compare_module.command(pair[0].paths.root, pair[0].paths.root, as_json=False)
    assert raised.value.exit_code == 2


def test_the_two_runs_are_named_first(pair: Pair) -> None:
    assert invoke(pair)[1].splitlines()[:2] == [
        f"baseline: {pair[0].paths.report} (mode hloop, completed)",
        f"candidate: {pair[1].paths.report} (mode hloop, completed)",
    ]


def test_agreement_is_told_in_one_line_with_what_was_not_compared(pair: Pair) -> None:
    assert invoke(pair)[1].splitlines()[2:] == [
        "not compared, as the plan says: ${RUN_DIR}/a/notes.txt",
        "not compared, as the plan says: ${RUN_DIR}/b/notes.txt",
        "The runs agree: 24 of 24 checks pass, 0 differ, 0 unknown.",
        "Duration: 0.28 s against 0.28 s, a speed-up of 1.000.",
    ]


def test_what_differs_comes_first_and_what_is_unknown_next(pair: Pair) -> None:
    for run in pair:
        run.edit(lambda report: report.pop("candidate_ids"))
    pair[1].edit(lambda report: report["jobs"][4].update(returncode=1))
    lines = invoke(pair)[1].splitlines()[2:]
    assert [line.split()[:2] for line in lines[:2]] == [
        ["differs", "jobs.select.outcome"],
        ["unknown", "candidate_ids"],
    ]


def test_a_check_says_what_was_found(pair: Pair) -> None:
    pair[1].edit(lambda report: report["candidate_ids"].pop())
    assert invoke(pair)[1].splitlines()[2] == (
        "differs  candidate_ids  ['a', 'a', 'b', 'b'] against ['a', 'a', 'b']"
    )


def test_reasons_against_the_durations_are_listed(pair: Pair) -> None:
    pair[1].edit(lambda report: report.update(mode="sequential"))
    assert "  - mode differs: hloop against sequential\n" in invoke(pair)[1]


def test_json_is_the_whole_comparison(pair: Pair) -> None:
    document = json.loads(invoke(pair, "--json")[1])
    assert (document["schema_version"], document["passed"]) == ("mimicx.hloop-parity.v1", True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_table(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair[1].edit(lambda report: report["jobs"][4].update(returncode=1))
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    with pytest.raises(typer.Exit):
        compare_module.command(pair[0].paths.root, pair[1].paths.root, as_json=False)
    assert "what was found" in terminal.getvalue()
