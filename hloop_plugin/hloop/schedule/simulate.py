"""A run of the engine with a virtual clock: when would each job start and end?

It drives the same engine that drives a real run, with durations in place of processes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from statistics import NormalDist

from hloop.schedule.engine import Engine
from hloop.schedule.events import (
    EngineSettings,
    Event,
    Instruction,
    JobEnded,
    JobNode,
    JobReady,
    Launch,
    Slot,
)
from hloop.schedule.graph import dependants_of


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a run would look like. Times are nanoseconds since its start.

    Attributes:
        makespan_ns: the end of the last job.
        starts: job id to its start, in the order in which the jobs start.
        ends: job id to its end, in the order in which they end.
        slots: job id to the slot it has.
        waves: the jobs of each wave; bulk-sync only.
    """

    makespan_ns: int
    starts: Mapping[str, int]
    ends: Mapping[str, int]
    slots: Mapping[str, Slot]
    waves: tuple[tuple[str, ...], ...]


def simulate(
    settings: EngineSettings,
    nodes: Sequence[JobNode],
    durations_ns: Mapping[str, int],
    *,
    handover_ns: int = 0,
) -> Simulation:
    """Run a plan in no time. Every job completes.

    Args:
        settings: as for a real run.
        nodes: the plan's jobs, in plan order.
        durations_ns: how long each job takes.
        handover_ns: how long after a job's end Snakemake hands over what depends on it.

    Raises:
        ValueError: a plan or settings that the engine refuses, or a job without a duration.
    """
    if missing := [node.job_id for node in nodes if node.job_id not in durations_ns]:
        raise ValueError(f"no duration is known for {missing[0]}")
    engine = Engine(settings, nodes)
    dependants = dependants_of({node.job_id: node.depends_on for node in nodes})
    unmet = {node.job_id: len(set(node.depends_on)) for node in nodes}
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    slots: dict[str, Slot] = {}
    # Events at one time keep the order in which they were made.
    agenda: list[tuple[int, int, Event]] = []
    made = 0

    def plan_event(when_ns: int, event: Event) -> None:
        nonlocal made
        heappush(agenda, (when_ns, made, event))
        made += 1

    def carry_out(instructions: list[Instruction], now_ns: int) -> None:
        for instruction in instructions:
            if isinstance(instruction, Launch):
                job_id = instruction.job_id
                starts[job_id], slots[job_id] = now_ns, instruction.slot
                plan_event(now_ns + durations_ns[job_id], JobEnded(job_id, completed=True))

    carry_out(engine.start(), 0)
    for job_id, count in unmet.items():
        if not count:
            plan_event(0, JobReady(job_id))
    while agenda:
        now_ns = agenda[0][0]
        events: list[Event] = []
        while agenda and agenda[0][0] == now_ns:
            events.append(heappop(agenda)[2])
        carry_out(engine.handle(*events), now_ns)
        for event in events:
            if isinstance(event, JobEnded):
                ends[event.job_id] = now_ns
                for dependant in dependants[event.job_id]:
                    unmet[dependant] -= 1
                    if not unmet[dependant]:
                        plan_event(now_ns + handover_ns, JobReady(dependant))
    assert engine.finished, "the engine left jobs waiting for ever"
    return Simulation(max(ends.values(), default=0), starts, ends, slots, engine.waves)


def jittered(durations_ns: Mapping[str, int], spread: float, seed: int) -> dict[str, int]:
    """Multiply each duration by exp(spread * z), z drawn from a standard normal distribution.

    The median of a duration stays what it is. The same seed and the same jobs in the same order
    give the same noise.
    """
    draw = random.Random(seed).random
    normal = NormalDist().inv_cdf
    # random() may give 0, which has no quantile.
    return {
        job_id: round(duration * math.exp(spread * normal(draw() or 0.5)))
        for job_id, duration in durations_ns.items()
    }
