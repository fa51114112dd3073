"""The lower bound of a plan's makespan: no schedule, in no mode, can be shorter.

It is computed from durations that are known or assumed, and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloop.schedule.events import EngineSettings, JobNode, Placement, SlotKind
from hloop.schedule.graph import dependants_of, longest_before, topological_order


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What limits the makespan, in nanoseconds.

    Attributes:
        longest_path_ns: the longest chain of dependent jobs.
        critical_path: its jobs, first to last; the first in topological order among equals.
        device_work_ns: logical device to the work pinned to it; empty where pins are only
            preferences.
        class_work_ns: slot class to the work of all its jobs; a job on two devices counts
            twice.
        bounds_ns: every bound by its name: ``longest path``, ``device 0``, ``devices``,
            ``cpu workers``, ``io workers``.
        value_ns: the largest of them.
        limiting: its name.
    """

    longest_path_ns: int
    critical_path: tuple[str, ...]
    device_work_ns: Mapping[int, int]
    class_work_ns: Mapping[SlotKind, int]
    bounds_ns: Mapping[str, int]
    value_ns: int
    limiting: str


def lower_bound(
    nodes: Sequence[JobNode], durations_ns: Mapping[str, int], settings: EngineSettings
) -> LowerBound:
    """Give the lower bound of the makespan. The mode does not matter to it.

    Jobs that share ``k`` slots and have ``work`` in all bound the makespan by
    ``above + ceil(work / k) + below``, where ``above`` is the shortest chain of work above any
    of them and ``below`` the shortest below. Proof: in the first ``above`` none of them can
    run, since its whole chain comes first; in the last ``below`` none of them can run either,
    since its chain below must fit after it. All of ``work`` is done in the time
    between, at most ``k`` at once.

    Args:
        nodes: the plan's jobs.
        durations_ns: how long each takes. A job left out counts as 0: the bound still holds.
        settings: devices, limits and placement.

    Raises:
        ValueError: a dependency that is unknown or on a cycle, or a negative duration.
    """
    for job_id, duration in durations_ns.items():
        if duration < 0:
            raise ValueError(f"{job_id} lasts {duration} ns; expected 0 or more")
    depends_on = {node.job_id: node.depends_on for node in nodes}
    order = topological_order(depends_on)
    before_ns = longest_before(order, depends_on, durations_ns)
    after_ns = longest_before(reversed(order), dependants_of(depends_on), durations_ns)

    def bound(jobs: Sequence[JobNode], slots: int) -> int:
        above = min(before_ns[node.job_id] for node in jobs)
        below = min(after_ns[node.job_id] for node in jobs)
        return above + -(-_work(jobs, durations_ns) // slots) + below

    path = _critical_path(order, depends_on, before_ns, after_ns, durations_ns)
    path_ns = sum(durations_ns.get(job_id, 0) for job_id in path)
    bounds = {"longest path": path_ns}
    by_class: dict[SlotKind, list[JobNode]] = {}
    by_device: dict[int, list[JobNode]] = {}
    for node in nodes:
        by_class.setdefault(node.kind, []).append(node)
        if node.device is not None and settings.placement is Placement.PINNED:
            by_device.setdefault(node.device, []).append(node)
    for device, jobs in sorted(by_device.items()):
        bounds[f"device {device}"] = bound(jobs, 1)
    if settings.placement is Placement.ANY and settings.devices and SlotKind.GPU in by_class:
        bounds["devices"] = bound(by_class[SlotKind.GPU], len(settings.devices))
    for kind, limit in (
        (SlotKind.CPU, settings.cpu_workers),
        (SlotKind.IO, settings.io_workers),
    ):
        if kind in by_class:
            bounds[f"{kind} workers"] = bound(by_class[kind], limit)
    limiting = max(bounds, key=lambda name: bounds[name])
    return LowerBound(
        longest_path_ns=path_ns,
        critical_path=path,
        device_work_ns={device: _work(jobs, durations_ns) for device, jobs in by_device.items()},
        class_work_ns={kind: _work(jobs, durations_ns) for kind, jobs in by_class.items()},
        bounds_ns=bounds,
        value_ns=bounds[limiting],
        limiting=limiting,
    )


def _work(jobs: Sequence[JobNode], durations_ns: Mapping[str, int]) -> int:
    return sum(durations_ns.get(node.job_id, 0) * max(1, node.device_count) for node in jobs)


def _critical_path(
    order: Sequence[str],
    depends_on: Mapping[str, Sequence[str]],
    before_ns: Mapping[str, int],
    after_ns: Mapping[str, int],
    durations_ns: Mapping[str, int],
) -> tuple[str, ...]:
    """Walk up from the end of the longest path, each time to the dependency that decides."""

    def end_ns(job_id: str) -> int:
        return before_ns[job_id] + durations_ns.get(job_id, 0)

    ends = [job_id for job_id in order if after_ns[job_id] == 0]
    path: list[str] = []
    step = max(ends, key=end_ns, default=None)
    while step is not None:
        path.append(step)
        step = max(depends_on[step], key=end_ns, default=None)
    return tuple(reversed(path))
