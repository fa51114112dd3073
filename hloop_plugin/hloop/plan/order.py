"""The order of a plan's jobs: what its dependencies allow, and where they form a cycle.

It looks at ids and dependencies alone. A dependency on a job that does not exist, or on
itself, is passed over: lint names those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hloop.errors import PlanError, Problem
from hloop.plan.model import Plan


def topological_order(plan: Plan) -> list[str]:
    """Order the job ids by :func:`layers`: the order of the published reports.

    Raises:
        PlanError: the dependencies form a cycle.
    """
    order = [job_id for layer in layers(plan) for job_id in layer]
    if len(order) < len(plan.by_id()):
        raise PlanError([cycle_problem(cycle) for cycle in find_cycles(plan)])
    return order


def layers(plan: Plan) -> list[list[str]]:
    """Give :func:`kahn_layers` of a plan."""
    return kahn_layers(dependencies(plan))


def kahn_layers(depends_on: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Give Kahn's layers: the jobs that could start together, ids sorted within a layer.

    The order of the jobs does not count. Jobs on a cycle, or behind one, are in no layer.

    Args:
        depends_on: job id to the ids that it depends on, each once and each a job too.
    """
    dependants: dict[str, list[str]] = {job_id: [] for job_id in depends_on}
    unmet = {job_id: len(above) for job_id, above in depends_on.items()}
    for job_id, above in depends_on.items():
        for dependency in above:
            dependants[dependency].append(job_id)
    result = []
    layer = sorted(job_id for job_id, count in unmet.items() if count == 0)
    while layer:
        result.append(layer)
        below = []
        for job_id in layer:
            for dependant in dependants[job_id]:
                unmet[dependant] -= 1
                if unmet[dependant] == 0:
                    below.append(dependant)
        layer = sorted(below)
    return result


def dependencies(plan: Plan) -> dict[str, list[str]]:
    """Give for every job, in plan order, the other jobs that it depends on, each once."""
    ids = plan.by_id()
    needs: dict[str, dict[str, None]] = {job_id: {} for job_id in ids}
    for job in plan.jobs:
        known = (name for name in job.depends_on if name in ids and name != job.job_id)
        needs[job.job_id].update(dict.fromkeys(known))
    return {job_id: list(above) for job_id, above in needs.items()}


class Ancestors:
    """Which jobs must complete before which. Made in one pass, one bit per pair of jobs.

    Jobs on a cycle, or behind one, are not in it.
    """

    def __init__(self, plan: Plan) -> None:
        needs = dependencies(plan)
        self._bit: dict[str, int] = {}
        self._above: dict[str, int] = {}
        for layer in layers(plan):
            for job_id in layer:
                self._bit[job_id] = 1 << len(self._bit)
                above = 0
                for dependency in needs[job_id]:
                    above |= self._above[dependency] | self._bit[dependency]
                self._above[job_id] = above

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._bit

    def has(self, job_id: str, ancestor: str) -> bool:
        """Say whether ``ancestor`` completes before ``job_id`` starts, whatever the mode."""
        return bool(self._above[job_id] & self._bit[ancestor])


def ancestors(plan: Plan) -> Ancestors:
    """Find out which jobs must complete before which."""
    return Ancestors(plan)


def find_cycles(plan: Plan) -> list[list[str]]:
    """Give the cycles of a plan, at least one of every knot of jobs that wait for each other.

    Each cycle begins with its smallest id, and each job in it depends on the next; the last
    depends on the first.
    """
    needs = dependencies(plan)
    settled: set[str] = set()
    reported: set[str] = set()
    cycles: list[list[str]] = []
    # Up from each job, depth first. A step back onto the path closes a cycle.
    for start in needs:
        path = [] if start in settled else [start]
        position = {start: 0}
        pending = [iter(needs[start])]
        while path:
            for dependency in pending[-1]:
                if dependency in position:
                    cycle = path[position[dependency] :]
                    if reported.isdisjoint(cycle):
                        first = cycle.index(min(cycle))
                        cycles.append(cycle[first:] + cycle[:first])
                        reported.update(cycle)
                elif dependency not in settled:
                    position[dependency] = len(path)
                    path.append(dependency)
                    pending.append(iter(needs[dependency]))
                    break
            else:
                del position[path[-1]]
                settled.add(path.pop())
                pending.pop()
    return cycles


def cycle_problem(cycle: Sequence[str]) -> Problem:
    """Name one cycle."""
    return Problem(
        code="dependency_cycle",
        where="jobs",
        found=f"each of these jobs depends on the next: {' -> '.join([*cycle, cycle[0]])}",
        expected="no cycle",
        action="Remove one of these entries of depends_on",
    )
