"""Simulated runs of plans, against makespans, idle times and placements made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hloop.errors import DeviceError, PlanError
from hloop.plan.contract import schema_problems
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.report.durations import Durations, read_durations
from hloop.report.simulation import Order, Pins, Question, dealt, simulation
from hloop.schedule.events import Mode
from hloop.schedule.simulate import jittered

S, H, B = Mode.SEQUENTIAL, Mode.HLOOP, Mode.BULK_SYNC
SECOND = 10**9


def job(job_id: str, resource: str, seconds: float | None, *above: str, **fields: Any) -> Job:
    budget = {} if seconds is None else {"expected_seconds": seconds}
    kind = ResourceClass(resource)
    return Job(job_id, kind, ("true",), above, budget=budget, **fields)


def gpu(job_id: str, seconds: float | None, device: int, *above: str) -> Job:
    return job(job_id, "gpu", seconds, *above, cuda_visible_devices=str(device))


# As in docs/scheduling.md: two rollouts on each device, a diagnosis for each, one selection.
PLAN = Plan(
    "p",
    (
        gpu("r0", 30, 0),
        gpu("r1", 10, 1),
        gpu("r2", 10, 0),
        gpu("r3", 30, 1),
        *(job(f"d{n}", "cpu", 4, f"r{n}") for n in range(4)),
        job("select", "io", 3, "d0", "d1", "d2", "d3"),
    ),
)


def simulated(plan: Plan = PLAN, **question: Any) -> list[dict[str, Any]]:
    document = simulation(plan, read_durations(plan, None), Question(**question))
    predictions: list[dict[str, Any]] = document["predictions"]
    return predictions


def makespans(plan: Plan = PLAN, **question: Any) -> list[float]:
    return [prediction["makespan_seconds"] for prediction in simulated(plan, **question)]


def test_the_document_keeps_its_schema():
    document = simulation(PLAN, read_durations(PLAN, None), Question(jitter=0.1, samples=3))
    assert schema_problems(json.loads(json.dumps(document)), "simulation") == []


def test_makespans_per_mode():
    assert makespans(modes=(S, H, B)) == [99, 47, 67]


def test_the_bound_is_the_same_in_every_mode():
    assert {entry["lower_bound"]["seconds"] for entry in simulated()} == {47}


def test_efficiency_is_the_bound_over_the_makespan():
    assert [entry["efficiency"] for entry in simulated(modes=(B,))] == [round(47 / 67, 6)]


def test_idle_time_per_slot():
    # Of 67 s: device 0 works 30 and 10, device 1 works 10 and 30; the selection takes 3.
    idle = simulated(modes=(B,))[0]["idle_seconds"]
    assert (idle["device 0"], idle["device 1"], idle["io 0"]) == (27, 27, 64)


def test_waves_of_bulk_sync():
    waves = simulated(modes=(B,))[0]["waves"]
    assert waves == [["r0", "r1"], ["r2", "r3", "d0", "d1"], ["d2", "d3"], ["select"]]


def test_the_timeline_has_every_job_in_the_order_of_its_start():
    jobs = simulated(modes=(H,))[0]["jobs"]
    places = [(job["job_id"], job["slot"], job["start_offset_ns"] // SECOND) for job in jobs]
    assert places == [
        *(("r0", "device 0", 0), ("r3", "device 1", 0)),
        *(("r2", "device 0", 30), ("r1", "device 1", 30), ("d0", "cpu 0", 30)),
        *(("d3", "cpu 1", 30), ("d1", "cpu 0", 40), ("d2", "cpu 1", 40), ("select", "io 0", 44)),
    ]


def test_there_are_as_many_devices_as_the_plan_pins():
    assert {entry["devices"] for entry in simulated()} == {2}


def test_a_plan_without_gpu_jobs_needs_no_device():
    plan = Plan("p", (job("a", "cpu", 5),))
    assert [entry["devices"] for entry in simulated(plan, modes=(H,))] == [0]


def test_fewer_devices_than_the_plan_pins_are_refused():
    with pytest.raises(DeviceError, match="the plan pins 2, and there are to be 1"):
        simulated(devices=(1,))


def test_more_devices_are_idle_where_pins_hold():
    assert simulated(modes=(H,), devices=(3,))[0]["idle_seconds"]["device 2"] == 47


def test_on_one_device_all_rollouts_follow_each_other():
    # 80 s of rollouts, the last diagnosis and the selection.
    assert makespans(modes=(H,), devices=(1,), pins=Pins.ANY) == [87]


def test_dealt_to_four_devices_every_rollout_starts_at_once():
    assert makespans(modes=(H,), devices=(4,), pins=Pins.MODULO) == [37]


def test_gpu_jobs_are_dealt_out_in_the_order_of_the_plan():
    pins = [job.cuda_visible_devices for job in dealt(PLAN, 3).jobs]
    assert pins == ["0", "1", "2", "0", None, None, None, None, None]


def test_every_number_of_devices_has_every_mode():
    entries = simulated(modes=(S, H), devices=(1, 2), pins=Pins.MODULO)
    assert [(entry["devices"], entry["mode"]) for entry in entries] == [
        *((1, S), (1, H), (2, S), (2, H)),
    ]


def test_worker_limits_can_be_others():
    # One diagnosis at a time: those of r0 and r3 until 38, of r1 and r2 from 40 to 48.
    assert makespans(modes=(H,), cpu_workers=1) == [51]


def test_the_hand_over_of_former_runs_counts():
    durations = Durations(
        "run", seconds_ns={node.job_id: SECOND for node in PLAN.jobs}, handover_ns=SECOND // 2
    )
    predictions = simulation(PLAN, durations, Question(modes=(H,)))["predictions"]
    # Two rollouts one after another, then half a second before each of the next two.
    assert predictions[0]["makespan_seconds"] == 2 + 0.5 + 1 + 0.5 + 1


@pytest.mark.parametrize(("order", "makespan"), [(Order.TIMES, 5), (Order.PLAN, 6)])
def test_ready_jobs_start_in_the_order_that_a_run_with_or_without_these_times_has(
    order: Order, makespan: int
):
    # The plan expects the job that nothing waits for to be the long one.
    plan = Plan("p", (gpu("a", 9, 0), gpu("b", 1, 0), job("after_b", "cpu", 4, "b")))
    durations = Durations("file", seconds_ns={"a": SECOND, "b": SECOND, "after_b": 4 * SECOND})
    document = simulation(plan, durations, Question(modes=(H,), order=order))
    assert document["predictions"][0]["makespan_seconds"] == makespan


def test_jobs_without_a_time_are_listed():
    plan = Plan("p", (job("a", "cpu", 5), job("b", "cpu", None), job("c", "io", None)))
    with pytest.raises(PlanError, match="no time is known for b, c; expected"):
        simulated(plan)


def test_jobs_without_a_time_can_have_one_for_all():
    plan = Plan("p", (job("a", "cpu", 5), job("b", "cpu", None, "a")))
    assert makespans(plan, modes=(H,), default_seconds=2.0) == [7]


def test_a_plan_with_a_cycle_is_refused():
    plan = Plan("p", (job("a", "cpu", 1, "b"), job("b", "cpu", 1, "a")))
    with pytest.raises(PlanError, match="cycle"):
        simulated(plan)


# Jitter


def test_without_jitter_there_is_no_spread():
    assert simulated(modes=(H,))[0]["makespan_with_jitter"] is None


def test_the_same_seed_gives_the_same_spread():
    first, second = (simulated(modes=(H,), jitter=0.2, seed=7, samples=5) for _ in range(2))
    assert first == second


def test_another_seed_gives_another_spread():
    first, second = (
        simulated(modes=(H,), jitter=0.2, seed=seed, samples=5)[0]["makespan_with_jitter"]
        for seed in (1, 100)
    )
    assert first["median"] != second["median"]


def test_sequential_with_jitter_takes_the_sum_of_the_noisy_times():
    times = {
        node.job_id: round((node.seconds("expected_seconds") or 0) * SECOND) for node in PLAN.jobs
    }
    sums = [sum(jittered(times, 0.3, seed).values()) / SECOND for seed in (4, 5, 6)]
    spread = simulated(modes=(S,), jitter=0.3, seed=4, samples=3)[0]["makespan_with_jitter"]
    assert (spread["minimum"], spread["maximum"]) == pytest.approx((min(sums), max(sums)))


def test_jitter_keeps_the_median_of_a_time():
    noisy = sorted(jittered({str(n): SECOND for n in range(2001)}, 0.5, 3).values())
    assert noisy[1000] == pytest.approx(SECOND, rel=0.05)


def test_jitter_multiplies_by_a_log_normal_factor():
    import math
    from statistics import stdev

    noisy = jittered({str(n): SECOND for n in range(2000)}, 0.5, 3).values()
    assert stdev(math.log(value / SECOND) for value in noisy) == pytest.approx(0.5, rel=0.05)
