"""What runs of a plan would be like: makespan, idle time and bound per mode and number of devices.

The engine that drives real runs decides, with a clock that is not real. It reads and writes
nothing; :mod:`hloop.report.durations` finds the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from hloop.errors import DeviceError, PlanError, Problem, first_of
from hloop.plan import identity
from hloop.plan.model import Plan
from hloop.report import statistics
from hloop.report.durations import Durations, read_durations
from hloop.run.measures import Span, scheduling
from hloop.schedule.events import EngineSettings, Mode, Placement
from hloop.schedule.nodes import plan_nodes
from hloop.schedule.simulate import Simulation, jittered, simulate

SIMULATION_SCHEMA = "hloop.simulation.v1"
SIMULATION_NAME = "simulation.json"
MAX_NAMED = 20


class Pins(StrEnum):
    """What becomes of the plan's device pins."""

    PINNED = "pinned"
    """They hold: there must be as many devices as the plan pins."""
    ANY = "any"
    """They are preferences, as with ``hloop run --placement any``."""
    MODULO = "modulo"
    """They are dealt anew: the gpu job number k of the plan, from 0, gets device k mod N, as
    configurations are dealt out when a plan is made of them."""


class Order(StrEnum):
    """By what the longest way to the end is found: the ready job that has it starts first."""

    TIMES = "times"
    """By the times that are simulated, as with ``hloop run --durations``."""
    PLAN = "plan"
    """By what the plan expects, as in a run without."""


@dataclass(frozen=True)
class Question:
    """What is to be simulated: every mode on every number of devices.

    Attributes:
        devices: numbers of devices; empty for as many as the plan pins.
        cpu_workers, io_workers: in place of the plan's limits; None keeps those.
        default_seconds: what a job takes of which no time is known; None refuses such jobs.
        jitter: spread of the noise on each duration; 0 for none. A duration is multiplied by
            exp(jitter * z), z from a standard normal distribution, so that its median stays.
        seed: of the noise.
        samples: how many simulations there are with noise.
    """

    modes: tuple[Mode, ...] = tuple(Mode)
    devices: tuple[int, ...] = ()
    pins: Pins = Pins.PINNED
    order: Order = Order.TIMES
    cpu_workers: int | None = None
    io_workers: int | None = None
    default_seconds: float | None = None
    jitter: float = 0.0
    seed: int = 0
    samples: int = 20


def simulation(
    plan: Plan, durations: Durations, question: Question, *, timeline: bool = True
) -> dict[str, Any]:
    """Give the simulation document, ``hloop.simulation.v1``.

    Args:
        timeline: give every job's place in time too; without it the document stays small.

    Raises:
        PlanError: a job has no time, or the plan is one that the engine refuses.
        DeviceError: the plan pins more devices than there are to be.
    """
    durations_ns, counts = _complete(plan, durations, question.default_seconds)
    pinned = 1 + max((job.device for job in plan.jobs if job.device is not None), default=-1)
    predictions = [
        _prediction(plan, durations, durations_ns, question, mode, count, timeline=timeline)
        for count in _checked_counts(question, pinned)
        for mode in question.modes
    ]
    return {
        "schema_version": SIMULATION_SCHEMA,
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "order": question.order.value,
        "durations": {
            "source": durations.source,
            "path": None if durations.path is None else str(durations.path),
            "runs": durations.runs,
            "handover_seconds": durations.handover_ns / 1e9,
            "default_seconds": question.default_seconds,
            **counts,
        },
        "jitter": {
            "spread": question.jitter,
            "seed": question.seed,
            "samples": question.samples,
        }
        if question.jitter
        else None,
        "predictions": predictions,
    }


def _complete(
    plan: Plan, durations: Durations, default_seconds: float | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Give a time for every job, and how many of them are the plan's or the default, and how
    many times are of no job."""
    times = dict(durations.seconds_ns)
    expected = {
        job_id: value
        for job_id, value in read_durations(plan, None).seconds_ns.items()
        if job_id not in times
    }
    times |= expected
    missing = [job.job_id for job in plan.jobs if job.job_id not in times]
    if missing and default_seconds is None:
        raise PlanError(
            Problem(
                "duration_missing",
                "",
                f"no time is known for {first_of(missing, MAX_NAMED)}",
                "a time for every job",
                "Give them a budget.expected_seconds, name a former run with --durations, or "
                "say --default-seconds",
            )
        )
    times |= dict.fromkeys(missing, round((default_seconds or 0.0) * 1e9))
    counts = {
        "jobs_by_plan": len(expected),
        "jobs_by_default": len(missing),
        "times_unused": len(times) - len(plan.jobs),
    }
    # In the order of the plan, so that noise falls on the same jobs wherever times come from.
    return {job.job_id: times[job.job_id] for job in plan.jobs}, counts


def _checked_counts(question: Question, pinned: int) -> tuple[int, ...]:
    for count in question.devices:
        if question.pins is Pins.PINNED and count < pinned or pinned and not count:
            found = f"the plan pins {pinned}, and there are to be {count}"
            action = (
                "Say --placement any (pins are preferences) or --placement modulo (they are dealt "
                "anew)"
                if count
                else "Its gpu jobs need at least one"
            )
            raise DeviceError(Problem("too_few_devices", "--devices", found, action=action))
    return question.devices or (pinned,)


def _prediction(
    plan: Plan,
    durations: Durations,
    durations_ns: Mapping[str, int],
    question: Question,
    mode: Mode,
    count: int,
    *,
    timeline: bool,
) -> dict[str, Any]:
    if question.pins is Pins.MODULO and count:
        plan = dealt(plan, count)
    settings = EngineSettings(
        mode=mode,
        devices=tuple(range(count)),
        cpu_workers=question.cpu_workers or plan.max_cpu_workers,
        io_workers=question.io_workers or plan.max_io_workers,
        placement=Placement.ANY if question.pins is Pins.ANY else Placement.PINNED,
    )
    nodes = plan_nodes(plan, durations_ns if question.order is Order.TIMES else None)

    def run(times_ns: Mapping[str, int]) -> Simulation:
        return simulate(settings, nodes, times_ns, handover_ns=durations.handover_ns)

    try:
        result = run(durations_ns)
    except ValueError as error:
        problem = Problem("not_possible", "", str(error), action="hloop plan says more")
        raise PlanError(problem) from None
    spans = [
        Span(job_id, result.slots[job_id].name, start_ns, result.ends[job_id])
        for job_id, start_ns in result.starts.items()
    ]
    measures = scheduling(plan, settings, spans, {})
    del measures["ready_to_start_seconds"]
    prediction = {
        "mode": mode.value,
        "devices": count,
        **measures,
        # What a pin meant to the simulation; the engine knows pinned and any only.
        "placement": question.pins.value,
        "waves": [list(wave) for wave in result.waves],
        "makespan_with_jitter": None,
    }
    if question.jitter:
        seeds = range(question.seed, question.seed + question.samples)
        noisy = [run(jittered(durations_ns, question.jitter, seed)) for seed in seeds]
        prediction["makespan_with_jitter"] = _spread([one.makespan_ns / 1e9 for one in noisy])
    if timeline:
        prediction["jobs"] = list(_timeline(plan, result))
    return prediction


def dealt(plan: Plan, count: int) -> Plan:
    """Pin the gpu jobs anew: number k of the plan's, from 0, to device k mod ``count``."""
    jobs, number = [], 0
    for job in plan.jobs:
        if job.device is not None:
            job = replace(job, cuda_visible_devices=str(number % count))
            number += 1
        jobs.append(job)
    return replace(plan, jobs=tuple(jobs))


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    sample = statistics.summarize(seconds)
    interval = sample.interval and [sample.interval.low, sample.interval.high]
    return {**asdict(sample), "interval": interval}


def _timeline(plan: Plan, result: Simulation) -> Iterator[dict[str, Any]]:
    """Give every job in the order of the starts, with the names that a run report has."""
    jobs = plan.by_id()
    for job_id, start_ns in result.starts.items():
        job, slot = jobs[job_id], result.slots[job_id]
        yield {
            "job_id": job_id,
            "candidate_id": job.candidate_id,
            "resource": job.resource.value,
            "depends_on": list(job.depends_on),
            "slot": slot.name,
            "start_offset_ns": start_ns,
            "end_offset_ns": result.ends[job_id],
        }
