"""A plan's run under another executor than hloop's.

The rules' own bodies come here. Each job gets a supervisor of its own, so that its attempt
and its records are the same; what starts when is the other executor's business, and the
report says so.
"""

from __future__ import annotations

import os
import queue
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop.errors import HloopError, Problem
from hloop.run.approval import check_formal
from hloop.run.channel import Message
from hloop.run.claiming import claim
from hloop.run.client import SupervisorClient
from hloop.run.opening import Opening
from hloop.run.planrun import PlanRun
from hloop.run.runlock import RunLock

if TYPE_CHECKING:
    from hloop.run.workflow import WorkflowRun

# Of the runs that this process began. The processes of their jobs, which may be on other
# machines, take none.
_LOCKS: dict[Path, RunLock] = {}


def begin(run: WorkflowRun, *, executor: str, snakemake: str) -> None:
    """Claim the run directory and start the journal. For Snakemake's ``onstart``.

    Raises:
        HloopError: the run directory is used, or a device is not there, or the run is formal.
    """
    plan = run.rendered.plan
    table = run.settings.resolve(plan, os.environ)
    claim(run.rendered, check_formal(run.rendered, run.settings, table, executor=executor))
    _LOCKS[run.paths.root] = RunLock.take(run.paths)
    PlanRun.open(
        run.opening(run.settings, executor=executor, snakemake=snakemake),
        run.settings.engine(plan, table, keep_going=False),
        table,
        run.settings.grace_seconds,
    ).leave()


def end(run: WorkflowRun) -> dict[str, Any]:
    """Write the run report. For ``onsuccess`` and ``onerror``. Gives its status and its path."""
    try:
        return PlanRun.attach(run.rendered).close(interrupted=False)
    finally:
        if lock := _LOCKS.pop(run.paths.root, None):
            lock.release()


def run_job(run: WorkflowRun, job_id: str) -> None:
    """Run one job of the plan here and now. For a rule's body.

    Raises:
        HloopError: the job did not complete; says why.
    """
    if not run.paths.journal.exists():
        raise HloopError(
            Problem(
                "not_begun",
                "",
                f"the run in {run.paths.root} has no journal",
                "a run that was begun",
                "Leave out --no-hooks, or use --executor hloop",
            )
        )
    plan = run.rendered.plan
    table = run.settings.resolve(plan, os.environ)
    settings = run.settings.engine(plan, table, keep_going=False)
    answers: queue.Queue[Message] = queue.Queue()
    client = SupervisorClient(
        answers.put, lambda trouble: answers.put({"say": "died", "message": trouble})
    )
    run_part = run.opening(run.settings, only=job_id)
    leases = run.settings.leases(table, os.environ)
    opening = Opening(
        settings,
        table,
        run.settings.grace_seconds,
        [job_id],
        run_part,
        leases=leases,
        heartbeat_seconds=run.settings.heartbeat,
        max_log_bytes=run.settings.max_log_bytes,
    )
    client.send(opening.to_message())
    client.send({"do": "ready", "jobs": [job_id]})
    try:
        while (answer := answers.get())["say"] in ("waiting", "started"):
            if answer["say"] == "waiting":
                print(f"hloop: {job_id} waits: {answer['reason']}", file=sys.stderr, flush=True)
    finally:
        client.close()
    if answer.get("status") != "completed":
        text = answer.get("message") or answer.get("reason", "")
        raise HloopError(f"job {job_id} did not complete: {text}")
