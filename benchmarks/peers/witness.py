"""What the jobs themselves saw, which is asked of every peer in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers.workloads import Work, pins


@dataclass(frozen=True)
class Seen:
    """A run, by its jobs.

    Attributes:
        first: when the first job began, in seconds since the epoch.
        makespan: seconds from there to the end of the last one.
        shared: gpu jobs that found another one on their device.
        moved: gpu jobs that ran on another device than the plan pins them to.
    """

    first: float
    makespan: float
    shared: int
    moved: int


def read(folder: Path, jobs: Sequence[Work]) -> Seen:
    """Read what the jobs wrote into a folder.

    Raises:
        ValueError: not every job ran exactly once.
    """
    lines = [line.split() for line in (folder / "jobs").read_text().splitlines()]
    ran, expected = sorted(line[0] for line in lines), sorted(job.name for job in jobs)
    if ran != expected:
        raise ValueError(f"expected {len(expected)} jobs to run once each; these ran: {ran}")
    first = min(float(line[3]) for line in lines)
    pinned = pins(jobs)
    return Seen(
        first=first,
        makespan=max(float(line[4]) for line in lines) - first,
        shared=sum(line[2] == "shared" for line in lines),
        moved=sum(str(pinned[line[0]]) != line[1] for line in lines if line[0] in pinned),
    )
