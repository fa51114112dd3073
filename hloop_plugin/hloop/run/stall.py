"""When a job counts as stalled: no file of its grows and no CPU time is used, for too long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class StallWatch:
    """Notes signs of life of one job.

    Attributes:
        seconds: how long a job may show none.
        interval_ns: how often to ask.
    """

    def __init__(self, seconds: float, files: Sequence[Path]):
        self.seconds = seconds
        self.interval_ns = round(min(max(seconds / 4, 0.05), 5.0) * 1e9)
        self._files = files
        self._seen: tuple[object, ...] | None = None
        self._since_ns = 0

    def is_stalled(self, now_ns: int, cpu_ticks: int) -> bool:
        """Look at the job once. ``cpu_ticks`` is the CPU time of all its processes so far."""
        seen = (cpu_ticks, *(_state(path) for path in self._files))
        if seen != self._seen:
            self._seen, self._since_ns = seen, now_ns
        return now_ns - self._since_ns >= self.seconds * 1e9


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns)
