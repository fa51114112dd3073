"""The lock of a run directory: the second execution is refused, and told by whom."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hloop.errors import RunDirectoryError
from hloop.files import RunPaths
from hloop.run.claiming import claim
from hloop.run.runlock import RunLock, check_new
from supervised import job, rendered


def test_a_second_execution_is_refused_at_once_and_told_by_whom(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    lock = RunLock.take(paths)
    with pytest.raises(RunDirectoryError, match=rf"being run by pid {os.getpid()} \(user"):
        RunLock.take(paths)
    lock.release()


def test_a_new_run_is_refused_where_one_is_under_way(tmp_path: Path) -> None:
    plan = rendered(tmp_path, job("a"))
    lock = RunLock.take(claim(plan))
    with pytest.raises(RunDirectoryError, match="is being run by pid"):
        claim(plan)
    lock.release()


def test_after_the_run_the_directory_is_used(tmp_path: Path) -> None:
    plan = rendered(tmp_path, job("a"))
    RunLock.take(claim(plan)).release()
    with pytest.raises(RunDirectoryError, match="is already used: it holds 'plan.json'"):
        claim(plan)


def test_the_lock_leaves_no_file(tmp_path: Path) -> None:
    RunLock.take(RunPaths(tmp_path)).release()
    assert os.listdir(tmp_path) == []


def test_a_process_that_inherits_it_keeps_it(tmp_path: Path) -> None:
    """As the supervisor does, whose Snakemake was killed."""
    paths = RunPaths(tmp_path)
    lock = RunLock.take(paths)
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fd]
    )
    os.close(lock.fd)
    with pytest.raises(RunDirectoryError):
        RunLock.take(paths)
    child.communicate(b"\n")
    RunLock.take(paths).release()


def test_a_folder_that_is_not_there_may_be_run_in(tmp_path: Path) -> None:
    check_new(RunPaths(tmp_path / "new"))


def test_a_lock_that_nobody_holds_does_not_make_a_run(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("{}")
    RunLock.take(RunPaths(tmp_path)).release()
