"""Two profiles held against each other: the time in kernels, for each epoch.

It reads the profiler's report as CSV (`nsys stats --report cuda_gpu_kern_sum --format csv`), which
has a row for each kernel. What cannot be computed is an error, and never a slowdown.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError

NAME_COLUMN = "Name"
TIME_COLUMN = "Total Time (ns)"
REPORT = "cuda_gpu_kern_sum"


def compare_profiles(
    baseline: Path,
    candidate: Path,
    *,
    base_epochs: int | None,
    cand_epochs: int | None,
    threshold: float,
) -> dict[str, Any]:
    """Compare two profiles.

    Args:
        baseline: the CSV of the report, or a folder that holds it.
        candidate: the other.
        base_epochs: how many epochs the baseline's profile covers.
        cand_epochs: how many the candidate's covers.
        threshold: the slowdown up to which the candidate passes, as a fraction.

    Returns:
        ``baseline`` and ``candidate``, each with its ``report``, ``kernel_ns``, ``epochs`` and
        ``kernel_ns_per_epoch``; ``slowdown``, the candidate's time over the baseline's, less 1;
        ``threshold``; ``new`` and ``gone``, the names of kernels; ``passed``.

    Raises:
        ReportError: there is no such report, it is broken or cut off, the epochs are not known
            or none, or the baseline has no time in kernels.
    """
    if not (math.isfinite(threshold) and threshold >= 0):
        raise ReportError(Problem("threshold", "--threshold", f"{threshold}", "0 or more"))
    sides = []
    for option, path, epochs in (
        ("--base-epochs", baseline, base_epochs),
        ("--cand-epochs", candidate, cand_epochs),
    ):
        report = _report(path)
        kernels = kernel_times(report)
        if epochs is None or epochs < 1:
            found = "it is not said how many epochs" if epochs is None else f"{epochs} epochs"
            action = f"Give --epochs for both profiles, or {option}"
            problem = Problem("no_epochs", option, found, "1 or more", action)
            raise ReportError(problem, file=path)
        sides.append((report, kernels, epochs, sum(kernels.values()) / epochs))
    (_, before, _, base), (_, after, _, cand) = sides
    if base == 0:
        problem = Problem("base_zero", TIME_COLUMN, "the baseline has no time in kernels")
        raise ReportError(problem, file=sides[0][0])
    slowdown = cand / base - 1
    return {
        **{
            side: {
                "report": str(report),
                "kernel_ns": sum(kernels.values()),
                "epochs": epochs,
                "kernel_ns_per_epoch": per_epoch,
            }
            for side, (report, kernels, epochs, per_epoch) in zip(
                ("baseline", "candidate"), sides, strict=True
            )
        },
        "slowdown": slowdown,
        "threshold": threshold,
        "new": sorted(after.keys() - before.keys()),
        "gone": sorted(before.keys() - after.keys()),
        # Exactly at the threshold passes, also where 1.2 / 1 - 1 comes out as a bit more than 0.2.
        "passed": slowdown <= threshold or math.isclose(cand, base * (1 + threshold)),
    }


def kernel_times(path: Path) -> dict[str, int]:
    """Give the nanoseconds that each kernel took in all, by its name.

    Raises:
        ReportError: the file cannot be read, or is no such report, or is cut off.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(
            Problem("unreadable", "", f"cannot be read: {error}"), file=path
        ) from None
    # The profiler may print lines about its work before the table.
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if TIME_COLUMN in line), None)
    if start is None:
        found = f"no column {TIME_COLUMN!r}"
        action = f"Make it with: nsys stats --report {REPORT} --format csv PROFILE"
        raise ReportError(Problem("no_report", "", found, f"a {REPORT}", action), file=path)
    rows = csv.reader(io.StringIO("".join(lines[start:])))
    header = [name.strip() for name in next(rows)]
    if NAME_COLUMN not in header or TIME_COLUMN not in header:
        found = f"the columns {', '.join(header)}"
        raise ReportError(Problem("no_report", "", found, f"a {REPORT}"), file=path)
    kernels: dict[str, int] = {}
    for number, row in enumerate(rows, start=start + 2):
        if not row:
            break
        values = dict(zip(header, row, strict=False))
        time = values.get(TIME_COLUMN, "").replace(",", "")
        if len(row) != len(header) or not time.isdecimal():
            found = f"{len(row)} of {len(header)} columns, with the time {time!r}"
            problem = Problem("truncated", f"line {number}", found, "a whole row of the report")
            raise ReportError(problem, file=path)
        name = values[NAME_COLUMN]
        kernels[name] = kernels.get(name, 0) + int(time)
    if not lines[-1].endswith(("\n", "\r")):
        found = "the last line has no end: the report was cut off"
        raise ReportError(Problem("truncated", "", found, action="Make it again"), file=path)
    return kernels


def _report(path: Path) -> Path:
    """Give the file of the report: the path itself, or the only such file in the folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{REPORT}*.csv"))
    if len(found) == 1:
        return found[0]
    problem = Problem("no_report", "", f"{len(found)} files *{REPORT}*.csv", "one")
    raise ReportError(problem, file=path)
