"""Overlaps, idle slots and the distance to the bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hloop.run.measures import Span, overlaps
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import PLAN, SyntheticRun


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    starts = draw(st.lists(st.integers(0, 20), max_size=12))
    return [
        Span(f"job{index}", None, start, start + draw(st.integers(0, 8)))
        for index, start in enumerate(starts)
    ]


@given(spans())
def test_overlaps_are_those_of_comparing_every_pair(found: list[Span]) -> None:
    expected: dict[str, list[str]] = {
        span.job_id: sorted(
            other.job_id
            for other in found
            if other is not span
            and other.length_ns
            and max(span.start_ns, other.start_ns) < min(span.end_ns, other.end_ns)
        )
        for span in found
        if span.length_ns
    }
    assert overlaps(found) == expected


def test_a_job_that_starts_when_another_ends_does_not_overlap_with_it() -> None:
    assert overlaps([Span("a", None, 0, 5), Span("b", None, 5, 9)]) == {"a": [], "b": []}


@pytest.fixture
def scheduling(tmp_path: Path) -> dict[str, Any]:
    run = SyntheticRun(tmp_path / "repo")
    run.run_all()
    found: dict[str, Any] = run.write()["scheduling"]
    return found


def test_the_makespan_runs_from_the_first_start_to_the_last_end(
    scheduling: dict[str, Any],
) -> None:
    assert scheduling["makespan_seconds"] == 0.264


def test_the_lower_bound_of_a_chain_is_its_longest_path(scheduling: dict[str, Any]) -> None:
    bound = scheduling["lower_bound"]
    assert (bound["seconds"], bound["limiting"], bound["critical_path"]) == (
        0.26,
        "longest path",
        ["rollout_b", "diagnose_b", "select"],
    )


def test_the_lower_bound_tells_its_three_parts(scheduling: dict[str, Any]) -> None:
    bound = scheduling["lower_bound"]
    assert (
        bound["longest_path_seconds"],
        bound["device_work_seconds"],
        bound["class_work_seconds"],
    ) == (0.26, {"0": 0.1, "1": 0.2}, {"cpu": 0.08, "gpu": 0.3, "io": 0.01})


def test_efficiency_is_the_bound_over_the_makespan(scheduling: dict[str, Any]) -> None:
    assert scheduling["efficiency"] == round(0.26 / 0.264, 6)


def test_every_slot_is_idle_for_what_it_did_not_use(scheduling: dict[str, Any]) -> None:
    assert scheduling["idle_seconds"] == {
        "device 0": 0.164,
        "device 1": 0.064,
        "cpu 0": 0.184,
        "cpu 1": 0.264,
        "io 0": 0.254,
    }


def test_a_class_has_no_more_slots_than_jobs_whatever_its_limit(tmp_path: Path) -> None:
    plan = replace(PLAN, max_cpu_workers=1000, max_io_workers=1000)
    run = SyntheticRun(tmp_path / "repo", plan)
    run.run_all()
    idle = run.write()["scheduling"]["idle_seconds"]
    assert list(idle) == ["device 0", "device 1", "cpu 0", "cpu 1", "io 0"]


def test_waiting_is_counted_from_ready_to_start(scheduling: dict[str, Any]) -> None:
    assert scheduling["ready_to_start_seconds"]["select"] == 0.001


def test_a_slot_that_two_jobs_shared_is_used_once(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "repo")
    run.run("diagnose_a", 10, 30)
    run.run("diagnose_b", 20, 50)
    assert run.write()["scheduling"]["idle_seconds"]["cpu 0"] == 0


def test_jobs_that_share_a_slot_may_beat_the_bound_and_then_have_no_efficiency(
    tmp_path: Path,
) -> None:
    run = SyntheticRun(tmp_path / "repo")
    run.run("rollout_a", 10, 30)
    run.run("rollout_b", 10, 50)
    run.run("select", 10, 60)
    run.run("diagnose_a", 10, 60)
    assert run.write()["scheduling"]["efficiency"] is None


def test_a_run_without_a_job_has_no_makespan_and_no_efficiency(tmp_path: Path) -> None:
    scheduling = SyntheticRun(tmp_path / "repo").write()["scheduling"]
    assert (scheduling["makespan_seconds"], scheduling["efficiency"]) == (0, None)
