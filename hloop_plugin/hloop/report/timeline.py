"""What a drawn timeline shows: lanes, bars, gaps, waves and the critical path, as plain data.

It is made of reports, and goes into a page as JSON; :mod:`hloop.report.charts` makes a picture
for a paper of the same. All texts are as they came: whoever shows them escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hloop.report.happened import Ran, Step, critical_path, gaps, layers, steps_of

MAX_STAGES = 8
_WORD = re.compile(r"[^\W\d_]+")
_TRAILING = re.compile(r"[\W\d_]+$")
_SLOT_ORDER = {"device": 0, "cpu": 1, "io": 2}

Jobs = Sequence[Mapping[str, Any]]
"""Jobs as a run report or a simulation has them."""


def band(
    title: str,
    jobs: Jobs,
    depends_on: Mapping[str, Sequence[str]],
    stages: Mapping[str, str],
    *,
    mode: str,
    waves: Sequence[Sequence[str]] = (),
    idle_seconds: Mapping[str, float] | None = None,
    end_seconds: float | None = None,
    held_ns: Mapping[str, int] | None = None,
    sessions_ns: Sequence[int] = (),
) -> dict[str, Any]:
    """Give one run's band of a timeline; times are seconds since the run started.

    Args:
        depends_on: ids by job id; may lack jobs.
        stages: the stage of each job, as :func:`stages_of` gives it.
        idle_seconds: the slots that the run had, so that those that nobody used are seen.
        end_seconds: when the run ended; a job whose end is not known is drawn up to there.
        held_ns, sessions_ns: as :func:`hloop.report.happened.steps_of` takes them.
    """
    place = {job["job_id"]: index for index, job in enumerate(jobs)}
    wave_of = {name: index for index, wave in enumerate(waves) for name in wave}
    last_ns = max((job.get("end_offset_ns") or 0 for job in jobs), default=0)
    if end_seconds is not None:
        last_ns = max(last_ns, round(end_seconds * 1e9))
    ran = [
        Ran(
            job["job_id"],
            job.get("slot"),
            job["start_offset_ns"],
            last_ns if job.get("end_offset_ns") is None else job["end_offset_ns"],
            tuple(depends_on.get(job["job_id"], ())),
            wave_of.get(job["job_id"]),
        )
        for job in jobs
        if job.get("start_offset_ns") is not None
    ]
    first_ns = min((job.start_ns for job in ran), default=0)
    end_ns = max((job.end_ns for job in ran), default=0)
    lanes = _lane_names(ran, idle_seconds or {})
    # Jobs that held no slot, as under another executor, are drawn below each other.
    rows, shared = _shared_rows([job for job in ran if job.slot not in lanes])
    number = {name: index for index, name in enumerate(lanes)}
    lane_of = {job.job_id: number[job.slot] for job in ran if job.slot in number}
    lane_of |= {name: len(lanes) + row for name, row in shared.items()}
    steps = steps_of(
        ran, one_at_a_time=mode == "sequential", held_ns=held_ns, sessions_ns=sessions_ns
    )
    in_lane: dict[int, list[Ran]] = {}
    for entry in ran:
        in_lane.setdefault(lane_of[entry.job_id], []).append(entry)
    return {
        "title": title,
        "end": max(end_ns, last_ns) / 1e9,
        "lanes": [
            _lane(name, in_lane.get(index, ()), (first_ns, end_ns), steps, place)
            for index, name in enumerate(lanes)
        ]
        + [
            {"name": f"row {row}", "gaps": [], "idle": None, "length": None, "share": None}
            for row in range(rows)
        ],
        "waves": _wave_starts(ran),
        "sessions": [at / 1e9 for at in sessions_ns],
        "jobs": [_bar(job, stages, lane_of, depends_on, place, last_ns) for job in jobs],
        "path": [_step(step, place) for step in critical_path(ran, steps)],
    }


def _step(step: Step, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "job": place[step.job_id],
        "cause": step.cause.value,
        "before": None if step.before is None else place[step.before],
        "gap": step.gap_ns / 1e9,
    }


def _bar(
    job: Mapping[str, Any],
    stages: Mapping[str, str],
    lane_of: Mapping[str, int],
    depends_on: Mapping[str, Sequence[str]],
    place: Mapping[str, int],
    last_ns: int,
) -> dict[str, Any]:
    start, end = job.get("start_offset_ns"), job.get("end_offset_ns")
    name = job["job_id"]
    return {
        "id": name,
        "stage": stages.get(name, ""),
        "candidate": job.get("candidate_id"),
        "class": job.get("resource"),
        "status": job.get("status", "completed"),
        "lane": lane_of.get(name),
        "start": None if start is None else start / 1e9,
        "end": None if start is None else (last_ns if end is None else end) / 1e9,
        "needs": [place[other] for other in depends_on.get(name, ()) if other in place],
    }


def _lane(
    name: str,
    held: Sequence[Ran],
    whole_ns: tuple[int, int],
    steps: Mapping[str, Step],
    place: Mapping[str, int],
) -> dict[str, Any]:
    """Give a lane; with each gap goes the step of the job that ended it, if one did."""
    free = gaps([(job.start_ns, job.end_ns) for job in held], *whole_ns)
    next_at = {job.start_ns: job.job_id for job in held}
    idle_ns = sum(end - start for start, end in free)
    length_ns = whole_ns[1] - whole_ns[0]
    return {
        "name": name,
        "gaps": [
            [
                start / 1e9,
                end / 1e9,
                _step(steps[next_at[end]], place) if end in next_at else None,
            ]
            for start, end in free
        ],
        "idle": idle_ns / 1e9,
        "length": length_ns / 1e9,
        "share": idle_ns / length_ns if length_ns else None,
    }


def _lane_names(ran: Iterable[Ran], idle_seconds: Mapping[str, float]) -> list[str]:
    """Give the devices of the run, and the workers that had a job, in their order."""
    used = {job.slot for job in ran if job.slot is not None}
    used |= {name for name in idle_seconds if name.startswith("device")}
    return sorted(used, key=_slot_key)


def _slot_key(name: str) -> tuple[int, str, int]:
    kind, _, index = name.partition(" ")
    return (_SLOT_ORDER.get(kind, 3), kind, int(index) if index.isdecimal() else 0)


def _shared_rows(ran: Sequence[Ran]) -> tuple[int, dict[str, int]]:
    """Deal jobs that held no slot into rows in which none overlap."""
    ends: list[int] = []
    rows = {}
    for job in sorted(ran, key=lambda entry: entry.start_ns):
        row = next((index for index, end in enumerate(ends) if end <= job.start_ns), len(ends))
        if row == len(ends):
            ends.append(0)
        ends[row] = job.end_ns
        rows[job.job_id] = row
    return len(ends), rows


def _wave_starts(ran: Iterable[Ran]) -> list[dict[str, float]]:
    """Give for each wave when its first job started and its last one ended."""
    waves: dict[int, tuple[int, int]] = {}
    for job in ran:
        if job.wave is not None:
            start, end = waves.get(job.wave, (job.start_ns, job.end_ns))
            waves[job.wave] = (min(start, job.start_ns), max(end, job.end_ns))
    return [
        {"number": number + 1, "start": start / 1e9, "end": end / 1e9}
        for number, (start, end) in sorted(waves.items())
    ]


def stages_of(jobs: Jobs, depends_on: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Sort jobs into few stages by what they are: a plan does not say which there are.

    Jobs of one class that stand equally far from the start and whose names begin with the same
    word are of one stage. Where that makes too many, the word does not count, and then not
    the place either. A stage is called by what its jobs' names have in common.
    """
    depth = layers({job["job_id"]: depends_on.get(job["job_id"], ()) for job in jobs})
    groups: dict[Any, list[str]] = {}
    for keys in range(3, 0, -1):
        groups = {}
        for job in jobs:
            name = job["job_id"]
            word = match[0] if (match := _WORD.match(name)) else ""
            key = (job.get("resource"), depth[name], word)[:keys]
            groups.setdefault(key, []).append(name)
        if len(groups) <= MAX_STAGES:
            break
    labels: dict[Any, str] = {}
    for key, names in groups.items():
        label = _common(names) or f"{key[0]} jobs"
        labels[key] = f"{label} ({len(labels) + 1})" if label in labels.values() else label
    return {name: labels[key] for key, names in groups.items() for name in names}


def _common(names: Sequence[str]) -> str:
    """Give what the names begin with, if it is a word."""
    if len(names) == 1:
        return names[0]
    low, high = min(names), max(names)
    length = next((i for i, char in enumerate(low) if char != high[i : i + 1]), len(low))
    prefix = low[:length]
    if length < max(len(low), len(high)) and "_" in prefix:
        # Half a word says nothing: rollout_st of rollout_stand and rollout_step.
        prefix = prefix[: prefix.rindex("_")]
    prefix = _TRAILING.sub("", prefix)
    return prefix if len(prefix) > 2 else ""
