"""Simulated runs against a second, slow implementation: moment by moment, as the docs say it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hloop.schedule.events import EngineSettings, JobNode, Mode, Placement, SlotKind
from hloop.schedule.simulate import simulate
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICES = 2


@st.composite
def plans(draw: st.DrawFn) -> list[JobNode]:
    """Up to 12 jobs, in any order of their names, each of 1 to 9 ns."""
    nodes: list[JobNode] = []
    for number in draw(st.permutations(range(draw(st.integers(1, 12))))):
        above = draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []
        kind = draw(st.sampled_from([SlotKind.CPU, SlotKind.IO, SlotKind.GPU, SlotKind.GPU]))
        device = draw(st.integers(0, DEVICES - 1)) if kind is SlotKind.GPU else None
        depends_on = tuple(sorted({node.job_id for node in above}))
        ns = draw(st.integers(1, 9))
        nodes.append(
            JobNode(f"j{number:02}", kind, depends_on, device, int(device is not None), ns)
        )
    return nodes


class Moments:
    """A run as it goes on: which jobs started and ended when, and which slots are free now."""

    def __init__(self, nodes: list[JobNode], chosen: EngineSettings, handover_ns: int):
        self.nodes = {node.job_id: node for node in nodes}
        self.chosen, self.handover_ns = chosen, handover_ns
        self.starts: dict[str, int] = {}
        self.now = 0

    def end(self, job_id: str) -> float:
        if job_id not in self.starts:
            return float("inf")
        return self.starts[job_id] + (self.nodes[job_id].expected_ns or 0)

    def reachable(self, node: JobNode) -> bool:
        return all(self.end(above) <= self.now for above in node.depends_on)

    def ready(self, node: JobNode) -> bool:
        ends = [self.end(above) + self.handover_ns for above in node.depends_on]
        return max(ends, default=0) <= self.now

    def running(self) -> list[JobNode]:
        return [self.nodes[name] for name in self.starts if self.end(name) > self.now]

    def fits(self, node: JobNode, beside: list[JobNode]) -> bool:
        others = [other for other in beside if other.kind is node.kind]
        if node.kind is SlotKind.GPU and self.chosen.placement is Placement.PINNED:
            return node.device not in [other.device for other in others]
        limits = {SlotKind.CPU: self.chosen.cpu_workers, SlotKind.IO: self.chosen.io_workers}
        return len(others) < limits.get(node.kind, DEVICES)

    def waiting(self, order: Callable[[JobNode], object]) -> list[JobNode]:
        left = [node for name, node in self.nodes.items() if name not in self.starts]
        return sorted(left, key=order)  # type: ignore[arg-type]


def expected_starts(
    nodes: list[JobNode], chosen: EngineSettings, handover_ns: int
) -> dict[str, int]:
    run = Moments(nodes, chosen, handover_ns)

    @cache
    def layer(name: str) -> int:
        return 1 + max((layer(above) for above in run.nodes[name].depends_on), default=0)

    @cache
    def path(name: str) -> int:
        below = (path(other.job_id) for other in nodes if name in other.depends_on)
        return (run.nodes[name].expected_ns or 0) + max(below, default=0)

    def topological(node: JobNode) -> tuple[int, str]:
        return layer(node.job_id), node.job_id

    def longest_path_first(node: JobNode) -> tuple[int, int]:
        return -path(node.job_id), nodes.index(node)

    wave: list[JobNode] = []
    while len(run.starts) < len(nodes):
        if chosen.mode is Mode.SEQUENTIAL:
            first = run.waiting(topological)[0]
            if not run.running() and run.ready(first):
                run.starts[first.job_id] = run.now
        elif chosen.mode is Mode.HLOOP:
            for node in run.waiting(longest_path_first):
                if run.ready(node) and run.fits(node, run.running()):
                    run.starts[node.job_id] = run.now
        elif not run.running():
            for node in run.waiting(topological) if not wave else ():
                if run.reachable(node) and run.fits(node, wave):
                    wave.append(node)
            if all(map(run.ready, wave)):
                run.starts |= {node.job_id: run.now for node in wave}
                wave = []
        run.now += 1
    return run.starts


@settings(max_examples=300, deadline=None)
@given(
    plans(),
    st.sampled_from(Mode),
    st.sampled_from(Placement),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_every_job_starts_when_the_rules_of_the_mode_say(
    nodes: list[JobNode], mode: Mode, placement: Placement, workers: int, handover_ns: int
) -> None:
    chosen = EngineSettings(mode, tuple(range(DEVICES)), workers, 1, placement)
    times = {node.job_id: node.expected_ns or 0 for node in nodes}
    result = simulate(chosen, nodes, times, handover_ns=handover_ns)
    assert dict(result.starts) == expected_starts(nodes, chosen, handover_ns)
    assert result.makespan_ns == max(start + times[name] for name, start in result.starts.items())
