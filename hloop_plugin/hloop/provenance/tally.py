"""``hloop tally``: the jobs of formal runs, each a Success or a Fail.

What counts is what the formal manifests name, whatever became of it: a job that crashed, ran
out of time, was never started, or whose evidence is missing or altered is a Fail and stays in
the denominator. There is no third result, and nothing that a run says of itself counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.contract import schema_problems
from hloop.plan.load import load_plan
from hloop.plan.model import Plan
from hloop.provenance.chain import REPORT_PATH
from hloop.provenance.formal import FormalKey, key_of
from hloop.provenance.gatefolder import read_plain
from hloop.provenance.records import FORMAL
from hloop.provenance.verify import Verdict, verify

SUCCESS, FAIL = "Success", "Fail"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One job that a formal run was to run.

    Attributes:
        phase: ``train`` or ``eval``; "" where only the plan tells of the job.
    """

    job_id: str
    key: FormalKey
    phase: str


@dataclass(frozen=True, slots=True)
class Counted:
    """One job and its result.

    Attributes:
        run_dir: as it was given.
        reasons: why it is a Fail; empty for a Success.
    """

    run_dir: str
    job: Scheduled
    reasons: tuple[str, ...]

    @property
    def result(self) -> str:
        return FAIL if self.reasons else SUCCESS

    def to_dict(self) -> dict[str, Any]:
        key = self.job.key
        return {
            "run_dir": self.run_dir,
            "job_id": self.job.job_id,
            "case": key.case,
            "method": key.method,
            "seed": key.seed,
            "phase": self.job.phase,
            "result": self.result,
            "reasons": list(self.reasons),
        }


@dataclass
class Tally:
    """Every job that was to run, and what is wrong with the question itself."""

    jobs: list[Counted] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)

    def count(self, result: str) -> int:
        return sum(job.result == result for job in self.jobs)

    @property
    def exit_code(self) -> int:
        """0: every job is a Success. 1: one is not, or there are errors."""
        return 1 if self.errors or self.count(FAIL) else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "counts": {
                SUCCESS: self.count(SUCCESS),
                FAIL: self.count(FAIL),
                "jobs": len(self.jobs),
            },
            "jobs": [job.to_dict() for job in self.jobs],
            "errors": [problem.to_dict() for problem in self.errors],
        }


def tally(run_dirs: Sequence[Path], *, repo_root: Path | None = None) -> Tally:
    """Count the jobs of formal runs.

    Args:
        repo_root: where ``${REPO_ROOT}`` lies now; None: where it lay when the runs began.

    Raises:
        RunDirectoryError: a folder is no run directory, or nothing in it says which jobs it
            was to run.
    """
    result = Tally()
    places: dict[str, Path] = {}
    for run_dir in run_dirs:
        first = places.setdefault(os.path.realpath(run_dir), run_dir)
        if first is not run_dir:
            found = f"it is the same folder as {first}"
            result.errors.append(Problem("same_run", str(run_dir), found, "each run once"))
            continue
        _count_run(result, run_dir, repo_root)
    result.errors += _duplicates(result.jobs)
    return result


def _count_run(result: Tally, run_dir: Path, repo_root: Path | None) -> None:
    verdict = verify(run_dir, repo_root=repo_root)
    paths = RunPaths(run_dir)
    if verdict.run_kind != FORMAL and not os.path.lexists(paths.formal.root):
        found = "it is a run without a gate"
        result.errors.append(Problem("not_formal", str(run_dir), found, "a formal run"))
        return
    plan = _plan(paths)
    scheduled = _scheduled(paths, plan)
    if scheduled is None:
        problem = Problem("no_jobs", "", f"nothing in {run_dir} says which jobs it was to run")
        raise RunDirectoryError(problem)
    known = {job.job_id for job in scheduled}
    there = set(_folders(paths.jobs)) | ({job.job_id for job in plan.jobs} if plan else set())
    result.errors += [
        Problem("unexpected_job", str(run_dir), f"it has a job {job_id!r}, not in its manifest")
        for job_id in sorted(there - known)
    ]
    reasons = _reasons(scheduled, verdict)
    result.jobs += [Counted(str(run_dir), job, tuple(reasons[job.job_id])) for job in scheduled]


def _plan(paths: RunPaths) -> Plan | None:
    try:
        return load_plan(paths.plan)
    except HloopError:
        return None


def _scheduled(paths: RunPaths, plan: Plan | None) -> list[Scheduled] | None:
    """Give what the formal manifest names; without one, what the plan does."""
    try:
        manifest = canonical.loads(read_plain(paths.formal.manifest))
        if not schema_problems(manifest, "formal-manifest"):
            return [
                Scheduled(
                    entry["job_id"],
                    FormalKey(entry["case"], entry["method"], entry["seed"]),
                    entry["phase"],
                )
                for entry in manifest["jobs"]
            ]
    except (HloopError, canonical.CanonicalError):
        pass
    if plan is None:
        return None
    keys = ((job, key_of(job)) for job in plan.jobs)
    return [Scheduled(job.job_id, key, "") for job, key in keys if key is not None]


def _folders(path: Path) -> Iterable[str]:
    try:
        return os.listdir(path)
    except OSError:
        return ()


def _reasons(scheduled: Sequence[Scheduled], verdict: Verdict) -> dict[str, list[str]]:
    """Say of each job why it is a Fail: it did not complete, or its evidence does not hold."""
    reasons: dict[str, list[str]] = {job.job_id: [] for job in scheduled}
    places: dict[str, list[str]] = {}
    for job in scheduled:
        own = RunPaths(Path("${RUN_DIR}")).job(job.job_id).root
        for place in (job.job_id, f"{REPORT_PATH}: {job.job_id}", str(own), job.key.folder):
            places.setdefault(place, []).append(job.job_id)
    for finding in verdict.findings:
        # What is about no job alone is about every one.
        for job_id in _nearest(finding.where, places) or reasons:
            where = f"{finding.where}: " if finding.where not in ("", job_id) else ""
            reasons[job_id].append(f"{finding.code}: {where}{finding.found}")
    for job_id in reasons.keys() - verdict.completed:
        reasons[job_id].append("not_completed: no record shows that it completed")
    return reasons


def _nearest(where: str, places: Mapping[str, list[str]]) -> list[str]:
    """Give the jobs at a place, or at the nearest folder above it."""
    while where:
        if where in places:
            return places[where]
        where = where.rpartition("/")[0]
    return []


def _duplicates(jobs: Iterable[Counted]) -> Iterator[Problem]:
    """Find what two runs were to do, and so would be counted twice."""
    first: dict[tuple[FormalKey, str], str] = {}
    told = set()
    for counted in jobs:
        what = (counted.job.key, counted.job.phase)
        other = first.setdefault(what, counted.run_dir)
        if other != counted.run_dir and (what, counted.run_dir) not in told:
            told.add((what, counted.run_dir))
            key = counted.job.key
            found = f"{key.case}/{key.method}/{key.seed} {counted.job.phase} is in {other} too"
            yield Problem("duplicate_job", counted.run_dir, found, "each in one run")
