"""Which process belongs to which attempt, and ending all of an attempt's.

An attempt's processes are its main process with its descendants, and those that lost their
parent: they come to this process, a child subreaper, and are told apart by their session or
by the attempt's token in their environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from hloop.run import processes
from hloop.run.attempt import Attempt, Phase
from hloop.run.timers import Timers

# How often processes that were told to end are looked for again.
SCAN_NS = 20_000_000
# How long after KILL they are waited for. Giving back the memory of a large process takes a
# while; one that waits for a device or a file server may never end.
PATIENCE_NS = 30 * 10**9


class JobTrees:
    """The processes of all attempts that run or are being ended.

    Args:
        timers: the loop's timers.
        grace_ns: from TERM to KILL.
        own_pids: children of this process that belong to no attempt.
        on_gone: called once when an attempt's last process is gone.
    """

    def __init__(
        self,
        timers: Timers,
        grace_ns: int,
        own_pids: Callable[[], set[int]],
        on_gone: Callable[[Attempt], None],
    ):
        self._timers = timers
        self._grace_ns = grace_ns
        self._own_pids = own_pids
        self._on_gone = on_gone
        self._by_pid: dict[int, Attempt] = {}
        self._ending: dict[str, Attempt] = {}
        self._abandoned: set[int] = set()

    def add(self, attempt: Attempt) -> None:
        """Take an attempt that was just started."""
        assert attempt.pid is not None
        self._by_pid[attempt.pid] = attempt

    def reap(self) -> None:
        """Collect every child that ended, main processes and orphans alike."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._abandoned.discard(pid)
            if attempt := self._by_pid.pop(pid, None):
                attempt.main_process_ended(status, usage)
                if attempt.name not in self._ending and self.members(attempt):
                    attempt.leftovers = True
                    self.terminate(attempt)
                else:
                    self._ending[attempt.name] = attempt
        for attempt in list(self._ending.values()):
            self._check_gone(attempt)

    def members(self, attempt: Attempt) -> list[int]:
        """Every process of an attempt that can be found, its main process first."""
        roots = [attempt.pid] if attempt.phase is Phase.RUNNING and attempt.pid else []
        known = self._by_pid.keys() | self._own_pids() | self._abandoned
        for pid in processes.children(os.getpid()):
            if pid not in known and self._owns(attempt, pid):
                roots.append(pid)
        return processes.with_descendants(roots)

    def roots(self) -> list[tuple[Attempt, list[int]]]:
        """Give every attempt, with the children of this process that belong to it."""
        attempts = {item.name: item for item in (*self._by_pid.values(), *self._ending.values())}
        found: dict[str, list[int]] = {name: [] for name in attempts}
        own = self._own_pids()
        for pid in processes.children(os.getpid()):
            owner = self._by_pid.get(pid)
            if owner is None and pid not in own:
                owner = next((item for item in attempts.values() if self._owns(item, pid)), None)
            if owner is not None:
                found[owner.name].append(pid)
        return [(attempts[name], pids) for name, pids in found.items()]

    def terminate(self, attempt: Attempt) -> None:
        """TERM now, KILL after the grace period, for every process of the attempt."""
        self._ending[attempt.name] = attempt
        kill_ns = time.monotonic_ns() + self._grace_ns
        if self._grace_ns:
            processes.send(self.members(attempt), signal.SIGTERM)
        self._scan(attempt, kill_ns)

    def _scan(self, attempt: Attempt, kill_ns: int) -> None:
        """Look whether an attempt that was told to end is gone; KILL what is late."""
        if attempt.name not in self._ending:
            return
        now = time.monotonic_ns()
        if now >= kill_ns:
            processes.send(self.members(attempt), signal.SIGKILL)
        if self._check_gone(attempt):
            return
        if now >= kill_ns + PATIENCE_NS:
            self._give_up(attempt)
        else:
            due = now + SCAN_NS if now >= kill_ns else min(now + SCAN_NS, kill_ns)
            self._timers.at(due, partial(self._scan, attempt, kill_ns))

    def _check_gone(self, attempt: Attempt) -> bool:
        if attempt.phase is not Phase.STOPPING or self.members(attempt):
            return False
        del self._ending[attempt.name]
        self._on_gone(attempt)
        return True

    def _give_up(self, attempt: Attempt) -> None:
        """Wait no longer for processes that KILL does not end. They are nobody's from now on."""
        attempt.unkillable = tuple(self.members(attempt))
        self._abandoned.update(attempt.unkillable)
        self._by_pid.pop(attempt.pid or 0, None)
        if attempt.phase is Phase.RUNNING:
            attempt.main_process_stays(processes.usage(attempt.unkillable)[0])
        del self._ending[attempt.name]
        self._on_gone(attempt)

    def _owns(self, attempt: Attempt, orphan: int) -> bool:
        """Whether an orphan that came to this process was started by this attempt."""
        if processes.session_of(orphan) == attempt.pid:
            return True
        token = processes.attempt_of(orphan)
        if token is not None:
            return token == attempt.token
        # It left the session and cleared its environment: only being alone tells.
        return not (self._by_pid.keys() - {attempt.pid}) and len(self._ending) <= 1
