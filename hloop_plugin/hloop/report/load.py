"""Reads a run report back, hloop's own or one of the original, and refuses what is neither.

What a report lacks stays absent: whoever reads a field decides what its absence means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import Problem, ReportError
from hloop.files import RunPaths, hash_file
from hloop.plan.contract import schema_problems
from hloop.run.report import RUN_SCHEMA

MAX_PROBLEMS = 20

_EXPECTED = f"a run report, schema_version {RUN_SCHEMA!r}"
_ACTION = "Give a run directory or its hloop_run.json"


@dataclass(frozen=True)
class RunReport:
    """A run report that was read.

    Attributes:
        path: the file.
        sha256: 64 hex digits over its bytes.
        document: what it holds; of the right types, but fields may be missing.
        jobs: its jobs by id, in its order.
    """

    path: Path
    sha256: str
    document: Mapping[str, Any]
    jobs: Mapping[str, Mapping[str, Any]]

    @property
    def run_dir(self) -> Path:
        return self.path.parent


def unaltered_output(report: RunReport, job_id: str, role: str) -> Path | None:
    """Give where a job's output of this role lies; None where it has none.

    Raises:
        HloopError: it cannot be read, or has not the digest that the report gives.
    """
    for entry in report.jobs.get(job_id, {}).get("outputs") or ():
        if entry.get("role") == role:
            path = Path(str(entry["path"]).replace("${RUN_DIR}", str(report.run_dir), 1))
            if hash_file(path).sha256 != entry.get("sha256"):
                found = "it has not the digest that the run's report gives"
                raise ReportError(Problem("altered", "", found), file=path)
            return path
    return None


def load_report(path: Path) -> RunReport:
    """Read a run report.

    Args:
        path: the report, or the run directory that it lies in.

    Raises:
        ReportError: it cannot be read, is of another format, or breaks the format's schema.
    """
    if path.is_dir():
        path = RunPaths(path).report
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = Problem(
            "unreadable", "", f"cannot be read: {error.strerror}", _EXPECTED, _ACTION
        )
        raise ReportError(problem, file=path) from error
    try:
        document = json.loads(data, object_pairs_hook=canonical.no_duplicates)
    except (ValueError, RecursionError) as error:
        problem = Problem("not_json", "", f"not JSON: {error}", _EXPECTED, _ACTION)
        raise ReportError(problem, file=path) from error
    _check(path, document)
    jobs = {job.get("job_id"): job for job in document["jobs"]}
    if len(jobs) < len(document["jobs"]) or None in jobs:
        problem = Problem("job_ids", "jobs", "a job has no id, or two have the same", _EXPECTED)
        raise ReportError(problem, file=path)
    return RunReport(path, hashlib.sha256(data).hexdigest(), document, jobs)


def _check(path: Path, document: Any) -> None:
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found != RUN_SCHEMA:
        problem = Problem(
            "foreign_schema", "schema_version", f"found {found!r}", _EXPECTED, _ACTION
        )
        raise ReportError(problem, file=path)

    problems = [
        problem
        for problem in schema_problems(document, "hloop-run")
        # The schema's demands are for writers. To a reader what is absent is unknown.
        if problem.code != "missing_key"
    ]
    if not isinstance(document.get("jobs"), list):
        problems.append(Problem("no_jobs", "jobs", "the jobs are missing", _EXPECTED, _ACTION))
    if problems:
        raise ReportError(problems[:MAX_PROBLEMS], file=path)
