"""Compares two run reports: did both runs do the same, with the same results?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError
from hloop.report.checks import Comparison
from hloop.report.load import RunReport, load_report
from hloop.report.speed import compare_speed

PARITY_SCHEMA = "mimicx.hloop-parity.v1"


def compare(baseline: Path, candidate: Path) -> dict[str, Any]:
    """Compare two runs, whatever their endings.

    Args:
        baseline, candidate: run directories, or the reports in them.

    Returns:
        The parity document, schema ``mimicx.hloop-parity.v1``.

    Raises:
        ReportError: a report cannot be read or is of a foreign format, or both are of one run.
    """
    first, second = load_report(baseline), load_report(candidate)
    if first.path.samefile(second.path) or first.document == second.document:
        problem = Problem(
            "same_report",
            "",
            "the baseline and the candidate are one and the same run",
            "the reports of two runs",
            "A run compared with itself shows nothing; run the plan once more",
        )
        raise ReportError(problem, file=second.path)
    checks = Comparison(first, second).checks()
    not_passed = sum(not check["passed"] for check in checks)
    return {
        "schema_version": PARITY_SCHEMA,
        "passed": not not_passed,
        "baseline": _source(first),
        "candidate": _source(second),
        "checks": checks,
        "speed": compare_speed(first, second, not_passed=not_passed),
    }


def _source(report: RunReport) -> dict[str, Any]:
    names = ("plan_id", "mode", "status", "started_at")
    return {
        "report": str(report.path),
        "sha256": report.sha256,
        **{name: report.document.get(name) for name in names},
    }
