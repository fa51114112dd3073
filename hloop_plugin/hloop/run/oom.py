"""Who sent a SIGKILL: evidence that it was the kernel, for lack of memory.

The kernel counts its OOM kills for each cgroup, and names the process in its own log. Either
may be out of reach; then it is said that it is not known.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# The pid namespace of the machine itself: only there are the pids of the kernel's log ours.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
_KILLED = re.compile(rb"[Oo]ut of memory: Killed process (\d+) ")
_SLACK_US = 1_000_000
# The kernel's log holds some thousand records; nothing is to hold up the loop.
MAX_RECORDS = 20_000


class OomKills:
    """The kernel's count of OOM kills in this process's cgroup, which its jobs are in too.

    Args:
        counter: the file with the count, as :func:`find_counter` gives it.
        kernel_log: where the kernel names what it killed.
    """

    def __init__(self, counter: Path | None, kernel_log: Path | None):
        self._counter = counter
        self._kernel_log = kernel_log
        self._explained = 0

    def count(self) -> int | None:
        """Give the count so far; None where it cannot be read."""
        if self._counter is None:
            return None
        try:
            text = self._counter.read_text()
        except OSError:
            return None
        match = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return None if match is None else int(match[1])

    def evidence(self, pid: int, before: int | None, started_ns: int) -> str | None:
        """Say what shows that a process was killed for lack of memory; None without any.

        Each kill that was counted explains the end of one job.

        Args:
            before: the count when its job started.
            started_ns: when that was, by the monotonic clock.
        """
        count = self.count()
        counted = None if count is None or before is None else max(before, self._explained)
        if self._kernel_log is not None and _names(self._kernel_log, pid, started_ns):
            found = f"{self._kernel_log} names its pid {pid}"
        elif counted is not None and count is not None and count > counted:
            found = f"oom_kill in {self._counter} rose from {before} to {count} meanwhile"
        else:
            return None
        if counted is not None:
            self._explained = counted + 1
        return found


def find_counter(proc: Path = Path("/proc/self")) -> Path | None:
    """Find the file in which the kernel counts the OOM kills of this process's cgroup.

    Args:
        proc: the folder with ``cgroup`` and ``mountinfo``, as proc(5) and cgroups(7) have them.
    """
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in mounts:
        before, _, after = line.partition(" - ")
        root, folder = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup2":
            wanted, name = "0::", "memory.events"
        elif kind == "cgroup" and "memory" in options.split(","):
            wanted, name = ":memory:", "memory.oom_control"
        else:
            continue
        for group in groups:
            if wanted in group:
                path = group.partition(wanted)[2]
                below = os.path.relpath(path, root) if path.startswith(root) else "."
                counter = Path(os.path.normpath(os.path.join(folder, below)), name)
                if counter.exists():
                    return counter
    return None


def find_kernel_log() -> Path | None:
    """Give the kernel's log, where it can be read and its pids are those of this process."""
    path = Path("/dev/kmsg")
    try:
        own = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
    return path if own == _FIRST_PID_NAMESPACE and os.access(path, os.R_OK) else None


def _names(log: Path, pid: int, started_ns: int) -> bool:
    """Whether the kernel says that it killed a process, after the moment at which it started.

    A record is ``level,sequence,microseconds,flags;text``; a read gives one.
    """
    try:
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(fd, 8192)
            except BrokenPipeError:  # It was overwritten meanwhile; the next one comes.
                continue
            if not record:
                break
            for line in record.splitlines():
                match = _KILLED.search(line)
                if match is None or int(match[1]) != pid:
                    continue
                fields = line.split(b",", 3)
                if len(fields) == 4 and int(fields[2]) >= started_ns // 1000 - _SLACK_US:
                    return True
    except (OSError, ValueError):  # EAGAIN: that was all.
        pass
    finally:
        os.close(fd)
    return False
