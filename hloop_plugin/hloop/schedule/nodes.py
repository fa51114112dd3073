"""A plan as the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping

from hloop.plan.model import Job, Plan, ResourceClass
from hloop.schedule.events import JobNode, SlotKind


def plan_nodes(plan: Plan, durations_ns: Mapping[str, int] | None = None) -> tuple[JobNode, ...]:
    """Give the plan's jobs as nodes, in plan order.

    Args:
        durations_ns: what jobs took in a former run, which goes before what the plan expects.
    """
    return tuple(_node(job, (durations_ns or {}).get(job.job_id)) for job in plan.jobs)


def _node(job: Job, measured_ns: int | None) -> JobNode:
    expected = job.seconds("expected_seconds")
    if measured_ns is None and expected is not None:
        measured_ns = round(expected * 1e9)
    is_gpu = job.resource is ResourceClass.GPU
    return JobNode(
        job_id=job.job_id,
        kind=SlotKind(job.resource.value),
        depends_on=job.depends_on,
        device=job.device if is_gpu else None,
        device_count=1 if is_gpu else 0,
        expected_ns=measured_ns,
    )


def rule_node(name: str, device_count: int) -> JobNode:
    """Give a job that no plan holds, with the number of devices that it asks for."""
    kind = SlotKind.GPU if device_count else SlotKind.RULE
    return JobNode(name, kind, device_count=device_count)
