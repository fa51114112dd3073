"""The limits of a job's budget while it runs: how long it may take, and how long be silent.

A job is stalled when no file of its grows and it uses no CPU time, for too long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hloop.provenance.records import Status
from hloop.run.attempt import Attempt, Failure, Phase
from hloop.run.timers import Timers


class Watchdog:
    """Sees to ``max_seconds`` and ``stall_seconds``.

    Args:
        timers: the loop's timers.
        cpu_ticks: the CPU time that an attempt's processes have used so far.
        stop: stops a running attempt, for a reason.
    """

    def __init__(
        self,
        timers: Timers,
        cpu_ticks: Callable[[Attempt], int],
        stop: Callable[[Attempt, Status, Failure], None],
    ):
        self._timers = timers
        self._cpu_ticks = cpu_ticks
        self._stop = stop

    def watch(self, attempt: Attempt, logs: Sequence[Path]) -> None:
        """Watch a job of a plan that was just started, where its budget has limits."""
        assert attempt.job is not None and attempt.started is not None
        limit = attempt.job.job.seconds("max_seconds")
        if limit is not None:
            failure = Failure("timeout", f"it ran longer than max_seconds = {limit:g}")
            self._timers.at(
                attempt.started.monotonic_ns + round(limit * 1e9),
                partial(self._stop, attempt, Status.TIMED_OUT, failure),
            )
        patience = attempt.job.job.seconds("stall_seconds")
        if patience is not None:
            outputs = [Path(output.path) for output in attempt.job.outputs]
            self._check_stall(attempt, StallWatch(patience, [*logs, *outputs]))

    def _check_stall(self, attempt: Attempt, watch: StallWatch) -> None:
        if attempt.phase is not Phase.RUNNING or attempt.cause is not None:
            return
        now = time.monotonic_ns()
        if watch.is_stalled(now, self._cpu_ticks(attempt)):
            failure = Failure(
                "stalled",
                f"for stall_seconds = {watch.seconds:g} its logs and outputs did not grow and "
                "it used no CPU time",
            )
            self._stop(attempt, Status.STALLED, failure)
        else:
            self._timers.at(now + watch.interval_ns, partial(self._check_stall, attempt, watch))


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
