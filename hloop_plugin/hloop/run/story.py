"""What a journal tells of each job, however far the journal goes. It judges no run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop import canonical
from hloop.files import RunPaths
from hloop.plan.render import RenderedArtifact, RenderedJob
from hloop.provenance.records import ATTEMPT_STATUS, Reference, Status

if TYPE_CHECKING:
    from hloop.provenance.chain import JobChain


@dataclass(slots=True)
class Story:
    """What the journal tells of one job; offsets in nanoseconds since the run started."""

    ready_ns: int | None = None
    started: Mapping[str, Any] | None = None
    gone: Mapping[str, Any] | None = None
    ended: Mapping[str, Any] | None = None
    skip_reason: str | None = None
    record: Mapping[str, Any] | None = None
    """The reference to the attempt's status."""
    together: Sequence[str] | None = None
    """What ran beside it, where its records were asked for that."""

    @property
    def status(self) -> Status:
        if self.ended is not None:
            return Status(self.ended["status"])
        return Status.SKIPPED if self.started is None else Status.CANCELLED

    def failure(self) -> dict[str, Any] | None:
        if self.ended is not None:
            failure: dict[str, Any] | None = self.ended["failure"]
            return failure
        if self.started is not None:
            reason, message = "unfinished", "the run ended before the job's end was recorded"
        elif self.skip_reason is not None:
            reason, message = "skipped", self.skip_reason
        elif self.ready_ns is not None:
            reason, message = "skipped", "the run ended before the job was started"
        else:
            reason, message = "skipped", "the run ended before the job was ready"
        return {"reason": reason, "message": message, "stderr_tail": ""}


def read_stories(job_ids: Iterable[str], events: Iterable[Mapping[str, Any]]) -> dict[str, Story]:
    """Give the story of every job; what the events tell of others is left out."""
    stories = {job_id: Story() for job_id in job_ids}
    for event in events:
        if event["event"] == "run_resumed":
            earlier, stories = stories, {job_id: Story() for job_id in stories}
            for entry in event["kept"]:
                _restore(stories, entry)
                # When a job became ready is told by the journal alone.
                if story := stories.get(entry["job"]):
                    story.ready_ns = earlier[entry["job"]].ready_ns
        story = stories.get(event.get("job", ""))
        if story is None:
            continue
        match event["event"]:
            case "job_restored":
                _restore(stories, event)
            case "job_ready":
                story.ready_ns = event["offset_ns"]
            case "job_started":
                story.started = event
            case "job_gone":
                story.gone = event
            case "job_ended":
                # The last one counts: a completed job's outputs may be refused afterwards.
                story.ended = event
                story.record = event["attempt_status"] or story.record
            case "job_skipped":
                story.skip_reason = event["reason"]
    return stories


def _restore(stories: Mapping[str, Story], entry: Mapping[str, Any]) -> None:
    """Take what the records say of a job, as :func:`told_by_records` gives it."""
    if (story := stories.get(entry["job"])) is not None:
        story.started, story.gone, story.ended = entry["started"], entry["gone"], entry["ended"]
        story.record = entry["ended"]["attempt_status"]
        story.together = entry["concurrent_with"]


def session_of(events: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Give the events of a run's last session."""
    begins = (i for i in reversed(range(len(events))) if events[i]["event"] == "run_resumed")
    return events[next(begins, 0) :]


def waves_of(events: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Give the ids of the jobs that started together, wave by wave."""
    waves: dict[int, list[str]] = {}
    for event in events:
        if event["event"] == "wave_started":
            waves[event["index"]] = list(event["jobs"])
        # A journal may lack its end, and then the wave of a job that is kept.
        for entry in [event] if event["event"] == "job_restored" else event.get("kept", ()):
            if entry["wave"] is not None and entry["job"] not in waves.get(entry["wave"], ()):
                waves.setdefault(entry["wave"], []).append(entry["job"])
    return [waves.get(index, []) for index in range(max(waves, default=-1) + 1)]


def told_by_records(job: JobChain, entry: RenderedJob) -> dict[str, Any]:
    """Give what the records of an attempt say of it, in the journal's words.

    Args:
        job: holds a status that can be used.
    """
    from hloop.provenance.reading import RUN_DIR

    assert job.status is not None
    status, record, scheduled = job.status, job.record, job.scheduled or {}
    size = len(canonical.dumps(status))
    path = RunPaths(Path(RUN_DIR)).job(job.job_id).status
    assert job.status_sha256 is not None
    reference = Reference(str(path), ATTEMPT_STATUS, job.status_sha256, size)
    failure = status["failure"]
    return {
        "job": job.job_id,
        "wave": scheduled.get("wave"),
        "started": None
        if record is None
        else {
            **record["started"],
            "pid": record["process"]["pid"],
            "slot": scheduled.get("slot"),
            "device": scheduled.get("device"),
        },
        "gone": None
        if record is None
        else {
            **record["ended"],
            "returncode": record["returncode"],
            "signal": record["signal"],
            **record["usage"],
        },
        "ended": {
            "status": status["status"],
            "inputs": _artifacts(entry.inputs, scheduled.get("input_digests", ())),
            "outputs": _artifacts(entry.outputs, status["outputs"]),
            "failure": None if failure is None else {**failure, "stderr_tail": ""},
            "attempt_status": reference.to_dict(),
        },
        "concurrent_with": None if record is None else record["concurrent_with"],
    }


def _artifacts(
    declared: Sequence[RenderedArtifact], references: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {
            "role": item.role,
            "path": item.path,
            "sha256": reference["sha256"],
            "size_bytes": reference["size"],
        }
        for item, reference in zip(declared, references, strict=False)
    ]
