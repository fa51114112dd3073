"""The three modes: which of the jobs that could start do start now, and in which slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloop.schedule.events import EngineSettings, Mode, SlotKind, Want
from hloop.schedule.queues import PlanQueues, Queue
from hloop.schedule.rules import NO_DEVICE, Choice, ModeRules, some
from hloop.schedule.slots import NOT_STARTED, JobEntry, JobState, Slots
from hloop.schedule.waves import BulkSyncRules


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
        if self._current is None and (entry := self._next()) and self.slots.fits(entry):
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
        before = self._next()
        if before is None or before is entry:
            before = self._next_of_plan()
        if before is None or before is entry:
            return NO_DEVICE
        return f"its turn comes after {before.job_id}"

    def wants(self) -> list[Want]:
        if self._current is None and (entry := self._next()):
            return some(self.slots.want(entry))
        return []

    def check(self, ready: Sequence[JobEntry]) -> None:
        entry = self._next()
        assert self._current or entry is None or not self.slots.fits(entry)


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

    def opened(self, devices: Iterable[int]) -> None:
        self._touched.update(devices)

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

    def wants(self) -> list[Want]:
        leader = self._line.first()
        found: list[Want] = []
        queues = [self._queues.devices[device] for device in self.slots.obtainable]
        for queue in [self._queues.any_device] if self._queues.shared else queues:
            entry = queue.first()
            if entry is not None and not (leader and leader.arrival < entry.arrival):
                found += some(self.slots.want(entry))
        return found + some(self.slots.want(leader) if leader else None)

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
        if self.slots.obtainable and not idle:
            return NO_DEVICE
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


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


RULES: dict[Mode, type[ModeRules]] = {
    Mode.SEQUENTIAL: SequentialRules,
    Mode.HLOOP: HloopRules,
    Mode.BULK_SYNC: BulkSyncRules,
}
