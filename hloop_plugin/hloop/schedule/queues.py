"""Where jobs wait: one queue per class of slot, and for gpu one per device."""

from __future__ import annotations

from heapq import heappop, heappush

from hloop.schedule.events import EngineSettings, Placement, SlotKind
from hloop.schedule.slots import NOT_STARTED, JobEntry


class Queue:
    """Jobs that wait, smallest rank first. Jobs that were dropped fall out by themselves."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, JobEntry]] = []

    def push(self, entry: JobEntry) -> None:
        heappush(self._heap, (entry.rank, entry))

    def first(self) -> JobEntry | None:
        """Give the job whose turn it is and leave it where it is."""
        while self._heap:
            entry = self._heap[0][1]
            if entry.state in NOT_STARTED:
                return entry
            heappop(self._heap)
        return None

    def in_order(self) -> list[JobEntry]:
        """Give all that wait, the one whose turn it is first."""
        return [entry for _, entry in sorted(self._heap) if entry.state in NOT_STARTED]

    def pop(self) -> JobEntry:
        """Take out the job that :meth:`first` gave."""
        return heappop(self._heap)[1]


class PlanQueues:
    """The plan's jobs that wait.

    Attributes:
        shared: a device pin is only a preference.
        workers: the queues of cpu and of io.
        devices: one queue per device; all empty where a pin is only a preference.
        any_device: the gpu jobs then.
    """

    def __init__(self, settings: EngineSettings):
        self.shared = settings.placement is Placement.ANY
        self.workers = {SlotKind.CPU: Queue(), SlotKind.IO: Queue()}
        self.devices = {device: Queue() for device in settings.devices}
        self.any_device = Queue()

    def push(self, entry: JobEntry) -> None:
        node = entry.node
        if node.kind is not SlotKind.GPU:
            self.workers[node.kind].push(entry)
        elif self.shared:
            self.any_device.push(entry)
        else:
            assert node.device is not None
            self.devices[node.device].push(entry)
