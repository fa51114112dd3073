"""What a run decided, as one digest: the selection without what may differ between two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any


def decision_hash(report: Mapping[str, Any]) -> str | None:
    """Give 64 hex digits over a run's decision; None where it made none.

    Of a selection among candidates, as MimicX's and that of the embedded workload, the decision
    is which candidates there are, which are accepted and which are selected: not in how many
    steps. Its digest is the published one. Of another JSON selection it is the value without
    what the plan ignores in a comparison; of anything else the bytes.

    Args:
        report: a run report.
    """
    selection = report.get("selection")
    if not selection:
        return None
    value = selection.get("value")
    if value is None:
        digest: str | None = selection.get("sha256")
        return digest
    decision = _candidates(value)
    if decision is None:
        decision = _without(value, _ignored(report))
    text = json.dumps(decision, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _candidates(value: Any) -> dict[str, Any] | None:
    """Reduce a selection among candidates to what the original reduces it to; None of another."""
    try:
        # MimicX calls them candidates, the embedded workload rows.
        rows = value["candidates"] if "candidates" in value else value["rows"]
        decisions = [{key: row[key] for key in ("candidate_id", "accepted")} for row in rows]
        return {
            "selected_candidate_ids": sorted(value["selected_candidate_ids"]),
            "candidate_decisions": sorted(decisions, key=lambda row: str(row["candidate_id"])),
        }
    except (KeyError, TypeError):
        return None


def _ignored(report: Mapping[str, Any]) -> Iterable[str]:
    for job in report["jobs"]:
        for output in job.get("outputs", ()):
            if output.get("path") == report.get("selection_artifact"):
                yield from output.get("ignore", ())


def _without(value: Any, pointers: Iterable[str]) -> Any:
    """Put null in the place of what JSON pointers (RFC 6901) name."""
    value = json.loads(json.dumps(value))
    for pointer in pointers:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]
        at = {"": value}
        try:
            for token in tokens[:-1]:
                at = at[_key(at, token)]
            if at[_key(at, tokens[-1])] is not None:
                at[_key(at, tokens[-1])] = None
        except (KeyError, IndexError, ValueError, TypeError):
            continue  # It names nothing here.
    return value


def _key(container: Any, token: str) -> Any:
    return int(token) if isinstance(container, list) else token
