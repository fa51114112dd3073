"""The protocol of a benchmark: which runs there are, in which order, and where each lies.

Pure planning: it starts nothing and reads no file. What the runs come to is for
:mod:`hloop.report.summary` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.files import HTML_NAME, MATERIALIZED_PLAN_NAME, RunPaths
from hloop.schedule.events import Mode, Placement

PROTOCOL_SCHEMA = "hloop.benchmark-protocol.v1"
WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a benchmark.

    Attributes:
        label: ``warmup`` or ``repetition_00``, …: the folder that the run's own lies in.
        repetition: which of the measured repetitions, from 0; None for the warm-up.
        position: the how many-th of its repetition it is, from 0.
        mode: the mode, which is also the name of the run directory.
    """

    label: str
    repetition: int | None
    position: int
    mode: Mode

    @property
    def name(self) -> str:
        """The run directory, relative to the benchmark's folder."""
        return f"{self.label}/{self.mode}"


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a benchmark repeats a plan.

    Attributes:
        modes: the modes, in the order of the first repetition; none twice.
        repetitions: measured repetitions of every mode; at least 1.
        wanted: how many the configuration asks for.
        warmup: whether one repetition that is not measured comes first.
        devices, placement, cpu_workers, io_workers, durations: the settings of these names, for
            every run; ``durations`` is absolute.
    """

    modes: tuple[Mode, ...]
    repetitions: int = 5
    wanted: int = 5
    warmup: bool = True
    devices: str = "auto"
    placement: Placement = Placement.PINNED
    cpu_workers: int | None = None
    io_workers: int | None = None
    durations: str | None = None

    def settings(self) -> dict[str, Any]:
        """Give the settings of every run, by their names."""
        return {
            "devices": self.devices,
            "placement": self.placement.value,
            "cpu_workers": self.cpu_workers,
            "io_workers": self.io_workers,
            "durations": self.durations,
        }

    def rounds(self) -> list[tuple[PlannedRun, ...]]:
        """Give the runs of every repetition, in the order in which they are made.

        In each repetition the order of the modes is rotated by one more place, so that none
        always runs first, when the machine is cold, or after the same other.
        """
        rounds = [self._round(WARMUP, None)] if self.warmup else []
        return rounds + [
            self._round(repetition_label(number), number) for number in range(self.repetitions)
        ]

    def _round(self, label: str, repetition: int | None) -> tuple[PlannedRun, ...]:
        modes = rotated(self.modes, repetition or 0)
        return tuple(PlannedRun(label, repetition, at, mode) for at, mode in enumerate(modes))

    def to_document(self, plan_sha256: str) -> dict[str, Any]:
        """Give what must stay the same for as long as a benchmark goes on.

        The number of repetitions is not in it: a benchmark may get more of them later.
        """
        return {
            "schema_version": PROTOCOL_SCHEMA,
            "plan_sha256": plan_sha256,
            "modes": [mode.value for mode in self.modes],
            "warmup": self.warmup,
            **self.settings(),
        }


def repetition_label(number: int) -> str:
    """Name the folder of a measured repetition; the first is 0."""
    return f"repetition_{number:02d}"


def rotated(modes: Sequence[Mode], by: int) -> tuple[Mode, ...]:
    """Move the first ``by`` places to the end, round and round."""
    cut = by % len(modes)
    return (*modes[cut:], *modes[:cut])


@dataclass(frozen=True)
class BenchmarkPaths:
    """The names in the folder of a benchmark.

    Attributes:
        root: the folder, absolute.
    """

    root: Path

    @property
    def plan(self) -> Path:
        return self.root / MATERIALIZED_PLAN_NAME

    @property
    def protocol(self) -> Path:
        return self.root / "protocol.json"

    @property
    def lock(self) -> Path:
        return self.root / "benchmark.lock"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"

    @property
    def text(self) -> Path:
        return self.root / "SUMMARY.md"

    @property
    def timings(self) -> Path:
        return self.root / "timings.csv"

    @property
    def html(self) -> Path:
        return self.root / HTML_NAME

    def run_dir(self, planned: PlannedRun) -> Path:
        return self.root / planned.name

    def surroundings(self, planned: PlannedRun) -> Path:
        """What was noticed on the machine during a run; beside the run directory."""
        return self.root / f"{planned.name}.surroundings.json"

    def aside(self, planned: PlannedRun, number: int) -> Path:
        """Where a run directory goes that is not taken over."""
        return self.root / f"{planned.name}.aside-{number}"


def is_benchmark(folder: Path) -> bool:
    """Say whether a folder holds a benchmark that has a summary.

    A run holds none, whatever the names of what its jobs wrote.
    """
    return BenchmarkPaths(folder).summary.exists() and not RunPaths(folder).report.exists()
