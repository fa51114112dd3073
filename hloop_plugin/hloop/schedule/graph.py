"""The plan's edges: its topological order, and the longest paths through it.

It works on job ids alone, knows neither slots nor modes, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hloop.plan.order import kahn_layers


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
    dependants_of(depends_on)  # Refuses what does not exist.
    needs = {job_id: tuple(dict.fromkeys(above)) for job_id, above in depends_on.items()}
    order = [job_id for layer in kahn_layers(needs) for job_id in layer]
    if stuck := needs.keys() - set(order):
        raise ValueError(f"{min(stuck)} lies on a cycle of dependencies, or below one")
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
