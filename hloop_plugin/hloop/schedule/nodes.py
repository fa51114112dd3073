"""A plan as the engine sees it."""

from __future__ import annotations

from hloop.plan.model import Job, Plan, ResourceClass
from hloop.schedule.events import JobNode, SlotKind


def plan_nodes(plan: Plan) -> tuple[JobNode, ...]:
    """Give the plan's jobs as nodes, in plan order."""
    return tuple(_node(job) for job in plan.jobs)


def _node(job: Job) -> JobNode:
    seconds = job.seconds("expected_seconds")
    is_gpu = job.resource is ResourceClass.GPU
    return JobNode(
        job_id=job.job_id,
        kind=SlotKind(job.resource.value),
        depends_on=job.depends_on,
        device=job.device if is_gpu else None,
        device_count=1 if is_gpu else 0,
        expected_ns=None if seconds is None else round(seconds * 1e9),
    )
