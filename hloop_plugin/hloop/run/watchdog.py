"""The limits of a job while it runs: how long it may take, how long be silent, what it may
print, and how much.

It says why a job is to be stopped, with its last sign of life, and stops nothing itself. All is
done in short steps of the supervisor's loop. Times are those of the monotonic clock, so that it
does not matter what becomes of the time of day.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hloop.files import RunPaths
from hloop.plan.watched import compile_fail_on, watch_parts
from hloop.provenance.records import Status
from hloop.run import processes
from hloop.run.attempt import SHELL_KILLED, Attempt, Failure, Phase
from hloop.run.jobtrees import JobTrees
from hloop.run.journal import Instant
from hloop.run.logbound import LogBound
from hloop.run.logscan import LogScan
from hloop.run.oom import OomKills, find_counter, find_kernel_log
from hloop.run.signs import Signs, WatchedFiles
from hloop.run.timers import Timers

# How often what is new in the logs is searched.
SCAN_NS = 1_000_000_000


class Watchdog:
    """Sees to the limits of the jobs of a run.

    Args:
        timers: the loop's timers.
        trees: the processes of all attempts.
        stop: stops a running attempt, for a reason.
        max_log_bytes: what is kept of a log.
    """

    def __init__(
        self,
        timers: Timers,
        trees: JobTrees,
        stop: Callable[[Attempt, Status, Failure], None],
        max_log_bytes: int,
    ):
        self._timers = timers
        self._trees = trees
        self._stop = stop
        self._bound = LogBound(timers, max_log_bytes, self._was_cut)
        self._oom = OomKills(find_counter(), find_kernel_log())
        self._signs: dict[str, Signs] = {}
        self._scans: dict[str, LogScan] = {}
        self._oom_kills: dict[str, int | None] = {}
        self._logs: dict[str, tuple[Path, Path]] = {}

    # While it runs

    def watch(self, attempt: Attempt, run: RunPaths | None) -> None:
        """Watch a job that was just started.

        Args:
            run: the run directory of a plan's job; None of any other, which has no limits.
        """
        self._oom_kills[attempt.name] = self._oom.count()
        if run is None:
            return
        assert attempt.job is not None and attempt.started is not None
        paths = run.job(attempt.name)
        logs = self._logs[attempt.name] = (paths.stdout, paths.stderr)
        for log in logs:
            self._bound.add(log)
        job, started_ns = attempt.job.job, attempt.started.monotonic_ns
        limit, patience = job.seconds("max_seconds"), job.seconds("stall_seconds")
        watch, fail_on = job.texts("watch"), job.texts("fail_on")
        if limit is not None or patience is not None or watch or fail_on:
            patterns = [watch_parts(text) for text in watch]
            for item in attempt.job.outputs:
                if item.directory:  # Its own size says nothing of what lies in it.
                    below = os.path.relpath(item.path, run.root).split(os.sep)
                    patterns.append((*map(glob.escape, below), "**", "*"))
            self._signs[attempt.name] = Signs(
                {path.stem: path for path in logs}
                | {f"the output {item.role!r}": Path(item.path) for item in attempt.job.outputs},
                attempt.started,
                WatchedFiles(run.root, patterns, started_ns) if patterns else None,
            )
            shortest = min(limit or 20, patience or 20)
            every_ns = round(min(max(shortest / 4, 0.05), 5.0) * 1e9)
            self._look_later(attempt, started_ns, every_ns)
        if limit is not None:
            due = started_ns + round(limit * 1e9)
            self._timers.at(due, partial(self._time_is_up, attempt, limit))
        if fail_on:
            compiled = [compile_fail_on(text) for text in fail_on]
            self._scans[attempt.name] = LogScan(logs, compiled)
            self._timers.at(started_ns + SCAN_NS, partial(self._scan, attempt))

    def logs_of(self, attempt: Attempt) -> tuple[Path, ...]:
        """Give the logs of a running attempt that are hloop's."""
        return self._logs.get(attempt.name, ())

    def signs_of(self, attempt: Attempt) -> Signs | None:
        """Give the signs of life of an attempt; None where nobody looks for them."""
        return self._signs.get(attempt.name)

    def _look_later(self, attempt: Attempt, now_ns: int, every_ns: int) -> None:
        due_ns = now_ns + every_ns
        self._timers.at(due_ns, partial(self._look, attempt, due_ns, every_ns))

    def _look(self, attempt: Attempt, due_ns: int, every_ns: int) -> None:
        if not _is_running(attempt):
            return
        signs = self._look_now(attempt)
        assert attempt.job is not None
        patience = attempt.job.job.seconds("stall_seconds")
        if patience is not None and time.monotonic_ns() - due_ns > patience * 1e9 / 2:
            # This process was stopped, as a batch system suspends all of a run.
            signs.forgive(Instant.now())
        if patience is not None and signs.is_silent(patience):
            text = f"there was no sign of life for stall_seconds = {patience:g}"
            self._end(attempt, Status.STALLED, Failure("stalled", text))
        else:
            self._look_later(attempt, time.monotonic_ns(), every_ns)

    def _look_now(self, attempt: Attempt) -> Signs:
        signs = self._signs[attempt.name]
        signs.look(Instant.now(), processes.usage(self._trees.members(attempt))[0])
        return signs

    def _time_is_up(self, attempt: Attempt, limit: float) -> None:
        if _is_running(attempt):
            self._look_now(attempt)
            text = f"it ran longer than max_seconds = {limit:g}"
            self._end(attempt, Status.TIMED_OUT, Failure("timeout", text))

    def _scan(self, attempt: Attempt) -> None:
        """Search what is new in the logs, and come again."""
        if _is_running(attempt):
            again = partial(self._scan, attempt)
            self._timers.in_turns(
                self._scan_steps(attempt),
                lambda: self._timers.at(time.monotonic_ns() + SCAN_NS, again),
            )

    def _scan_steps(self, attempt: Attempt) -> Iterator[None]:
        for failure in self._scans[attempt.name].search():
            if not _is_running(attempt):
                return
            if failure is not None:
                self._look_now(attempt)
                self._end(attempt, Status.FAILED, failure)
            yield

    def _end(self, attempt: Attempt, status: Status, failure: Failure) -> None:
        """Have an attempt stopped; its last sign of life goes into the reason."""
        sign = self._signs[attempt.name].last
        seconds = (time.monotonic_ns() - sign.at.monotonic_ns) / 1e9
        text = f"{failure.message}; its last sign of life, {seconds:.1f} s before: {sign.what}"
        self._stop(attempt, status, Failure(failure.reason, text))

    def _was_cut(self, log: Path, start: int, end: int) -> None:
        for scan in self._scans.values():
            scan.was_cut(log, start, end)

    # When its processes are gone

    def gone(self, attempt: Attempt) -> None:
        """Take what can be known only now: whether the kernel killed it."""
        before = self._oom_kills.pop(attempt.name, None)
        killed = attempt.signal_name == "SIGKILL" or attempt.returncode == SHELL_KILLED
        if killed and attempt.cause is None:
            assert attempt.pid is not None and attempt.started is not None
            started_ns = attempt.started.monotonic_ns
            attempt.oom_evidence = self._oom.evidence(attempt.pid, before, started_ns)

    def settle(self, attempt: Attempt, then: Callable[[], None]) -> None:
        """See to the logs of an attempt whose processes are gone, and go on with ``then``.

        They are searched to their ends where it may have completed: what is found then is its
        ``late_failure``. And they are cut where they are too long.
        """
        self._timers.in_turns(self._last_steps(attempt), then)

    def _last_steps(self, attempt: Attempt) -> Iterator[None]:
        if (signs := self._signs.pop(attempt.name, None)) is not None:
            attempt.last_sign = signs.last
        scan = self._scans.pop(attempt.name, None)
        cuts = {log.stem: self._bound.finish(log) for log in self._logs.pop(attempt.name, ())}
        if scan is not None and attempt.outcome is None:
            for failure in scan.search(last=True):
                attempt.late_failure = failure
                yield
        for name, steps in cuts.items():
            # A run that is stopped meanwhile takes a log as it is then.
            while attempt.phase is not Phase.ENDED and (cut := next(steps, None)) is not None:
                attempt.cut_bytes[name] = cut
                yield


def _is_running(attempt: Attempt) -> bool:
    return attempt.phase is Phase.RUNNING and attempt.cause is None
