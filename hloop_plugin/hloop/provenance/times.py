"""What a run's moments say: order, one job per device, limits, waves, and what overlapped.

All of it is derived from the offsets in the records, which come from one monotonic clock; the
time of day is not judged, since it may be set while a run goes on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloop.devices.resolve import UNRESOLVED
from hloop.plan.model import Plan
from hloop.provenance.chain import Chain, JobChain
from hloop.provenance.records import Status
from hloop.schedule.events import Mode

_EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Span:
    """The time in which a job's processes were there, ``[start, end)`` in nanoseconds."""

    job_id: str
    start: int
    end: int
    scheduled: Mapping[str, Any]


def check_times(chain: Chain, plan: Plan | None) -> None:
    """Add where the records' moments contradict each other, the plan or the manifest."""
    assert chain.manifest is not None
    manifest = chain.manifest
    for job in chain.attempts:
        session = chain.manifest_of(job) or manifest
        _check_order(chain, job, session["created"]["offset_ns"])
    spans, others = _spans(chain.jobs), _spans(chain.rules)
    if plan is not None:
        _check_dependencies(chain, plan)
    # Jobs of the plan and others are counted apart.
    _check_together(chain, chain.jobs, spans)
    _check_together(chain, chain.rules, others)
    if manifest["mode"] == _EXTERNAL:
        chain.add("another_executor", "", f"{manifest['executor']} decided what starts when")
        return
    _check_devices(chain, sorted([*spans, *others], key=_by_start))
    _check_limits(chain, spans)
    _check_waves(chain, spans)


def _spans(attempts: Mapping[str, JobChain]) -> list[Span]:
    """Give the spans of those attempts that ran, by their starts."""
    spans = [
        Span(
            job_id,
            job.record["started"]["offset_ns"],
            job.record["ended"]["offset_ns"],
            job.scheduled,
        )
        for job_id, job in attempts.items()
        if job.record is not None and job.scheduled is not None
    ]
    return sorted(spans, key=_by_start)


def _by_start(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.job_id


def _check_order(chain: Chain, job: JobChain, created: int) -> None:
    moments = [("the manifest was made", created)]
    if job.scheduled is not None:
        moments.append(("it was scheduled", job.scheduled["scheduled"]["offset_ns"]))
    if job.record is not None:
        moments.append(("it started", job.record["started"]["offset_ns"]))
        if (sign := job.record["last_sign_of_life"]) is not None:
            moments.append(("its last sign of life was seen", sign["moment"]["offset_ns"]))
        moments.append(("it ended", job.record["ended"]["offset_ns"]))
    if job.status is not None:
        moments.append(("its status was recorded", job.status["recorded"]["offset_ns"]))
    for (earlier, first), (later, second) in zip(moments, moments[1:], strict=False):
        if second < first:
            chain.add("time_order", job.job_id, f"{later} {first - second} ns before {earlier}")


def _check_dependencies(chain: Chain, plan: Plan) -> None:
    for job in plan.jobs:
        scheduled = chain.jobs[job.job_id].scheduled
        if scheduled is None:
            continue
        start = scheduled["scheduled"]["offset_ns"]
        for name in job.depends_on:
            status, record = chain.jobs[name].status, chain.jobs[name].record
            if status is None or record is None or status["status"] != Status.COMPLETED:
                found = f"it was scheduled, and {name!r}, which must come first, did not complete"
            elif record["ended"]["offset_ns"] > start:
                found = f"it was scheduled before {name!r} had ended"
            else:
                continue
            chain.add("dependency_order", job.job_id, found)


def overlapping(spans: Sequence[Span]) -> dict[str, list[str]]:
    """Give, for every job, what ran at some moment of its span, sorted.

    Args:
        spans: by their starts.
    """
    found: dict[str, list[str]] = {span.job_id: [] for span in spans}
    running: list[tuple[int, str]] = []
    for span in spans:
        while running and running[0][0] <= span.start:
            heapq.heappop(running)
        if span.end <= span.start:
            continue
        for _, other in running:
            found[other].append(span.job_id)
            found[span.job_id].append(other)
        heapq.heappush(running, (span.end, span.job_id))
    return {job_id: sorted(others) for job_id, others in found.items()}


def _check_together(chain: Chain, attempts: Mapping[str, JobChain], spans: Sequence[Span]) -> None:
    assert chain.manifest is not None
    external = chain.manifest["mode"] == _EXTERNAL
    together = overlapping(spans)
    order = {path: number for number, path in enumerate(chain.sessions)}
    for job_id, expected in together.items():
        record, session = attempts[job_id].record, order[attempts[job_id].session]
        assert record is not None
        said = record["concurrent_with"]
        if said is None:
            if not external:
                chain.add("self_report_mismatch", job_id, "concurrent_with is null", str(expected))
            continue
        # Of a job whose record is not there, nobody knows when it ran; nor of an attempt that
        # was set aside, of a job that ran again in a later session.
        known = [
            name for name in said if name in together and order[attempts[name].session] <= session
        ]
        if known != expected or not set(said) <= attempts.keys():
            found = f"concurrent_with is {said}"
            chain.add("self_report_mismatch", job_id, found, str(expected))


def _check_devices(chain: Chain, spans: Sequence[Span]) -> None:
    last: dict[str, Span] = {}
    for span in spans:
        device = span.scheduled["device"]
        if device is None:
            continue
        key = _key(device)
        other = last.get(key)
        if other is not None and span.start < other.end and span.end > span.start:
            found = f"{other.job_id!r} and {span.job_id!r} were on the device {key} together"
            chain.add("device_overlap", span.job_id, found)
        if other is None or span.end > other.end:
            last[key] = span


def _key(device: Mapping[str, Any]) -> str:
    """Name a device by what is surest: its UUID, its token, its place in the run."""
    if device["uuid"] not in (None, UNRESOLVED):
        return str(device["uuid"])
    return str(device["logical"] if device["token"] is None else device["token"])


def _check_limits(chain: Chain, spans: Sequence[Span]) -> None:
    assert chain.manifest is not None
    if chain.manifest["mode"] == Mode.SEQUENTIAL:
        _check_limit(chain, spans, "jobs", 1, lambda span: True)
        return
    for path, manifest in chain.sessions.items():
        if manifest is None:
            continue
        own = [span for span in spans if chain.jobs[span.job_id].session == path]
        for kind in ("cpu", "io"):
            _check_limit(
                chain,
                own,
                f"{kind} jobs",
                manifest["limits"][kind],
                lambda span, kind=kind: span.scheduled["resource"] == kind,  # type: ignore[misc]
            )


def _check_limit(
    chain: Chain, spans: Sequence[Span], what: str, limit: int, counts: Callable[[Span], bool]
) -> None:
    running: list[int] = []
    for span in filter(counts, spans):
        while running and running[0] <= span.start:
            heapq.heappop(running)
        if span.end > span.start:
            heapq.heappush(running, span.end)
        if len(running) > limit:
            found = f"with it {len(running)} {what} ran at once"
            chain.add("limit_exceeded", span.job_id, found, f"{limit} at most")


def _check_waves(chain: Chain, spans: Sequence[Span]) -> None:
    assert chain.manifest is not None
    bulk = chain.manifest["mode"] == Mode.BULK_SYNC
    waves: dict[int, list[Span]] = {}
    for span in spans:
        wave = span.scheduled["wave"]
        if (wave is not None) != bulk:
            found = f"its wave is {wave}"
            expected = "a number" if bulk else "none outside of bulk-sync"
            chain.add("wave_overlap", span.job_id, found, expected)
        elif bulk:
            waves.setdefault(wave, []).append(span)
    over = 0
    for wave in sorted(waves):
        for span in waves[wave]:
            if span.start < over:
                found = f"it started in wave {wave} before an earlier wave was over"
                chain.add("wave_overlap", span.job_id, found)
        over = max([over, *(span.end for span in waves[wave])])
