"""Records: the files that the evidence of a run is made of, and how they refer to each other.

A record says its type inside and refers only to what it builds on, so the chain has one
direction: each type has a layer, and a reference goes to a lower one. Nothing here knows how
a run goes or whether a chain holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.files import FileDigest
from hloop.plan.model import PLAN_SCHEMA

FILE = "file"
DIRECTORY = "directory"
PLAN = PLAN_SCHEMA
FIDELITY = "hloop/author_fidelity/v1"
FORMAL_MANIFEST = "hloop/formal_manifest/v1"
GATE = "hloop/fidelity_gate/v1"
MANIFEST = "hloop/manifest/v1"
SCHEDULED_JOB = "hloop/scheduled_job/v1"
RUN_RECORD = "hloop/run_record/v1"
ATTEMPT_STATUS = "hloop/attempt_status/v1"
JOURNAL = "hloop/journal/v1"
REPORT = "mimicx.hloop-run.v1"
RULES_RUN = "hloop/rules_run/v1"

LAYERS: Mapping[str, int] = {
    FILE: 0,
    DIRECTORY: 0,
    PLAN: 1,
    FIDELITY: 1,
    FORMAL_MANIFEST: 2,
    GATE: 3,
    MANIFEST: 4,
    SCHEDULED_JOB: 5,
    RUN_RECORD: 6,
    ATTEMPT_STATUS: 7,
    JOURNAL: 8,
    REPORT: 9,
    RULES_RUN: 9,
}
"""How far down the chain a type stands; a record refers to lower layers only."""

EXPLORATORY = "interface_sanity_only"
FORMAL = "formal"


class Status(StrEnum):
    """How a job of a plan ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Reference:
    """What a record builds on.

    Attributes:
        path: portable, ``${RUN_DIR}/…``, ``${REPO_ROOT}/…`` or absolute.
        type: a key of :data:`LAYERS`.
        sha256: 64 hex digits over the bytes, or, of a directory, its digest.
        size: bytes.
    """

    path: str
    type: str
    sha256: str
    size: int

    @classmethod
    def of_bytes(cls, path: str, type: str, data: bytes) -> Reference:
        return cls(path, type, hashlib.sha256(data).hexdigest(), len(data))

    @classmethod
    def of_digest(cls, path: str, type: str, digest: FileDigest) -> Reference:
        return cls(path, type, digest.sha256, digest.size)

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "type": self.type, "sha256": self.sha256, "size": self.size}


def read_back(path: Path, portable: str, type: str) -> tuple[dict[str, Any], Reference]:
    """Read a record that this run has written, with the reference to it.

    Raises:
        OSError: it cannot be read.
        CanonicalError: it is not what was written.
    """
    data = path.read_bytes()
    return canonical.loads(data), Reference.of_bytes(portable, type, data)
