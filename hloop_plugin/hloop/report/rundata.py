"""Collects what a report page shows of one run: its report, its plan and, if asked, its verdict.

It reads and decides nothing. A run that left no report is shown as far as its journal goes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop.errors import HloopError
from hloop.files import RunPaths
from hloop.provenance.records import Status
from hloop.report.load import RunReport, load_report
from hloop.report.timeline import band, stages_of
from hloop.run.claiming import load_claimed
from hloop.run.journal import read_journal
from hloop.run.report import assemble
from hloop.run.runlock import is_executed

if TYPE_CHECKING:
    from hloop.provenance.verify import Verdict

UNDER_WAY, RUNNING, WAITING = "under way", "running", "waiting"
MAX_COMMAND = 4000
MAX_LISTED = 40
"""How many inputs, and how many outputs, of one job are listed with it."""


@dataclass(frozen=True)
class RunData:
    """What is known of a run.

    Attributes:
        document: the run report.
        has_report: the report is the one that the run left; else it is made of the journal.
            Of a run that goes on on this machine, the status is ``under way`` and those of its
            jobs may be ``running`` and ``waiting``.
        head: ``sha256:<hex>`` of the report; None without one.
        depends_on: ids by job id, from the plan; empty where there is no plan that can be read.
        held_ns: jobs that did not get the lease of their device at once, and when that was seen.
        sessions_ns: when the run was resumed.
        verdict: what ``hloop verify`` says; None where it was not asked.
        unverified: why it was not; "" where it was.
    """

    run_dir: Path
    document: Mapping[str, Any]
    has_report: bool
    head: str | None
    depends_on: Mapping[str, Sequence[str]]
    held_ns: Mapping[str, int]
    sessions_ns: Sequence[int]
    verdict: Verdict | None
    unverified: str

    @property
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        jobs: Sequence[Mapping[str, Any]] = self.document["jobs"]
        return jobs


def read_run(
    run_dir: Path,
    *,
    with_verdict: bool,
    progress: Callable[[int, int], None] | None = None,
) -> RunData:
    """Read what a run directory tells.

    Args:
        with_verdict: verify it, which reads all inputs and outputs.
        progress: as in :func:`hloop.provenance.verify.verify`.

    Raises:
        ReportError: there is no report and no journal, or they are damaged.
    """
    paths = RunPaths(run_dir)
    if os.path.lexists(paths.report) or not paths.journal.exists():
        report = load_report(run_dir)
        document, head = report.document, f"sha256:{report.sha256}"
    else:
        document, head = _from_journal(paths), None
    verdict, unverified = None, "not verified yet: hloop verify"
    if with_verdict and document.get("status") != UNDER_WAY:
        from hloop.provenance.verify import verify

        try:
            verdict, unverified = verify(run_dir, progress=progress), ""
        except HloopError as error:
            unverified = f"cannot be verified: {error}"
    held_ns, sessions_ns = _read_pauses(paths.journal)
    return RunData(
        run_dir,
        document,
        head is not None,
        head,
        read_dependencies(paths),
        held_ns,
        sessions_ns,
        verdict,
        unverified,
    )


def _from_journal(paths: RunPaths) -> dict[str, Any]:
    """Make the report that a run would have, if it ended now; but what goes on is called so."""
    goes_on = is_executed(paths)
    events = read_journal(paths.journal)
    document = assemble(load_claimed(paths.root, Path(events[0]["repo_root"])), events)
    # It may have ended meanwhile.
    if goes_on and events[-1]["event"] != "run_ended":
        document["status"] = UNDER_WAY
        over = {event["job"] for event in events if event["event"] in ("job_ended", "job_skipped")}
        for job in document["jobs"]:
            if job["job_id"] not in over and job["status"] in (Status.CANCELLED, Status.SKIPPED):
                job["status"] = RUNNING if job["status"] == Status.CANCELLED else WAITING
                job["failure"] = None
    return document


def read_dependencies(paths: RunPaths) -> dict[str, list[str]]:
    """Give what each job of a run depends on; {} where its plan cannot be read."""
    try:
        jobs = json.loads(paths.plan.read_bytes())["jobs"]
        return {job["job_id"]: [str(name) for name in job["depends_on"]] for job in jobs}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _read_pauses(journal: Path) -> tuple[dict[str, int], list[int]]:
    """Give what the journal tells and no report: which jobs had to wait for a lease, seen when,
    and when the run was resumed. Nothing where it cannot be read."""
    held, sessions = {}, []
    try:
        for line in journal.read_bytes().splitlines():
            # Of thousands of lines, a few.
            if b'"job_waiting"' in line or b'"run_resumed"' in line:
                event = json.loads(line)
                if event["event"] == "job_waiting":
                    held[str(event["job"])] = int(event["offset_ns"])
                elif event["event"] == "run_resumed":
                    sessions.append(int(event["offset_ns"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}, []
    return held, sessions


def run_band(
    report: RunReport, title: str, stages: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Give a run's band of a timeline, from its report and the plan beside it."""
    paths = RunPaths(report.run_dir)
    pauses = _read_pauses(paths.journal)
    return _band(report.document, read_dependencies(paths), pauses, title, stages)


def _band(
    document: Mapping[str, Any],
    depends_on: Mapping[str, Sequence[str]],
    pauses: tuple[Mapping[str, int], Sequence[int]],
    title: str,
    stages: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    jobs = document["jobs"]
    scheduling = document.get("scheduling") or {}
    return band(
        title,
        jobs,
        depends_on,
        stages_of(jobs, depends_on) if stages is None else stages,
        mode=document.get("mode", ""),
        waves=document.get("waves") or (),
        idle_seconds=scheduling.get("idle_seconds"),
        end_seconds=document.get("elapsed_seconds"),
        held_ns=pauses[0],
        sessions_ns=pauses[1],
    )


def timeline_data(run: RunData, base: str) -> dict[str, Any]:
    """Give what the page's scripts draw: the band, with all that is known of each job.

    Args:
        base: the run directory, relative to the page's folder.
    """
    drawn = _band(run.document, run.depends_on, (run.held_ns, run.sessions_ns), "")
    waits = (run.document.get("scheduling") or {}).get("ready_to_start_seconds") or {}
    artifacts = _Artifacts()
    for bar, job in zip(drawn["jobs"], run.jobs, strict=True):
        bar |= _details(job, artifacts, base)
        bar["wait"] = waits.get(job["job_id"])
    return {"bands": [drawn], "artifacts": artifacts.entries}


class _Artifacts:
    """Artifacts by number, each once."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, artifact: Mapping[str, Any]) -> int:
        key = tuple(artifact.get(name) for name in ("role", "path", "size_bytes", "sha256"))
        if key not in self._numbers:
            self._numbers[key] = len(self.entries)
            self.entries.append(list(key))
        return self._numbers[key]


def _details(job: Mapping[str, Any], artifacts: _Artifacts, base: str) -> dict[str, Any]:
    from hloop.report.html import file_href

    command = " ".join(map(_quoted, job.get("command", ())))
    if len(command) > MAX_COMMAND:
        command = f"{command[:MAX_COMMAND]}… ({len(command)} characters)"
    failure = job.get("failure") or {}
    details: dict[str, Any] = {
        "command": command,
        "slot": job.get("slot"),
        "device": job.get("device"),
        "seed": job.get("seed"),
        "code": job.get("returncode"),
        "signal": job.get("signal"),
        "cpu": job.get("cpu_seconds"),
        "rss": job.get("max_rss_bytes"),
        "record": (job.get("attempt_status") or {}).get("sha256"),
        "why": failure.get("message"),
        "stderr": failure.get("stderr_tail"),
    }
    for name, key in (("inputs", "inputs"), ("outputs", "outputs")):
        entries = job.get(key, ())
        details[name] = [artifacts.number(entry) for entry in entries[:MAX_LISTED]]
        if len(entries) > MAX_LISTED:
            details[f"more_{name}"] = len(entries) - MAX_LISTED
    logs = [job.get(key) for key in ("log", "stderr_log")]
    details["logs"] = [
        [path, file_href(os.path.join(base, path.removeprefix("${RUN_DIR}/")))]
        for path in logs
        if path is not None and path.startswith("${RUN_DIR}/")
    ]
    return details


def _quoted(item: str) -> str:
    import shlex

    return shlex.quote(item)
