"""Processes: starting one in its own session, finding all that it started, stopping them.

Linux only: descendants are read from ``/proc``, what a job leaves behind comes back to the
supervisor (child subreaper), and the kernel ends a job's process group when the supervisor
dies (:class:`Lifeline`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_F_SETSIG = 10
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
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


class Lifeline:
    """Has the kernel KILL process groups when this process dies, whatever it dies of.

    Each job holds the reading end of a pipe whose writing end only this process has. When
    that closes, the kernel sends a signal for each reading end, and it was told which signal
    and to whom. A parent-death signal would do the same for one process instead of a group,
    but it must be asked for between fork and exec: with a copy of this process in between, a
    start takes three times as much CPU (benchmarks/noop_jobs.py).
    """

    def __init__(self) -> None:
        # Kept open for as long as this process lives.
        self._read, self._write = os.pipe2(os.O_CLOEXEC)

    def new_end(self) -> int:
        """Give a reading end with settings of its own, to be inherited by one job."""
        end = os.open(f"/proc/self/fd/{self._read}", os.O_RDONLY | os.O_NONBLOCK)
        os.set_inheritable(end, True)
        fcntl.fcntl(end, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(end, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        return end

    def close(self) -> None:
        """Let go, where no job holds an end: else the kernel ends it now."""
        os.close(self._read)
        os.close(self._write)

    @staticmethod
    def bind(end: int, group: int) -> None:
        """Name the process group that is to end; this process's own copy is closed by its
        caller."""
        fcntl.fcntl(end, fcntl.F_SETOWN, -group)


def spawn(
    argv: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    lifeline: Lifeline,
    stdout: int | None = None,
    stderr: int | None = None,
) -> int:
    """Start a job: own session, no shell, no standard input, dies with this process.

    Without ``stdout`` or ``stderr`` (descriptors) it writes where this process does. Changes
    this process's folder, so only a process with one thread may call it. Gives the pid.

    Raises:
        OSError: the program, the folder or the memory for it is not there.
    """
    os.chdir(cwd)
    program = argv[0]
    if os.sep not in program:
        found = shutil.which(program, path=environment.get("PATH", os.defpath))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        program = found
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    ]
    if stdout is not None:
        actions.append((os.POSIX_SPAWN_DUP2, stdout, 1))
    if stderr is not None:
        actions.append((os.POSIX_SPAWN_DUP2, stderr, 2))
    end = lifeline.new_end()
    try:
        pid = os.posix_spawn(
            program,
            list(argv),
            environment,
            file_actions=actions,
            setsid=True,
            # Python ignores these two; its children are not to inherit that.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
        lifeline.bind(end, pid)
    finally:
        os.close(end)
    return pid


def children(pid: int) -> list[int]:
    """Give the direct children of a process, zombies included; [] if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(int(word) for word in file.read().split())
    return found


def with_descendants(pids: Iterable[int], limit: int | None = None) -> list[int]:
    """Give the processes and all that descends from them, parents first, up to ``limit``."""
    found = list(dict.fromkeys(pids))
    seen = set(found)
    for pid in found:  # The list grows while it is read.
        if limit is not None and len(found) >= limit:
            return found[:limit]
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


def start_ticks(pid: int) -> int | None:
    """Give when a process started, in clock ticks since the boot; None if it is gone.

    With the boot it tells a process from a later one of the same number.
    """
    try:
        return int(_stat_fields(pid)[19])
    except (OSError, IndexError, ValueError):
        return None


def _stat_fields(pid: int) -> list[bytes]:
    # The command name may hold blanks and brackets; the fields stand after the last.
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def usage(pids: Iterable[int]) -> tuple[int, int]:
    """Give the CPU time that the processes have used, in clock ticks, and what they hold in
    memory now, in bytes. The time counts what they waited for as well."""
    ticks, pages = 0, 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = _stat_fields(pid)
            pages += int(fields[21])
            ticks += sum(map(int, fields[11:15]))
    return ticks, pages * _PAGE_BYTES


def end_orphans(
    is_orphan: Callable[[int], bool] = lambda pid: True, patience: float = 30.0
) -> list[int]:
    """End everything that has come to this process, a subreaper, as an orphan: KILL, and wait.

    Args:
        is_orphan: tells a child of this process that is one from one that it started itself.
        patience: how long to wait, in seconds.

    Returns:
        The pids that are still there after that.
    """
    deadline = time.monotonic() + patience
    while orphans := with_descendants(filter(is_orphan, children(os.getpid()))):
        if time.monotonic() >= deadline:
            break
        send(orphans, signal.SIGKILL)
        time.sleep(0.01)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return orphans


def send(pids: Iterable[int], sig: int) -> None:
    """Send a signal to each process that is still there. A stopped one is woken up for it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sig)
            if sig != signal.SIGKILL:
                os.kill(pid, signal.SIGCONT)
