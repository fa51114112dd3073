"""Simulated runs, against makespans computed by hand, and the bound that none may beat."""

from __future__ import annotations

import pytest
from hloop.schedule.bounds import LowerBound, lower_bound
from hloop.schedule.events import EngineSettings, JobNode, Mode, Placement, SlotKind
from hloop.schedule.graph import topological_order
from hloop.schedule.simulate import Simulation, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

PINNED, ANY = Placement.PINNED, Placement.ANY


def job(job_id: str, kind: SlotKind, device: int | None, ns: int, *depends_on: str) -> JobNode:
    return JobNode(job_id, kind, depends_on, device, int(device is not None), ns)


def gpu(job_id: str, device: int, ns: int, *depends_on: str) -> JobNode:
    return job(job_id, SlotKind.GPU, device, ns, *depends_on)


def cpu(job_id: str, ns: int, *depends_on: str) -> JobNode:
    return job(job_id, SlotKind.CPU, None, ns, *depends_on)


def durations(nodes: list[JobNode]) -> dict[str, int]:
    return {node.job_id: node.expected_ns or 0 for node in nodes}


def run(
    nodes: list[JobNode],
    mode: Mode = Mode.HLOOP,
    *,
    cpu_workers: int = 4,
    placement: Placement = PINNED,
    handover_ns: int = 0,
) -> Simulation:
    chosen = EngineSettings(mode, (0, 1), cpu_workers, placement=placement)
    return simulate(chosen, nodes, durations(nodes), handover_ns=handover_ns)


def bound(
    nodes: list[JobNode], *, cpu_workers: int = 4, placement: Placement = PINNED
) -> LowerBound:
    chosen = EngineSettings(Mode.HLOOP, (0, 1), cpu_workers, placement=placement)
    return lower_bound(nodes, durations(nodes), chosen)


# Two rollouts on each device, a diagnosis for each, one selection: docs/scheduling.md has it.
SMALL = [
    gpu("r0", 0, 30),
    gpu("r1", 1, 10),
    gpu("r2", 0, 10),
    gpu("r3", 1, 30),
    *(cpu(f"d{n}", 4, f"r{n}") for n in range(4)),
    job("select", SlotKind.IO, None, 3, "d0", "d1", "d2", "d3"),
]


@pytest.mark.parametrize(
    ("mode", "makespan"),
    [
        # One after another: 80 of rollouts, 16 of diagnoses, 3 of selection.
        (Mode.SEQUENTIAL, 99),
        # Both devices work until 40; then the last diagnoses, then the selection.
        (Mode.HLOOP, 40 + 4 + 3),
        # Waves: r0 and r1 (30); r2, r3, d0 and d1 (30); d2 and d3 (4); select (3).
        (Mode.BULK_SYNC, 30 + 30 + 4 + 3),
    ],
)
def test_makespans_computed_by_hand(mode: Mode, makespan: int) -> None:
    assert run(SMALL, mode).makespan_ns == makespan


def test_the_waves_of_a_simulated_run() -> None:
    waves = (("r0", "r1"), ("r2", "r3", "d0", "d1"), ("d2", "d3"), ("select",))
    assert run(SMALL, Mode.BULK_SYNC).waves == waves


def test_a_barrier_costs_what_the_longest_job_of_the_wave_takes() -> None:
    nodes = [gpu("a", 0, 10), gpu("b", 1, 1), gpu("c", 1, 9)]
    assert run(nodes, Mode.BULK_SYNC).makespan_ns - run(nodes).makespan_ns == 9


def test_longest_path_first_saves_time() -> None:
    nodes = [gpu("filler", 0, 10), gpu("head", 0, 1), cpu("tail", 20, "head")]
    assert run(nodes).makespan_ns == 21


def test_placement_any_uses_an_idle_device() -> None:
    nodes = [gpu("a", 0, 10), gpu("b", 0, 10)]
    assert run(nodes, placement=ANY).makespan_ns == 10


def test_hand_over_takes_its_time() -> None:
    nodes = [cpu("a", 10), cpu("b", 10, "a"), cpu("c", 10, "b")]
    assert run(nodes, handover_ns=4).makespan_ns == 38


def test_starts_come_in_the_order_of_starting() -> None:
    nodes = [cpu("b", 1), cpu("a", 1), cpu("c", 1)]
    assert list(run(nodes, Mode.SEQUENTIAL).starts) == ["a", "b", "c"]


def test_every_job_has_a_slot() -> None:
    assert {job_id: slot.name for job_id, slot in run(SMALL).slots.items()}["r3"] == "device 1"


def test_a_missing_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="no duration is known for a"):
        simulate(EngineSettings(), [JobNode("a", SlotKind.CPU)], {})


def test_an_empty_plan_takes_no_time() -> None:
    assert run([]).makespan_ns == 0


# The bound


def test_the_longest_path() -> None:
    nodes = [cpu("a", 5), cpu("b", 7, "a"), cpu("c", 20), cpu("d", 9, "b")]
    assert bound(nodes).critical_path == ("a", "b", "d")


def test_the_longest_path_is_the_sum_of_its_jobs() -> None:
    nodes = [cpu("a", 5), cpu("b", 7, "a"), cpu("c", 20), cpu("d", 9, "b")]
    assert bound(nodes).longest_path_ns == 21


def test_work_is_counted_per_device() -> None:
    assert bound(SMALL).device_work_ns == {0: 40, 1: 40}


def test_work_is_counted_per_class() -> None:
    assert bound(SMALL).class_work_ns == {SlotKind.GPU: 80, SlotKind.CPU: 16, SlotKind.IO: 3}


def test_a_device_is_bounded_by_its_work_and_the_shortest_chain_after_it() -> None:
    assert bound(SMALL).bounds_ns["device 0"] == 40 + 4 + 3


def test_a_device_is_bounded_by_the_shortest_chain_before_it_too() -> None:
    nodes = [cpu("a", 5), cpu("b", 2), gpu("x", 0, 10, "a"), gpu("y", 0, 10, "b")]
    assert bound(nodes).bounds_ns["device 0"] == 2 + 20


def test_workers_share_the_work_of_their_class() -> None:
    nodes = [cpu("a", 5), cpu("b", 5), cpu("c", 5)]
    assert bound(nodes, cpu_workers=2).bounds_ns["cpu workers"] == 8


def test_devices_share_the_gpu_work_where_pins_are_preferences() -> None:
    nodes = [gpu("a", 0, 5), gpu("b", 0, 5), gpu("c", 0, 5)]
    assert bound(nodes, placement=ANY).bounds_ns == {"longest path": 5, "devices": 8}


def test_the_largest_bound_is_named() -> None:
    result = bound(SMALL)
    assert (result.limiting, result.value_ns) == ("device 0", 47)


def test_an_unknown_duration_counts_as_nothing() -> None:
    nodes = [JobNode("a", SlotKind.CPU), JobNode("b", SlotKind.CPU, ("a",))]
    assert lower_bound(nodes, {"b": 3}, EngineSettings()).value_ns == 3


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="a lasts -1 ns"):
        lower_bound([JobNode("a", SlotKind.CPU)], {"a": -1}, EngineSettings())


def test_the_bound_of_an_empty_plan_is_zero() -> None:
    assert bound([]).value_ns == 0


@st.composite
def plans(draw: st.DrawFn) -> list[JobNode]:
    nodes: list[JobNode] = []
    for number in range(draw(st.integers(0, 12))):
        above = draw(st.lists(st.sampled_from(nodes), max_size=2)) if nodes else []
        depends_on = {node.job_id for node in above}
        kind = draw(st.sampled_from([SlotKind.CPU, SlotKind.IO, SlotKind.GPU]))
        device = draw(st.integers(0, 1)) if kind is SlotKind.GPU else None
        ns = draw(st.integers(0, 9))
        nodes.append(job(f"j{number}", kind, device, ns, *sorted(depends_on)))
    return nodes


@settings(max_examples=150, deadline=None)
@given(plans(), st.sampled_from(Mode), st.sampled_from(Placement), st.integers(0, 3))
def test_no_run_is_shorter_than_the_bound(
    nodes: list[JobNode], mode: Mode, placement: Placement, handover_ns: int
) -> None:
    result = run(nodes, mode, cpu_workers=2, placement=placement, handover_ns=handover_ns)
    assert result.makespan_ns >= bound(nodes, cpu_workers=2, placement=placement).value_ns


@settings(max_examples=50, deadline=None)
@given(plans())
def test_a_sequential_run_takes_all_the_work(nodes: list[JobNode]) -> None:
    result = run(nodes, Mode.SEQUENTIAL)
    assert result.makespan_ns == sum(durations(nodes).values())


@settings(max_examples=100, deadline=None)
@given(plans(), st.sampled_from(Placement))
def test_hloop_wastes_no_more_than_a_greedy_schedule_may(
    nodes: list[JobNode], placement: Placement
) -> None:
    """At every moment a work-conserving schedule runs the last job's chain or a full class.

    So its makespan is at most the longest path and each class's (each device's) work over its
    slots, added up.
    """
    result, least = run(nodes, placement=placement), bound(nodes, placement=placement)
    work = least.class_work_ns
    gpu_ns = sum(least.device_work_ns.values()) or -(-work.get(SlotKind.GPU, 0) // 2)
    shared = -(-work.get(SlotKind.CPU, 0) // 4) + -(-work.get(SlotKind.IO, 0) // 2) + gpu_ns
    assert result.makespan_ns <= least.longest_path_ns + shared


# The order


def test_a_layer_is_sorted_by_id() -> None:
    edges = {"c": (), "b": ("c",), "a": ("c",), "d": ()}
    assert topological_order(edges) == ["c", "d", "a", "b"]


def test_a_job_stands_below_its_longest_chain() -> None:
    edges = {"a": ("z",), "z": ("y",), "y": (), "b": ("y",)}
    assert topological_order(edges) == ["y", "b", "z", "a"]


def test_a_dependency_named_twice_counts_once() -> None:
    assert topological_order({"a": ("b", "b"), "b": ()}) == ["b", "a"]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="b lies on a cycle"):
        topological_order({"a": (), "b": ("c",), "c": ("b",)})
