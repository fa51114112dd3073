"""What a journal tells of each job, however far the journal goes. It judges no run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloop.provenance.records import Status


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
        story = stories.get(event.get("job", ""))
        if story is None:
            continue
        match event["event"]:
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
