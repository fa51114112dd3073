"""What the engine is told (events) and what it asks for (instructions).

Both are plain data, so that a run can be replayed, simulated and tested without a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """How one plan is executed. docs/scheduling.md says more of each."""

    SEQUENTIAL = "sequential"
    """One job at a time, in the plan's topological order. Worker limits do not matter."""
    HLOOP = "hloop"
    """Every ready job whose slot is free starts at once."""
    BULK_SYNC = "bulk-sync"
    """Waves with a barrier between them."""


class Placement(StrEnum):
    """What a plan's device pin means."""

    PINNED = "pinned"
    """The job waits for its device."""
    ANY = "any"
    """A preference: the job takes whichever device is free first."""


class SlotKind(StrEnum):
    """The classes of slots. ``RULE`` is for jobs that no plan holds: any number may run."""

    CPU = "cpu"
    GPU = "gpu"
    IO = "io"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class JobNode:
    """A job as the engine sees it.

    Attributes:
        job_id: unique within the run.
        kind: the slot it needs.
        depends_on: ids of jobs that must complete first. Empty for jobs of no plan: whoever
            hands them over has seen to it.
        device: the pinned logical device; gpu jobs of a plan only.
        device_count: how many devices it needs; 1 for gpu jobs of a plan, 0 without one.
        expected_ns: how long it is expected to take, or None where that is not known. It
            decides nothing but the order among jobs that could start at once.
    """

    job_id: str
    kind: SlotKind
    depends_on: tuple[str, ...] = ()
    device: int | None = None
    device_count: int = 0
    expected_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to run one job now.

    Attributes:
        kind: its class.
        index: which worker of its class, from 0; for gpu the first of ``devices``.
        devices: the logical devices that come with it; empty but for gpu.
    """

    kind: SlotKind
    index: int
    devices: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """``device 0``, ``cpu 1``, ``io 0``: the lane in reports."""
        return f"{'device' if self.kind is SlotKind.GPU else self.kind.value} {self.index}"


# Events


@dataclass(frozen=True, slots=True)
class JobAdded:
    """A job that no plan holds became known; it is handed over at the same time.

    Its kind is ``RULE``, or ``GPU`` without a pin and with the number of devices it needs.
    """

    node: JobNode


@dataclass(frozen=True, slots=True)
class JobReady:
    """Snakemake handed a job of the plan over, and its inputs are right.

    It may come before the end of a dependency is known; the job waits for that.
    """

    job_id: str


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """Every process of a launched job is gone; whether it succeeded is not known yet."""

    job_id: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job's outcome is known. Frees its slot if :class:`SlotFreed` has not.

    A job may end without having been launched: its inputs were wrong, or the caller gave it
    up. It has then failed, also where it had been skipped before.
    """

    job_id: str
    completed: bool


@dataclass(frozen=True, slots=True)
class JobRejected:
    """Snakemake did not take a completed job's outputs: it counts as failed from now on."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """No further job is started: the run was interrupted. Running jobs are the caller's."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeviceWithheld:
    """From now on no job may start on this device: the run has no lease of it.

    A job that has it goes on. A device that nobody speaks of may be used.
    """

    device: int


@dataclass(frozen=True, slots=True)
class DeviceGranted:
    """Jobs may start on this device again: the run has its lease."""

    device: int


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """This device does not work any more. A job that has it goes on; no other starts there.

    Attributes:
        reason: why, as a phrase: ``GPU is lost``.
    """

    device: int
    reason: str


Event = (
    JobAdded
    | JobReady
    | SlotFreed
    | JobEnded
    | JobRejected
    | Stop
    | DeviceWithheld
    | DeviceGranted
    | DeviceLost
)


# Instructions


@dataclass(frozen=True, slots=True)
class Launch:
    """Start this job now, in this slot."""

    job_id: str
    slot: Slot


@dataclass(frozen=True, slots=True)
class WaveStarted:
    """The launches that follow at once are one wave.

    Attributes:
        index: the wave's number, from 0.
        job_ids: its jobs, in the order of their launches.
    """

    index: int
    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """This job will not be started.

    It is said once more, then with ``handed``, when a job that was skipped is handed over
    later.

    Attributes:
        reason: why, as a phrase: ``rollout_a failed``.
        handed: Snakemake has handed the job over, so it must be given back.
    """

    job_id: str
    reason: str
    handed: bool


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """This job was handed over and can never start, since devices are lost.

    It is said once. The caller ends the job (:class:`JobEnded`).

    Attributes:
        reason: why, as a phrase: ``device 0 is lost: GPU is lost``.
    """

    job_id: str
    reason: str


Instruction = Launch | WaveStarted | Skip | Unplaceable


@dataclass(frozen=True, slots=True)
class Want:
    """What would let jobs start: devices that are withheld, some of them together.

    Attributes:
        job_id: the first of these jobs.
        devices: any of these, the best first.
        least: with so many of them at least one job starts.
        most: of more there would be no use.
    """

    job_id: str
    devices: tuple[int, ...]
    least: int = 1
    most: int = 1


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine must know of a run.

    Attributes:
        mode: execution mode.
        devices: the logical devices that exist, ascending.
        cpu_workers: how many cpu jobs of the plan may run at once; at least 1.
        io_workers: the same for io.
        placement: what a device pin means, in every mode.
        keep_going: after a failure, carry on with what does not depend on it.
    """

    mode: Mode = Mode.HLOOP
    devices: Sequence[int] = ()
    cpu_workers: int = 4
    io_workers: int = 2
    placement: Placement = Placement.PINNED
    keep_going: bool = False
