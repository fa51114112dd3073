"""What holds for every plan, mode, order of events and way to fail: property tests.

``tell`` plays Snakemake and the jobs against an engine and writes down what was said. The
tests then read these stories with bookkeeping of their own, not with the engine's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

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
from hypothesis import given, settings
from hypothesis import strategies as st

GOOD, BAD, BAD_INPUTS, WITHDRAWN, REJECTED = ["good", "bad", "bad_inputs", "withdrawn", "rejected"]


@dataclass(frozen=True)
class Scenario:
    """A plan, what else arrives, and how every job is going to end."""

    settings: EngineSettings
    nodes: tuple[JobNode, ...]
    others: tuple[JobNode, ...]
    fates: dict[str, str]
    wanted: frozenset[str] | None
    early: bool
    stop_after: int | None
    seed: int

    def depends_on(self, job_id: str) -> set[str]:
        """The dependencies that count: those that are asked for."""
        node = next((node for node in self.nodes if node.job_id == job_id), None)
        return {above for above in (node.depends_on if node else ()) if self.asked_for(above)}

    def asked_for(self, job_id: str) -> bool:
        return self.wanted is None or job_id in self.wanted

    def below(self, job_ids: set[str]) -> set[str]:
        found: set[str] = set()
        while True:
            more = {
                node.job_id
                for node in self.nodes
                if self.asked_for(node.job_id) and self.depends_on(node.job_id) & (job_ids | found)
            }
            if more <= found:
                return found
            found |= more


@dataclass
class State:
    """What has been said so far."""

    handed: list[str] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    slots: dict[str, Slot] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    ever_completed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    given_back: set[str] = field(default_factory=set)
    nodes: dict[str, JobNode] = field(default_factory=dict)
    stopped: bool = False

    def copy(self) -> State:
        return State(**{k: v if isinstance(v, bool) else v.copy() for k, v in vars(self).items()})

    def hear(self, said: Event | Instruction) -> None:
        match said:
            case JobAdded(node):
                self.nodes[node.job_id] = node
                self.handed.append(node.job_id)
            case JobReady(job_id):
                self.handed.append(job_id)
            case SlotFreed(job_id):
                del self.slots[job_id]
            case JobEnded(job_id, completed):
                self.slots.pop(job_id, None)
                self.open.discard(job_id)
                (self.completed if completed else self.failed).add(job_id)
                if completed:
                    self.ever_completed.add(job_id)
            case JobRejected(job_id):
                self.completed.remove(job_id)
                self.failed.add(job_id)
            case Stop():
                self.stopped = True
            case Launch(job_id, slot):
                self.launched.append(job_id)
                self.slots[job_id] = slot
                self.open.add(job_id)
            case Skip(job_id, reason, handed):
                self.skipped[job_id] = reason
                if handed:
                    self.given_back.add(job_id)

    def devices_in_use(self) -> set[int]:
        return {device for slot in self.slots.values() for device in slot.devices}

    def in_use(self, kind: SlotKind) -> int:
        return sum(slot.kind is kind for slot in self.slots.values())


@dataclass
class Step:
    """One call of the engine: what was said to it, what it said, and the state around."""

    events: list[Event]
    instructions: list[Instruction]
    asked: State
    after: State

    def launches(self) -> Iterator[tuple[Launch, State]]:
        """Each launch with the state in which it was asked for."""
        state = self.asked.copy()
        for instruction in self.instructions:
            if isinstance(instruction, Launch):
                yield instruction, state.copy()
            state.hear(instruction)


@dataclass
class Story:
    scenario: Scenario
    steps: list[Step]
    engine: Engine

    @property
    def end(self) -> State:
        return self.steps[-1].after

    def ready(self, state: State) -> list[str]:
        """Jobs that are handed over, wait for no dependency, and have not started."""
        done = set(state.launched) | state.failed | state.skipped.keys()
        return [
            job_id
            for job_id in state.handed
            if job_id not in done and self.scenario.depends_on(job_id) <= state.ever_completed
        ]


def tell(scenario: Scenario) -> Story:
    """Play a scenario to its end. The engine's own invariants are checked at every step."""
    rng = random.Random(scenario.seed)
    engine = Engine(scenario.settings, scenario.nodes, scenario.wanted)
    state = State(nodes={node.job_id: node for node in scenario.nodes})
    steps: list[Step] = []

    def say(events: list[Event]) -> None:
        asked = state.copy()
        for event in events:
            asked.hear(event)
            state.hear(event)
        instructions = engine.handle(*events) if events else engine.start()
        for instruction in instructions:
            state.hear(instruction)
        steps.append(Step(events, instructions, asked, state.copy()))
        engine.check()

    say([])
    while True:
        if scenario.stop_after == len(steps):
            say([Stop("the user stopped it")])
            continue
        possible = _possible(scenario, state, rng)
        if not possible:
            return Story(scenario, steps, engine)
        count = rng.choice((1, 1, 1, 2, 5))
        say(rng.sample(possible, min(count, len(possible))))


def _possible(scenario: Scenario, state: State, rng: random.Random) -> list[Event]:
    """At most one event per job, so that any of them can happen together."""
    events: list[Event] = []
    for node in scenario.nodes:
        job_id, fate = node.job_id, scenario.fates.get(node.job_id, GOOD)
        if not scenario.asked_for(job_id) or job_id in state.handed or job_id in state.failed:
            continue
        if scenario.early or scenario.depends_on(job_id) <= state.ever_completed:
            ended = JobEnded(job_id, completed=False)
            events.append(ended if fate == BAD_INPUTS else JobReady(job_id))
    events += [JobAdded(node) for node in scenario.others if node.job_id not in state.nodes]
    for job_id in state.handed:
        fate = scenario.fates.get(job_id, GOOD)
        if job_id in state.open:
            ended = JobEnded(job_id, completed=fate != BAD)
            freed_first = job_id in state.slots and rng.random() < 0.6
            events.append(SlotFreed(job_id) if freed_first else ended)
        elif job_id in state.completed and fate == REJECTED:
            events.append(JobRejected(job_id))
        elif fate == WITHDRAWN and job_id not in {*state.launched, *state.skipped, *state.failed}:
            events.append(JobEnded(job_id, completed=False))
    return events


KINDS = st.sampled_from([SlotKind.CPU, SlotKind.GPU, SlotKind.GPU, SlotKind.IO])


@st.composite
def scenarios(
    draw: st.DrawFn,
    modes: tuple[Mode, ...] = tuple(Mode),
    fates: tuple[str, ...] = (GOOD, GOOD, GOOD, BAD, BAD_INPUTS, WITHDRAWN, REJECTED),
    others: bool = True,
    stops: bool = True,
    all_wanted: bool = False,
) -> Scenario:
    devices = tuple(draw(st.sampled_from([[0], [0, 1], [0, 1, 2], [2, 5], [0, 1, 2, 3]])))
    count = draw(st.integers(0, 10))
    # The order of the ids differs from the order of the plan.
    ids = draw(st.permutations([f"j{number}" for number in range(count)]))
    nodes = []
    for place, job_id in enumerate(ids):
        kind = draw(KINDS)
        above = draw(st.lists(st.sampled_from(ids[:place]), max_size=3)) if place else []
        pin = draw(st.sampled_from(devices)) if kind is SlotKind.GPU else None
        expected = draw(st.none() | st.integers(0, 20))
        nodes.append(JobNode(job_id, kind, tuple(above), pin, int(pin is not None), expected))
    # In the plan a job may stand before what it depends on.
    nodes = draw(st.permutations(nodes))
    more = draw(st.lists(st.integers(0, len(devices)), max_size=5 if others else 0))
    other_nodes = tuple(
        JobNode(f"x{number}", SlotKind.GPU if need else SlotKind.RULE, device_count=need)
        for number, need in enumerate(more)
    )
    everyone = [node.job_id for node in (*nodes, *other_nodes)]
    wanted = st.none() if all_wanted else st.none() | st.sets(st.sampled_from(everyone or ["-"]))
    asked_for = draw(wanted)
    return Scenario(
        settings=EngineSettings(
            mode=draw(st.sampled_from(modes)),
            devices=devices,
            cpu_workers=draw(st.integers(1, 3)),
            io_workers=draw(st.integers(1, 2)),
            placement=draw(st.sampled_from(Placement)),
            keep_going=draw(st.booleans()),
        ),
        nodes=tuple(nodes),
        others=other_nodes,
        fates={job_id: draw(st.sampled_from(fates)) for job_id in everyone},
        wanted=None if asked_for is None else frozenset(asked_for) & frozenset(ids),
        early=draw(st.booleans()),
        stop_after=draw(st.none() | st.none() | st.integers(1, 12)) if stops else None,
        seed=draw(st.integers(0, 2**32)),
    )


ANY = scenarios()
WELL = scenarios(fates=(GOOD,), stops=False)


def holds_for(
    strategy: st.SearchStrategy[Scenario],
) -> Callable[[Callable[[Scenario], None]], Callable[[], None]]:
    """Test many scenarios, each with several orders of events: drawing one costs far more."""

    def decorate(test: Callable[[Scenario], None]) -> Callable[[], None]:
        @settings(max_examples=40, deadline=None)
        @given(strategy)
        def play(scenario: Scenario) -> None:
            for turn in range(6):
                test(replace(scenario, seed=scenario.seed + turn))

        play.__name__ = test.__name__
        return play

    return decorate


# Slots


@holds_for(ANY)
def test_no_device_is_used_twice_at_once(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for launch, state in step.launches():
            assert not set(launch.slot.devices) & state.devices_in_use()


@holds_for(ANY)
def test_limits_are_never_exceeded(scenario: Scenario) -> None:
    limit = scenario.settings
    for step in tell(scenario).steps:
        assert step.after.in_use(SlotKind.CPU) <= limit.cpu_workers
        assert step.after.in_use(SlotKind.IO) <= limit.io_workers


@holds_for(ANY)
def test_a_job_takes_the_free_worker_with_the_lowest_index(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for launch, state in step.launches():
            kind = launch.slot.kind
            taken = {slot.index for slot in state.slots.values() if slot.kind is kind}
            lowest = next(index for index in range(len(taken) + 1) if index not in taken)
            assert kind is SlotKind.GPU or launch.slot.index == lowest


@holds_for(ANY)
def test_a_job_gets_the_slot_that_it_needs(scenario: Scenario) -> None:
    settings = scenario.settings
    for step in tell(scenario).steps:
        for launch, state in step.launches():
            node = state.nodes[launch.job_id]
            idle = [d for d in settings.devices if d not in state.devices_in_use()]
            if node.kind is not SlotKind.GPU:
                expected: tuple[int, ...] = ()
            elif node.device is None:
                expected = tuple(idle[: node.device_count])
            elif settings.placement is Placement.PINNED or node.device in idle:
                expected = (node.device,)
            else:
                expected = (idle[0],)
            assert (launch.slot.kind, launch.slot.devices) == (node.kind, expected)


# Order


@holds_for(ANY)
def test_no_job_starts_before_its_dependencies_have_completed(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for launch, state in step.launches():
            assert scenario.depends_on(launch.job_id) <= state.ever_completed


@holds_for(ANY)
def test_no_job_starts_before_it_is_handed_over(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for launch, state in step.launches():
            assert launch.job_id in state.handed


def layers(nodes: tuple[JobNode, ...]) -> list[str]:
    """Kahn's layers, the slow way."""
    order: list[str] = []
    while len(order) < len(nodes):
        layer = [n for n in nodes if n.job_id not in order and set(n.depends_on) <= set(order)]
        order += sorted(node.job_id for node in layer)
    return order


@holds_for(scenarios(modes=(Mode.SEQUENTIAL,), stops=False))
def test_sequential_runs_the_plan_in_topological_order(scenario: Scenario) -> None:
    story = tell(scenario)
    plan = {node.job_id for node in scenario.nodes}
    launched = [job_id for job_id in story.end.launched if job_id in plan]
    assert launched == [job_id for job_id in layers(scenario.nodes) if job_id in launched]


@holds_for(scenarios(modes=(Mode.SEQUENTIAL,)))
def test_sequential_knows_every_outcome_before_the_next_start(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for _, state in step.launches():
            assert not state.open


def path_ns(scenario: Scenario, job_id: str) -> int:
    """The work on the longest path from this job to the end."""
    node = next(node for node in scenario.nodes if node.job_id == job_id)
    below = [
        path_ns(scenario, other.job_id)
        for other in scenario.nodes
        if scenario.asked_for(other.job_id) and job_id in scenario.depends_on(other.job_id)
    ]
    return (node.expected_ns or 0) + max(below, default=0)


def rank(scenario: Scenario, job_id: str) -> tuple[int, int]:
    """The order of hloop mode: longest remaining path first, then plan order."""
    places = [node.job_id for node in scenario.nodes]
    return -path_ns(scenario, job_id), places.index(job_id)


@holds_for(scenarios(modes=(Mode.HLOOP,)))
def test_hloop_starts_the_longest_remaining_path_first(scenario: Scenario) -> None:
    story = tell(scenario)
    places = {node.job_id: place for place, node in enumerate(scenario.nodes)}
    pinned = scenario.settings.placement is Placement.PINNED

    def slot_class(job_id: str) -> tuple[SlotKind, int | None]:
        node = scenario.nodes[places[job_id]]
        return node.kind, node.device if pinned else None

    for step in story.steps:
        left = [job_id for job_id in story.ready(step.after) if job_id in places]
        for launch, _ in step.launches():
            rivals = [
                job_id
                for job_id in left
                if launch.job_id in places and slot_class(job_id) == slot_class(launch.job_id)
            ]
            assert all(rank(scenario, launch.job_id) < rank(scenario, other) for other in rivals)


@holds_for(scenarios(modes=(Mode.HLOOP,)))
def test_hloop_leaves_no_slot_free_that_a_ready_job_could_use(scenario: Scenario) -> None:
    story, limit = tell(scenario), scenario.settings
    for step in story.steps:
        state = step.after
        idle = set(limit.devices) - state.devices_in_use()
        ready = [state.nodes[job_id] for job_id in story.ready(state)]
        # Devices are kept for the first job that needs several, from jobs that came later.
        line = [node for node in ready if node.kind is SlotKind.GPU and node.device is None]
        arrival = {job_id: number for number, job_id in enumerate(state.handed)}
        for node in ready:
            if node.kind is SlotKind.CPU:
                assert state.in_use(SlotKind.CPU) == limit.cpu_workers
            elif node.kind is SlotKind.IO:
                assert state.in_use(SlotKind.IO) == limit.io_workers
            elif node.kind is SlotKind.RULE:
                raise AssertionError("a rule needs no slot")
            elif node.device is None:
                assert len(idle) < line[0].device_count
            else:
                pinned = limit.placement is Placement.PINNED
                rivals = [n for n in ready if n.device is not None]
                if pinned:
                    rivals = [n for n in rivals if n.device == node.device]
                first = min(rivals, key=lambda n: rank(scenario, n.job_id))
                kept = bool(line) and arrival[line[0].job_id] < arrival[first.job_id]
                assert kept or not (node.device in idle if pinned else idle)


@holds_for(scenarios(modes=(Mode.BULK_SYNC,)))
def test_bulk_sync_has_a_barrier_between_waves(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        waves = [each for each in step.instructions if isinstance(each, WaveStarted)]
        launched = tuple(launch.job_id for launch, _ in step.launches())
        assert [wave.job_ids for wave in waves] == ([launched] if launched else [])
        assert not launched or not step.asked.open


def published_waves(scenario: Scenario) -> list[list[str]]:
    """The published bulk-sync executor, as it is described."""
    order, limit = layers(scenario.nodes), scenario.settings
    nodes = {node.job_id: node for node in scenario.nodes}
    done: list[str] = []
    waves: list[list[str]] = []
    while len(done) < len(order):
        wave: list[str] = []
        for job_id in order:
            node = nodes[job_id]
            if job_id in done or not set(node.depends_on) <= set(done):
                continue
            same = [other for other in wave if nodes[other].kind is node.kind]
            if node.kind is SlotKind.CPU:
                fits = len(same) < limit.cpu_workers
            elif node.kind is SlotKind.IO:
                fits = len(same) < limit.io_workers
            elif limit.placement is Placement.ANY:
                fits = len(same) < len(limit.devices)
            else:
                fits = all(nodes[other].device != node.device for other in same)
            if fits:
                wave.append(job_id)
        done += wave
        waves.append(wave)
    return waves


@holds_for(
    scenarios(modes=(Mode.BULK_SYNC,), fates=(GOOD,), others=False, stops=False, all_wanted=True)
)
def test_the_waves_are_the_published_ones_whatever_the_hand_over(scenario: Scenario) -> None:
    assert [list(wave) for wave in tell(scenario).engine.waves] == published_waves(scenario)


# Endings


@holds_for(ANY)
def test_every_job_ends_or_is_skipped(scenario: Scenario) -> None:
    story = tell(scenario)
    end = story.end
    assert story.engine.finished
    assert set(end.nodes) == end.completed | end.failed | end.skipped.keys()


@holds_for(WELL)
def test_without_a_failure_every_job_asked_for_completes(scenario: Scenario) -> None:
    end = tell(scenario).end
    assert end.completed == {job_id for job_id in end.nodes if scenario.asked_for(job_id)} | {
        node.job_id for node in scenario.others
    }


@holds_for(ANY)
def test_a_skipped_job_never_starts(scenario: Scenario) -> None:
    end = tell(scenario).end
    assert not set(end.launched) & end.skipped.keys()


@holds_for(ANY)
def test_every_skipped_job_that_was_handed_over_is_given_back_once(scenario: Scenario) -> None:
    story = tell(scenario)
    skips = [s for step in story.steps for s in step.instructions if isinstance(s, Skip)]
    given_back = [skip.job_id for skip in skips if skip.handed]
    # A job may be withdrawn by the caller after it was skipped: then it has failed.
    assert sorted(given_back) == sorted(
        job_id for job_id in story.end.skipped if job_id in story.end.handed
    )


@holds_for(ANY)
def test_after_a_failure_nothing_starts_unless_it_keeps_going(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        if step.asked.stopped or (step.asked.failed and not scenario.settings.keep_going):
            assert not list(step.launches())


@holds_for(scenarios(stops=False))
def test_keep_going_skips_exactly_what_depends_on_a_failure(scenario: Scenario) -> None:
    story = tell(scenario)
    end = story.end
    if not scenario.settings.keep_going:
        return
    unwanted = {n.job_id for n in scenario.nodes if not scenario.asked_for(n.job_id)}
    below = scenario.below(end.failed) - set(end.launched)
    untouched = {job_id for job_id in below if job_id in end.failed} - end.skipped.keys()
    assert set(end.skipped) - unwanted == below - untouched


@holds_for(ANY)
def test_a_skip_says_why(scenario: Scenario) -> None:
    for step in tell(scenario).steps:
        for skip in step.instructions:
            if isinstance(skip, Skip):
                names = [job_id for job_id in step.after.failed if job_id in skip.reason]
                stopped = step.after.stopped and skip.reason == "the user stopped it"
                unwanted = not scenario.asked_for(skip.job_id) and skip.reason == "not asked for"
                assert names or stopped or unwanted


# The engine as a whole


@holds_for(ANY)
def test_the_same_events_give_the_same_instructions(scenario: Scenario) -> None:
    story = tell(scenario)
    engine = Engine(scenario.settings, scenario.nodes, scenario.wanted)
    again = [engine.handle(*step.events) for step in story.steps]
    assert again == [step.instructions for step in story.steps]


@holds_for(ANY)
def test_every_job_that_has_not_started_has_a_reason(scenario: Scenario) -> None:
    rng = random.Random(scenario.seed)
    story = tell(scenario)
    engine = Engine(scenario.settings, scenario.nodes, scenario.wanted)
    for step in story.steps[: rng.randrange(len(story.steps)) + 1]:
        engine.handle(*step.events)
    reasons = engine.reasons()
    assert reasons.keys() == step.after.nodes.keys() - set(step.after.launched)
    assert all(reasons.values())


@pytest.mark.parametrize("mode", Mode)
def test_the_scenarios_reach_every_kind_of_ending(mode: Mode) -> None:
    """The properties above mean little if the random scenarios are all alike."""
    seen: set[str] = set()

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(scenarios(modes=(mode,)))
    def look(scenario: Scenario) -> None:
        end = tell(scenario).end
        seen.update(scenario.fates[job_id] for job_id in end.failed)
        seen.update("completed" for _ in end.completed)
        seen.update("skipped" for _ in end.skipped)
        seen.update("several devices" for n in scenario.others if n.device_count > 1)

    look()
    assert seen >= {BAD, BAD_INPUTS, WITHDRAWN, REJECTED, "completed", "skipped"}
    assert "several devices" in seen
