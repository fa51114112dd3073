"""A test fails if it leaves something behind: a process, a thread, an open descriptor, or
another environment than it found."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hloop.run import processes
from hloop.run.page import OFF, SWITCH

# What ends by itself has this long to do so.
PATIENCE = 5.0

# pytest sets this one anew for each phase of a test.
PYTESTS_OWN = "PYTEST_CURRENT_TEST"


def pytest_configure() -> None:
    # What a test's processes leave behind comes to this one, and can be seen.
    processes.become_subreaper()
    # Hundreds of runs need no page; the tests of pages ask for theirs.
    os.environ[SWITCH] = OFF
    # A shell has what it starts in the background ignore Ctrl-C, nohup has it ignore a hang-up,
    # and what that starts would ignore them too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True)
class Belongings:
    """What this process has: children, threads, open descriptors and an environment."""

    children: frozenset[int]
    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    environment: frozenset[tuple[str, str]]

    @classmethod
    def now(cls) -> Belongings:
        return cls(
            frozenset(processes.children(os.getpid())),
            frozenset(threading.enumerate()),
            # Without the one that the list was read through.
            frozenset(filter(os.path.lexists, glob.glob("/proc/self/fd/*"))),
            frozenset(item for item in os.environ.items() if item[0] != PYTESTS_OWN),
        )


def left_behind(before: Belongings) -> list[str]:
    """Say what is there that was not there before. Orphans that have ended are buried."""
    now, found = Belongings.now(), []
    for pid in now.children - before.children:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                found.append(f"process {pid} ({_command(pid)})")
    found += [f"thread {thread.name}" for thread in now.threads - before.threads]
    found += [f"{path} ({os.readlink(path)})" for path in now.descriptors - before.descriptors]
    changed = {name for name, _ in now.environment ^ before.environment}
    return found + [f"another value of the environment variable {name}" for name in changed]


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return b" ".join(words).decode(errors="replace")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = Belongings.now()
    yield
    deadline = time.monotonic() + PATIENCE
    while (found := left_behind(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not found, "the test left behind: " + ", ".join(found)
