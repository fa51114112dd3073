"""hloop recover: a run whose supervisor and Snakemake are gone gets its records and report."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hloop.errors import HloopError
from hloop.files import RunPaths
from hloop.provenance.verify import verify
from hloop.run import processes
from hloop.run.aftermath import close_run
from hloop.run.recovering import recover
from hloop.run.runlock import RunLock
from hloop.run.survivors import end_survivors, survivors
from resumed_runs import interrupt_small, resume, take_up
from supervised import Supervised, is_alive, job, output, rendered, wait_for
from tampering import run_small


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path)
    yield supervised
    supervised.end()


def die_in_the_middle(sup: Supervised) -> None:
    """One job has completed, one runs, one waits for it; then everything is killed."""
    sup.open(
        rendered(
            sup.root,
            job("done", "echo > run/o", outputs=[output("o")]),
            job("half", "echo > run/p; sleep 60", outputs=[output("p")]),
            job("later", depends_on=["half"]),
        )
    )
    sup.ready("done", "half")
    assert sup.ended("done") == ["completed"]
    pid = sup.pid("half")
    sup.kill()
    wait_for(lambda: not is_alive(pid), "the job's end")


def statuses(run_dir: Path) -> dict[str, str]:
    report = json.loads(RunPaths(run_dir).report.read_bytes())
    return {entry["job_id"]: entry["status"] for entry in report["jobs"]}


def test_what_was_half_done_is_cancelled(sup: Supervised) -> None:
    die_in_the_middle(sup)
    recover(sup.paths.root)
    assert statuses(sup.paths.root) == {
        "done": "completed",
        "half": "cancelled",
        "later": "skipped",
    }


def test_its_status_says_that_the_run_died(sup: Supervised) -> None:
    die_in_the_middle(sup)
    recover(sup.paths.root)
    status = json.loads(sup.paths.job("half").status.read_bytes())
    assert (status["status"], status["failure"]["reason"]) == ("cancelled", "run_died")


def test_what_is_recovered_is_interrupted_and_unaltered(sup: Supervised) -> None:
    die_in_the_middle(sup)
    found = recover(sup.paths.root)
    verdict = verify(sup.paths.root)
    assert (found.status, found.head, verdict.unaltered) == ("interrupted", verdict.head, True)


def test_a_second_time_it_does_nothing(sup: Supervised) -> None:
    die_in_the_middle(sup)
    first = recover(sup.paths.root)
    journal = sup.paths.journal.read_bytes()
    second = recover(sup.paths.root)
    assert (first.anew, second.anew, second.head) == (True, False, first.head)
    assert sup.paths.journal.read_bytes() == journal


def test_a_run_that_has_its_report_is_left_alone(tmp_path: Path) -> None:
    run_small(tmp_path / "root")
    before = RunPaths(tmp_path / "root/run").report.read_bytes()
    assert not recover(tmp_path / "root/run").anew
    assert RunPaths(tmp_path / "root/run").report.read_bytes() == before


@pytest.mark.parametrize("lines", range(1, 9))
def test_a_journal_that_lost_its_end_loses_no_job(tmp_path: Path, lines: int) -> None:
    """After a power cut records may be there that the journal does not know of."""
    interrupt_small(tmp_path / "root")
    paths = RunPaths(tmp_path / "root/run")
    paths.report.unlink()
    journal = paths.journal.read_bytes().splitlines(keepends=True)
    paths.journal.write_bytes(b"".join(journal[:lines]) + journal[lines][:9])
    recover(paths.root)
    assert statuses(paths.root) == {
        "make": "completed",
        "other": "completed",
        "read": "skipped",
        "last": "skipped",
    }
    assert verify(paths.root).unaltered


def test_a_job_that_was_only_scheduled_is_cancelled(tmp_path: Path) -> None:
    interrupt_small(tmp_path / "root")
    paths = RunPaths(tmp_path / "root/run")
    paths.report.unlink()
    job_paths = paths.job("other")
    for path in (job_paths.record, job_paths.status, job_paths.completed):
        path.unlink()
    start = paths.journal.read_bytes().splitlines(keepends=True)[0]
    paths.journal.write_bytes(start)
    recover(paths.root)
    assert statuses(paths.root)["other"] == "cancelled"
    assert verify(paths.root).unaltered


def test_a_session_that_died_while_it_began_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root)
    (root / "run/other").write_text("spoilt\n")
    rename, left = os.rename, 3

    def dying(source: Path, target: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        take_up(plan)
    monkeypatch.setattr(os, "rename", rename)
    recover(root / "run")
    assert statuses(root / "run")["make"] == "completed"
    assert statuses(root / "run")["other"] == "skipped"
    assert verify(root / "run").unaltered


@pytest.mark.parametrize("written", [False, True])
def test_what_completed_as_its_supervisor_died_unheard_is_rejected(
    written: bool, tmp_path: Path
) -> None:
    """Snakemake was never told, takes it for failed, and removes what it made."""
    plan = interrupt_small(tmp_path / "root")
    paths = RunPaths(plan.run_dir)
    paths.report.unlink()
    events = [json.loads(line) for line in paths.journal.read_bytes().splitlines()]
    lines = [
        json.dumps(event) + "\n"
        for event in events
        if event["event"] != "run_ended"
        and (written or (event["event"], event.get("job")) != ("job_ended", "other"))
    ]
    paths.journal.write_text("".join(lines))
    (paths.root / "other").unlink()
    close_run("it ended with -9", {"other"}, plan, None)
    assert statuses(paths.root)["other"] == "failed"
    assert verify(paths.root).unaltered


def test_what_is_recovered_can_be_resumed(sup: Supervised, tmp_path: Path) -> None:
    die_in_the_middle(sup)
    recover(sup.paths.root)
    plan = rendered(
        sup.root,
        job("done", "echo > run/o", outputs=[output("o")]),
        job("half", "echo > run/p; sleep 60", outputs=[output("p")]),
        job("later", depends_on=["half"]),
    )
    started = resume(tmp_path, plan)
    assert started.kept == {"done"}


def test_offsets_go_on_rising_after_a_boot(tmp_path: Path) -> None:
    interrupt_small(tmp_path / "root")
    paths = RunPaths(tmp_path / "root/run")
    paths.report.unlink()
    # As if the monotonic clock had been far ahead in the boot before.
    lines = [json.loads(line) for line in paths.journal.read_bytes().splitlines()]
    lines[0]["monotonic_ns"] += 10**18
    paths.journal.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    recover(paths.root)
    offsets = [json.loads(line)["offset_ns"] for line in paths.journal.read_bytes().splitlines()]
    assert offsets[-1] > max(offsets[:-1])


# What cannot be recovered


def refusal(run_dir: Path) -> str:
    with pytest.raises(HloopError) as caught:
        recover(run_dir)
    return str(caught.value)


def test_a_folder_that_is_no_run_directory_is_named(tmp_path: Path) -> None:
    assert "is no run directory" in refusal(tmp_path)


@pytest.mark.parametrize("journal", [None, b"", b'{"event": "run_sta'])
def test_a_run_that_had_not_begun_is_told_so(tmp_path: Path, journal: bytes | None) -> None:
    (tmp_path / "plan.json").write_text("{}")
    if journal is not None:
        (tmp_path / "journal.jsonl").write_bytes(journal)
    assert "the run died before it had begun: no job was started" in refusal(tmp_path)


def test_a_journal_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "journal.jsonl").write_bytes(b"no JSON\n")
    assert "journal.jsonl: line 1: not a JSON object" in refusal(tmp_path)


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    interrupt_small(tmp_path / "root")
    paths = RunPaths(tmp_path / "root/run")
    paths.report.unlink()
    lock = RunLock.take(paths)
    try:
        assert "is being run by pid" in refusal(paths.root)
    finally:
        lock.release()


# What jobs left behind


def test_what_a_job_left_in_a_session_of_its_own_is_ended(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    environment = {
        processes.ATTEMPT_VARIABLE: "token",
        "HLOOP_TRANSITIONS": str(paths.job("a").transitions),
    }
    process = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    try:
        wait_for(lambda: survivors(paths), "the process to be seen")
        # It is a zombie of this process's until it is waited for, and has no environment.
        assert end_survivors(paths) == []
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()


def test_what_belongs_to_another_run_is_left_alone(tmp_path: Path) -> None:
    environment = {
        processes.ATTEMPT_VARIABLE: "token",
        "HLOOP_TRANSITIONS": str(RunPaths(tmp_path / "run2").job("a").transitions),
    }
    process = subprocess.Popen(["sleep", "60"], env=environment)
    try:
        assert end_survivors(RunPaths(tmp_path / "run")) == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
