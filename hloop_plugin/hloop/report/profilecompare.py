"""Two profiles held against each other: the time in kernels, for each epoch.

It reads the profiler's report as CSV (`nsys stats --report cuda_gpu_kern_sum --format csv`), which
has a row for each kernel. What cannot be computed is an error, and never a slowdown.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError

NAME_COLUMN = "Name"
TIME_COLUMN = "Total Time (ns)"
SHARE_COLUMN = "Time (%)"
REPORT = "cuda_gpu_kern_sum"

# Tables of other reports have times and names as well, and one of these.
_OTHERS = {"Num Calls", "Count", "Source"}
# What `nsys stats` prints between two reports.
_BETWEEN = ("Processing [", "Generating ", "Using ", "NOTICE:", "SKIPPED:", "** ")


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
            or none, or a profile has no time in kernels.
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
    for report, kernels, *_ in sides:
        if not sum(kernels.values()):
            # A candidate without kernels is not fast: nothing was captured.
            problem = Problem("no_time", TIME_COLUMN, "the profile has no time in kernels")
            raise ReportError(problem, file=report)
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
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _is_header(line)]
    if len(starts) != 1:
        found = f"{len(starts) or 'no'} tables of kernels with the column {TIME_COLUMN!r}"
        action = f"Make it with: nsys stats --report {REPORT} --format csv PROFILE"
        raise ReportError(Problem("no_report", "", found, f"one {REPORT}", action), file=path)
    start = starts[0]
    rows = csv.reader(io.StringIO("".join(lines[start:])))
    header = [name.strip() for name in next(rows)]
    kernels: dict[str, int] = {}
    shares: list[tuple[int, float]] = []
    for number, row in enumerate(rows, start=start + 2):
        if not row or row[0].lstrip().startswith(_BETWEEN):
            break
        values = dict(zip(header, row, strict=False))
        time = values.get(TIME_COLUMN, "").replace(",", "")
        if len(row) != len(header) or not time.isdecimal():
            found = f"{len(row)} of {len(header)} columns, with the time {time!r}"
            problem = Problem("truncated", f"line {number}", found, "a whole row of the report")
            raise ReportError(problem, file=path)
        name = values[NAME_COLUMN]
        kernels[name] = kernels.get(name, 0) + int(time)
        with contextlib.suppress(KeyError, ValueError):
            shares.append((int(time), float(values[SHARE_COLUMN])))
    if not lines[-1].endswith(("\n", "\r")):
        found = "the last line has no end: the report was cut off"
        raise ReportError(Problem("truncated", "", found, action="Make it again"), file=path)
    if missing := _missing_share(shares):
        found = f"the shares of its kernels add up to {100 - missing:.1f} %: rows are missing"
        raise ReportError(Problem("truncated", "", found, "100 %", "Make it again"), file=path)
    return kernels


def _is_header(line: str) -> bool:
    """Tell the table's header; reports of other things may stand in the same file."""
    if TIME_COLUMN not in line:
        return False
    names = {name.strip() for name in next(csv.reader([line]))}
    return {NAME_COLUMN, TIME_COLUMN} <= names and not names & _OTHERS


def _missing_share(shares: list[tuple[int, float]]) -> float:
    """Give how many percent of the time the rows of a report lack that was cut between two rows.

    0 also where the shares do not follow from the times, so that the report is not the profiler's.
    """
    told = sum(share for _, share in shares)
    # Each share is rounded to a tenth.
    if len(shares) < 2 or not 0 < told < 99.9 - 0.05 * len(shares):
        return 0
    of_all = sum(time for time, _ in shares) / told
    follows = all(abs(time - share * of_all) <= 0.2 * of_all for time, share in shares)
    return 100 - told if follows else 0


def _report(path: Path) -> Path:
    """Give the file of the report: the path itself, or the only such file in the folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{REPORT}*.csv"))
    if len(found) == 1:
        return found[0]
    problem = Problem("no_report", "", f"{len(found)} files *{REPORT}*.csv", "one")
    raise ReportError(problem, file=path)
