"""The engine on small plans, by hand: each mode's choice, failures, reasons, refusals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hloop.schedule.engine import Engine
from hloop.schedule.events import (
    EngineSettings,
    Event,
    Instruction,
    JobAdded,
    JobEnded,
    JobNode,
    JobReady,
    JobRejected,
    Launch,
    Mode,
    Placement,
    Skip,
    Slot,
    SlotFreed,
    SlotKind,
    Stop,
    WaveStarted,
)
from hloop.schedule.slots import JobState

TWO = EngineSettings(devices=(0, 1))
BULK = EngineSettings(Mode.BULK_SYNC, devices=(0, 1, 2, 3, 4))
SEQUENTIAL = EngineSettings(Mode.SEQUENTIAL, devices=(0, 1))


def cpu(job_id: str, *depends_on: str, expected_ns: int | None = None) -> JobNode:
    return JobNode(job_id, SlotKind.CPU, depends_on, expected_ns=expected_ns)


def gpu(job_id: str, device: int, *depends_on: str, expected_ns: int | None = None) -> JobNode:
    return JobNode(job_id, SlotKind.GPU, depends_on, device, 1, expected_ns)


def asks_for(job_id: str, devices: int) -> JobAdded:
    """A job of no plan that needs several devices, or none."""
    kind = SlotKind.GPU if devices else SlotKind.RULE
    return JobAdded(JobNode(job_id, kind, device_count=devices))


def ready(*job_ids: str) -> list[JobReady]:
    return [JobReady(job_id) for job_id in job_ids]


def good(job_id: str) -> JobEnded:
    return JobEnded(job_id, completed=True)


def bad(job_id: str) -> JobEnded:
    return JobEnded(job_id, completed=False)


def started(instructions: Sequence[Instruction]) -> list[str]:
    return [each.job_id for each in instructions if isinstance(each, Launch)]


def devices(instructions: Sequence[Instruction]) -> dict[str, tuple[int, ...]]:
    return {each.job_id: each.slot.devices for each in instructions if isinstance(each, Launch)}


def skipped(instructions: Sequence[Instruction]) -> dict[str, bool]:
    """The jobs skipped, and whether each must be given back."""
    return {each.job_id: each.handed for each in instructions if isinstance(each, Skip)}


CHAIN = [gpu("a", 0), gpu("b", 0), cpu("c", "a", "b")]
FIVE = [cpu(f"c{number}") for number in range(5)]


# hloop


def test_a_ready_job_starts_at_once_on_its_device() -> None:
    engine = Engine(TWO, [gpu("a", 1)])
    assert engine.handle(JobReady("a")) == [Launch("a", Slot(SlotKind.GPU, 1, (1,)))]


def test_a_freed_slot_is_taken_before_the_outcome_is_known() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0)])
    engine.handle(*ready("a", "b"))
    assert started(engine.handle(SlotFreed("a"))) == ["b"]


def test_an_end_without_freed_slot_frees_it() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0)])
    engine.handle(*ready("a", "b"))
    assert started(engine.handle(good("a"))) == ["b"]


def test_a_slot_that_was_freed_is_not_freed_again_by_the_end() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0), gpu("c", 0)])
    engine.handle(*ready("a", "b", "c"))
    engine.handle(SlotFreed("a"))
    assert started(engine.handle(good("a"))) == []


def test_jobs_handed_over_together_start_longest_path_first() -> None:
    plan = [gpu("short", 0, expected_ns=5), gpu("long", 0, expected_ns=1)]
    plan.append(cpu("after", "long", expected_ns=100))
    engine = Engine(TWO, plan)
    assert started(engine.handle(*ready("short", "long"))) == ["long"]


def test_without_durations_plan_order_decides() -> None:
    engine = Engine(TWO, [gpu("z", 0), gpu("a", 0)])
    assert started(engine.handle(*ready("a", "z"))) == ["z"]


def test_limits_hold_cpu_jobs_back() -> None:
    engine = Engine(EngineSettings(cpu_workers=2), [cpu("a"), cpu("b"), cpu("c")])
    assert started(engine.handle(*ready("a", "b", "c"))) == ["a", "b"]


def test_a_worker_index_is_used_again() -> None:
    engine = Engine(EngineSettings(cpu_workers=2), [cpu("a"), cpu("b"), cpu("c")])
    engine.handle(*ready("a", "b", "c"))
    assert engine.handle(good("a")) == [Launch("c", Slot(SlotKind.CPU, 0))]


def test_the_free_worker_with_the_lowest_index_comes_first() -> None:
    engine = Engine(EngineSettings(cpu_workers=3), FIVE)
    engine.handle(*ready("c0", "c1", "c2"))
    engine.handle(good("c2"))
    engine.handle(good("c0"))
    assert engine.handle(JobReady("c3")) == [Launch("c3", Slot(SlotKind.CPU, 0))]


def test_a_job_handed_over_early_waits_for_its_dependency() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b", "a")])
    engine.handle(*ready("a", "b"))
    assert started(engine.handle(good("a"))) == ["b"]


def test_placement_any_prefers_the_pinned_device() -> None:
    settings = EngineSettings(devices=(0, 1), placement=Placement.ANY)
    engine = Engine(settings, [gpu("a", 1), gpu("b", 1)])
    assert devices(engine.handle(*ready("a", "b"))) == {"a": (1,), "b": (0,)}


def test_placement_any_runs_a_plan_whose_device_does_not_exist() -> None:
    settings = EngineSettings(devices=(0,), placement=Placement.ANY)
    assert devices(Engine(settings, [gpu("a", 7)]).handle(JobReady("a"))) == {"a": (0,)}


# Jobs of no plan


def test_a_job_of_no_plan_takes_the_lowest_devices_in_order() -> None:
    engine = Engine(EngineSettings(devices=(0, 1, 2)))
    engine.handle(asks_for("one", 1))
    assert devices(engine.handle(asks_for("pair", 2))) == {"pair": (1, 2)}


def test_any_number_of_rules_runs_at_once() -> None:
    engine = Engine(TWO)
    assert len(started(engine.handle(*(asks_for(f"r{n}", 0) for n in range(50))))) == 50


def test_small_requests_do_not_pass_a_big_one() -> None:
    engine = Engine(TWO)
    engine.handle(asks_for("first", 1), asks_for("pair", 2), asks_for("small", 1))
    assert engine.running == ("first",)


def test_a_big_request_starts_when_enough_devices_are_free() -> None:
    engine = Engine(TWO)
    engine.handle(asks_for("a", 1), asks_for("b", 1), asks_for("pair", 2), asks_for("c", 1))
    engine.handle(SlotFreed("b"))
    assert started(engine.handle(SlotFreed("a"))) == ["pair"]


def test_a_device_is_kept_for_a_big_request_from_plan_jobs_that_came_later() -> None:
    engine = Engine(TWO, [gpu("old", 0), gpu("new", 0), gpu("other", 1)])
    engine.handle(*ready("old", "other"))
    engine.handle(asks_for("pair", 2))
    engine.handle(JobReady("new"))
    assert started(engine.handle(SlotFreed("old"))) == []


def test_a_plan_job_that_came_before_a_big_request_goes_first() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0), gpu("c", 1)])
    engine.handle(*ready("a", "b", "c"))
    engine.handle(asks_for("pair", 2))
    assert started(engine.handle(SlotFreed("a"))) == ["b"]


def test_a_kept_device_that_was_not_needed_is_used_again() -> None:
    settings = EngineSettings(devices=(0, 1, 2, 3))
    engine = Engine(settings, [gpu("a", 3), gpu("b", 2), gpu("c", 3)])
    engine.handle(asks_for("first", 2), *ready("a", "b"))
    engine.handle(asks_for("pair", 2))
    engine.handle(JobReady("c"), SlotFreed("a"))
    assert started(engine.handle(SlotFreed("first"))) == ["pair", "c"]


def test_devices_kept_for_a_request_that_is_withdrawn_are_used_again() -> None:
    settings = EngineSettings(devices=(0, 1), keep_going=True)
    engine = Engine(settings, [gpu("a", 0), gpu("b", 1)])
    engine.handle(JobReady("a"))
    engine.handle(asks_for("pair", 2))
    engine.handle(JobReady("b"))
    assert started(engine.handle(bad("pair"))) == ["b"]


# sequential


def test_sequential_waits_for_the_next_job_in_order() -> None:
    engine = Engine(SEQUENTIAL, [cpu("b"), cpu("a")])
    assert started(engine.handle(JobReady("b"))) == []


def test_sequential_sorts_ids_within_a_layer() -> None:
    engine = Engine(SEQUENTIAL, [cpu("c"), cpu("b", "c"), cpu("a")])
    engine.handle(*ready("c", "a"))
    assert engine.running == ("a",)


def test_sequential_waits_for_the_outcome() -> None:
    engine = Engine(SEQUENTIAL, [cpu("a"), cpu("b")])
    engine.handle(*ready("a", "b"))
    assert started(engine.handle(SlotFreed("a"))) == []


def test_sequential_runs_jobs_of_no_plan_by_arrival() -> None:
    engine = Engine(SEQUENTIAL)
    engine.handle(asks_for("z", 0), asks_for("a", 2))
    assert started(engine.handle(good("z"))) == ["a"]


def test_sequential_runs_a_job_of_no_plan_that_the_plan_may_wait_for() -> None:
    engine = Engine(SEQUENTIAL, [cpu("a")])
    assert started(engine.handle(asks_for("fetch", 0))) == ["fetch"]


# bulk-sync

PUBLISHED = [gpu("gpu_a0", 3), gpu("gpu_a1", 3), gpu("gpu_b0", 4), gpu("gpu_b1", 4, "gpu_b0")]


def test_the_published_waves() -> None:
    engine = Engine(BULK, PUBLISHED)
    engine.handle(*ready("gpu_a0", "gpu_a1", "gpu_b0"))
    engine.handle(good("gpu_a0"))
    engine.handle(good("gpu_b0"))
    engine.handle(JobReady("gpu_b1"))
    assert engine.waves == (("gpu_a0", "gpu_b0"), ("gpu_a1", "gpu_b1"))


def test_a_wave_waits_until_all_its_jobs_are_handed_over() -> None:
    engine = Engine(BULK, PUBLISHED)
    engine.handle(*ready("gpu_a0", "gpu_a1", "gpu_b0"))
    assert started(engine.handle(good("gpu_a0"), good("gpu_b0"))) == []


def test_a_wave_is_announced_before_its_launches() -> None:
    instructions = Engine(BULK, PUBLISHED).handle(*ready("gpu_b0", "gpu_a0"))
    assert instructions[0] == WaveStarted(0, ("gpu_a0", "gpu_b0"))


def test_the_barrier_waits_for_outcomes() -> None:
    engine = Engine(BULK, [gpu("a", 0), gpu("b", 0)])
    engine.handle(*ready("a", "b"))
    assert started(engine.handle(SlotFreed("a"))) == []


def test_a_failed_job_leaves_its_wave_when_it_keeps_going() -> None:
    settings = EngineSettings(Mode.BULK_SYNC, devices=(0, 1), keep_going=True)
    engine = Engine(settings, [gpu("a", 0), gpu("b", 1)])
    engine.handle(JobReady("a"))
    assert started(engine.handle(bad("b"))) == ["a"]


def test_a_wave_whose_jobs_all_failed_makes_room_for_the_next() -> None:
    settings = EngineSettings(Mode.BULK_SYNC, devices=(0,), keep_going=True)
    engine = Engine(settings, [gpu("a", 0), gpu("b", 0)])
    engine.handle(JobReady("b"))
    assert started(engine.handle(bad("a"))) == ["b"]


def test_jobs_of_no_plan_make_a_wave_of_their_own_while_the_plan_waits() -> None:
    engine = Engine(BULK, PUBLISHED)
    assert engine.handle(asks_for("fetch", 0))[0] == WaveStarted(0, ("fetch",))


def test_a_big_request_left_behind_by_one_wave_is_in_the_next() -> None:
    settings = EngineSettings(Mode.BULK_SYNC, devices=(0, 1))
    engine = Engine(settings, [gpu("a", 0), gpu("b", 0), gpu("c", 0)])
    engine.handle(*ready("a", "b", "c"), asks_for("pair", 2))
    engine.handle(good("a"))
    assert engine.waves == (("a",), ("pair",))


def test_the_plan_goes_on_after_a_wave_for_a_big_request() -> None:
    settings = EngineSettings(Mode.BULK_SYNC, devices=(0, 1))
    engine = Engine(settings, [gpu("a", 0), gpu("b", 0)])
    engine.handle(*ready("a", "b"), asks_for("pair", 2), asks_for("more", 2))
    engine.handle(good("a"))
    assert started(engine.handle(good("pair"))) == ["b"]


# Failure and stop


def test_a_failure_skips_everything_that_has_not_started() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0), cpu("c", "b")])
    engine.handle(*ready("a", "b"))
    assert engine.handle(bad("a")) == [
        Skip("b", "a failed", handed=True),
        Skip("c", "a failed", handed=False),
    ]


def test_running_jobs_go_on_after_a_failure() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 1)])
    engine.handle(*ready("a", "b"))
    engine.handle(bad("a"))
    assert engine.running == ("b",)


def test_a_skipped_job_that_is_handed_over_later_is_given_back() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b")])
    engine.handle(JobReady("a"))
    engine.handle(bad("a"))
    assert engine.handle(JobReady("b")) == [Skip("b", "a failed", handed=True)]


def test_a_job_of_no_plan_that_comes_after_a_failure_is_given_back() -> None:
    engine = Engine(TWO, [gpu("a", 0)])
    engine.handle(JobReady("a"))
    engine.handle(bad("a"))
    assert engine.handle(asks_for("late", 1)) == [Skip("late", "a failed", handed=True)]


def test_keep_going_skips_only_what_depends_on_the_failure() -> None:
    settings = EngineSettings(devices=(0, 1), keep_going=True)
    engine = Engine(settings, [gpu("a", 0), cpu("b", "a"), cpu("c", "b"), cpu("d")])
    engine.handle(JobReady("a"))
    assert skipped(engine.handle(bad("a"))) == {"b": False, "c": False}


def test_keep_going_says_what_a_skipped_job_depends_on() -> None:
    engine = Engine(EngineSettings(keep_going=True), [cpu("a"), cpu("b", "a"), cpu("c", "b")])
    engine.handle(JobReady("a"))
    engine.handle(bad("a"))
    assert engine.why_not("c") == "depends on a, which failed"


def test_wrong_inputs_are_a_failure_without_a_slot() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 1)])
    assert skipped(engine.handle(bad("a"))) == {"b": False}


def test_a_rejected_job_has_failed() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b", "a")])
    engine.handle(JobReady("a"))
    engine.handle(good("a"))
    engine.handle(JobRejected("a"))
    assert engine.state("a") is JobState.FAILED


def test_a_rejected_job_skips_what_has_not_started() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b", "a")])
    engine.handle(JobReady("a"))
    engine.handle(good("a"))
    assert skipped(engine.handle(JobRejected("a"))) == {"b": False}


def test_keep_going_skips_below_a_running_job_whose_dependency_is_rejected() -> None:
    engine = Engine(EngineSettings(keep_going=True), [cpu("a"), cpu("b", "a"), cpu("c", "b")])
    engine.handle(JobReady("a"))
    engine.handle(good("a"), JobReady("b"))
    assert skipped(engine.handle(JobRejected("a"))) == {"c": False}


def test_stop_skips_with_its_reason() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b")])
    engine.handle(JobReady("a"))
    assert engine.handle(Stop("interrupted")) == [Skip("b", "interrupted", handed=False)]


def test_nothing_starts_after_stop() -> None:
    engine = Engine(TWO, [gpu("a", 0), gpu("b", 0)])
    engine.handle(*ready("a", "b"))
    engine.handle(Stop("interrupted"))
    assert started(engine.handle(good("a"))) == []


def test_a_job_skipped_meanwhile_may_turn_out_to_have_wrong_inputs() -> None:
    engine = Engine(TWO, [gpu("a", 0), cpu("b")])
    engine.handle(JobReady("a"))
    engine.handle(bad("a"))
    engine.handle(bad("b"))
    assert engine.state("b") is JobState.FAILED


# Jobs that are not asked for


def test_jobs_not_asked_for_are_skipped_at_the_start() -> None:
    engine = Engine(TWO, [cpu("a"), cpu("b")], wanted={"b"})
    assert engine.start() == [Skip("a", "not asked for", handed=False)]


def test_the_first_event_brings_them_where_start_was_not_called() -> None:
    engine = Engine(TWO, [cpu("a"), cpu("b")], wanted={"b"})
    assert skipped(engine.handle(JobReady("b"))) == {"a": False}


def test_a_dependency_that_is_not_asked_for_counts_as_met() -> None:
    engine = Engine(SEQUENTIAL, [cpu("a"), cpu("b", "a")], wanted={"b"})
    assert started(engine.handle(JobReady("b"))) == ["b"]


def test_a_run_is_finished_without_the_jobs_not_asked_for() -> None:
    engine = Engine(TWO, [cpu("a"), cpu("b")], wanted={"b"})
    engine.handle(JobReady("b"))
    engine.handle(good("b"))
    assert engine.finished


# Reasons


def after(settings: EngineSettings, plan: Sequence[JobNode], *events: Event) -> Engine:
    engine = Engine(settings, plan)
    engine.handle(*events)
    return engine


FIVE_IDS = [node.job_id for node in FIVE]
ONE_ANY = EngineSettings(devices=(0,), placement=Placement.ANY)
PAIR = asks_for("pair", 2)


@pytest.mark.parametrize(
    ("job_id", "settings", "plan", "events", "reason"),
    [
        ("c", TWO, CHAIN, [], "waits for: a, b"),
        ("x", TWO, [*FIVE, cpu("x", *FIVE_IDS)], [], "waits for: c0, c1, c2 and 2 more"),
        ("a", TWO, CHAIN, [], "not handed over yet"),
        ("b", TWO, CHAIN, ready("a", "b"), "device 0 is in use by a"),
        ("c4", TWO, FIVE, ready(*FIVE_IDS), "4 of 4 cpu workers in use"),
        ("b", ONE_ANY, CHAIN, ready("a", "b"), "1 of 1 device in use"),
        ("pair", TWO, CHAIN, [JobReady("a"), PAIR], "needs 2 devices, and 1 is free"),
        (
            "one",
            TWO,
            CHAIN,
            [JobReady("a"), PAIR, asks_for("one", 1)],
            "its turn comes after pair",
        ),
        (
            "b",
            TWO,
            [gpu("a", 0), gpu("b", 1)],
            [JobReady("a"), PAIR, JobReady("b")],
            "device 1 is kept for pair, which needs 2 devices",
        ),
        ("b", SEQUENTIAL, CHAIN, ready("a", "b"), "one job at a time: a is running"),
        ("b", SEQUENTIAL, CHAIN, [JobReady("b")], "its turn comes after a"),
        ("b", BULK, CHAIN, ready("a", "b"), "waits for the barrier of wave 0: 1 job running"),
        (
            "gpu_a0",
            BULK,
            PUBLISHED,
            [JobReady("gpu_a0")],
            "its wave waits for gpu_b0, which is not handed over yet",
        ),
        ("gpu_a1", BULK, PUBLISHED, [JobReady("gpu_a1")], "its turn comes after wave 0"),
        ("b", TWO, CHAIN, [bad("a")], "a failed"),
        ("a", TWO, CHAIN, [bad("a")], "it failed before it could start"),
    ],
)
def test_the_reason_why_a_job_has_not_started(
    job_id: str,
    settings: EngineSettings,
    plan: Sequence[JobNode],
    events: Sequence[Event],
    reason: str,
) -> None:
    assert after(settings, plan, *events).why_not(job_id) == reason


def test_reasons_leave_out_what_has_started() -> None:
    engine = after(TWO, CHAIN, JobReady("a"))
    assert engine.reasons() == {"b": "not handed over yet", "c": "waits for: a, b"}


# Refusals


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([JobReady("nobody")], "nobody is not a job of this run"),
        ([JobReady("a"), JobReady("a")], "a is handed over twice"),
        ([bad("a"), JobReady("a")], "a is handed over, but has failed already"),
        ([SlotFreed("a")], "the slot of a is freed, but the job is waiting"),
        ([good("a")], "a ends, but was never launched"),
        ([JobRejected("a")], "a is rejected, but is waiting"),
        ([asks_for("a", 1)], "a is a job of this run already"),
        ([asks_for("big", 3)], "big needs 3 devices of 2"),
        ([JobAdded(cpu("x"))], "x is of no plan: expected kind rule"),
        ([JobAdded(gpu("x", 0))], "x is of no plan: it has no dependencies and no pin"),
    ],
)
def test_an_event_that_cannot_be_is_refused(events: list[Event], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        after(TWO, CHAIN, *events)


def test_a_second_end_is_refused() -> None:
    engine = Engine(TWO, CHAIN)
    engine.handle(JobReady("a"))
    engine.handle(good("a"))
    with pytest.raises(ValueError, match="a ends, but has completed already"):
        engine.handle(good("a"))


def test_the_reason_of_a_started_job_is_refused() -> None:
    engine = after(TWO, CHAIN, JobReady("a"))
    with pytest.raises(ValueError, match="a has started"):
        engine.why_not("a")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([gpu("a", 2)], "a is pinned to device 2; there are: 0, 1"),
        ([cpu("a"), cpu("a")], "two jobs are called a"),
        ([cpu("a", "b")], "a depends on b, which does not exist"),
        ([cpu("a", "b"), cpu("b", "a")], "a lies on a cycle"),
        ([JobNode("a", SlotKind.RULE)], "a is of kind rule"),
        ([JobNode("a", SlotKind.GPU)], "it needs exactly one device"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(plan: list[JobNode], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(TWO, plan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (EngineSettings(devices=(1, 0)), "not ascending"),
        (EngineSettings(devices=(0, 0)), "not ascending"),
        (EngineSettings(cpu_workers=0), "cpu_workers is 0; expected at least 1"),
        (EngineSettings(io_workers=0), "io_workers is 0; expected at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: EngineSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(settings)


def test_a_wanted_job_that_is_not_in_the_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="x is asked for and not in the plan"):
        Engine(TWO, CHAIN, wanted={"x"})
