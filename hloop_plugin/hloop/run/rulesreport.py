"""What a run report says of jobs that no plan holds, and the report of a run without a plan.

Both are made from the journal, which is the only witness: a job whose end it does not hold did
not complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hloop import canonical, files
from hloop.files import RunPaths
from hloop.portable import Portable
from hloop.provenance.records import JOURNAL, MANIFEST, RULES_RUN, Reference, Status

SCHEDULED, STARTED, GONE = "rule_scheduled", "rule_started", "rule_gone"
ENDED, REJECTED = "rule_ended", "rule_rejected"
"""The journal's events for jobs that no plan holds."""


def rule_entries(events: Iterable[Mapping[str, Any]], portable: Portable) -> list[dict[str, Any]]:
    """Give an entry for each attempt that has records, in the order in which they came."""
    entries: dict[str, dict[str, Any]] = {}
    for event in events:
        match event["event"]:
            case "rule_scheduled":
                message = "the run ended before the job's end was recorded"
                failure = {"reason": "unfinished", "message": message}
                entries[event["job"]] = _entry(event, Status.CANCELLED, failure, portable)
            case "rule_ended":
                entry = _entry(event, event["status"], event["failure"], portable)
                entries[event["job"]] = entry | {"attempt_status": event["attempt_status"]}
            case "rule_rejected":
                message = "Snakemake did not take what it made; its own log says why"
                entries[event["job"]] |= {
                    "status": Status.FAILED.value,
                    "failure": {"reason": "rejected", "message": message},
                }
    return list(entries.values())


def _entry(
    event: Mapping[str, Any],
    status: str,
    failure: Mapping[str, str] | None,
    portable: Portable,
) -> dict[str, Any]:
    return {
        "name": event["job"],
        "rule": event["rule"],
        "status": str(status),
        "failure": failure and {key: portable.text(text) for key, text in failure.items()},
        "retried": event["retried"],
        "temporary": sorted(map(portable.path, event["temporary"])),
        "not_covered": sorted(map(portable.path, event["not_covered"])),
        "attempt_status": None,
    }


def run_status(entries: Iterable[Mapping[str, Any]], *, interrupted: bool) -> str:
    """Say how a run without a plan went. An attempt that is tried again does not count."""
    if interrupted:
        return "interrupted"
    last = (entry for entry in entries if not entry["retried"])
    done = all(entry["status"] == Status.COMPLETED for entry in last)
    return "completed" if done else "failed"


def write_rules_run(
    paths: RunPaths, portable: Portable, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Write the report of a run without a plan, in place of an older one.

    Args:
        events: its journal, from ``run_started`` to ``run_ended``.

    Raises:
        OSError: the run directory cannot be written to.
    """
    start, end = events[0], events[-1]
    references = {
        name: Reference.of_bytes(portable.path(path), type, path.read_bytes()).to_dict()
        if path.exists()
        else None
        for name, path, type in (
            ("manifest", paths.manifest, MANIFEST),
            ("journal", paths.journal, JOURNAL),
        )
    }
    report = {
        "_type": RULES_RUN,
        "session_id": start["session_id"],
        "run_kind": start["run_kind"],
        "status": end["status"],
        "executor": start["executor"],
        "began": {"time": start["time"], "offset_ns": 0},
        "ended": {"time": end["time"], "offset_ns": end["offset_ns"]},
        "evidence": {**references, "undeclared": []},
        "rules": rule_entries(events, portable),
    }
    files.replace(paths.report, canonical.dumps(report))
    return report
