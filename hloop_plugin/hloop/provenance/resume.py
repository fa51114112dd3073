"""Which jobs of a run that ended are done: decided from their records and from nothing else.

A job is done where verification would find nothing against it: its records hold, are what the
plan asks for, its inputs, outputs and logs hash to what they say, and all that it depends on is
done. That a file is there, when it was changed, what a marker, the journal or the run report
says, and what Snakemake remembers decide nothing. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hloop.files import JOBS_NAME, RunPaths
from hloop.plan.order import topological_order
from hloop.plan.render import RenderedPlan
from hloop.provenance.agreement import check_agreement
from hloop.provenance.chain import JOURNAL_PATH, Chain, JobChain, walk
from hloop.provenance.claims import check_claims, holds_completed
from hloop.provenance.contents import check_contents
from hloop.provenance.findings import CATALOGUE, Finding
from hloop.provenance.reading import RUN_DIR, RunFiles
from hloop.provenance.times import check_times

_PATHS = RunPaths(Path(RUN_DIR))
_ORDER = "order of "
_OF_JOBS = f"{RUN_DIR}/{JOBS_NAME}/"


@dataclass(frozen=True)
class Decision:
    """What becomes of one job when its run is resumed.

    Attributes:
        reason: why it is kept, or the first reason why it runs again: a phrase.
        attempt: the records of a job that is kept; None of one that runs again.
    """

    job_id: str
    reason: str
    attempt: JobChain | None = None

    @property
    def kept(self) -> bool:
        return self.attempt is not None

    def __str__(self) -> str:
        return f"{'kept ' if self.kept else 'again'}  {self.job_id}: {self.reason}"


def decide(rendered: RenderedPlan) -> list[Decision]:
    """Say of each job whether it is done, in topological order. Nobody may be running them.

    Args:
        rendered: the plan, for the run directory that is looked at.
    """
    chain = read_attempts(rendered)
    if chain.manifest is not None:
        check_agreement(chain, rendered)
        check_times(chain, rendered.plan)
    files = RunFiles(str(rendered.run_dir), str(rendered.repo_root))
    check_claims(chain, files, rendered)
    check_contents(chain, files, rendered, None)
    against = _against(chain)
    decisions: dict[str, Decision] = {}
    for job_id in topological_order(rendered.plan):
        depends_on = rendered.jobs[job_id].job.depends_on
        decisions[job_id] = _decide(chain, job_id, depends_on, against, decisions)
    return list(decisions.values())


def read_attempts(rendered: RenderedPlan) -> Chain:
    """Read the records of a run's attempts, as they lie there."""
    files = RunFiles(str(rendered.run_dir), str(rendered.repo_root))
    return walk(files, str(rendered.repo_root), use_report=False)


def _decide(
    chain: Chain,
    job_id: str,
    depends_on: tuple[str, ...],
    against: Mapping[str, str],
    decisions: Mapping[str, Decision],
) -> Decision:
    job = chain.jobs.get(job_id, JobChain(job_id))
    for place in (job_id, job.session, ""):
        if reason := against.get(place):
            return Decision(job_id, reason)
    if not holds_completed(job):
        if str(_PATHS.job(job_id).scheduled) in chain.read:
            return Decision(job_id, "it was scheduled, and nothing shows how it ended")
        return Decision(job_id, "it never ran")
    for name in depends_on:
        if not decisions[name].kept:
            return Decision(job_id, f"it depends on {name}, which runs again")
    if reason := against.get(_ORDER + job_id):
        return Decision(job_id, reason)
    assert job.status is not None and job.scheduled is not None
    read = len(job.scheduled["input_digests"]) + len(job.status["outputs"])
    files = "1 input or output is" if read == 1 else f"{read} inputs and outputs are"
    reason = f"its records hold, and its {files} as they say" if read else "its records hold"
    return Decision(job_id, reason, job)


def _against(chain: Chain) -> dict[str, str]:
    """Give the first finding against each job, by its id; against all jobs of a session, by
    the path of its manifest; and against all, by ``""``. What is only out of order stands
    under a name of its own."""
    found: dict[str, str] = {}
    for finding in chain.findings:
        job = chain.jobs.get(finding.where)
        if CATALOGUE[finding.code].is_note or finding.where == JOURNAL_PATH:
            continue
        if finding.code == "dependency_order":
            # Where the other job runs again, that is reason enough.
            found.setdefault(_ORDER + finding.where, finding.found)
            continue
        if finding.code == "job_not_completed" and (job is None or job.status is None):
            continue  # There are better words for this.
        where = "" if job is not None else f"{os.path.basename(finding.where)}: "
        found.setdefault(_whose(chain, finding), where + finding.found)
    return found


def _whose(chain: Chain, finding: Finding) -> str:
    if finding.where in chain.jobs or finding.where in chain.sessions:
        return finding.where
    if finding.where.startswith(_OF_JOBS):
        return finding.where.removeprefix(_OF_JOBS).partition("/")[0]
    return ""
