"""The order of jobs: layers, ancestors, cycles."""

from collections.abc import Mapping, Sequence

import pytest
from hloop.errors import PlanError
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.plan.order import ancestors, find_cycles, layers, topological_order
from hypothesis import given
from hypothesis import strategies as st


def plan_of(edges: Mapping[str, Sequence[str]]) -> Plan:
    return Plan(
        plan_id="p",
        jobs=tuple(
            Job(job_id=job_id, resource=ResourceClass.CPU, command=("x",), depends_on=tuple(above))
            for job_id, above in edges.items()
        ),
    )


IDS = [f"j{number}" for number in range(12)]
GRAPHS = st.dictionaries(
    st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=4), min_size=1
).map(lambda edges: {a: [b for b in above if b in edges] for a, above in edges.items()})
DAGS = GRAPHS.map(lambda edges: {a: [b for b in above if b < a] for a, above in edges.items()})


def reachable(edges: Mapping[str, Sequence[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = list(edges[start])
    while pending:
        if (job_id := pending.pop()) not in seen:
            seen.add(job_id)
            pending += edges[job_id]
    return seen


def test_ids_are_sorted_within_a_layer() -> None:
    edges = {"z": [], "b": ["z"], "a": ["z"], "c": [], "d": ["a", "c"]}
    assert layers(plan_of(edges)) == [["c", "z"], ["a", "b"], ["d"]]


@given(DAGS)
def test_a_job_comes_after_all_that_it_depends_on(edges: dict[str, list[str]]) -> None:
    order = topological_order(plan_of(edges))
    assert all(order.index(b) < order.index(a) for a, above in edges.items() for b in above)


@given(DAGS, st.randoms())
def test_the_order_of_the_plan_does_not_count(edges: dict[str, list[str]], random: object) -> None:
    shuffled = list(edges.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert layers(plan_of(dict(shuffled))) == layers(plan_of(edges))


@given(DAGS)
def test_ancestors_are_what_is_reached_by_walking_up(edges: dict[str, list[str]]) -> None:
    found = ancestors(plan_of(edges))
    assert {a: {b for b in edges if found.has(a, b)} for a in edges} == {
        a: reachable(edges, a) for a in edges
    }


@given(GRAPHS)
def test_a_cycle_is_found_exactly_where_there_is_one(edges: dict[str, list[str]]) -> None:
    edges = {a: [b for b in above if b != a] for a, above in edges.items()}
    knots = {frozenset(b for b in reachable(edges, a) if a in reachable(edges, b)) for a in edges}
    cycles = find_cycles(plan_of(edges))
    assert {knot for knot in knots if knot} == {
        knot for knot in knots if any(set(cycle) <= knot for cycle in cycles)
    }


@given(GRAPHS)
def test_each_job_of_a_cycle_depends_on_the_next(edges: dict[str, list[str]]) -> None:
    for cycle in find_cycles(plan_of(edges)):
        assert all(b in edges[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_a_cycle_is_named_from_its_smallest_id() -> None:
    with pytest.raises(PlanError, match="a -> c -> b -> a"):
        topological_order(plan_of({"c": ["b"], "b": ["a"], "a": ["c"], "d": ["a"]}))


def test_a_long_chain_needs_no_recursion() -> None:
    edges = {f"j{number}": [f"j{number + 1}"] for number in range(5000)} | {"j5000": []}
    assert find_cycles(plan_of(edges)) == []
