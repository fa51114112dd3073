"""What all commands share: exit codes, JSON and nothing else on stdout, help, no tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hloop.cli import main as main_module
from hloop.errors import HloopError

NO_ANSWER = {
    "plan: no plan named": ("plan",),
    "plan: no file": ("plan", "gone.json"),
    "plan: not a plan": ("plan", "empty.json"),
    "plan: no such mode": ("plan", "plan.json", "--mode", "fast"),
    "plan: no such option": ("plan", "plan.json", "--modus", "hloop"),
    "plan: too few devices": ("plan", "plan.json", "--devices", "1"),
    "plan: devices that are none": ("plan", "plan.json", "--devices", "simulated:x"),
    "plan: no worker": ("plan", "plan.json", "--cpu-workers", "0"),
    "prepare: no configuration named": ("prepare", "--run-dir", "out"),
    "prepare: no file": ("prepare", "--config", "gone.yaml", "--run-dir", "out"),
    "prepare: a plan": ("prepare", "--config", "plan.json", "--run-dir", "plan.json"),
    "run: no run directory named": ("run", "--plan", "plan.json"),
    "run: no file": ("run", "--plan", "gone.json", "--run-dir", "out"),
    "run: a used run directory": ("run", "--plan", "plan.json", "--run-dir", "."),
    "run: too few devices": (
        *("run", "--plan", "plan.json", "--run-dir", "out", "--devices", "simulated:1"),
    ),
    "compare: one run named": ("compare", "--baseline", "a"),
    "compare: no file": ("compare", "--baseline", "a", "--candidate", "b"),
    "compare: not a report": ("compare", "--baseline", "plan.json", "--candidate", "empty.json"),
    "no such command": ("cook",),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.json").write_text("{}")
    job = {"resource": "gpu", "cuda_visible_devices": "1", "command": ["true"]}
    jobs = [{"job_id": f"job_{number}", **job} for number in range(1000)]
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "p", "jobs": jobs}
    Path("plan.json").write_text(json.dumps(plan))


@pytest.fixture(params=NO_ANSWER.values(), ids=NO_ANSWER.keys())
def no_answer(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


def test_what_cannot_be_answered_exits_2_and_writes_nothing(hloop, no_answer, tmp_path):
    before = sorted(tmp_path.iterdir())
    assert hloop(*no_answer).code == 2
    assert sorted(tmp_path.iterdir()) == before


def test_people_get_one_text_on_stderr_without_a_traceback(hloop, no_answer):
    outcome = hloop(*no_answer)
    assert outcome.out == ""
    assert outcome.err.startswith("hloop: ") and "Traceback" not in outcome.err


def test_programs_get_one_json_document_on_stdout(hloop, no_answer):
    document = hloop(*no_answer, "--json").document
    assert set(document) == {"error", "file", "problems"}
    assert document["problems"][0]["found"]


def test_a_wrong_command_line_says_where_help_is(hloop):
    assert hloop("compare", "--baseline", "run").err == (
        "hloop: Missing option '--candidate'. See hloop compare --help\n"
    )


def test_an_error_names_its_kind_and_its_file(hloop):
    document = hloop("plan", "empty.json", "--json").document
    assert (document["error"], document["file"]) == ("PlanError", "empty.json")


def test_an_error_has_its_own_exit_code(hloop, monkeypatch):
    class Answer(HloopError):
        exit_code = 1

    def app(**_options: object) -> None:
        raise Answer("no")

    monkeypatch.setattr(main_module, "application", lambda: app)
    assert hloop().code == 1


def test_a_bug_is_no_answer_and_shows_its_traceback(hloop, monkeypatch):
    def app(**_options: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(main_module, "application", lambda: app)
    outcome = hloop("--json")
    assert (outcome.code, "Traceback" in outcome.err) == (2, True)
    assert outcome.document["problems"][0]["found"] == "a bug in hloop: ZeroDivisionError('oops')"


def test_without_a_command_the_help_is_shown(hloop):
    outcome = hloop()
    assert outcome.code == 2
    assert all(f"\n  {name} " in outcome.out for name in ("plan", "prepare", "run", "compare"))


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", [(), ("plan",), ("prepare",), ("run",), ("compare",)])
def test_help_is_an_answer(hloop, command, option):
    outcome = hloop(*command, option)
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: {' '.join(('hloop', *command))} ")


def test_help_names_the_defaults(hloop):
    text = " ".join(hloop("run", "--help").out.split())
    assert "free first. [default: pinned]" in text


def test_a_command_waits_for_no_other_ones_modules():
    code = (
        "import sys; from hloop.cli.main import application; application('run')\n"
        "print(sorted(name for name in sys.modules if name.startswith('hloop.report')))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_the_version_is_told(hloop):
    assert hloop("--version").out == "hloop 0.1.0\n"


def test_a_reader_that_goes_away_gets_no_traceback():
    argv = [sys.executable, "-m", "hloop", "plan", "plan.json"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "plan p: 1000 jobs\n"
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), error) == (2, "")


@pytest.fixture
def in_ascii(tmp_path):
    """Show a plan on a terminal whose encoding lacks its name."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "schema_version: mimicx.hloop-plan.v1\nplan_id: é\n"
        "jobs: [{job_id: a, resource: cpu, command: ['true']}]\n"
    )

    def call(*options):
        return subprocess.run(
            [sys.executable, "-m", "hloop", "plan", str(plan), *options],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
        )

    return call


def test_a_name_that_the_terminal_lacks_is_shown_escaped(in_ascii):
    assert in_ascii().stdout.startswith("plan \\xe9: 1 jobs\n")


def test_a_name_that_the_encoding_lacks_is_right_in_json(in_ascii):
    assert json.loads(in_ascii("--json").stdout)["plan_id"] == "é"
