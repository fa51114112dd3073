"""``hloop run`` as a program sees it: exit code, stdout, stderr."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ARGV = [
    *(sys.executable, "-m", "hloop", "run", "--plan", "plan.json"),
    *("--run-dir", "out", "--devices", "simulated:1"),
]


def write_plan(script: str) -> None:
    """Write a plan of two jobs; ``script`` is the second."""
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


def hloop_run(
    script: str, *options: str, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a plan of two jobs; ``script`` is the second."""
    write_plan(script)
    return subprocess.run(
        [*ARGV, *options], stdout=subprocess.PIPE, stderr=stderr, text=True, check=False
    )


def test_a_completed_run_exits_0_with_its_report_and_head_as_the_one_json_document():
    process = hloop_run("true", "--json")
    assert process.returncode == 0
    data = Path("out/hloop_run.json").read_bytes()
    head = "sha256:" + hashlib.sha256(data).hexdigest()
    assert json.loads(process.stdout) == {**json.loads(data), "head": head}


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


def test_a_terminal_gets_a_live_line_per_slot():
    write_plan("sleep 1")
    terminal, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(ARGV, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    # Reading a terminal that nobody writes to any more is an error.
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 1 << 16):
            shown += data
    os.close(terminal)
    assert process.wait() == 0
    lanes = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
    assert re.search(r"device 0 +idle", lanes)
    assert re.search(r"io 0 +second +\d\.\d s", lanes)


def test_the_repository_root_can_be_another_folder():
    Path("root").mkdir()
    Path("root/mark").touch()
    assert hloop_run("test -e mark", "--repo-root", "root").returncode == 0


def test_a_job_that_spoils_the_journal_gets_no_traceback():
    process = hloop_run("echo spoilt >> out/journal.jsonl")
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert "not a JSON object" in process.stderr


def test_the_run_goes_on_where_nobody_reads_what_it_shows():
    reader, writer = os.pipe()
    os.close(reader)
    # Long enough for the first line to be written before the run is over.
    hloop_run("sleep 1", stderr=writer)
    os.close(writer)
    assert json.loads(Path("out/hloop_run.json").read_text())["status"] == "completed"


def test_what_a_job_printed_cannot_change_the_terminal():
    process = hloop_run(r"printf 'red \033[31m\n' >&2; exit 1")
    assert "    red \ufffd[31m\n" in process.stdout


def test_a_repository_root_that_is_not_there_is_no_answer():
    process = hloop_run("true", "--repo-root", "missing")
    assert process.returncode == 2
    assert "missing is no folder" in process.stderr
    assert not Path("out").exists()


def test_a_signal_before_the_run_began_is_told_in_a_line():
    write_plan("true")
    process = subprocess.Popen(ARGV, stderr=subprocess.PIPE, text=True)
    while not _catches(process.pid, signal.SIGHUP):  # The last one that it takes.
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == "hloop: SIGINT came before the run began\n"
    assert process.returncode == 2


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (number - 1) & 1)
