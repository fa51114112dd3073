"""Devices that other runs hold, or that are lost: what holds for every mode and every order.

``play`` does to an engine what a supervisor with leases does: all devices are withheld, what
the engine wants is granted as far as no other run holds it, and what it leaves unused is
withheld again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hloop.schedule.engine import Engine
from hloop.schedule.events import (
    DeviceGranted,
    DeviceLost,
    DeviceWithheld,
    EngineSettings,
    Event,
    Instruction,
    JobAdded,
    JobEnded,
    JobNode,
    JobReady,
    Launch,
    Mode,
    Placement,
    Skip,
    SlotKind,
    Unplaceable,
    WaveStarted,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@dataclass(frozen=True)
class Scenario:
    settings: EngineSettings
    nodes: tuple[JobNode, ...]
    others: tuple[JobNode, ...]
    losses: int
    seed: int


@dataclass
class World:
    """A run, and other runs that hold devices; what the tests look at is written down."""

    scenario: Scenario
    engine: Engine
    granted: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    running: dict[str, tuple[int, ...]] = field(default_factory=dict)
    handed: list[str] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    launches: list[tuple[Launch, frozenset[int], frozenset[int]]] = field(default_factory=list)
    waves: int = 0

    @property
    def used(self) -> set[int]:
        return {device for devices in self.running.values() for device in devices}

    def node(self, job_id: str) -> JobNode:
        nodes = (*self.scenario.nodes, *self.scenario.others)
        return next(node for node in nodes if node.job_id == job_id)

    def waiting(self) -> list[JobNode]:
        """Handed over, not started, and not given up."""
        done = {*self.running, *self.completed, *self.failed, *self.skipped}
        return [self.node(name) for name in self.handed if name not in done]

    def tell(self, *events: Event) -> list[Instruction]:
        said = self.engine.handle(*events)
        self.engine.check()
        ended: list[Event] = []
        for instruction in said:
            match instruction:
                case Launch(job_id, slot):
                    grants, lost = frozenset(self.granted), frozenset(self.lost)
                    self.launches.append((instruction, grants, lost))
                    self.running[job_id] = slot.devices
                case WaveStarted():
                    self.waves += 1
                case Skip(job_id):
                    self.skipped.add(job_id)
                case Unplaceable(job_id):
                    self.refused.append(job_id)
                    self.failed.add(job_id)
                    ended.append(JobEnded(job_id, completed=False))
        return said + (self.tell(*ended) if ended else [])

    def settle(self) -> None:
        """Grant what is wanted and can be had, and take back what was not used."""
        while True:
            idle = self.granted - self.used
            self.granted -= idle
            if idle:
                self.tell(*map(DeviceWithheld, sorted(idle)))
            found: list[int] = []
            for want in self.engine.wants():
                free = [
                    device
                    for device in want.devices
                    if device not in self.held and device not in found
                ]
                if len(free) >= want.least:
                    found += free[: want.most]
            if not found:
                return
            before = len(self.launches)
            self.granted |= set(found)
            self.tell(*map(DeviceGranted, found))
            assert len(self.launches) > before, "what was granted is used"

    def end(self, job_id: str) -> None:
        devices = self.running.pop(job_id)
        self.completed.add(job_id)
        self.granted -= set(devices)
        self.tell(JobEnded(job_id, completed=True), *map(DeviceWithheld, devices))

    def lose(self, device: int) -> None:
        self.lost.add(device)
        self.tell(DeviceLost(device, "GPU is lost"))


def begin(scenario: Scenario) -> World:
    world = World(scenario, Engine(scenario.settings, scenario.nodes))
    world.tell(*map(DeviceWithheld, scenario.settings.devices))
    world.engine.start()
    return world


def play(scenario: Scenario, look: Callable[[World], None] = lambda world: None) -> World:
    """Play a scenario to its end; ``look`` sees the world whenever it has settled."""
    rng, world = random.Random(scenario.seed), begin(scenario)
    devices, losses = scenario.settings.devices, scenario.losses
    while True:
        steps: list[Callable[[], object]] = []
        for node in scenario.nodes:
            open_ = node.job_id not in {*world.handed, *world.skipped}
            if open_ and set(node.depends_on) <= world.completed:
                steps.append(lambda node=node: hand_over(world, node))
        for node in scenario.others:
            if node.job_id not in world.handed:
                steps.append(lambda node=node: hand_over(world, node))
        steps += [lambda name=name: world.end(name) for name in world.running]
        if not steps and not world.held:
            return world
        for device in set(devices) - world.used - world.held:
            if steps:
                steps.append(lambda device=device: world.held.add(device))
        steps += [lambda device=device: world.held.discard(device) for device in world.held] * 2
        if losses and rng.random() < 0.2:
            losses -= 1
            world.lose(rng.choice(devices))
        else:
            rng.choice(steps)()
        world.settle()
        look(world)


def hand_over(world: World, node: JobNode) -> None:
    world.handed.append(node.job_id)
    planned = node in world.scenario.nodes
    world.tell(JobReady(node.job_id) if planned else JobAdded(node))


@st.composite
def scenarios(
    draw: st.DrawFn,
    modes: tuple[Mode, ...] = tuple(Mode),
    losses: int = 2,
    others: bool = True,
) -> Scenario:
    devices = tuple(draw(st.sampled_from([[0], [0, 1], [0, 1, 2], [2, 5]])))
    nodes: list[JobNode] = []
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from([SlotKind.CPU, SlotKind.GPU, SlotKind.GPU, SlotKind.GPU]))
        above = draw(st.lists(st.sampled_from(nodes), max_size=2)) if nodes else []
        pin = draw(st.sampled_from(devices)) if kind is SlotKind.GPU else None
        depends_on = tuple(node.job_id for node in above)
        nodes.append(JobNode(f"j{number}", kind, depends_on, pin, int(pin is not None)))
    more = draw(st.lists(st.integers(0, len(devices)), max_size=5 if others else 0))
    other_nodes = tuple(
        JobNode(f"x{number}", SlotKind.GPU if need else SlotKind.RULE, device_count=need)
        for number, need in enumerate(more)
    )
    return Scenario(
        EngineSettings(
            mode=draw(st.sampled_from(modes)),
            devices=devices,
            cpu_workers=draw(st.integers(1, 3)),
            placement=draw(st.sampled_from(Placement)),
            keep_going=True,
        ),
        tuple(draw(st.permutations(nodes))),
        other_nodes,
        draw(st.integers(0, losses)),
        draw(st.integers(0, 2**32)),
    )


def holds_for(
    strategy: st.SearchStrategy[Scenario],
) -> Callable[[Callable[[Scenario], None]], Callable[[], None]]:
    """Test many scenarios, each with several orders of events."""

    def decorate(test: Callable[[Scenario], None]) -> Callable[[], None]:
        @settings(max_examples=40, deadline=None)
        @given(strategy)
        def run(scenario: Scenario) -> None:
            for turn in range(5):
                test(replace(scenario, seed=scenario.seed + turn))

        run.__name__ = test.__name__
        return run

    return decorate


@holds_for(scenarios())
def test_no_job_starts_on_a_device_that_was_not_granted_or_is_lost(scenario: Scenario) -> None:
    for launch, granted, lost in play(scenario).launches:
        assert set(launch.slot.devices) <= granted - lost


@holds_for(scenarios(losses=0))
def test_every_job_runs_in_the_end_when_the_other_runs_do(scenario: Scenario) -> None:
    world = play(scenario)
    everyone = {node.job_id for node in (*scenario.nodes, *scenario.others)}
    assert world.completed == everyone and world.engine.finished


@holds_for(scenarios())
def test_a_job_is_refused_exactly_if_what_it_needs_is_lost(scenario: Scenario) -> None:
    world = play(scenario)
    left = len(scenario.settings.devices) - len(world.lost)
    pinned = scenario.settings.placement is Placement.PINNED
    for name in world.refused:
        node = world.node(name)
        if pinned and node.device is not None:
            assert node.device in world.lost
        else:
            assert node.device_count > left
    assert len(set(world.refused)) == len(world.refused)
    assert world.completed | world.failed | world.skipped == {
        node.job_id for node in (*scenario.nodes, *scenario.others)
    }


@holds_for(scenarios(modes=(Mode.HLOOP,)))
def test_hloop_leaves_no_device_free_that_no_other_run_holds(scenario: Scenario) -> None:
    shared = scenario.settings.placement is Placement.ANY

    def look(world: World) -> None:
        free = set(scenario.settings.devices) - world.used - world.held - world.lost
        waiting = [node for node in world.waiting() if node.kind is SlotKind.GPU]
        line = [node for node in waiting if node.device is None]
        for node in waiting:
            before = [n for n in line if world.handed.index(n.job_id) < place(world, node)]
            if node.device is None:
                assert before or len(free) < node.device_count
            elif shared:
                assert kept(world, line, waiting, None) or not free
            else:
                assert kept(world, line, waiting, node.device) or node.device not in free

    def place(world: World, node: JobNode) -> int:
        return world.handed.index(node.job_id)

    def kept(
        world: World, line: list[JobNode], waiting: list[JobNode], device: int | None
    ) -> bool:
        """Whether the device is kept for the first in line, from all jobs that came later."""
        rivals = [n for n in waiting if n.device is not None and device in (None, n.device)]
        order = [node.job_id for node in scenario.nodes]
        first = min(rivals, key=lambda n: order.index(n.job_id))  # No durations are known.
        return bool(line) and place(world, line[0]) < place(world, first)

    play(scenario, look)


@holds_for(scenarios(modes=(Mode.SEQUENTIAL,)))
def test_sequential_runs_one_job_at_a_time(scenario: Scenario) -> None:
    def look(world: World) -> None:
        assert len(world.running) <= 1

    play(scenario, look)


@holds_for(scenarios(modes=(Mode.BULK_SYNC,), others=False, losses=0))
def test_the_waves_are_the_same_whoever_holds_the_devices(scenario: Scenario) -> None:
    alone = begin(scenario)
    while True:
        for node in scenario.nodes:
            if node.job_id not in alone.handed and set(node.depends_on) <= alone.completed:
                hand_over(alone, node)
        alone.settle()
        if not alone.running:
            break
        for name in list(alone.running):
            alone.end(name)
    assert play(scenario).engine.waves == alone.engine.waves


# By hand


def gpu(job_id: str, device: int, *depends_on: str) -> JobNode:
    return JobNode(job_id, SlotKind.GPU, depends_on, device, 1)


def engine(*nodes: JobNode, held: tuple[int, ...] = (0, 1), **fields: object) -> Engine:
    made = Engine(EngineSettings(devices=(0, 1), **fields), nodes)  # type: ignore[arg-type]
    made.handle(*map(DeviceWithheld, held))
    return made


def started(instructions: list[Instruction]) -> list[str]:
    return [each.job_id for each in instructions if isinstance(each, Launch)]


def test_a_job_waits_for_a_device_that_is_withheld() -> None:
    run = engine(gpu("a", 0), gpu("b", 1), held=(0,))
    assert started(run.handle(JobReady("a"), JobReady("b"))) == ["b"]


def test_it_starts_when_the_device_is_granted() -> None:
    run = engine(gpu("a", 0))
    run.handle(JobReady("a"))
    assert started(run.handle(DeviceGranted(0))) == ["a"]


def test_with_placement_any_it_takes_another() -> None:
    run = engine(gpu("a", 0), held=(0,), placement=Placement.ANY)
    (launch,) = run.handle(JobReady("a"))
    assert isinstance(launch, Launch) and launch.slot.devices == (1,)


def test_with_placement_any_its_own_device_is_wanted_first() -> None:
    run = engine(gpu("a", 1), placement=Placement.ANY)
    run.handle(JobReady("a"))
    assert [want.devices for want in run.wants()] == [(1, 0)]


def test_nothing_is_wanted_before_there_is_a_job_for_it() -> None:
    assert engine(gpu("a", 0)).wants() == []


def test_a_device_in_use_may_be_withheld_for_what_comes_after() -> None:
    run = engine(gpu("a", 0), gpu("b", 0), held=())
    run.handle(JobReady("a"), JobReady("b"))
    run.handle(DeviceWithheld(0))
    assert started(run.handle(JobEnded("a", completed=True))) == []


def test_a_wave_wants_all_its_devices_together() -> None:
    run = engine(gpu("a", 0), gpu("b", 1), mode=Mode.BULK_SYNC)
    run.handle(JobReady("a"), JobReady("b"))
    (want,) = run.wants()
    assert (want.devices, want.least, want.most) == ((0, 1), 2, 2)


def test_a_job_says_that_its_device_is_held() -> None:
    run = engine(gpu("a", 0))
    run.handle(JobReady("a"))
    assert run.why_not("a") == "what it needs is held by another run, or lost"


def test_a_lost_device_refuses_the_jobs_that_are_pinned_to_it() -> None:
    run = engine(gpu("a", 0), gpu("b", 1), held=())
    run.handle(DeviceLost(0, "GPU is lost"))
    said = run.handle(JobReady("a"), JobReady("b"))
    assert Unplaceable("a", "device 0 is lost: GPU is lost") in said
    assert started(said) == ["b"]


def test_the_job_that_runs_on_a_lost_device_is_left_alone() -> None:
    run = engine(gpu("a", 0), held=())
    run.handle(JobReady("a"))
    assert run.handle(DeviceLost(0, "GPU is lost")) == []


def test_with_placement_any_a_job_is_refused_when_no_device_is_left() -> None:
    run = engine(gpu("a", 0), placement=Placement.ANY)
    assert run.handle(JobReady("a"), DeviceLost(0, "GPU is lost")) == []
    (said,) = run.handle(DeviceLost(1, "Not Found"))
    assert said == Unplaceable("a", "device 1 is lost: Not Found; none is left")


def test_a_rule_that_needs_more_devices_than_are_left_is_refused() -> None:
    run = engine(held=())
    run.handle(DeviceLost(1, "GPU is lost"))
    (said,) = run.handle(JobAdded(JobNode("x", SlotKind.GPU, device_count=2)))
    reason = "device 1 is lost: GPU is lost; 1 of the 2 that it needs are left"
    assert said == Unplaceable("x", reason)


def test_a_device_that_does_not_exist_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no device 7"):
        engine().handle(DeviceWithheld(7))
