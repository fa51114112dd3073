"""The three modes: which of the jobs that could start do start now, and in which slot.

The engine says what has become possible and asks for the choice after every step. A mode
keeps queues only; it changes a job's state in one way, by launching it. No step looks at
more jobs than it starts, but for the logarithm of a heap.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloop.schedule.events import EngineSettings, Launch, Mode, Slot, SlotKind, WaveStarted
from hloop.schedule.queues import PlanQueues, Queue
from hloop.schedule.slots import NOT_STARTED, JobEntry, JobState, Slots

Choice = list[Launch | WaveStarted]


class ModeRules:
    """What the engine tells a mode and asks of it. Each mode overrides what it needs.

    Attributes:
        slots: the slots of the run.
        waves: the ids of the jobs of every wave so far; bulk-sync only.
    """

    def __init__(self, settings: EngineSettings, slots: Slots, order: Sequence[JobEntry]):
        """
        Args:
            order: the plan's jobs that are asked for, by rank.
        """
        self.slots = slots
        self.waves: list[tuple[str, ...]] = []

    def reachable(self, entry: JobEntry) -> None:
        """All dependencies of this job of the plan have completed."""

    def ready(self, entry: JobEntry) -> None:
        """This job has been handed over too."""

    def freed(self, slot: Slot) -> None:
        """This slot is free again."""

    def ended(self) -> None:
        """The outcome of a launched job is known."""

    def dropped(self, entry: JobEntry) -> None:
        """This job will not start: it was skipped, or failed before it could start."""

    def choose(self) -> Choice:
        """Launch what is to start now."""
        raise NotImplementedError

    def why_not(self, entry: JobEntry) -> str:
        """Say why a ready job has not started."""
        raise NotImplementedError

    def check(self, ready: Sequence[JobEntry]) -> None:
        """Assert that none of the jobs that are ready could have started."""
        raise NotImplementedError


class SequentialRules(ModeRules):
    """One job at a time, in topological order; the next waits for the outcome of the last.

    The order is the same in every run: a job that was handed over early waits for its turn.
    Jobs of no plan have no place in that order; they run, as they arrived, while the plan's
    next job has not been handed over.
    """

    def __init__(self, settings: EngineSettings, slots: Slots, order: Sequence[JobEntry]):
        super().__init__(settings, slots, order)
        self._order = order
        self._position = 0
        self._others = Queue()
        self._current: JobEntry | None = None

    def ready(self, entry: JobEntry) -> None:
        if not entry.in_plan:
            self._others.push(entry)

    def ended(self) -> None:
        self._current = None

    def choose(self) -> Choice:
        if self._current is None and (entry := self._next()):
            self._current = entry
            return [self.slots.launch(entry)]
        return []

    def _next(self) -> JobEntry | None:
        """Give the job that may start now, if nothing runs."""
        entry = self._next_of_plan()
        return entry if entry and entry.state is JobState.READY else self._others.first()

    def _next_of_plan(self) -> JobEntry | None:
        while self._position < len(self._order):
            entry = self._order[self._position]
            if entry.state in NOT_STARTED:
                return entry
            self._position += 1
        return None

    def why_not(self, entry: JobEntry) -> str:
        if self._current:
            return f"one job at a time: {self._current.job_id} is running"
        before = self._next_of_plan()
        assert before is not None
        return f"its turn comes after {before.job_id}"

    def check(self, ready: Sequence[JobEntry]) -> None:
        assert self._current or self._next() is None


class HloopRules(ModeRules):
    """Every ready job whose slot is free starts.

    A job of no plan may need several devices at once. These jobs stand in one line, by
    arrival. While the first in line waits, no job that was handed over after it starts on a
    device, so the devices that come free stay idle until there are enough. Only finitely many
    jobs were handed over before it, so it cannot starve behind smaller ones.
    """

    def __init__(self, settings: EngineSettings, slots: Slots, order: Sequence[JobEntry]):
        super().__init__(settings, slots, order)
        self._queues = PlanQueues(settings)
        self._rules = Queue()
        # The jobs of no plan that need devices; the leader is the first of them.
        self._line = Queue()
        # The devices where something may have become possible since the last choice.
        self._touched: set[int] = set()

    def ready(self, entry: JobEntry) -> None:
        node = entry.node
        if entry.in_plan:
            self._queues.push(entry)
            if node.device is not None:
                self._touched.add(node.device)
        else:
            (self._rules if node.kind is SlotKind.RULE else self._line).push(entry)

    def freed(self, slot: Slot) -> None:
        self._touched.update(slot.devices)

    def dropped(self, entry: JobEntry) -> None:
        if entry.devices_needed and not entry.in_plan:
            self._touched.update(self.slots.idle)

    def choose(self) -> Choice:
        # Devices first: they are what a run waits for.
        launches = self._choose_devices()
        for kind, queue in self._queues.workers.items():
            while self.slots.workers[kind].free and queue.first():
                launches.append(self.slots.launch(queue.pop()))
        while self._rules.first():
            launches.append(self.slots.launch(self._rules.pop()))
        return launches

    def _choose_devices(self) -> Choice:
        launches: Choice = []
        while leader := self._line.first():
            launches += self._choose_plan(before=leader)
            if len(self.slots.idle) < leader.devices_needed:
                break
            launches.append(self.slots.launch(self._line.pop()))
            self._touched.update(self.slots.idle)
        else:
            launches += self._choose_plan(before=None)
        self._touched.clear()
        return launches

    def _choose_plan(self, before: JobEntry | None) -> Choice:
        """Launch gpu jobs of the plan, only those handed over before a given job."""
        launches: Choice = []

        def launch_first(queue: Queue) -> bool:
            entry = queue.first()
            if entry is None or (before and before.arrival < entry.arrival):
                return False
            launches.append(self.slots.launch(queue.pop()))
            return True

        if self._queues.shared:
            while self.slots.idle and launch_first(self._queues.any_device):
                pass
        else:
            for device in sorted(self._touched):
                if self.slots.is_idle(device):
                    launch_first(self._queues.devices[device])
        return launches

    def why_not(self, entry: JobEntry) -> str:
        node, idle = entry.node, self.slots.idle
        if node.kind is not SlotKind.GPU:
            workers = self.slots.workers[node.kind]
            return f"{workers.in_use} of {workers.limit} {node.kind} workers in use"
        leader = self._line.first()
        if not entry.in_plan:
            assert leader is not None
            if leader is not entry:
                return f"its turn comes after {leader.job_id}"
            verb = "is" if len(idle) == 1 else "are"
            return f"needs {_devices(entry.devices_needed)}, and {len(idle)} {verb} free"
        if not self._queues.shared and node.device in self.slots.users:
            return f"device {node.device} is in use by {self.slots.users[node.device]}"
        if not idle:
            total = len(self.slots.devices)
            return f"{total} of {_devices(total)} in use"
        assert leader is not None
        what = "free devices are" if self._queues.shared else f"device {node.device} is"
        return f"{what} kept for {leader.job_id}, which needs {_devices(leader.devices_needed)}"

    def check(self, ready: Sequence[JobEntry]) -> None:
        leader = self._line.first()
        assert leader is None or len(self.slots.idle) < leader.devices_needed
        assert self._rules.first() is None
        for kind, queue in self._queues.workers.items():
            assert not self.slots.workers[kind].free or queue.first() is None
        for device in self.slots.idle:
            shared = self._queues.shared
            queue = self._queues.any_device if shared else self._queues.devices[device]
            first = queue.first()
            assert first is None or (leader and leader.arrival < first.arrival)


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
        owed = self._left_behind and self._line.first() is not None
        return bool(self._wave) and not self._awaited and not owed

    def _make_wave(self) -> None:
        """Make the plan's next wave, unless there is one that has not started."""
        if self._awaited:
            return
        self._wave = [entry for entry in self._wave if entry.state in NOT_STARTED]
        if self._wave:
            return
        self._take(self._queues.workers[SlotKind.CPU], self._settings.cpu_workers)
        self._take(self._queues.workers[SlotKind.IO], self._settings.io_workers)
        self._take(self._queues.any_device, len(self.slots.devices))
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
        if entry in self._wave:
            missing = next(other for other in self._wave if other.job_id in self._awaited)
            return f"its wave waits for {missing.job_id}, which is not handed over yet"
        return f"its turn comes after wave {len(self.waves)}"

    def check(self, ready: Sequence[JobEntry]) -> None:
        assert self._awaited == {
            entry.job_id for entry in self._wave if entry.state in NOT_STARTED and not entry.handed
        }
        if not self._running:
            assert self._rules.first() is None and self._line.first() is None
            assert not ready or self._awaited


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


RULES: dict[Mode, type[ModeRules]] = {
    Mode.SEQUENTIAL: SequentialRules,
    Mode.HLOOP: HloopRules,
    Mode.BULK_SYNC: BulkSyncRules,
}
