"""What a run's times tell: which chain of jobs made it as long as it was, and where slots idled.

Pure arithmetic over a report's jobs, in nanoseconds since the run started. It reads no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Ran:
    """One job that started, as a report has it.

    Attributes:
        slot: the name of its slot; None where it held none.
        depends_on: ids; of those that did not run, nothing follows.
        wave: the index of its wave, in bulk-sync.
    """

    job_id: str
    slot: str | None
    start_ns: int
    end_ns: int
    depends_on: tuple[str, ...] = ()
    wave: int | None = None


class Cause(StrEnum):
    """What a job waited for last before it started."""

    START = "start"
    """Nothing: it was among the first."""
    DEPENDENCY = "dependency"
    """A job that it depends on."""
    SLOT = "slot"
    """The job that had its slot before."""
    BARRIER = "barrier"
    """The last job of the wave before."""
    TURN = "turn"
    """The job before it, in a mode that runs one at a time."""
    LEASE = "lease"
    """The lease of its device, which it did not get at once."""
    SESSION = "session"
    """The run itself, which had stopped and was resumed."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a job waited for before it started.

    Attributes:
        before: the job that ended last of those it had to wait for; None where there was none.
        gap_ns: from that job's end, or the run's start, to this job's start.
    """

    job_id: str
    cause: Cause
    before: str | None
    gap_ns: int


def steps_of(
    jobs: Sequence[Ran],
    *,
    one_at_a_time: bool = False,
    held_ns: Mapping[str, int] | None = None,
    sessions_ns: Sequence[int] = (),
) -> dict[str, Step]:
    """Give for each job what it waited for last, by job id.

    That is what ended last of all that it had to wait for: what it depends on, the job before it
    in its slot, in bulk-sync the wave before, and one at a time simply the job before; or, after
    all these, another run's lease or a new session of this run.

    Args:
        held_ns: jobs that did not get the lease of their device at once, and when that was seen.
        sessions_ns: when the run was resumed.
    """
    by_id = {job.job_id: job for job in jobs}
    before = _before_in_slot(jobs)
    turns = _previous(jobs) if one_at_a_time else {}
    barriers = _wave_ends(jobs)
    steps = {}
    for job in jobs:
        candidates = [(by_id[name], Cause.DEPENDENCY) for name in job.depends_on if name in by_id]
        if job.wave is not None and (last := barriers.get(job.wave - 1)) is not None:
            candidates.append((last, Cause.BARRIER))
        if (other := before.get(job.job_id)) is not None:
            candidates.append((other, Cause.SLOT))
        if (other := turns.get(job.job_id)) is not None:
            candidates.append((other, Cause.TURN))
        # A job starts after what it waited for; strictly earlier, so that a path comes to an end.
        candidates = [
            entry
            for entry in candidates
            if entry[0].end_ns <= job.start_ns and entry[0].start_ns < job.start_ns
        ]
        # max() takes the first among equals: a dependency before the slot.
        found = max(candidates, key=lambda entry: entry[0].end_ns, default=None)
        since, cause, name = 0, Cause.START, None
        if found is not None:
            since, cause, name = found[0].end_ns, found[1], found[0].job_id
        resumed = max((at for at in sessions_ns if since < at <= job.start_ns), default=0)
        if (held_ns or {}).get(job.job_id, -1) >= max(since, resumed):
            cause = Cause.LEASE
        elif resumed:
            cause = Cause.SESSION
        steps[job.job_id] = Step(job.job_id, cause, name, job.start_ns - since)
    return steps


def critical_path(jobs: Sequence[Ran], steps: Mapping[str, Step]) -> list[Step]:
    """Give the chain that ends with the job that ended last, first job first.

    Each step goes back to what ended last of all that the job had to wait for. So work and gaps
    of the chain add up to the whole time, and shortening anything that is not on it would not
    have helped.

    Args:
        steps: as :func:`steps_of` gives them.
    """
    last = max(jobs, key=lambda entry: entry.end_ns, default=None)
    name = None if last is None else last.job_id
    path = []
    while name is not None:
        path.append(steps[name])
        name = steps[name].before
    return path[::-1]


def _before_in_slot(jobs: Iterable[Ran]) -> dict[str, Ran]:
    slots: dict[str, list[Ran]] = {}
    for job in jobs:
        if job.slot is not None:
            slots.setdefault(job.slot, []).append(job)
    return {name: other for held in slots.values() for name, other in _previous(held).items()}


def _previous(jobs: Iterable[Ran]) -> dict[str, Ran]:
    ordered = sorted(jobs, key=lambda job: job.start_ns)
    return {job.job_id: other for other, job in zip(ordered, ordered[1:], strict=False)}


def _wave_ends(jobs: Iterable[Ran]) -> dict[int, Ran]:
    last: dict[int, Ran] = {}
    for job in jobs:
        if job.wave is not None:
            held = last.get(job.wave)
            if held is None or job.end_ns > held.end_ns:
                last[job.wave] = job
    return last


def gaps(spans: Iterable[tuple[int, int]], start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """Give when a slot was free between ``start_ns`` and ``end_ns``, in order.

    Args:
        spans: when it was used; they may overlap.
    """
    found = []
    free_from = start_ns
    for begin, end in sorted(spans):
        if begin > free_from:
            found.append((free_from, min(begin, end_ns)))
        free_from = max(free_from, end)
    if end_ns > free_from:
        found.append((free_from, end_ns))
    return found


def layers(depends_on: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Give how many jobs come before each on its longest chain, counted by jobs.

    Dependencies that are not among the jobs count for nothing; a cycle ends the count.
    """
    depth: dict[str, int] = {}
    for name in depends_on:
        stack = [name]
        under_way: set[str] = set()
        while stack:
            job = stack[-1]
            under_way.add(job)
            missing = [
                other
                for other in depends_on[job]
                if other in depends_on and other not in depth and other not in under_way
            ]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            known = [depth[other] for other in depends_on[job] if other in depth]
            depth[job] = 1 + max(known, default=-1)
    return depth
