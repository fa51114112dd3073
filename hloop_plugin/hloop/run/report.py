"""The run report, ``hloop_run.json``: made from a plan and a journal, whatever the ending.

The journal is the only witness of what happened: :func:`assemble` is pure and takes it as far
as it goes, also where the run died in the middle of it. What the journal does not tell is
never filled in: a job whose end it does not hold did not complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hloop import files
from hloop.files import FIRST_RESUMED, JobPaths, RunPaths
from hloop.plan.identity import command_semantic_hash
from hloop.plan.model import Artifact, CompareMode
from hloop.plan.order import topological_order
from hloop.plan.render import RenderedArtifact, RenderedPlan
from hloop.portable import Portable
from hloop.provenance.records import DIRECTORY, JOURNAL, MANIFEST, REPORT, Reference, Status
from hloop.provenance.undeclared import undeclared
from hloop.run.journal import read_journal
from hloop.run.measures import Span, overlaps, scheduling, seconds
from hloop.run.rulesreport import rule_entries
from hloop.run.story import Story, read_stories, session_of, waves_of
from hloop.schedule.events import EngineSettings, Mode, Placement

RUN_SCHEMA = REPORT

# Text, as thousands of path objects would take longer than all else.
_JOBS = str(RunPaths(Path("${RUN_DIR}")).jobs)
_STDOUT, _STDERR = JobPaths(Path()).stdout.name, JobPaths(Path()).stderr.name
_FAILED = (Status.FAILED, Status.TIMED_OUT, Status.STALLED)


def write_report(rendered: RenderedPlan, paths: RunPaths) -> dict[str, Any]:
    """Make a run's report from its journal and write it, in place of an older one.

    Raises:
        ReportError: the journal is missing or damaged.
        OSError: the run directory cannot be written to.
    """
    report = assemble(rendered, read_journal(paths.journal))
    report["selection"] = _selection(rendered, report["jobs"])
    report["evidence"] = _evidence(rendered, paths)
    text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair has no UTF-8, but JSON's own escape for it.
    files.replace(paths.report, text.encode("utf-8", "backslashreplace") + b"\n")
    return report


def goodbye_text(goodbye: Mapping[str, Any]) -> str:
    """Say how a run ended, where its report is and what its head is; or why there is none.

    Args:
        goodbye: what closing a run gives.
    """
    if trouble := goodbye.get("trouble"):
        return str(trouble)
    counts = ", ".join(f"{count} {status}" for status, count in goodbye["counts"].items())
    return (
        f"run {goodbye['status']} ({counts}) in {goodbye['elapsed_seconds']:.1f} s. "
        f"Report: {goodbye['report']}\nhead: {goodbye['head']}"
    )


def assemble(rendered: RenderedPlan, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the report of a run, without the selection, which lies in a file.

    A run whose journal lacks ``run_ended`` died: it is ``failed`` if a job failed, else
    ``interrupted``, also where every job had completed. Its last event stands for its end.
    Where the run's own verdict is ``completed`` but a job did not complete, the jobs hold.

    Args:
        events: a journal, ``run_started`` first; it may end anywhere. Jobs that the plan does
            not hold are left out.
    """
    start = events[0]
    ends = (event for event in reversed(session_of(events)) if event["event"] == "run_ended")
    end = next(ends, None)
    # Several processes may have written: the last line need not be the latest event.
    last_ns = max(event["offset_ns"] for event in events)
    stories = read_stories(rendered.jobs, events)
    spans = _spans(stories, last_ns)
    together = overlaps(spans)
    together |= {name: list(s.together) for name, s in stories.items() if s.together is not None}
    portable = Portable(rendered.run_dir, rendered.repo_root)
    report: dict[str, Any] = {
        "schema_version": RUN_SCHEMA,
        "plan_id": start["plan_id"],
        "plan_semantic_hash": start["plan_semantic_hash"],
        "experiment_digest": start["experiment_digest"],
        "placement_digest": start["placement_digest"],
        "mode": start["mode"],
        "executor": start["executor"],
        "session_id": start["session_id"],
        "run_kind": start["run_kind"],
        "started_at": start["time"],
        "completed_at": end["time"] if end else _later(start["time"], last_ns),
        "elapsed_seconds": seconds(last_ns),
        "status": _run_status(end, [story.status for story in stories.values()]),
        # Sorted, once per job, as the published report has them.
        "candidate_ids": sorted(
            job.candidate_id for job in rendered.plan.jobs if job.candidate_id is not None
        ),
        "jobs": [
            _job(rendered, portable, job_id, stories[job_id], together.get(job_id, []))
            for job_id in topological_order(rendered.plan)
        ],
        "selection": None,
        "selection_artifact": None
        if rendered.selection_artifact is None
        else portable.path(rendered.selection_artifact),
        "host": start["host"],
        "versions": start["versions"],
        "devices": start["devices"],
        "scheduling": scheduling(
            rendered.plan,
            _settings(start),
            spans,
            {job_id: story.ready_ns for job_id, story in stories.items()},
        ),
    }
    if rules := rule_entries(events, portable):
        report["rules"] = rules
    if start["mode"] == Mode.BULK_SYNC:
        report["waves"] = waves_of(events)
    return report


def _spans(stories: Mapping[str, Story], last_ns: int) -> list[Span]:
    return [
        Span(
            job_id=job_id,
            slot=story.started["slot"],
            start_ns=story.started["offset_ns"],
            end_ns=last_ns + 1 if story.gone is None else story.gone["offset_ns"],
        )
        for job_id, story in stories.items()
        if story.started is not None
    ]


def _run_status(end: Mapping[str, Any] | None, jobs: Sequence[Status]) -> str:
    recorded = end and end["status"]
    if recorded in ("failed", "interrupted"):
        return str(recorded)
    if recorded == "completed" and all(status is Status.COMPLETED for status in jobs):
        return "completed"
    return "failed" if any(status in _FAILED for status in jobs) else "interrupted"


def _settings(start: Mapping[str, Any]) -> EngineSettings:
    return EngineSettings(
        devices=sorted(device["logical"] for device in start["devices"]),
        cpu_workers=start["limits"]["cpu"],
        io_workers=start["limits"]["io"],
        placement=Placement(start["placement"]),
        keep_going=start["keep_going"],
    )


def _job(
    rendered: RenderedPlan, portable: Portable, job_id: str, story: Story, others: list[str]
) -> dict[str, Any]:
    entry = rendered.jobs[job_id]
    job = entry.job
    started, gone, ended = story.started or {}, story.gone or {}, story.ended or {}
    failure = story.failure()
    return {
        "job_id": job_id,
        "candidate_id": job.candidate_id,
        "resource": job.resource.value,
        "cuda_visible_devices": job.cuda_visible_devices,
        "seed": job.seed,
        "budget": dict(job.budget),
        "command": [portable.text(item) for item in entry.argv],
        "command_semantic_hash": command_semantic_hash(entry.argv, rendered.run_dir),
        "inputs": _artifacts(portable, entry.inputs, ended.get("inputs", [])),
        "outputs": _artifacts(portable, entry.outputs, ended.get("outputs", [])),
        "status": story.status.value,
        "returncode": gone.get("returncode"),
        "signal": gone.get("signal"),
        "failure": failure and {name: portable.text(text) for name, text in failure.items()},
        "started_at": started.get("time"),
        "ended_at": gone.get("time"),
        "start_offset_ns": started.get("offset_ns"),
        "end_offset_ns": gone.get("offset_ns"),
        "elapsed_seconds": seconds(gone["offset_ns"] - started["offset_ns"]) if gone else None,
        "cpu_seconds": seconds(gone["cpu_ns"]) if gone else None,
        "max_rss_bytes": gone.get("max_rss_bytes"),
        "slot": started.get("slot"),
        "device": started.get("device"),
        "concurrent_with": others,
        "log": f"{_JOBS}/{job_id}/{_STDOUT}" if started else None,
        "stderr_log": f"{_JOBS}/{job_id}/{_STDERR}" if started else None,
        "attempt_status": story.record,
    }


def _evidence(rendered: RenderedPlan, paths: RunPaths) -> dict[str, Any]:
    """Refer to what covers the run as a whole; each job's entry refers to its own records."""
    portable = Portable(rendered.run_dir, rendered.repo_root)
    further = map(paths.session_manifest, range(FIRST_RESUMED, paths.next_session()))
    resumed = [_reference(portable, path, MANIFEST) for path in further]
    return {
        "manifest": _reference(portable, paths.manifest, MANIFEST),
        "journal": _reference(portable, paths.journal, JOURNAL),
        **({"resumed": resumed} if resumed else {}),
        "undeclared": [
            f"{portable.path(rendered.run_dir)}/{name}" for name in undeclared(rendered)
        ],
    }


def _reference(portable: Portable, path: Path, type: str) -> dict[str, Any] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return Reference.of_bytes(portable.path(path), type, data).to_dict()


def _artifacts(
    portable: Portable,
    declared: Sequence[RenderedArtifact],
    read: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Give every declared artifact, with null where it was not read."""
    known = {(entry["role"], entry["path"]): entry for entry in read}
    return [
        {
            "role": artifact.role,
            "path": portable.path(artifact.path),
            **({"type": DIRECTORY} if artifact.directory else {}),
            "sha256": None if entry is None else entry["sha256"],
            "size_bytes": None if entry is None else entry["size_bytes"],
            **_comparison(artifact.declared),
        }
        for artifact in declared
        for entry in [known.get((artifact.role, artifact.path))]
    ]


def _comparison(artifact: Artifact) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if artifact.compare is not CompareMode.BYTES:
        fields["compare"] = artifact.compare.value
    if artifact.ignore:
        fields["ignore"] = list(artifact.ignore)
    return fields


def _selection(rendered: RenderedPlan, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Read the selection artifact. What a job left that did not complete is no decision."""
    path = rendered.selection_artifact
    if path is None or any(
        job["status"] != Status.COMPLETED
        and any(output.path == path for output in rendered.jobs[job["job_id"]].outputs)
        for job in jobs
    ):
        return None
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    try:
        value = json.loads(data)
        # Python reads NaN and infinities, JSON has none.
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        value = None
    return {"sha256": hashlib.sha256(data).hexdigest(), "value": value}


def _later(time: str, offset_ns: int) -> str:
    moment = datetime.fromisoformat(time) + timedelta(microseconds=offset_ns // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
