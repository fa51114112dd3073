"""Locks: who gets one, what is said of its holder, and what is never believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hloop.locks import Holder, Lock, look, open_file, pid_namespace, try_lock

ADA = Holder("/run", "s", "job", 7, 9, "ada", "node", "2026-03-01T08:00:00Z")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def held(folder: int) -> Iterator[Lock]:
    lock = try_lock(folder, "l")
    assert isinstance(lock, Lock)
    lock.say(ADA)
    yield lock
    lock.release()


def test_a_lock_that_is_held_names_its_holder(folder: int, held: Lock) -> None:
    assert try_lock(folder, "l") == ADA


def test_a_lock_that_was_released_is_free(folder: int) -> None:
    for _ in range(2):
        lock = try_lock(folder, "l")
        assert isinstance(lock, Lock)
        lock.release()


def test_a_released_lock_says_nothing(folder: int, tmp_path: Path) -> None:
    lock = try_lock(folder, "l")
    assert isinstance(lock, Lock)
    lock.say(ADA)
    lock.release()
    assert (tmp_path / "l").read_bytes() == b""


def test_a_lock_is_free_although_a_copy_of_its_descriptor_is_open(folder: int) -> None:
    lock = try_lock(folder, "l")
    assert isinstance(lock, Lock)
    copy = os.dup(lock.fd)
    lock.release()
    try:
        assert look(folder, "l") == (False, None)
    finally:
        os.close(copy)


def test_the_lock_of_a_killed_process_is_free(folder: int, tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "from hloop.locks import try_lock\n"
        "lock = try_lock(os.open(sys.argv[1], os.O_RDONLY), 'l')\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    was_held = look(folder, "l")[0]
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert was_held and look(folder, "l") == (False, None)


def test_what_an_unlocked_file_says_is_not_believed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "l").write_text(json.dumps(ADA.to_dict()))
    assert look(folder, "l") == (False, None)


def test_looking_takes_nothing(folder: int) -> None:
    os.close(open_file(folder, "l", 0o644))
    look(folder, "l")
    lock = try_lock(folder, "l")
    assert isinstance(lock, Lock)
    lock.release()


def test_a_file_that_was_taken_away_is_no_lock_any_more(folder: int, tmp_path: Path) -> None:
    """Two who lock two files of one name would both believe that they have it."""
    first = try_lock(folder, "l")
    assert isinstance(first, Lock)
    (tmp_path / "l").unlink()
    second = try_lock(folder, "l")
    assert isinstance(second, Lock)
    assert try_lock(folder, "l") is None
    first.release()
    second.release()


def test_the_mode_is_what_was_asked_for_whatever_the_umask(folder: int, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        os.close(open_file(folder, "l", 0o666))
    finally:
        os.umask(before)
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder"])
def test_only_a_plain_file_of_one_name_is_opened(folder: int, tmp_path: Path, kind: str) -> None:
    other, path = tmp_path / "other", tmp_path / "l"
    other.write_text("")
    match kind:
        case "link":
            path.symlink_to(other)
        case "hard link":
            path.hardlink_to(other)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(OSError):
        open_file(folder, "l", 0o644)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 4000,
        json.dumps(ADA.to_dict() | {"pid": "7"}),
        json.dumps(ADA.to_dict() | {"pid": True}),
        json.dumps(ADA.to_dict() | {"user": None}),
        json.dumps({"pid": 7}),
    ],
)
def test_nonsense_in_the_file_names_nobody(
    folder: int, held: Lock, tmp_path: Path, text: str
) -> None:
    (tmp_path / "l").write_text(text)
    assert try_lock(folder, "l") is None


def test_what_a_holder_says_does_nothing_to_a_terminal(
    folder: int, held: Lock, tmp_path: Path
) -> None:
    evil = ADA.to_dict() | {"user": "\x1b[2J"}
    (tmp_path / "l").write_text(json.dumps(evil | {"job": "x" * 1000}))
    found = try_lock(folder, "l")
    assert isinstance(found, Holder)
    assert (found.user, len(found.job)) == ("\ufffd[2J", 500)


def test_a_holder_reads_as_a_sentence() -> None:
    assert str(ADA) == (
        "the run /run, job job (pid 7, user ada, on node), since 2026-03-01T08:00:00Z"
    )


def test_a_pid_of_another_container_is_said_to_be_one() -> None:
    assert "(pid 7 in another container, user ada, on node)" in str(replace(ADA, pid_namespace=1))


def test_a_pid_of_this_container_is_told_as_it_is() -> None:
    there = replace(ADA, pid_namespace=pid_namespace())
    assert there.pid_namespace > 1 and "(pid 7, user ada, on node)" in str(there)
