"""The mode bulk-sync: which jobs make a wave, and when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloop.schedule.events import EngineSettings, SlotKind, Want, WaveStarted
from hloop.schedule.queues import PlanQueues, Queue
from hloop.schedule.rules import NO_DEVICE, Choice, ModeRules
from hloop.schedule.slots import NOT_STARTED, JobEntry, Slots


class BulkSyncRules(ModeRules):
    """Waves with a barrier between them.

    A wave of the plan is what its own edges allow: among the jobs whose dependencies have
    completed, in topological order, as many as the limits allow, at most one per device. It
    is made at the barrier and starts when all of its jobs have been handed over, so that it
    is the same in every run. Jobs of no plan join it as they are there, and make a wave of
    their own while the plan's is not complete. Where the first of them that needs devices
    finds too few in a wave, the next wave is without the plan's jobs, and so has room for it.
    """

    def __init__(self, settings: EngineSettings, slots: Slots, order: Sequence[JobEntry]):
        super().__init__(settings, slots, order)
        self._settings = settings
        self._queues = PlanQueues(settings)
        self._loaded: set[int] = set()
        self._rules = Queue()
        self._line = Queue()
        self._wave: list[JobEntry] = []
        self._awaited: set[str] = set()
        self._running = 0
        self._left_behind = False

    def reachable(self, entry: JobEntry) -> None:
        self._queues.push(entry)
        if entry.node.device is not None and not self._queues.shared:
            self._loaded.add(entry.node.device)

    def ready(self, entry: JobEntry) -> None:
        if entry.in_plan:
            self._awaited.discard(entry.job_id)
        else:
            (self._rules if entry.node.kind is SlotKind.RULE else self._line).push(entry)

    def ended(self) -> None:
        self._running -= 1

    def dropped(self, entry: JobEntry) -> None:
        self._awaited.discard(entry.job_id)

    def lost(self) -> None:
        """Put back what a wave can hold no more."""
        if self._queues.shared:
            for entry in self._gpu_jobs()[self.slots.usable :]:
                self._wave.remove(entry)
                self._awaited.discard(entry.job_id)
                self._queues.push(entry)

    def choose(self) -> Choice:
        if self._running:
            return []
        self._make_wave()
        with_plan = self._plan_may_start()
        launches = []
        if with_plan:
            launches = [self.slots.launch(entry) for entry in self._wave]
            self._wave = []
        while self._rules.first():
            launches.append(self.slots.launch(self._rules.pop()))
        while (leader := self._line.first()) and len(self.slots.idle) >= leader.devices_needed:
            launches.append(self.slots.launch(self._line.pop()))
        if not launches:
            return []
        self._left_behind = with_plan and self._line.first() is not None
        self._running = len(launches)
        self.waves.append(tuple(launch.job_id for launch in launches))
        return [WaveStarted(len(self.waves) - 1, self.waves[-1]), *launches]

    def _plan_may_start(self) -> bool:
        return self._is_plans_turn() and not self._missing()

    def _is_plans_turn(self) -> bool:
        owed = self._left_behind and self._line.first() is not None
        return bool(self._wave) and not self._awaited and not owed

    def _gpu_jobs(self) -> list[JobEntry]:
        return [entry for entry in self._wave if entry.node.kind is SlotKind.GPU]

    def _missing(self) -> int:
        """How many devices the plan's wave lacks."""
        jobs = self._gpu_jobs()
        if self._queues.shared:
            return max(0, len(jobs) - len(self.slots.idle))
        return sum(not self.slots.fits(entry) for entry in jobs)

    def _make_wave(self) -> None:
        """Make the plan's next wave, unless there is one that has not started."""
        if self._awaited:
            return
        self._wave = [entry for entry in self._wave if entry.state in NOT_STARTED]
        if self._wave:
            return
        self._take(self._queues.workers[SlotKind.CPU], self._settings.cpu_workers)
        self._take(self._queues.workers[SlotKind.IO], self._settings.io_workers)
        self._take(self._queues.any_device, self.slots.usable)
        for device in list(self._loaded):
            if not self._take(self._queues.devices[device], 1):
                self._loaded.remove(device)
        self._wave.sort(key=lambda entry: entry.rank)
        self._awaited = {entry.job_id for entry in self._wave if not entry.handed}

    def _take(self, queue: Queue, limit: int) -> bool:
        """Move jobs from a queue into the wave; say whether there were any."""
        before = len(self._wave)
        while len(self._wave) < before + limit and queue.first():
            self._wave.append(queue.pop())
        return len(self._wave) > before

    def why_not(self, entry: JobEntry) -> str:
        if self._running:
            jobs = "1 job" if self._running == 1 else f"{self._running} jobs"
            return f"waits for the barrier of wave {len(self.waves) - 1}: {jobs} running"
        if entry in self._wave and self._awaited:
            missing = next(other for other in self._wave if other.job_id in self._awaited)
            return f"its wave waits for {missing.job_id}, which is not handed over yet"
        if entry in self._wave or entry is self._line.first():
            return NO_DEVICE
        return f"its turn comes after wave {len(self.waves)}"

    def check(self, ready: Sequence[JobEntry]) -> None:
        assert self._awaited == {
            entry.job_id for entry in self._wave if entry.state in NOT_STARTED and not entry.handed
        }
        if not self._running:
            leader = self._line.first()
            assert self._rules.first() is None
            assert leader is None or not self.slots.fits(leader)
            assert not self._plan_may_start()
            assert not ready or self._awaited or self._missing() or leader

    def wants(self) -> list[Want]:
        if self._running:
            return []
        if self._is_plans_turn():
            return self._wants_of_wave()
        leader = self._line.first()
        want = None if leader is None else self.slots.want(leader)
        if want is None:
            return []
        # As many jobs as there are devices for make one wave.
        most, room = 0, len(self.slots.idle) + len(want.devices)
        for entry in self._line.in_order():
            if most + entry.devices_needed > room:
                break
            most += entry.devices_needed
        return [replace(want, most=most - len(self.slots.idle))]

    def _wants_of_wave(self) -> list[Want]:
        jobs, found, missing = self._gpu_jobs(), self.slots.obtainable, self._missing()
        if not self._queues.shared:
            jobs = [entry for entry in jobs if not self.slots.fits(entry)]
            pins = {entry.node.device for entry in jobs}
            found = [device for device in found if device in pins]
        if not 0 < missing <= len(found):
            return []
        return [Want(jobs[0].job_id, tuple(found), missing, missing)]
