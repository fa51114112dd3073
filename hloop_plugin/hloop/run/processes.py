"""Processes: starting one in its own session, finding all that it started, stopping them.

Linux only: descendants are read from ``/proc``, and two ``prctl`` calls make sure that
nothing outlives the supervisor (parent-death signal) and that what a job leaves behind comes
back to it (child subreaper).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

# Tells whose a process is that left its session; read back from /proc/<pid>/environ.
ATTEMPT_VARIABLE = "HLOOP_ATTEMPT"


def become_subreaper() -> None:
    """Make orphaned descendants of this process its children.

    Raises:
        OSError: the kernel refused.
    """
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"PR_SET_CHILD_SUBREAPER: {os.strerror(number)}")


def die_with_parent(parent: int, sig: int = signal.SIGKILL) -> None:
    """Have the kernel send ``sig`` to this process when ``parent`` dies. For a new child."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # It died before the call.
        os.kill(os.getpid(), sig)


def spawn(
    argv: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a job: own session, no shell, no standard input, dies with this process.

    Without ``stdout`` or ``stderr`` it writes where this process does. This process must
    have one thread only, since code runs between fork and exec.

    Raises:
        OSError: the program, the folder or the memory for it is not there.
    """
    parent = os.getpid()
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent),
    )


def children(pid: int) -> list[int]:
    """Give the direct children of a process, zombies included; [] if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
    return found


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Give the processes and all that descends from them, parents first."""
    found = list(dict.fromkeys(pids))
    seen = set(found)
    for pid in found:  # The list grows while it is read.
        for child in children(pid):
            if child not in seen:
                seen.add(child)
                found.append(child)
    return found


def session_of(pid: int) -> int | None:
    """Give the session of a process, or None if it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def attempt_of(pid: int) -> str | None:
    """Give the attempt that a process was started for, from its environment at its start."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = ATTEMPT_VARIABLE.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def cpu_ticks(pids: Iterable[int]) -> int:
    """Give the CPU time that the processes have used, in clock ticks."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The command name may hold blanks and brackets; the fields stand after the last.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks


def end_orphans() -> None:
    """End everything that has come to this process, a subreaper, as an orphan: KILL, and wait.

    Every child of this process is taken for one, so it may have no other left.
    """
    while orphans := with_descendants(children(os.getpid())):
        send(orphans, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def send(pids: Iterable[int], sig: int) -> None:
    """Send a signal to each process that is still there. A stopped one is woken up for it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sig)
            if sig != signal.SIGKILL:
                os.kill(pid, signal.SIGCONT)
