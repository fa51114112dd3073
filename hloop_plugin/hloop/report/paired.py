"""Compares the rows of two runs of one fast path, pair by pair.

What is left of a fast path that is not equal to the slow one: differences between runs of the
same schedule and the same number of workers. Runs of the slow path are refused. Reads; writes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError
from hloop.plan.document import parse_document
from hloop.report.load import RunReport, load_report, unaltered_output
from hloop.report.oracle import read_settings
from hloop.report.oraclerows import Row, RowRules, compare_rows, read_rows


def compare_paired(baseline: Path, candidate: Path, rules: RowRules) -> dict[str, Any]:
    """Compare two runs of a fast path.

    Args:
        baseline, candidate: run directories, or the reports in them. Jobs with outputs of the
            roles ``rows`` and ``settings`` count.

    Returns:
        ``passed`` (every pair is the same), ``schedule``, ``workers``, ``rows`` as in a verdict
        of the oracle, and for each field that is a number in all pairs ``fields``: the mean of
        candidate minus baseline, the largest absolute difference, and how many pairs moved.

    Raises:
        ReportError: a run cannot be read, is one of the slow path, or the two are of another
            schedule, number of workers or order of seeds.
    """
    first, second = load_report(baseline), load_report(candidate)
    if first.path.samefile(second.path):
        raise ReportError(Problem("same_report", "", "both are one run"), file=second.path)
    rows, other = (_rows(report, rules) for report in (first, second))
    schedule = _schedule(first)
    if (found := _schedule(second)) != schedule:
        problem = Problem(
            "other_schedule",
            "",
            f"the candidate ran in {found[0]} with {found[1]} workers",
            f"{schedule[0]} with {schedule[1]} workers, as the baseline",
            "Rows of another schedule or number of workers are no pairs",
        )
        raise ReportError(problem, file=second.path)
    if _seeds(first) != _seeds(second):
        what = "the candidate ran other seeds, or in another order"
        action = "Which episodes share a batch depends on them: rows of another order are no pairs"
        problem = Problem("other_seeds", "seeds", what, "those of the baseline", action)
        raise ReportError(problem, file=second.path)
    comparison = compare_rows(rows, other, rules)
    return {
        "passed": comparison.equal,
        "schedule": schedule[0],
        "workers": int(schedule[1]),
        "rows": comparison.to_dict(),
        "fields": _fields(rows, other, rules),
    }


def _outputs(report: RunReport, role: str) -> list[Path]:
    """Give the outputs of this role of the jobs that have both roles, unaltered."""
    found = []
    for job_id, job in report.jobs.items():
        roles = {entry.get("role") for entry in job.get("outputs") or ()}
        if {"rows", "settings"} <= roles and (path := unaltered_output(report, job_id, role)):
            found.append(path)
    if not found:
        what = "no job has outputs of the roles rows and settings"
        raise ReportError(Problem("no_rows", "jobs", what), file=report.path)
    return found


def _schedule(report: RunReport) -> tuple[str, str]:
    """Give schedule and number of workers, which all jobs of a run have in common."""
    found = set()
    for path in _outputs(report, "settings"):
        settings = read_settings(path)
        if "workers" not in settings or "schedule" not in settings:
            problem = Problem(
                "slow_path",
                "",
                "this is a run of the slow path: it names no schedule with workers",
                "two runs of the fast path",
                "Rows of the two paths are never mixed",
            )
            raise ReportError(problem, file=path)
        found.add((settings["schedule"], settings["workers"]))
    if len(found) > 1:
        what = "the jobs of this run have several schedules or numbers of workers"
        raise ReportError(Problem("other_schedule", "jobs", what), file=report.path)
    return found.pop()


def _seeds(report: RunReport) -> list[Any]:
    """Give the seeds of each job, in their order, where its settings have them."""
    settings = [parse_document(path) for path in _outputs(report, "settings")]
    return [found.get("seeds") for found in settings if isinstance(found, dict)]


def _rows(report: RunReport, rules: RowRules) -> list[Row]:
    return [row for path in _outputs(report, "rows") for row in read_rows(path, rules.identity)]


def _fields(
    rows: Sequence[Row], others: Sequence[Row], rules: RowRules
) -> dict[str, dict[str, Any]]:
    def key(row: Row) -> str:
        return repr([row[name] for name in rules.identity])

    by_key = {key(row): row for row in others}
    pairs = [(row, by_key[key(row)]) for row in rows if key(row) in by_key]
    left_out = {*rules.ignore, *rules.identity}
    found = {}
    for name in sorted({name for row in rows for name in row} - left_out):
        values = [(row.get(name), other.get(name)) for row, other in pairs]
        if not pairs or not all(_is_finite(value) for pair in values for value in pair):
            continue
        differences = [other - value for value, other in values]  # type: ignore[operator]
        found[name] = {
            "mean": sum(differences) / len(differences),
            "largest": max(map(abs, differences)),
            "moved": sum(difference != 0 for difference in differences),
            "pairs": len(differences),
        }
    return found


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
