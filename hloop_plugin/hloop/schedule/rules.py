"""What the engine tells a mode and asks of it.

The engine says what has become possible and asks for the choice after every step. A mode
keeps queues only; it changes a job's state in one way, by launching it. No step looks at
more jobs than it starts, but for the logarithm of a heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloop.schedule.events import EngineSettings, Launch, Want, WaveStarted
from hloop.schedule.slots import JobEntry, Slots

Choice = list[Launch | WaveStarted]
NO_DEVICE = "what it needs is held by another run, or lost"


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

    def opened(self, devices: Iterable[int]) -> None:
        """These devices may have become idle."""

    def lost(self) -> None:
        """A device was lost."""

    def ended(self) -> None:
        """The outcome of a launched job is known."""

    def dropped(self, entry: JobEntry) -> None:
        """This job will not start: it was skipped, or failed before it could start."""

    def choose(self) -> Choice:
        """Launch what is to start now."""
        raise NotImplementedError

    def wants(self) -> list[Want]:
        """Say what would let jobs start, after the last choice."""
        raise NotImplementedError

    def why_not(self, entry: JobEntry) -> str:
        """Say why a ready job has not started."""
        raise NotImplementedError

    def check(self, ready: Sequence[JobEntry]) -> None:
        """Assert that none of the jobs that are ready could have started."""
        raise NotImplementedError


def some(want: Want | None) -> list[Want]:
    """Give what is wanted as a list."""
    return [] if want is None else [want]
