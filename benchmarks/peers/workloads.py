"""The plans that every peer runs, as documents of hloop's plan format.

Only numbers and names that no shell has to quote stand in them, so that every peer's own format
can be written from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.plan.load import plan_from_checked_document
from hloop.schedule.bounds import lower_bound
from hloop.schedule.events import EngineSettings, Placement
from hloop.schedule.nodes import plan_nodes

DEVICES = 2
CPU_WORKERS = 8
IO_WORKERS = 1
SCRIPT = Path(__file__).with_name("job.bash")

HORIZONS = {"tennis": 800, "football1": 455, "dance2": 784, "kongfu1": 1062}
SEEDS = (1001, 2002)
# Seconds on device 0 and on device 1.
UNEVEN = ((0.6, 0.2, 0.5, 0.3, 0.4, 0.6, 0.3, 0.4), (0.5, 0.3, 0.4))


@dataclass(frozen=True)
class Work:
    """One job.

    Attributes:
        kind: ``gpu``, ``cpu`` or ``io``.
        seconds: how long it sleeps, as text; ``0`` for not at all.
        device: the device that the plan pins it to; gpu jobs only.
    """

    name: str
    kind: str
    seconds: str
    after: tuple[str, ...] = ()
    device: int | None = None

    def command(self, seen: Path) -> list[str]:
        """The job's command; what it sees goes into the folder ``seen``."""
        return ["bash", str(SCRIPT), str(seen), self.name, self.kind, self.seconds]


@dataclass(frozen=True)
class Workload:
    """A plan and what it is to show."""

    name: str
    text: str
    jobs: tuple[Work, ...]

    @property
    def is_flat(self) -> bool:
        return not any(job.after for job in self.jobs)

    def bound(self, placement: Placement) -> float:
        """The lower bound of the makespan in seconds, from the sleeps alone."""
        nodes = plan_nodes(plan_from_checked_document(plan_document(self, Path("."))))
        settings = EngineSettings(
            devices=tuple(range(DEVICES)),
            cpu_workers=CPU_WORKERS,
            io_workers=IO_WORKERS,
            placement=placement,
        )
        durations = {node.job_id: node.expected_ns or 0 for node in nodes}
        return lower_bound(nodes, durations, settings).value_ns / 1e9


def paper(scale: float = 1.0) -> Workload:
    """Eight rollouts, a diagnosis of each, one selection; a horizon's step lasts ``scale`` ms."""
    jobs: list[Work] = []
    diagnoses: list[str] = []
    for task, horizon in HORIZONS.items():
        for seed in SEEDS:
            rollout, diagnosis = f"rollout_{task}_{seed}", f"diagnose_{task}_{seed}"
            device = len(diagnoses) % DEVICES
            jobs.append(Work(rollout, "gpu", f"{horizon * scale / 1000:.3f}", (), device))
            jobs.append(Work(diagnosis, "cpu", f"{0.1 * scale:.3f}", (rollout,)))
            diagnoses.append(diagnosis)
    jobs.append(Work("select", "io", f"{0.05 * scale:.3f}", tuple(diagnoses)))
    return Workload("paper", "the paper's shape, as sleeps", tuple(jobs))


def unbalanced(scale: float = 1.0) -> Workload:
    """Independent sleeps, three times as much on device 0 as on device 1."""
    jobs = [
        Work(f"sleep_{device}_{number}", "gpu", f"{seconds * scale:.3f}", (), device)
        for device, lengths in enumerate(UNEVEN)
        for number, seconds in enumerate(lengths)
    ]
    return Workload("unbalanced", "independent sleeps, pinned unevenly", tuple(jobs))


def noop(jobs: int) -> Workload:
    """Independent gpu jobs that do nothing."""
    works = [Work(f"noop_{i}", "gpu", "0", (), i % DEVICES) for i in range(jobs)]
    return Workload("noop", f"{jobs} independent no-op gpu jobs", tuple(works))


def start() -> Workload:
    """One job that does nothing: what a peer costs before it does anything."""
    return Workload("start", "one no-op gpu job", noop(1).jobs)


def plan_document(workload: Workload, seen: Path) -> Mapping[str, Any]:
    """The plan for hloop."""
    return {
        "schema_version": "mimicx.hloop-plan.v1",
        "plan_id": workload.name,
        "max_cpu_workers": CPU_WORKERS,
        "max_io_workers": IO_WORKERS,
        "jobs": [_plan_job(job, seen) for job in workload.jobs],
    }


def _plan_job(job: Work, seen: Path) -> Mapping[str, Any]:
    document = {
        "job_id": job.name,
        "resource": job.kind,
        "command": job.command(seen),
        "depends_on": list(job.after),
        "budget": {"expected_seconds": float(job.seconds)} if job.seconds != "0" else {},
    }
    return document | ({} if job.device is None else {"cuda_visible_devices": str(job.device)})


def pins(jobs: Sequence[Work]) -> dict[str, int]:
    """The device of every gpu job."""
    return {job.name: job.device for job in jobs if job.device is not None}
