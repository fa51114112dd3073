"""The plan's edges: its topological order, and the longest paths through it.

It works on job ids alone, knows neither slots nor modes, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def dependants_of(depends_on: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Turn the edges round: for every job the jobs that depend on it, in plan order.

    Raises:
        ValueError: a job depends on one that does not exist.
    """
    dependants: dict[str, list[str]] = {job_id: [] for job_id in depends_on}
    for job_id, dependencies in depends_on.items():
        for dependency in dict.fromkeys(dependencies):
            if dependency not in dependants:
                raise ValueError(f"{job_id} depends on {dependency}, which does not exist")
            dependants[dependency].append(job_id)
    return dependants


def topological_order(depends_on: Mapping[str, Sequence[str]]) -> list[str]:
    """Order the jobs by Kahn's layers, ids sorted within a layer.

    A job's layer is the length of the longest chain of dependencies above it. This is the
    order of the published executors and reports, whatever the order in the plan file.

    Raises:
        ValueError: a dependency does not exist, or the edges form a cycle.
    """
    dependants = dependants_of(depends_on)
    unmet = {job_id: len(set(edges)) for job_id, edges in depends_on.items()}
    layer = sorted(job_id for job_id, count in unmet.items() if count == 0)
    order: list[str] = []
    while layer:
        order += layer
        below = []
        for job_id in layer:
            for dependant in dependants[job_id]:
                unmet[dependant] -= 1
                if unmet[dependant] == 0:
                    below.append(dependant)
        layer = sorted(below)
    if len(order) < len(unmet):
        stuck = min(job_id for job_id, count in unmet.items() if count)
        raise ValueError(f"{stuck} lies on a cycle of dependencies, or below one")
    return order


def longest_before(
    order: Iterable[str],
    depends_on: Mapping[str, Sequence[str]],
    durations_ns: Mapping[str, int],
) -> dict[str, int]:
    """For every job, the longest chain of work above it, itself left out, in nanoseconds.

    With the order reversed and the edges turned round it gives the longest chain below it.

    Args:
        order: a topological order of all jobs.
        depends_on: the edges.
        durations_ns: how long each job takes; a job left out counts as 0.
    """
    before: dict[str, int] = {}
    for job_id in order:
        before[job_id] = max(
            (before[above] + durations_ns.get(above, 0) for above in depends_on[job_id]),
            default=0,
        )
    return before
