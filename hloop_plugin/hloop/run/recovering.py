"""``hloop recover``: the end of a run that died with its supervisor and its Snakemake.

The journal and the records tell how far it came. An attempt without a status is cancelled, and
never completed; a status that is there stands. Nothing is started, and Snakemake is not needed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import files
from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.load import load_checked
from hloop.plan.render import RenderedPlan
from hloop.provenance.chain import Chain
from hloop.provenance.records import MANIFEST, Status
from hloop.provenance.resume import read_attempts
from hloop.run.attempt import Failure, Outcome
from hloop.run.journal import Journal, mend_journal, read_journal
from hloop.run.planrun import PlanRun
from hloop.run.resuming import set_aside
from hloop.run.rulerun import RuleRun
from hloop.run.runlock import RunLock
from hloop.run.story import Story, read_stories, session_of, told_by_records
from hloop.run.survivors import end_survivors

DIED = Outcome(
    Status.CANCELLED, Failure("run_died", "the run died before the job's end was recorded")
)


@dataclass(frozen=True)
class Recovered:
    """A run that has its report.

    Attributes:
        anew: the report was written just now.
        status: of the run.
        counts: how many jobs ended in which way.
        report: its path.
        head: ``sha256:<hex>``.
    """

    anew: bool
    status: str
    counts: dict[str, int]
    report: Path
    head: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "recovered": self.anew,
            "status": self.status,
            "counts": self.counts,
            "report": str(self.report),
            "head": self.head,
        }


def recover(run_dir: Path) -> Recovered:
    """Write the records and the report that a run which died could not. Again, it does nothing.

    Raises:
        RunDirectoryError: it is no run directory, the run goes on, or it had not begun.
        HloopError: its journal or its plan cannot be read.
        OSError: the run directory cannot be written to.
    """
    paths = RunPaths(Path(os.path.abspath(run_dir)))
    if not any(path.exists() for path in (paths.plan, paths.manifest, paths.journal)):
        found, expected = f"{run_dir} is no run directory", "a folder with a journal.jsonl"
        action = "Give the folder that hloop run wrote into"
        raise RunDirectoryError(Problem("no_run_dir", "", found, expected, action))
    lock = RunLock.take(paths)
    try:
        anew = not paths.report.exists()
        if anew:
            _close(paths)
        return _read(paths, anew=anew)
    finally:
        lock.release()


def _read(paths: RunPaths, *, anew: bool) -> Recovered:
    data = paths.report.read_bytes()
    try:
        report = json.loads(data)
        jobs = report["jobs"] if "jobs" in report else report["rules"]
        counts: dict[str, int] = {}
        for job in jobs:
            counts[job["status"]] = counts.get(job["status"], 0) + 1
        status = str(report["status"])
    except (ValueError, KeyError, TypeError) as error:
        problem = Problem("not_a_report", "", f"it is no run report: {error!r}")
        raise HloopError(problem, file=paths.report) from None
    return Recovered(anew, status, counts, paths.report, files.sha256_bytes(data))


def _close(paths: RunPaths) -> None:
    if not paths.journal.exists() or not _begins(paths.journal):
        found = "the run died before it had begun: no job was started"
        action = "Begin it with hloop run --resume, or remove the folder"
        raise RunDirectoryError(Problem("not_begun", "", found, "a journal", action))
    start = read_journal(paths.journal)[0]
    if not os.path.isdir(start["run_dir"]) or not os.path.samefile(start["run_dir"], paths.root):
        found, action = f"the run was made in {start['run_dir']}", "Move it back there"
        raise RunDirectoryError(Problem("moved", "", found, str(paths.root), action))
    run_dir, repo_root = Path(start["run_dir"]), Path(start["repo_root"])
    rendered = None
    if paths.plan.exists():
        rendered = load_checked(paths.plan, repo_root, run_dir)
    end_survivors(RunPaths(run_dir))
    journal = Journal.resume(paths.journal)
    if rendered is None or paths.rules.exists():
        rules = RuleRun.attach(run_dir, repo_root, journal=journal)
        rules.bury(DIED)
        if rendered is None:
            _check(rules.close(interrupted=True))
            return
    run = PlanRun.attach(rendered, journal=journal)
    _close_jobs(run, read_attempts(rendered), rendered)
    _check(run.close(interrupted=True))


def _begins(journal: Path) -> bool:
    """Cut off the line that its writer died in. Whether one is left."""
    mend_journal(journal)
    return journal.stat().st_size > 0


def _check(goodbye: dict[str, Any]) -> None:
    if trouble := goodbye.get("trouble"):
        raise HloopError(Problem("no_report", "", str(trouble)))


def _close_jobs(run: PlanRun, chain: Chain, rendered: RenderedPlan) -> None:
    """Bring journal and records together: each attempt has a status, which the journal has."""
    events = read_journal(run.paths.journal)
    stories = read_stories(rendered.jobs, events)
    again = {entry["job"] for entry in session_of(events)[0].get("again", ())}
    session = list(chain.sessions)[-1]
    for job_id, story in stories.items():
        job = chain.jobs.get(job_id)
        if job is None or story.ended is not None:
            continue
        if job.status is not None and job.session == session:
            run.journal.append("job_restored", **told_by_records(job, rendered.jobs[job_id]))
        elif _was_begun(chain, job_id, story, session):
            run.bury(job_id, DIED)
        elif job_id in again:
            # The session died while it set aside what runs again.
            set_aside(rendered, job_id)


def _was_begun(chain: Chain, job_id: str, story: Story, session: str) -> bool:
    """Whether the last session has begun with a job."""
    if story.started is not None:
        return True
    path = str(RunPaths(Path("${RUN_DIR}")).job(job_id).scheduled)
    scheduled = chain.read.get(path)
    if scheduled is None or scheduled.document is None:
        return False
    upstream = scheduled.document["upstream"]
    return any(item["type"] == MANIFEST and item["path"] == session for item in upstream)
