"""What jobs have left on this machine of a run whose supervisor is gone: found and ended.

A job's processes die with the supervisor, unless they left their process group. Those that
did are known by their environment at their start, which names the run directory and the
attempt. What belongs to a run that goes on is never looked for: the caller holds its lock.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from hloop.files import RunPaths
from hloop.run.processes import ATTEMPT_VARIABLE, send

PATIENCE_SECONDS = 5.0


def survivors(paths: RunPaths) -> list[int]:
    """Find them. Those of other users, or in other containers, are not seen."""
    marks = (f"{ATTEMPT_VARIABLE}=".encode(), f"HLOOP_TRANSITIONS={paths.jobs}/".encode())
    above = set(_ancestors(os.getpid()))
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in above:
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(any(entry.startswith(mark) for entry in environment) for mark in marks):
                found.append(int(name))
    return found


def end_survivors(paths: RunPaths) -> list[int]:
    """End them: KILL. Gives those that are still there a few seconds later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := survivors(paths)) and time.monotonic() < deadline:
        send(found, signal.SIGKILL)
        time.sleep(0.01)
    return found


def _ancestors(pid: int) -> Iterator[int]:
    """This process was perhaps started by a job of the run."""
    while pid > 0:
        yield pid
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return
        pid = int(fields[1])
