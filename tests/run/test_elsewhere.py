"""A plan's run under another executor: each job has a supervisor of its own."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.devices.leases import LeaseFolder
from hloop.errors import HloopError, RunDirectoryError
from hloop.locks import Holder, Lock
from hloop.run import elsewhere
from hloop.run.journal import read_journal
from hloop.run.settings import RunSettings
from hloop.run.workflow import WorkflowRun
from supervised import is_alive, job, output, rendered, wait_for


@pytest.fixture(autouse=True)
def no_run_goes_on() -> Iterator[None]:
    """The process that began a run would keep its lock as long as it lives."""
    yield
    for lock in elsewhere._LOCKS.values():
        lock.release()
    elsewhere._LOCKS.clear()


def run_of(root: Path, *jobs: dict[str, Any], begin: bool = True, **settings: Any) -> WorkflowRun:
    run = WorkflowRun(
        rendered(root, *jobs), RunSettings(devices="simulated:2", grace_seconds=1, **settings)
    )
    if begin:
        run.begin(executor="local", snakemake="9")
    return run


def events(run: WorkflowRun, event: str) -> list[dict[str, Any]]:
    return [entry for entry in read_journal(run.paths.journal) if entry["event"] == event]


def test_a_run_begins_with_the_plan_and_the_start_of_a_journal(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"))
    (start,) = events(run, "run_started")
    assert (start["mode"], start["executor"]) == ("external", "local")
    assert run.paths.plan.exists()


def test_a_used_run_directory_is_refused(tmp_path: Path) -> None:
    run_of(tmp_path, job("a"))
    with pytest.raises(RunDirectoryError, match="is being run by pid"):
        run_of(tmp_path, job("a"))


def test_a_run_that_has_ended_is_locked_no_more(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"))
    run.end()
    assert not run.paths.lock.exists() and not elsewhere._LOCKS


def test_a_missing_device_is_said_before_anything_is_written(tmp_path: Path) -> None:
    plan = job("g", "true", "gpu", cuda_visible_devices="5")
    with pytest.raises(HloopError, match="needs device 5"):
        run_of(tmp_path, plan)
    assert not (tmp_path / "run").exists()


def test_a_job_waits_for_the_device_that_another_run_has_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leases = LeaseFolder.open(tmp_path / "leases")
    lease = leases.try_lease("simulated-0")
    assert isinstance(lease, Lock)
    lease.say(Holder("/other", "s", "b", 7, 9, "ada", "node", "2026-03-01T08:00:00Z"))
    job_a = job("a", "true", "gpu", cuda_visible_devices="0")
    run = run_of(tmp_path, job_a, lease_dir=str(leases.path))
    thread = threading.Thread(target=run.run_job, args=("a",))
    thread.start()
    wait_for(lambda: events(run, "job_waiting"), "the wait")
    lease.release()
    thread.join()
    leases.close()
    said = capsys.readouterr().err
    assert said.startswith("hloop: a waits: device 0 is held by the run /other, job b (pid 7")
    assert events(run, "job_ended")[0]["status"] == "completed"


def test_a_job_leaves_the_same_records_as_under_hloop(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a", "echo out; echo err >&2"))
    run.run_job("a")
    paths = run.paths.job("a")
    assert sorted(path.name for path in paths.root.iterdir()) == [
        "attempt_status.json",
        "completed",
        "run_record.json",
        "scheduled_job.json",
        "stderr.log",
        "stdout.log",
    ]


def test_a_gpu_job_has_its_device(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("g", "echo $HLOOP_DEVICE_ID", "gpu", cuda_visible_devices="1"))
    run.run_job("g")
    assert run.paths.job("g").stdout.read_text() == "1\n"


def test_jobs_of_one_run_share_the_journal(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"), job("b", depends_on=["a"]))
    run.run_job("a")
    run.run_job("b")
    ended = [(entry["job"], entry["status"]) for entry in events(run, "job_ended")]
    assert ended == [("a", "completed"), ("b", "completed")]


def test_what_is_not_known_of_slots_is_not_said(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"))
    run.run_job("a")
    assert events(run, "job_started")[0]["slot"] is None


def test_jobs_may_run_at_the_same_time(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    # Each waits for the others, so that only together they end.
    script = "touch {0}; while ! [ -e a -a -e b -a -e c ]; do sleep 0.02; done"
    run = run_of(tmp_path, *(job(name, script.format(name)) for name in names))
    threads = [threading.Thread(target=run.run_job, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry["status"] for entry in events(run, "job_ended")} == {"completed"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"command": ["sh", "-c", "echo why >&2; exit 7"]}, "it exited with 7"),
        ({"command": ["sh", "-c", "echo why >&2; exit 7"]}, "why"),
        ({"command": ["no-such-program"]}, "it could not start"),
        ({"outputs": [output("o")]}, "does not exist"),
    ],
)
def test_a_job_that_did_not_complete_says_why(
    tmp_path: Path, fields: dict[str, Any], text: str
) -> None:
    run = run_of(tmp_path, job("a", **fields))
    with pytest.raises(HloopError) as caught:
        run.run_job("a")
    assert "job a did not complete" in str(caught.value) and text in str(caught.value)


def test_without_a_beginning_a_job_says_what_to_do(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"), begin=False)
    with pytest.raises(HloopError, match="--no-hooks"):
        run.run_job("a")


def test_a_job_whose_supervisor_is_killed_has_not_completed(tmp_path: Path) -> None:
    script = "echo $PPID > supervisor; exec sleep 60"
    run = run_of(tmp_path, job("a", script))

    def kill() -> None:
        path = tmp_path / "supervisor"
        os.kill(int(wait_for(lambda: path.exists() and path.read_text(), "it")), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HloopError, match="job a did not complete"):
        run.run_job("a")
    killer.join()
    wait_for(lambda: not is_alive(events(run, "job_started")[0]["pid"]), "the job to end")


def test_the_end_writes_the_report(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a"))
    run.run_job("a")
    run.end()
    report = json.loads(run.paths.report.read_text())
    assert (report["status"], report["mode"]) == ("completed", "external")


def test_a_run_whose_job_failed_has_failed(tmp_path: Path) -> None:
    run = run_of(tmp_path, job("a", "false"), job("b"))
    with pytest.raises(HloopError):
        run.run_job("a")
    assert run.end()["status"] == "failed"
    report = json.loads(run.paths.report.read_text())
    statuses = {entry["job_id"]: entry["status"] for entry in report["jobs"]}
    assert statuses == {"a": "failed", "b": "skipped"}
