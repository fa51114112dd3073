"""``hloop run`` as a program sees it: exit code, stdout, stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def hloop_run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a plan of two jobs; ``script`` is the second."""
    jobs = [
        {"job_id": "first", "resource": "cpu", "command": ["true"]},
        {
            "job_id": "second",
            "resource": "io",
            "depends_on": ["first"],
            "command": ["sh", "-c", script],
        },
    ]
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "two", "jobs": jobs}
    Path("plan.json").write_text(json.dumps(plan))
    argv = ("run", "--plan", "plan.json", "--run-dir", "out", "--devices", "simulated:1")
    return subprocess.run(
        [sys.executable, "-m", "hloop", *argv, *options], capture_output=True, text=True
    )


def test_a_completed_run_exits_0_with_its_report_as_the_one_json_document():
    process = hloop_run("true", "--json")
    assert process.returncode == 0
    assert json.loads(process.stdout) == json.loads(Path("out/hloop_run.json").read_text())


def test_a_failed_run_exits_1_with_its_report_all_the_same():
    process = hloop_run("exit 3", "--json")
    assert (process.returncode, json.loads(process.stdout)["status"]) == (1, "failed")


def test_people_get_a_line_per_event_on_stderr_and_the_result_on_stdout(tmp_path):
    process = hloop_run("echo broken >&2; exit 3")
    lines = process.stdout.splitlines()
    assert lines[0].startswith("failed: second: ")
    assert lines[1] == "    broken"
    assert lines[2].startswith("failed: 1 completed, 1 failed in ")
    assert lines[3] == f"report: {tmp_path}/out/hloop_run.json"
    told = [line.split(" s  ", 1)[1] for line in process.stderr.splitlines()]
    assert told[:4] == [
        "two: 2 jobs, mode hloop, 1 simulated device(s)",
        "first started on cpu 0",
        "first completed",
        "second started on io 0",
    ]
