"""Who sent a SIGKILL: what counts as evidence that it was the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from hloop.run.oom import OomKills, find_counter

SECOND = 10**9
MOUNT = "31 23 0:26 {root} {folder} rw,relatime shared:9 - {kind} none {options}\n"


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    path = tmp_path / "memory.events"
    count(path, 3)
    return path


def count(counter: Path, kills: int) -> None:
    counter.write_text(f"low 0\noom 9\noom_kill {kills}\noom_group_kill 0\n")


def kernel_log(folder: Path, *records: str) -> Path:
    path = folder / "kmsg"
    path.write_text("".join(f"{record}\n" for record in records))
    return path


def test_a_count_that_rose_is_evidence(counter: Path) -> None:
    kills = OomKills(counter, None)
    before = kills.count()
    count(counter, 4)
    found = kills.evidence(7, before, 0)
    assert found == f"oom_kill in {counter} rose from 3 to 4 meanwhile"


def test_a_count_that_did_not_rise_is_none(counter: Path) -> None:
    kills = OomKills(counter, None)
    assert kills.evidence(7, kills.count(), 0) is None


def test_one_kill_explains_one_job(counter: Path) -> None:
    kills = OomKills(counter, None)
    before = kills.count()
    count(counter, 4)
    kills.evidence(7, before, 0)
    assert kills.evidence(8, before, 0) is None


def test_two_kills_explain_two_jobs(counter: Path) -> None:
    kills = OomKills(counter, None)
    before = kills.count()
    count(counter, 5)
    assert kills.evidence(7, before, 0) and kills.evidence(8, before, 0)


@pytest.mark.parametrize("text", [None, "", "oom_kill many\n", "oom_kill_disable 0\n"])
def test_without_a_count_there_is_no_evidence(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "memory.events"
    if text is not None:
        path.write_text(text)
    kills = OomKills(path, None)
    assert kills.count() is None and kills.evidence(7, None, 0) is None


def test_the_count_of_the_first_cgroups_stands_among_other_words(tmp_path: Path) -> None:
    path = tmp_path / "memory.oom_control"
    path.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert OomKills(path, None).count() == 2


KILLED = "6,99,5000000,-;Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB"


def test_the_kernel_log_names_the_pid(tmp_path: Path) -> None:
    log = kernel_log(tmp_path, "6,98,1,-;hello", KILLED)
    assert OomKills(None, log).evidence(7, None, 4 * SECOND) == f"{log} names its pid 7"


def test_another_pid_is_none_of_ours(tmp_path: Path) -> None:
    log = kernel_log(tmp_path, KILLED)
    assert OomKills(None, log).evidence(70, None, 4 * SECOND) is None


def test_a_kill_before_the_job_started_was_another_process(tmp_path: Path) -> None:
    log = kernel_log(tmp_path, KILLED)
    assert OomKills(None, log).evidence(7, None, 9 * SECOND) is None


def test_a_kernel_log_that_cannot_be_read_is_no_evidence(tmp_path: Path) -> None:
    assert OomKills(None, tmp_path / "none").evidence(7, None, 0) is None


# Where the count is


def proc(tmp_path: Path, groups: str, mounts: str) -> Path:
    (tmp_path / "cgroup").write_text(groups)
    (tmp_path / "mountinfo").write_text(mounts)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "options", "group", "name"),
    [
        ("cgroup2", "rw", "0::/a/b", "memory.events"),
        ("cgroup", "rw,memory", "4:memory:/a/b", "memory.oom_control"),
    ],
)
@pytest.mark.parametrize(
    ("root", "below"), [("/", "a/b"), ("/a", "b"), ("/a/b", "."), ("/c", ".")]
)
def test_the_count_is_found_in_both_kinds_of_cgroups(
    tmp_path: Path, kind: str, options: str, group: str, name: str, root: str, below: str
) -> None:
    folder = tmp_path / "mounted"
    (folder / below).mkdir(parents=True)
    (folder / below / name).write_text("oom_kill 0\n")
    mount = MOUNT.format(root=root, folder=folder, kind=kind, options=options)
    found = find_counter(proc(tmp_path, f"9:cpu:/x\n{group}\n", mount))
    assert found == folder / below / name


@pytest.mark.parametrize(
    "mounts", ["", MOUNT.format(root="/", folder="/", kind="proc", options="rw")]
)
def test_without_one_there_is_none(tmp_path: Path, mounts: str) -> None:
    assert find_counter(proc(tmp_path, "0::/\n", mounts)) is None


def test_without_proc_there_is_none(tmp_path: Path) -> None:
    assert find_counter(tmp_path) is None
