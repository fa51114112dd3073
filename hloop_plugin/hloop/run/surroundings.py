"""What else went on on the machine during a run: other runs of hloop, and CPU time of others.

It reads ``/proc`` only. What another container, or another machine on the same host, does is
seen as far as the kernel counts it here.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.files import JOURNAL_NAME
from hloop.run import processes

LOOK_EVERY_SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run of hloop that this process has not started.

    Attributes:
        pid: of its supervisor.
        run_dir: None where it cannot be read, as of another user's, or where it has none.
    """

    pid: int
    run_dir: str | None


def other_runs() -> list[OtherRun]:
    """Find the supervisors on this machine that do not descend from this process."""
    own = set(processes.with_descendants([os.getpid()]))
    return [OtherRun(pid, _run_dir(pid)) for pid in _supervisors() if pid not in own]


def _supervisors() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:  # It has ended.
                continue
            if b"hloop.run.supervisor" in words:
                yield int(name)


def _run_dir(pid: int) -> str | None:
    """Find a supervisor's run directory by the journal that it holds open."""
    folder = f"/proc/{pid}/fd"
    try:
        targets = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
    except OSError:
        return None
    journals = (target for target in targets if os.path.basename(target) == JOURNAL_NAME)
    return next((os.path.dirname(journal) for journal in journals), None)


class Surroundings:
    """Looks around while a run goes on, from its making to :meth:`result`."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()
        self._seen: dict[int, OtherRun] = {}
        self._next = self._began
        self.look()

    def look(self) -> None:
        """Look for other runs, if the last look was some seconds ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK_EVERY_SECONDS
            for other in other_runs():
                self._seen.setdefault(other.pid, other)

    def result(self) -> dict[str, Any]:
        """Give what was noticed. The run's processes have been waited for.

        Returns:
            ``seconds`` that it lasted; ``cpu_count``; ``other_cpu_seconds``, the CPU time that
            all but this process and its descendants used; ``other_runs``, each with ``pid``
            and ``run_dir``.
        """
        self._next = 0
        self.look()
        busy, own = _busy_seconds() - self._busy, _own_seconds() - self._own
        return {
            "seconds": round(time.monotonic() - self._began, 3),
            "cpu_count": os.cpu_count(),
            # The kernel counts both in ticks, so that a quiet machine may give less than 0.
            "other_cpu_seconds": round(max(0.0, busy - own), 2),
            "other_runs": [
                {"pid": other.pid, "run_dir": other.run_dir} for other in self._seen.values()
            ],
        }


def _busy_seconds() -> float:
    """CPU time that is not idle, of all CPUs since the machine began: proc_stat(5)."""
    with open("/proc/stat", "rb") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(
            int, file.readline().split()[1:9]
        )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def _own_seconds() -> float:
    """CPU time of this process and of the descendants that were waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
