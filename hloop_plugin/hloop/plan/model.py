"""The plan as data. It knows its format's names and defaults, and checks nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

PLAN_SCHEMA = "mimicx.hloop-plan.v1"

ARCHITECTURE_VARIABLE = "HLOOP_ARCHITECTURE"
"""What tells a gpu job, and the run that starts it, the architecture that it is for."""


class ResourceClass(StrEnum):
    """What a job occupies while it runs."""

    CPU = "cpu"
    GPU = "gpu"
    IO = "io"


class CompareMode(StrEnum):
    """How two runs' versions of one output are compared."""

    BYTES = "bytes"
    JSON = "json"
    CSV = "csv"
    NONE = "none"


class ArtifactType(StrEnum):
    """What an artifact is on the disk."""

    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A declared input or output: a file or a folder.

    Attributes:
        role: what the file is to the job, e.g. ``metrics``.
        path: path template; may hold ``{repo_root}`` and ``{run_dir}``.
        sha256: 64 hex digits, or None where it is not known beforehand. Of a folder, its
            digest by :func:`hloop.trees.hash_tree`.
        compare: how two runs' versions are compared; outputs only.
        ignore: JSON pointers or column names left out of the comparison; outputs only.
        checkpoint: which checkpoint of its job it is, e.g. ``policy``; outputs only.
    """

    role: str
    path: str
    sha256: str | None = None
    compare: CompareMode = CompareMode.BYTES
    ignore: tuple[str, ...] = ()
    type: ArtifactType = ArtifactType.FILE
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Formal:
    """What a job claims in a formal run.

    Attributes:
        method: the method that is run.
        case: the case that it is run on.
        config: the role of the input that holds the method's configuration.
    """

    method: str
    case: str
    config: str


@dataclass(frozen=True, slots=True)
class Job:
    """One command of the plan. Strings are templates, as written in the plan file.

    Attributes:
        budget: free mapping; ``max_seconds``, ``stall_seconds``, ``expected_seconds`` (seconds),
            ``vram_mib`` (MiB), ``watch`` and ``fail_on`` (patterns) have a meaning.
        cuda_visible_devices: the logical device as a string; gpu jobs only.
        formal: what it claims in a formal run, if it can be part of one.
    """

    job_id: str
    resource: ResourceClass
    command: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    cwd: str = "{repo_root}"
    environment: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Artifact, ...] = ()
    outputs: tuple[Artifact, ...] = ()
    candidate_id: str | None = None
    seed: int | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)
    cuda_visible_devices: str | None = None
    formal: Formal | None = None

    @property
    def device(self) -> int | None:
        """The pinned logical device."""
        return None if self.cuda_visible_devices is None else int(self.cuda_visible_devices)

    def seconds(self, key: str) -> float | None:
        """A budget in seconds: ``max_seconds``, ``stall_seconds`` or ``expected_seconds``."""
        value = self.budget.get(key)
        return None if value is None else float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A budget of patterns: ``watch`` or ``fail_on``."""
        return tuple(self.budget.get(key) or ())


@dataclass(frozen=True, slots=True)
class Plan:
    """A frozen DAG of jobs, in the order of the plan file."""

    plan_id: str
    jobs: tuple[Job, ...]
    max_cpu_workers: int = 4
    max_io_workers: int = 2
    selection_artifact: str | None = None
    schema_version: str = PLAN_SCHEMA

    def by_id(self) -> dict[str, Job]:
        return {job.job_id: job for job in self.jobs}

    def to_document(self) -> dict[str, Any]:
        """Give the plan in its file format; reading it back gives an equal plan."""
        return {
            "schema_version": self.schema_version,
            "plan_id": self.plan_id,
            "max_cpu_workers": self.max_cpu_workers,
            "max_io_workers": self.max_io_workers,
            "selection_artifact": self.selection_artifact,
            "jobs": [job_document(job) for job in self.jobs],
        }

    def to_bytes(self) -> bytes:
        """Give the bytes of ``plan.json``."""
        text = json.dumps(self.to_document(), indent=2, ensure_ascii=False)
        return text.encode() + b"\n"


def job_document(job: Job) -> dict[str, Any]:
    """Give one job in the plan's file format, with hloop's additions where they are used."""
    document = published_job_fields(job)
    for artifact, entry in zip(job.inputs, document["inputs"], strict=True):
        entry |= artifact_additions(artifact)
    for artifact, entry in zip(job.outputs, document["outputs"], strict=True):
        if artifact.compare is not CompareMode.BYTES:
            entry["compare"] = artifact.compare.value
        if artifact.ignore:
            entry["ignore"] = list(artifact.ignore)
        entry |= artifact_additions(artifact)
    return document | job_additions(job)


def artifact_additions(artifact: Artifact) -> dict[str, Any]:
    """Give ``type`` and ``checkpoint`` where they are used."""
    additions: dict[str, Any] = {}
    if artifact.type is not ArtifactType.FILE:
        additions["type"] = artifact.type.value
    if artifact.checkpoint is not None:
        additions["checkpoint"] = artifact.checkpoint
    return additions


def job_additions(job: Job) -> dict[str, Any]:
    """Give ``formal`` where it is used."""
    return {} if job.formal is None else {"formal": asdict(job.formal)}


def published_job_fields(job: Job) -> dict[str, Any]:
    """Give the fields of the published format, which ``plan_semantic_hash`` covers."""
    return {
        "job_id": job.job_id,
        "resource": job.resource.value,
        "command": list(job.command),
        "depends_on": list(job.depends_on),
        "cwd": job.cwd,
        "environment": dict(job.environment),
        "inputs": [_published_artifact(artifact) for artifact in job.inputs],
        "outputs": [_published_artifact(artifact) for artifact in job.outputs],
        "candidate_id": job.candidate_id,
        "seed": job.seed,
        "budget": dict(job.budget),
        "cuda_visible_devices": job.cuda_visible_devices,
    }


def _published_artifact(artifact: Artifact) -> dict[str, Any]:
    return {"role": artifact.role, "path": artifact.path, "sha256": artifact.sha256}
