"""The heartbeat: what each running job and each device does, in the journal, again and again.

It judges nothing and stops nothing; only a device that NVML calls lost is told on. It looks at
a few jobs or one device in each turn of the supervisor's loop, and at a bounded number of
processes of a job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hloop.devices.observe import Observer
from hloop.devices.resolve import UNRESOLVED
from hloop.run import processes
from hloop.run.attempt import Attempt, Phase
from hloop.run.jobtrees import JobTrees
from hloop.run.journal import Instant
from hloop.run.opening import Opening
from hloop.run.signs import state
from hloop.run.timers import Timers
from hloop.run.watchdog import Watchdog

# Processes of one job that are looked at, and of all together in one turn.
MAX_PROCESSES = 1000
TURN_PROCESSES = 100


class Heartbeat:
    """Writes the event ``heartbeat`` every so many seconds.

    Args:
        timers: the loop's timers.
        opening: has how often, and the devices.
        trees: the processes of all attempts.
        watchdog: knows their logs and watched files.
        observer: looks at the devices.
        note: appends an event to the journal.
        lose: told of a device that is lost: its logical index and why.
    """

    def __init__(
        self,
        timers: Timers,
        opening: Opening,
        trees: JobTrees,
        watchdog: Watchdog,
        observer: Observer,
        note: Callable[..., None],
        lose: Callable[[int, str], None],
    ):
        self._timers = timers
        self._interval_ns = opening.heartbeat_seconds * 10**9
        self._trees, self._watchdog = trees, watchdog
        self._devices = [
            device for device in opening.table.devices if device.uuid not in (None, UNRESOLVED)
        ]
        self._note, self._lose = note, lose
        self._observer = observer
        self._log_bytes: dict[str, int] = {}

    def start(self) -> None:
        """Let the first one be due after the first interval. Without an interval there is none."""
        if self._interval_ns:
            self._wait()

    def _wait(self) -> None:
        self._timers.at(time.monotonic_ns() + self._interval_ns, self._beat)

    def _beat(self) -> None:
        jobs: list[dict[str, Any]] = []
        devices: list[dict[str, Any]] = []
        self._timers.in_turns(self._look(jobs, devices), partial(self._write, jobs, devices))

    def _look(self, jobs: list[dict[str, Any]], devices: list[dict[str, Any]]) -> Iterator[None]:
        # A job without this has no records, and no place in the journal.
        roots = [item for item in self._trees.roots() if item[0].job is not None]
        self._log_bytes = {
            attempt.name: self._log_bytes.get(attempt.name, 0) for attempt, _ in roots
        }
        looked = 0
        for attempt, own in roots:
            pids = processes.with_descendants(own, MAX_PROCESSES)
            jobs.append(self._job(attempt, pids))
            looked += len(pids)
            if looked >= TURN_PROCESSES:
                looked = 0
                yield
        for device in self._devices:
            look = self._observer.look(device)
            devices.append(
                {
                    "logical": device.logical,
                    "uuid": device.uuid,
                    "memory_used_bytes": look.memory_used_bytes,
                    "utilisation_percent": look.utilisation_percent,
                    "problem": look.problem,
                }
            )
            if look.lost:
                self._lose(device.logical, str(look.problem))
            yield

    def _write(self, jobs: list[dict[str, Any]], devices: list[dict[str, Any]]) -> None:
        self._note("heartbeat", at=Instant.now(), jobs=jobs, devices=devices)
        self._wait()

    def _job(self, attempt: Attempt, pids: list[int]) -> dict[str, Any]:
        ticks, resident = processes.usage(pids)
        size = sum(found[0] for path in self._watchdog.logs_of(attempt) if (found := state(path)))
        before, self._log_bytes[attempt.name] = self._log_bytes[attempt.name], size
        signs = self._watchdog.signs_of(attempt)
        newest = None
        if signs is not None and signs.watched is not None:
            signs.look(Instant.now(), None)
            newest = signs.watched.newest_mtime_ns
        return {
            "job": attempt.record_name,
            "alive": attempt.phase is Phase.RUNNING,
            "processes": len(pids),
            "log_bytes": size,
            "log_growth_bytes": size - before,
            "watched_mtime": None if newest is None else _time(newest),
            "cpu_ns": ticks * 10**9 // os.sysconf("SC_CLK_TCK"),
            "rss_bytes": resident,
        }


def _time(nanoseconds: int) -> str | None:
    """Give a file's time as ISO 8601; None where it is beyond what a date can be."""
    try:
        moment = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
