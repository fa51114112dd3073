"""What a run's spans say about its schedule: overlaps, idle slots, and how near the bound it is.

Pure arithmetic over offsets in nanoseconds of one monotonic clock; it reads no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hloop.plan.model import Plan, ResourceClass
from hloop.schedule.bounds import LowerBound, lower_bound
from hloop.schedule.events import EngineSettings, Slot, SlotKind
from hloop.schedule.nodes import plan_nodes


@dataclass(frozen=True, slots=True)
class Span:
    """The time in which a job's processes were there, ``[start_ns, end_ns)``.

    Attributes:
        slot: the name of the slot that it held; None where it held none.
        end_ns: for a job that was still there at the last event, just after that event.
    """

    job_id: str
    slot: str | None
    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def seconds(nanoseconds: int) -> float:
    """Give seconds with six decimals, as the published report has them."""
    return round(nanoseconds / 1e9, 6)


def overlaps(spans: Iterable[Span]) -> dict[str, list[str]]:
    """Give, for every job, the ids of the jobs that ran at some moment of its span, sorted.

    A sweep over starts and ends: the work is that of sorting, plus one step per pair found.
    """
    spans = [span for span in spans if span.length_ns > 0]
    found: dict[str, list[str]] = {span.job_id: [] for span in spans}
    # Spans are half open: where one ends and another starts at once, the end comes first.
    edges = sorted(
        [(span.start_ns, True, span.job_id) for span in spans]
        + [(span.end_ns, False, span.job_id) for span in spans]
    )
    running: set[str] = set()
    for _, starts, job_id in edges:
        if not starts:
            running.remove(job_id)
            continue
        for other in running:
            found[other].append(job_id)
            found[job_id].append(other)
        running.add(job_id)
    for others in found.values():
        others.sort()
    return found


def scheduling(
    plan: Plan,
    settings: EngineSettings,
    spans: Sequence[Span],
    ready_ns: Mapping[str, int | None],
) -> dict[str, Any]:
    """Give the report's ``scheduling``: makespan, lower bound, efficiency, idle and waiting time.

    Args:
        spans: the jobs that started. The makespan runs from the first start to the last end;
            Snakemake's own start is not in it, it is in the run's ``elapsed_seconds``.
        ready_ns: when each job was handed over with right inputs.
    """
    makespan_ns = 0
    if spans:
        makespan_ns = max(span.end_ns for span in spans) - min(span.start_ns for span in spans)
    bound = _lower_bound(plan, settings, spans)
    return {
        "placement": settings.placement.value,
        "limits": {"cpu": settings.cpu_workers, "io": settings.io_workers},
        "makespan_seconds": seconds(makespan_ns),
        "lower_bound": {
            "seconds": seconds(bound.value_ns),
            "limiting": bound.limiting,
            "bounds_seconds": _named_seconds(bound.bounds_ns),
            "longest_path_seconds": seconds(bound.longest_path_ns),
            "critical_path": list(bound.critical_path),
            "device_work_seconds": _named_seconds(bound.device_work_ns),
            "class_work_seconds": _named_seconds(bound.class_work_ns),
        },
        # Another executor knows no limits, and can beat a bound that they make.
        "efficiency": round(bound.value_ns / makespan_ns, 6)
        if 0 < bound.value_ns <= makespan_ns
        else None,
        "idle_seconds": _idle_seconds(plan, settings, spans, makespan_ns),
        "ready_to_start_seconds": {
            span.job_id: seconds(span.start_ns - ready)
            for span in spans
            if (ready := ready_ns.get(span.job_id)) is not None
        },
    }


def _lower_bound(plan: Plan, settings: EngineSettings, spans: Sequence[Span]) -> LowerBound:
    """Bound the makespan of the jobs that ran, with the times that they took."""
    durations = {span.job_id: span.length_ns for span in spans}
    nodes = [
        replace(node, depends_on=tuple(name for name in node.depends_on if name in durations))
        for node in plan_nodes(plan)
        if node.job_id in durations
    ]
    return lower_bound(nodes, durations, settings)


def _idle_seconds(
    plan: Plan, settings: EngineSettings, spans: Sequence[Span], makespan_ns: int
) -> dict[str, float]:
    """Give what each slot of the run left unused of the makespan, by the slot's name.

    Of the workers of a class, those beyond its number of jobs are left out: a limit may be
    any number.
    """
    jobs = Counter(job.resource for job in plan.jobs)
    cpus = min(settings.cpu_workers, jobs[ResourceClass.CPU])
    ios = min(settings.io_workers, jobs[ResourceClass.IO])
    slots = [Slot(SlotKind.GPU, device) for device in settings.devices]
    slots += [Slot(SlotKind.CPU, index) for index in range(cpus)]
    slots += [Slot(SlotKind.IO, index) for index in range(ios)]
    idle = {slot.name: makespan_ns for slot in slots}
    # Under another executor jobs may share a slot: what is used twice is used once.
    used_until: dict[str | None, int] = {}
    for span in sorted(spans, key=lambda span: span.start_ns):
        start_ns = max(span.start_ns, used_until.get(span.slot, 0))
        if span.slot in idle and span.end_ns > start_ns:
            idle[span.slot] -= span.end_ns - start_ns
            used_until[span.slot] = span.end_ns
    return {name: seconds(nanoseconds) for name, nanoseconds in idle.items()}


def _named_seconds(work_ns: Mapping[Any, int]) -> dict[str, float]:
    return {str(name): seconds(nanoseconds) for name, nanoseconds in work_ns.items()}
