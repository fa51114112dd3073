"""How long each job takes, for a simulation: from former runs, from a file, or from the plan.

It reads, and decides nothing about jobs of which it finds no time.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from hloop import canonical
from hloop.errors import Problem, ReportError
from hloop.plan.model import Plan
from hloop.report.benchmark import BenchmarkPaths, is_benchmark
from hloop.report.load import RunReport, load_report

MOST_SECONDS = 1e9
"""What a job may take in a simulation: thirty years."""

_EXPECTED = "a run directory, a benchmark's folder, a JSON object or a CSV table of seconds"


@dataclass(frozen=True)
class Durations:
    """What is known of the jobs' times.

    Attributes:
        source: ``plan``, ``run``, ``benchmark`` or ``file``.
        path: where they come from; None for the plan itself.
        runs: how many runs they are medians of; 0 where they come from no run.
        seconds_ns: job id to nanoseconds, above or equal to 0.
        handover_ns: the median time from a job's end to when what depends on it is handed
            over; 0 where no run tells.
    """

    source: str
    path: Path | None = None
    runs: int = 0
    seconds_ns: Mapping[str, int] = field(default_factory=dict)
    handover_ns: int = 0


def read_durations(plan: Plan, path: Path | None) -> Durations:
    """Find the jobs' times.

    Args:
        plan: says which jobs depend on which, and what it expects where ``path`` is None.
        path: a run directory or its report, the folder of a benchmark, or a file: a JSON
            object of job id to seconds, or a CSV table with the columns ``job_id`` and
            ``seconds``.

    Raises:
        ReportError: it is none of these, or is damaged.
    """
    if path is None:
        expected = {job.job_id: job.seconds("expected_seconds") for job in plan.jobs}
        known = {job_id: _ns(value) for job_id, value in expected.items() if value is not None}
        return Durations("plan", seconds_ns=known)
    if path.is_dir():
        if is_benchmark(path):
            reports = _measured_reports(BenchmarkPaths(path))
            return from_reports(plan, reports, source="benchmark", path=path)
        return from_reports(plan, [load_report(path)], source="run", path=path)
    try:
        # Spreadsheets put a mark in front, which is no part of the text.
        data = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(path, f"it cannot be read: {error}") from None
    if path.suffix == ".csv":
        return Durations("file", path, seconds_ns=_table(path, data))
    try:
        document = json.loads(data, object_pairs_hook=canonical.no_duplicates)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"it is not JSON: {error}") from None
    if isinstance(document, dict) and "schema_version" in document:
        return from_reports(plan, [load_report(path)], source="run", path=path)
    if not isinstance(document, dict):
        raise _refused(path, "it holds no JSON object")
    return Durations("file", path, seconds_ns=_checked(path, document))


def from_reports(
    plan: Plan, reports: Sequence[RunReport], *, source: str, path: Path
) -> Durations:
    """Give the median time of each job over all runs in which it completed."""
    times: dict[str, list[int]] = {}
    handovers: list[int] = []
    for report in reports:
        spans = _spans(report)
        for job_id, (start_ns, end_ns) in spans.items():
            times.setdefault(job_id, []).append(end_ns - start_ns)
        handovers += _handovers(plan, report, spans)
    return Durations(
        source,
        path,
        len(reports),
        {job_id: round(median(values)) for job_id, values in times.items()},
        max(0, round(median(handovers))) if handovers else 0,
    )


def _measured_reports(benchmark: BenchmarkPaths) -> list[RunReport]:
    """Read the reports of a benchmark's measured repetitions."""
    try:
        runs = json.loads(benchmark.summary.read_bytes())["runs"]
        folders = [
            benchmark.root / run["run_dir"] for run in runs if run["repetition"] is not None
        ]
    except (OSError, ValueError, KeyError, TypeError):
        raise _refused(benchmark.summary, "it is no summary of a benchmark") from None
    return [load_report(folder) for folder in folders]


def _spans(report: RunReport) -> dict[str, tuple[int, int]]:
    """Give when each completed job started and ended, in nanoseconds."""
    spans = {}
    for job_id, job in report.jobs.items():
        if job.get("status", "completed") != "completed":
            continue
        start, end = job.get("start_offset_ns"), job.get("end_offset_ns")
        if start is None or end is None:
            # A report of the original has the duration alone.
            start, end = 0, _ns(job.get("elapsed_seconds") or 0.0)
        spans[job_id] = (start, end)
    return spans


def _handovers(plan: Plan, report: RunReport, spans: Mapping[str, tuple[int, int]]) -> list[int]:
    """Give, for each job with dependencies, the time from the last one's end to its hand-over."""
    waits = report.document.get("scheduling", {}).get("ready_to_start_seconds", {})
    return [
        spans[job.job_id][0]
        - _ns(waits[job.job_id])
        - max(spans[name][1] for name in job.depends_on)
        for job in plan.jobs
        if job.depends_on and job.job_id in waits and spans.keys() >= {job.job_id, *job.depends_on}
    ]


def _table(path: Path, text: str) -> dict[str, int]:
    reader = csv.DictReader(io.StringIO(text))
    if not {"job_id", "seconds"} <= set(reader.fieldnames or ()):
        raise _refused(path, "it lacks the columns job_id and seconds")
    entries: dict[str, Any] = {}
    for row in reader:
        if row["job_id"] in entries:
            raise _refused(path, f"{row['job_id']} stands there twice")
        entries[row["job_id"]] = row["seconds"]
    return _checked(path, entries)


def _checked(path: Path, entries: Mapping[str, Any]) -> dict[str, int]:
    problems, times = [], {}
    for job_id, value in entries.items():
        try:
            seconds = float(value)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        if isinstance(value, bool) or not 0 <= seconds <= MOST_SECONDS:
            found, expected = f"the time is {value!r}", f"seconds, from 0 to {MOST_SECONDS:g}"
            problems.append(Problem("duration", str(job_id), found, expected))
        else:
            times[job_id] = _ns(seconds)
    if problems:
        raise ReportError(problems, file=path)
    return times


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _refused(path: Path, found: str) -> ReportError:
    return ReportError(Problem("durations", "", found, _EXPECTED), file=path)
