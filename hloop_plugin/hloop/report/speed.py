"""Whether two runs' durations may be held against each other, and every reason why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from hloop.errors import first_of
from hloop.report.load import RunReport

# What the original calls the modes.
_MODES = {"e0": "hloop", "bulk_sync": "bulk-sync"}

# It tells two boots apart, not two machines.
_NOT_THE_MACHINE = {"boot_id"}


def compare_speed(baseline: RunReport, candidate: RunReport, *, not_passed: int) -> dict[str, Any]:
    """Give the speed-up, and whether anyone may claim it.

    Args:
        not_passed: how many checks did not pass.
    """
    first, second = (report.document.get("elapsed_seconds") for report in (baseline, candidate))
    reasons = [*_reasons(baseline, candidate)]
    if not_passed:
        reasons.append(f"the runs did not do the same; checks that do not pass: {not_passed}")
    if not first or not second:
        reasons.append("a duration is missing or zero")
    return {
        "baseline_seconds": first,
        "candidate_seconds": second,
        "speedup": round(first / second, 6) if first and second else None,
        "claimable": not reasons,
        "reasons": reasons,
    }


def _reasons(baseline: RunReport, candidate: RunReport) -> Iterator[str]:
    first, second = baseline.document, candidate.document
    sides = (("baseline", baseline), ("candidate", candidate))
    for side, report in sides:
        if (status := report.document.get("status")) != "completed":
            yield f"the {side} is {status or 'of no recorded status'}, not completed"
    yield from _difference("mode", *(_mode(report) for _, report in sides))
    for name in ("executor", "placement_digest"):
        yield from _difference(name, first.get(name), second.get(name))
    for name in ("placement", "limits"):
        values = [report.get("scheduling", {}).get(name) for report in (first, second)]
        yield from _difference(f"scheduling.{name}", *values)
    devices = [_devices_used(report) for _, report in sides]
    if devices[0] != devices[1]:
        first_devices, second_devices = devices
        elsewhere = [
            name for name in baseline.jobs if first_devices.get(name) != second_devices.get(name)
        ]
        yield f"jobs ran on other devices: {first_of(elsewhere)}"
    for name in ("host", "versions"):
        yield from _differing_keys(name, first.get(name), second.get(name))
    for side, report in sides:
        if any(device.get("simulated") for device in report.document.get("devices", [])):
            yield f"the {side} ran on simulated devices"
        if (report.document.get("evidence") or {}).get("resumed"):
            yield f"the {side} was resumed, and its duration holds the pause"
    for side, report in sides:
        yield from _wrong_overlaps(side, report)
    yield from _other_overlaps(baseline, candidate)
    if _same_time(first, second) and first.get("host") == second.get("host"):
        yield "the two runs overlapped in time on one host"


def _mode(report: RunReport) -> str:
    mode: str = report.document.get("mode", "")
    return _MODES.get(mode, mode)


def _difference(name: str, first: Any, second: Any) -> Iterator[str]:
    if first is None or second is None:
        yield f"{name} is not recorded in both reports"
    elif first != second:
        yield f"{name} differs: {_text(first)} against {_text(second)}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return str(value)


def _differing_keys(
    name: str, first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> Iterator[str]:
    if not first or not second:
        yield f"{name} is not recorded in both reports"
        return
    keys = sorted((first.keys() | second.keys()) - _NOT_THE_MACHINE)
    for key in keys:
        if first.get(key) != second.get(key):
            yield f"{name}.{key} differs: {first.get(key)} against {second.get(key)}"


def _devices_used(report: RunReport) -> dict[str, tuple[Any, Any]]:
    """Give what each gpu job ran on: the device's uuid where known, else its token."""
    return {
        job_id: (device.get("logical"), device.get("uuid") or device.get("token"))
        for job_id, job in report.jobs.items()
        if (device := job.get("device"))
    }


def _wrong_overlaps(side: str, report: RunReport) -> Iterator[str]:
    """Name overlaps that the run's mode or the exclusivity of devices rules out."""
    pairs = _overlapping_pairs(report)
    if pairs and _mode(report) == "sequential":
        yield f"jobs overlapped in the {side}, which is sequential: {_pairs(pairs)}"
    used = _devices_used(report)
    shared = [pair for pair in pairs if pair[0] in used and used[pair[0]] == used.get(pair[1])]
    if shared:
        yield f"jobs of the {side} shared a device: {_pairs(shared)}"


def _other_overlaps(baseline: RunReport, candidate: RunReport) -> Iterator[str]:
    for report in (baseline, candidate):
        if any("concurrent_with" not in job for job in report.jobs.values()):
            yield "which jobs overlapped is not recorded in both reports"
            return
    others = set(_overlapping_pairs(baseline)) ^ set(_overlapping_pairs(candidate))
    if others:
        yield f"other jobs overlapped: {_pairs(sorted(others))}"


def _overlapping_pairs(report: RunReport) -> list[tuple[str, str]]:
    """Give every pair once, its smaller id first."""
    return [
        (job_id, other)
        for job_id, job in report.jobs.items()
        for other in job.get("concurrent_with", [])
        if job_id < other
    ]


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return first_of([" and ".join(pair) for pair in pairs])


def _same_time(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    try:
        start, end, other_start, other_end = (
            datetime.fromisoformat(report[name])
            for report in (first, second)
            for name in ("started_at", "completed_at")
        )
        return start < other_end and other_start < end
    except (KeyError, TypeError, ValueError):
        return False
