"""A supervisor where something is wrong with the machine: it ends, and says the truth."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical
from hloop.provenance.verify import verify
from supervised import PATIENCE, Supervised, is_alive, job, output, rendered, wait_for

GIB = 2**30
Make = Callable[..., Supervised]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Start a supervisor; see :class:`Supervised`."""
    started: list[Supervised] = []

    def start(**fields: Any) -> Supervised:
        started.append(Supervised(tmp_path, **fields))
        return started[-1]

    yield start
    for sup in started:
        sup.end()


def failure(sup: Supervised, name: str = "a") -> str:
    """Wait for a job to fail, and give why."""
    message = sup.until("ended", name)
    assert message["status"] == "failed"
    text: str = message["message"]
    return text


# What cannot be started


def test_a_program_that_may_not_be_executed_is_named(make: Make, tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    sup = make()
    sup.open(rendered(tmp_path, job("a", command=[f"{tmp_path}/program"])))
    sup.ready("a")
    assert failure(sup) == f"it could not start: {tmp_path}/program: Permission denied"


def test_a_program_that_is_none_is_named(make: Make, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELFand no more")
    (tmp_path / "program").chmod(0o755)
    sup = make()
    sup.open(rendered(tmp_path, job("a", command=[f"{tmp_path}/program"])))
    sup.ready("a")
    assert failure(sup) == f"it could not start: {tmp_path}/program: Exec format error"


def test_a_folder_that_is_a_file_is_named(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sup = make()
    sup.open(rendered(tmp_path, job("a", cwd=f"{tmp_path}/file")))
    sup.ready("a")
    assert failure(sup) == f"it could not start: {tmp_path}/file: Not a directory"


EAGAIN = """
import errno, os
def refuse(*_args, **_fields):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
"""


# Root has no limit on its processes: another user then, who may still read and write everything.
_READS_ALL = "-all,+dac_override"
NOT_ROOT = () if os.geteuid() else (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *(f"--{kind}={_READS_ALL}" for kind in ("inh-caps", "ambient-caps", "bounding-set")),
)  # fmt: skip


FULL_AT_FIRST = """
import os, resource
start, kind = os.posix_spawn, resource.RLIMIT_NPROC
def when_full(*args, **fields):
    os.posix_spawn = start
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (1, hard))
    try:
        return start(*args, **fields)
    finally:
        resource.setrlimit(kind, (soft, hard))
os.posix_spawn = when_full
"""


def test_a_full_process_table_fails_the_jobs_that_meet_it(make: Make, tmp_path: Path) -> None:
    sup = make(prefix=NOT_ROOT, patch=FULL_AT_FIRST)
    sup.open(rendered(tmp_path, job("a"), job("b")), keep_going=True, cpu_workers=1)
    sup.ready("a", "b")
    assert "Resource temporarily unavailable" in failure(sup)
    assert sup.ended("b") == ["completed"]


def test_without_a_process_to_read_it_a_large_output_fails_its_job(
    make: Make, tmp_path: Path
) -> None:
    sup = make(patch=EAGAIN + "import subprocess; subprocess.Popen = refuse")
    big = output("big")
    large = job("a", f"truncate -s {GIB} {big['path']}", outputs=[big])
    sup.open(rendered(tmp_path, large, job("b")), keep_going=True)
    sup.ready("a", "b")
    assert "no process can be started that reads large files" in failure(sup)
    assert sup.ended("b") == ["completed"]


# Disks


ENOSPC = """
import errno, os
from hloop import files
write = files._write
def full(fd, data):
    if {part!r} in data:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write(fd, data)
files._write = full
"""


@pytest.mark.parametrize("record", ["scheduled_job", "run_record", "attempt_status"])
def test_a_record_that_the_disk_has_no_room_for_fails_its_job(
    make: Make, tmp_path: Path, record: str
) -> None:
    part = f'"_type":"hloop/{record}/v1"'.encode()
    sup = make(patch=ENOSPC.format(part=part))
    sup.open(rendered(tmp_path, job("a")))
    sup.ready("a")
    text = failure(sup)
    assert f"{record}.json: No space left on device" in text
    sup.close()
    assert sup.statuses() == {"a": "failed"}
    assert not (sup.paths.job("a").root / f"{record}.json").exists()


def test_a_manifest_that_the_disk_has_no_room_for_ends_the_run(make: Make, tmp_path: Path) -> None:
    sup = make(patch=ENOSPC.format(part=b'"_type":"hloop/manifest/v1"'))
    sup.open(rendered(tmp_path, job("a")))
    assert "manifest.json" in sup.until("trouble")["message"]
    assert sup.process.wait(PATIENCE) == 1


def test_a_report_that_the_disk_has_no_room_for_is_told(make: Make, tmp_path: Path) -> None:
    sup = make(patch=ENOSPC.format(part=b'"schema_version": "mimicx.hloop-run.v1"'))
    sup.open(rendered(tmp_path, job("a")))
    sup.ready("a")
    sup.ended("a")
    trouble = sup.close()["trouble"]
    assert "the run report cannot be written" in trouble
    assert "No space left on device" in trouble


def test_a_journal_that_cannot_be_written_ends_every_job(make: Make, tmp_path: Path) -> None:
    limit = (6000, 6000)
    sup = make(preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    names = [f"job_{index}" for index in range(50)]
    sup.open(rendered(tmp_path, job("a", "sleep 60"), *map(job, names)), cpu_workers=2)
    sup.ready("a", *names)
    pid = sup.pid("a")
    assert "File too large" in sup.until("trouble")["message"]
    assert sup.process.wait(PATIENCE) == 1
    wait_for(lambda: not is_alive(pid), "the job to end")


def respect_modes() -> None:
    """Let the modes of files bind root as well: give up what it is above them by."""
    libc, drop_bound = ctypes.CDLL(None), 24
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(drop_bound, capability, 0, 0, 0)


def test_a_folder_that_is_read_only_fails_its_job(make: Make, tmp_path: Path) -> None:
    sup = make(preexec=respect_modes)
    sup.open(rendered(tmp_path, job("a", "chmod 555 run/jobs; true"), job("b")), cpu_workers=1)
    sup.ready("a", "b")
    assert sup.ended("a") == ["completed"]
    text = failure(sup, "b")
    sup.paths.jobs.chmod(0o755)
    assert text == f"its record cannot be written: {sup.paths.job('b').root}: Permission denied"


def test_a_log_that_cannot_be_read_fails_its_job(make: Make, tmp_path: Path) -> None:
    sup = make(preexec=respect_modes)
    sup.open(rendered(tmp_path, job("a", "chmod 000 run/jobs/a/stdout.log")))
    sup.ready("a")
    log = sup.paths.job("a").stdout
    assert failure(sup) == f"its log 'stdout': {log} cannot be read: Permission denied"


def test_a_log_that_is_gone_fails_its_job(make: Make, tmp_path: Path) -> None:
    sup = make()
    sup.open(rendered(tmp_path, job("a", "rm run/jobs/a/stderr.log")))
    sup.ready("a")
    assert "stderr.log does not exist" in failure(sup)


def test_a_run_directory_that_is_removed_ends_the_run_and_is_told(
    make: Make, tmp_path: Path
) -> None:
    sup = make()
    sup.open(rendered(tmp_path, job("a", "rm -r run"), job("b", depends_on=["a"])))
    sup.ready("a", "b")
    failure(sup)
    sup.until("skipped", "b")
    assert "the run report cannot be written" in sup.close()["trouble"]


# Much of everything


def test_ten_thousand_lines_at_once_are_all_kept(make: Make, tmp_path: Path) -> None:
    sup = make()
    sup.open(rendered(tmp_path, job("a", "yes a line of stderr | head -n 10000 >&2; exit 3")))
    sup.ready("a")
    failure(sup)
    assert len(sup.paths.job("a").stderr.read_text().splitlines()) == 10_000


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_two_thousand_jobs_at_once_need_few_descriptors(make: Make, tmp_path: Path) -> None:
    # Without waiting for the disk, which takes most of the time.
    sup = make(preexec=few_descriptors, patch="import os; os.fsync = lambda fd: None")
    names = [f"job_{index}" for index in range(2000)]
    sup.open(rendered(tmp_path, *(job(name, command=["true"]) for name in names)))
    sup.ready(*names)
    assert set(sup.ended(*names)) == {"completed"}


def test_hundreds_of_jobs_that_run_at_once_need_few_descriptors(
    make: Make, tmp_path: Path
) -> None:
    sup = make(preexec=few_descriptors)
    names = [f"job_{index}" for index in range(200)]
    waits = "until test -e go; do sleep 0.2; done"
    sup.open(rendered(tmp_path, *(job(name, waits) for name in names)), cpu_workers=200)
    sup.ready(*names)
    for name in names:
        sup.pid(name)
    (tmp_path / "go").touch()
    assert set(sup.ended(*names)) == {"completed"}


# Clocks


BACK = """
import itertools
from datetime import UTC, datetime, timedelta
from hloop.run import journal
days = itertools.count()
def earlier():
    moment = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=next(days))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
journal.utc_now = earlier
"""


def test_a_clock_that_is_set_back_changes_no_duration(make: Make, tmp_path: Path) -> None:
    sup = make(patch=BACK)
    sup.open(rendered(tmp_path, job("a", "sleep 0.2")))
    sup.ready("a")
    sup.ended("a")
    sup.close()
    (entry,) = sup.report()["jobs"]
    assert entry["started_at"] > entry["ended_at"]
    assert 0.2 <= entry["elapsed_seconds"] <= sup.report()["elapsed_seconds"] < PATIENCE
    assert canonical.loads(sup.paths.job("a").status.read_bytes())["wall_ns"] >= 2 * 10**8


def test_a_clock_that_is_set_back_accuses_no_run(make: Make, tmp_path: Path) -> None:
    sup = make(patch=BACK)
    sup.open(rendered(tmp_path, job("a")))
    sup.ready("a")
    sup.ended("a")
    sup.close()
    verdict = verify(sup.paths.root, repo_root=tmp_path)
    assert (verdict.complete, verdict.unaltered) == (True, True)


# What does not end, and what is not foreseen


UNKILLABLE = """
from hloop.run import jobtrees, processes
processes.send = lambda pids, sig: None
jobtrees.PATIENCE_NS = 3 * 10**8
"""


@pytest.fixture
def unkillable(make: Make, tmp_path: Path) -> Supervised:
    """A supervisor whose signals reach nobody, as a process that waits for a dead device."""
    sup = make(patch=UNKILLABLE)
    jobs = job("a", "sleep 60", budget={"max_seconds": 0.2}), job("b")
    sup.open(rendered(tmp_path, *jobs), grace_seconds=0.1, keep_going=True, cpu_workers=1)
    sup.ready("a", "b")
    return sup


def test_a_process_that_kill_does_not_end_is_given_up_and_named(unkillable: Supervised) -> None:
    pid = unkillable.pid("a")
    message = unkillable.until("ended", "a")
    assert message["status"] == "timed_out"
    assert f"which are left behind: pid {pid}" in message["message"]


def test_after_a_process_that_does_not_end_the_run_goes_on(unkillable: Supervised) -> None:
    assert unkillable.ended("b") == ["completed"]
    assert unkillable.close()["counts"] == {"timed_out": 1, "completed": 1}


def test_what_does_not_end_has_no_exit_status(unkillable: Supervised) -> None:
    unkillable.ended("a", "b")
    unkillable.close()
    entry = next(entry for entry in unkillable.report()["jobs"] if entry["job_id"] == "a")
    assert (entry["returncode"], entry["signal"]) == (None, None)


def test_a_device_that_may_still_be_used_is_lost(make: Make, tmp_path: Path) -> None:
    sup = make(patch=UNKILLABLE)
    jobs = job("a", "sleep 60", "gpu", budget={"max_seconds": 0.2}), job("b", resource="gpu")
    sup.open(rendered(tmp_path, *jobs), grace_seconds=0, keep_going=True)
    sup.ready("a", "b")
    pid = sup.pid("a")
    assert f"a may still use it: KILL did not end pid {pid}" in failure(sup, "b")


def test_a_job_whose_child_does_not_end_has_failed(make: Make, tmp_path: Path) -> None:
    sup = make(patch=UNKILLABLE)
    sup.open(rendered(tmp_path, job("a", "sleep 60 & exit 0")), grace_seconds=0)
    sup.ready("a")
    assert "KILL did not end its processes" in failure(sup)


def test_an_error_that_nobody_foresaw_ends_the_run_and_its_jobs(
    make: Make, tmp_path: Path
) -> None:
    patch = "def bug(*_): raise ZeroDivisionError('a bug')\nsupervisor.judge_exit = bug"
    sup = make(patch=patch)
    sup.open(rendered(tmp_path, job("a"), job("b", "sleep 60")))
    sup.ready("a", "b")
    pid = sup.pid("b")
    assert "ZeroDivisionError: a bug" in sup.until("trouble")["message"]
    assert sup.process.wait(PATIENCE) == 1
    wait_for(lambda: not is_alive(pid), "the other job to end")


def test_a_run_that_left_a_process_behind_is_unaltered(
    unkillable: Supervised, tmp_path: Path
) -> None:
    unkillable.ended("a", "b")
    unkillable.close()
    verdict = verify(unkillable.paths.root, repo_root=tmp_path)
    assert {finding.code for finding in verdict.findings} <= {"job_not_completed", "not_formal"}
