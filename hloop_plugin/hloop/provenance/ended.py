"""A run that has ended, read back from its folder: its report, its plan, its manifest.

For what only describes a run, such as an export. Whether the files are what the run wrote is
not asked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import Problem, ReportError, RunDirectoryError
from hloop.files import RunPaths, sha256_bytes
from hloop.plan.contract import schema_problems
from hloop.plan.load import load_plan
from hloop.plan.model import Plan
from hloop.provenance.records import REPORT, RULES_RUN

MAX_PROBLEMS = 20
_OF_RUN = ("experiment_digest", "executor", "versions")
_OF_JOB = (
    *("status", "failure", "device", "started_at", "ended_at"),
    *("cpu_seconds", "max_rss_bytes"),
)


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended.

    Attributes:
        paths: the names in its folder.
        report: ``hloop_run.json``, as its schema has it.
        head: ``sha256:<hex>`` over the bytes of ``hloop_run.json``.
        plan: the plan that it ran.
        manifest: ``manifest.json``; empty where there is none that can be read.
    """

    paths: RunPaths
    report: Mapping[str, Any]
    head: str
    plan: Plan
    manifest: Mapping[str, Any]

    def locate(self, portable: str) -> Path | None:
        """Find a portable path on this machine; None where its root is not known."""
        for name, root in (
            ("${RUN_DIR}", str(self.paths.root)),
            ("${REPO_ROOT}", self.manifest.get("repo_root")),
        ):
            if portable == name or portable.startswith(f"{name}/"):
                return None if root is None else Path(root, portable[len(name) + 1 :])
        return Path(portable)


def read_ended_run(run_dir: Path) -> EndedRun:
    """Read a run directory.

    Raises:
        RunDirectoryError: it is none, or has no report: the run goes on, or was killed.
        ReportError: the report is not one.
        PlanError: the plan is not one.
    """
    paths = RunPaths(run_dir.absolute())
    try:
        data = paths.report.read_bytes()
    except OSError as error:
        raise RunDirectoryError(
            Problem(
                "no_report",
                "",
                f"{paths.report.name} cannot be read: {error.strerror}",
                "the folder of a run that has ended",
                "Wait for the run to end, or name another folder",
            ),
            file=run_dir,
        ) from error
    report = _report(paths.report, data)
    plan = load_plan(paths.plan)
    manifest = read_if_sound(paths.manifest, "manifest")
    return EndedRun(paths, report, sha256_bytes(data), plan, manifest)


def read_if_sound(path: Path, schema: str) -> Mapping[str, Any]:
    """Read a record; {} where it is missing, or not one by its schema."""
    try:
        record = canonical.loads(path.read_bytes())
    except (OSError, canonical.CanonicalError):
        return {}
    return {} if schema_problems(record, schema) else record


def _report(path: Path, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data, object_pairs_hook=canonical.no_duplicates)
    except (ValueError, RecursionError) as error:
        problem = Problem("not_json", "", f"not JSON: {error}", f"a report, {REPORT!r}")
        raise ReportError(problem, file=path) from error
    if isinstance(document, dict) and document.get("_type") == RULES_RUN:
        found = "it is the report of a run that has no plan"
        problem = Problem("no_plan", "", found, "the run of a plan", "`hloop verify` takes it")
        raise ReportError(problem, file=path)
    problems = schema_problems(document, "hloop-run") or list(_lacking(document))
    if problems:
        raise ReportError(problems[:MAX_PROBLEMS], file=path)
    report: dict[str, Any] = document
    return report


def _lacking(report: Mapping[str, Any]) -> Iterator[Problem]:
    """Say what a report lacks that hloop writes into each; the format knows shorter ones."""
    needed: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [("", report, _OF_RUN)]
    needed += [(f"jobs[{index}].", job, _OF_JOB) for index, job in enumerate(report["jobs"])]
    for where, holder, names in needed:
        for name in names:
            if name not in holder:
                found = f"the key {name!r} is missing"
                yield Problem("missing_key", f"{where}{name}", found, "a report of hloop's own")
        for name in ("started_at", "completed_at", "ended_at"):
            if holder.get(name) is not None and not _is_time(holder[name]):
                found = f"{holder[name]!r} is no time"
                yield Problem("bad_time", f"{where}{name}", found, "ISO 8601 in UTC")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True
