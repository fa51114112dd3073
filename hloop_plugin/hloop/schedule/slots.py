"""The slots of a run, and what the engine knows of one job.

Bookkeeping only: which worker or device is free, and who has it. It decides nothing; what
starts where is the modes' business.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush

from hloop.schedule.events import (
    EngineSettings,
    JobNode,
    Launch,
    Placement,
    Slot,
    SlotKind,
    Want,
)


class JobState(StrEnum):
    """Where a job stands.

    Most go waiting, ready, running, gone, completed. ``FINAL`` are the states of no return,
    but that a completed job can still be rejected, and so fail.
    """

    WAITING = "waiting"
    """Not handed over yet, or a dependency has not completed."""
    READY = "ready"
    """Handed over, dependencies complete: it waits for its turn and its slot."""
    RUNNING = "running"
    """Launched; it has its slot."""
    GONE = "gone"
    """Its processes are gone and its slot is free; the outcome is not known yet."""
    COMPLETED = "completed"
    FAILED = "failed"
    """Ended badly, was rejected, or could not start because its inputs were wrong."""
    SKIPPED = "skipped"
    """Will not be started."""


FINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.SKIPPED})
NOT_STARTED = frozenset({JobState.WAITING, JobState.READY})


@dataclass(slots=True, eq=False)
class JobEntry:
    """One job, and how far it has come.

    Attributes:
        node: the job as it was given.
        place: where it stands in plan order; jobs of no plan come after, as they arrive.
        in_plan: whether the plan holds it.
        rank: its place in the order of the mode, smallest first; jobs of no plan count apart, as
            they arrive.
        unmet: how many of its dependencies have not completed yet.
        dependants: the jobs that depend on it directly.
        handed: Snakemake has handed it over.
        arrival: when that was, counted in hand-overs.
        slot: where it was launched; None before.
        tainted: a dependency has failed, directly or further up.
        reason: why it is skipped; "" while it is not.
        refused: it was said that it can never start.
    """

    node: JobNode
    place: int
    in_plan: bool
    rank: int = 0
    unmet: int = 0
    dependants: list[JobEntry] = field(default_factory=list, repr=False)
    state: JobState = JobState.WAITING
    handed: bool = False
    arrival: int = -1
    slot: Slot | None = None
    tainted: bool = False
    reason: str = ""
    refused: bool = False

    @property
    def job_id(self) -> str:
        return self.node.job_id

    @property
    def devices_needed(self) -> int:
        if self.in_plan:
            return 1 if self.node.kind is SlotKind.GPU else 0
        return self.node.device_count


class _Workers:
    """The workers of one class; the free one with the lowest index comes first."""

    def __init__(self, limit: int | None):
        self.limit = limit
        self.in_use = 0
        self._opened = 0
        self._returned: list[int] = []

    @property
    def free(self) -> bool:
        return self.limit is None or self.in_use < self.limit

    def take(self) -> int:
        self.in_use += 1
        if self._returned:
            return heappop(self._returned)
        self._opened += 1
        return self._opened - 1

    def give_back(self, index: int) -> None:
        self.in_use -= 1
        heappush(self._returned, index)


class Slots:
    """Every slot of a run.

    Attributes:
        devices: the logical devices that exist, ascending.
        idle: those that a job could start on now, ascending.
        users: device to the id of the job that uses it.
        withheld: those that no job may start on, for want of a lease.
        lost: those that do not work any more, with the reason.
        shared: a device pin is only a preference.
    """

    def __init__(self, settings: EngineSettings):
        """
        Raises:
            ValueError: devices out of order or doubled, or a limit below 1.
        """
        if list(settings.devices) != sorted(set(settings.devices)):
            raise ValueError(f"devices {list(settings.devices)} are not ascending")
        for name in ("cpu_workers", "io_workers"):
            if getattr(settings, name) < 1:
                raise ValueError(f"{name} is {getattr(settings, name)}; expected at least 1")
        self.devices = tuple(settings.devices)
        self.idle = list(settings.devices)
        self.users: dict[int, str] = {}
        self.withheld: set[int] = set()
        self.lost: dict[int, str] = {}
        self.shared = settings.placement is Placement.ANY
        self.workers = {
            SlotKind.CPU: _Workers(settings.cpu_workers),
            SlotKind.IO: _Workers(settings.io_workers),
            SlotKind.RULE: _Workers(None),
        }

    def is_idle(self, device: int) -> bool:
        at = bisect_left(self.idle, device)
        return at < len(self.idle) and self.idle[at] == device

    # Devices that come and go

    def withhold(self, device: int) -> None:
        self.withheld.add(device)
        self._sort_in(device)

    def grant(self, device: int) -> None:
        self.withheld.discard(device)
        self._sort_in(device)

    def lose(self, device: int, reason: str) -> None:
        self.lost.setdefault(device, reason)
        self._sort_in(device)

    def _sort_in(self, device: int) -> None:
        """Make a device idle, or not, by what is known of it."""
        if device not in self.devices:
            raise ValueError(f"there is no device {device}")
        away = device in self.users or device in self.withheld or device in self.lost
        if self.is_idle(device) and away:
            self.idle.remove(device)
        elif not self.is_idle(device) and not away:
            insort(self.idle, device)

    @property
    def usable(self) -> int:
        """How many devices work."""
        return len(self.devices) - len(self.lost)

    @property
    def obtainable(self) -> list[int]:
        """The devices that would be idle if they were granted, ascending."""
        return sorted(self.withheld - self.users.keys() - self.lost.keys())

    def fits(self, entry: JobEntry) -> bool:
        """Whether a job's slot is free."""
        if entry.node.kind is not SlotKind.GPU:
            return self.workers[entry.node.kind].free
        if entry.node.device is not None and not self.shared:
            return self.is_idle(entry.node.device)
        return len(self.idle) >= entry.devices_needed

    def want(self, entry: JobEntry) -> Want | None:
        """Say which devices a job must be granted to start; None where that cannot help now."""
        found, pin = self.obtainable, entry.node.device
        if pin is not None and not self.shared:
            return Want(entry.job_id, (pin,)) if pin in found else None
        missing = entry.devices_needed - len(self.idle)
        if not 0 < missing <= len(found):
            return None
        found.sort(key=lambda device: device != pin)
        return Want(entry.job_id, tuple(found), missing, missing)

    def why_never(self, entry: JobEntry) -> str:
        """Say why a job can never start: what it needs is lost. "" where it can."""
        needed, pin = entry.devices_needed, entry.node.device
        if not needed or not self.lost:
            return ""
        if pin is not None and not self.shared:
            return f"device {pin} is lost: {self.lost[pin]}" if pin in self.lost else ""
        if needed <= self.usable:
            return ""
        device, reason = next(reversed(self.lost.items()))
        left = "none is" if not self.usable else f"{self.usable} of the {needed} that it needs are"
        return f"device {device} is lost: {reason}; {left} left"

    # Launching

    def launch(self, entry: JobEntry) -> Launch:
        """Start a job whose slot is free, and note that in the entry.

        A gpu job of the plan gets its own device, or the lowest idle one where that is in
        use; a job of no plan gets the lowest idle ones, as many as it needs.
        """
        kind, device = entry.node.kind, entry.node.device
        if kind is not SlotKind.GPU:
            slot = Slot(kind, self.workers[kind].take())
        else:
            if device is not None and self.is_idle(device):
                devices: tuple[int, ...] = (device,)
            else:
                devices = tuple(self.idle[: entry.devices_needed])
            for taken in devices:
                del self.idle[bisect_left(self.idle, taken)]
                self.users[taken] = entry.job_id
            slot = Slot(kind, devices[0], devices)
        entry.state, entry.slot = JobState.RUNNING, slot
        return Launch(entry.job_id, slot)

    def give_back(self, slot: Slot) -> None:
        """Free a slot."""
        for device in slot.devices:
            del self.users[device]
            self._sort_in(device)
        if slot.kind is not SlotKind.GPU:
            self.workers[slot.kind].give_back(slot.index)

    def check(self, slots: list[Slot]) -> None:
        """Assert that exactly these slots are taken, each once, and none beyond a limit."""
        used = [device for slot in slots for device in slot.devices]
        assert sorted(used) == sorted(self.users)
        away = {*used, *self.withheld, *self.lost}
        assert self.idle == [device for device in self.devices if device not in away]
        for kind, workers in self.workers.items():
            taken = [slot.index for slot in slots if slot.kind is kind]
            assert len(set(taken)) == len(taken) == workers.in_use
            assert workers.limit is None or workers.in_use <= workers.limit
