#!/usr/bin/env python3
"""Select the candidates whose rollout never terminated and ran its full budget.

Reads one failure_report.json of diagnose.py per candidate and writes selection.json: a row per
candidate with the decision and its reason, and the ids that were accepted, both sorted by id.
The decision depends on what the reports say alone, not on their paths or their order.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

# At the end: this file must not hide the standard library's select.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [*(folder for folder in sys.path if os.path.realpath(folder) != HERE), HERE]

from humanoid.programs import (  # noqa: E402
    InputError,
    demand_schema,
    field,
    parser_of,
    read_json,
    run,
    write_json,
)

REPORT_SCHEMA = "hloop.failure-report.v1"
SCHEMA = "hloop.selection.v1"


def main() -> None:
    arguments = parser().parse_args()
    reports: dict[str, Path] = {}
    for candidate, report in arguments.candidate:
        if candidate in reports:
            raise InputError(f"the candidate {candidate!r} is given twice")
        reports[candidate] = Path(report)
    rows = [decide(candidate, path) for candidate, path in sorted(reports.items())]
    selection = {
        "schema_version": SCHEMA,
        "rows": rows,
        "selected_candidate_ids": [row["candidate_id"] for row in rows if row["accepted"]],
    }
    write_json(arguments.output, selection)


def parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--candidate",
        nargs=2,
        action="append",
        required=True,
        metavar=("ID", "REPORT"),
        help="a candidate and its failure report; repeat for each",
    )
    parser.add_argument("--output", type=Path, required=True, help="the selection to write")
    return parser


def decide(candidate: str, path: Path) -> dict[str, Any]:
    """Decide on one candidate.

    Raises:
        InputError: the report is missing, of another format, or contradicts itself.
    """
    report = read_json(path)
    demand_schema(report, REPORT_SCHEMA, path)
    steps = field(report, "steps", (int,), path)
    budget = field(report, "budget_steps", (int,), path)
    terminated = field(report, "terminated", (bool,), path)
    done = field(report, "first_done_step", (int, type(None)), path)
    if terminated != (done is not None):
        raise InputError(f"{path}: terminated is {terminated}, but first_done_step is {done}")
    if terminated:
        reason = f"terminated at step {done}"
    elif steps != budget:
        reason = f"ran {steps} of {budget} steps"
    else:
        reason = f"ran all {budget} steps and never terminated"
    return {
        "candidate_id": candidate,
        "accepted": not terminated and steps == budget,
        "reason": reason,
        "steps": steps,
        "budget_steps": budget,
        "terminated": terminated,
        "first_done_step": done,
    }


if __name__ == "__main__":
    run(main)
