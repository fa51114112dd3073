"""The identity of a plan: three digests, and one for each rendered command.

========================  =====================================================================
``plan_semantic_hash``    the published digest over the whole plan, for reports of the original
``experiment_digest``     what is run; free of order and placement
``placement_digest``      where and in which order it is run
``command_semantic_hash`` one rendered command, free of the run directory
========================  =====================================================================

Templates are never filled in for the first three, so they are the same on every machine. The
experiment is everything in the plan but what the placement digest covers, so that no change
of the plan leaves both digests as they are, apart from what means nothing: the order of
``depends_on``, of inputs and of outputs, and an entry of ``depends_on`` that stands twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.plan.model import (
    Artifact,
    Job,
    Plan,
    artifact_additions,
    job_additions,
    published_job_fields,
)
from hloop.portable import Portable


def plan_semantic_hash(plan: Plan) -> str:
    """Give the published digest of a plan, 64 hex digits.

    SHA-256 over ``json.dumps`` with sorted keys, compact separators and ASCII escapes, of the
    published fields in plan order; absent values as their defaults or null. hloop's additions
    (``compare``, ``ignore``, ``type``, ``checkpoint``, ``formal``) are left out. ``budget`` is
    a published field and goes in as it is, with the keys to which hloop gives a meaning.
    """
    return _hex(
        {
            "schema_version": plan.schema_version,
            "plan_id": plan.plan_id,
            "max_cpu_workers": plan.max_cpu_workers,
            "max_io_workers": plan.max_io_workers,
            "selection_artifact": plan.selection_artifact,
            "jobs": [published_job_fields(job) for job in plan.jobs],
        }
    )


def command_semantic_hash(argv: Sequence[str], run_dir: str | Path) -> str:
    """Give the digest of a rendered command, 64 hex digits, the same in every run directory.

    SHA-256 over the compact JSON of ``argv`` with the run directory written as ``${RUN_DIR}``.
    The original replaces its text wherever it stands, so that its run directory ``runs/a``
    also rewrites ``runs/ab``; here only whole components of a path are replaced. As there,
    the repository root, the working directory and the environment do not enter.

    Args:
        argv: the command as it is launched.
        run_dir: absolute, as it was filled in.
    """
    # One root under both names: the first, ${RUN_DIR}, wins.
    portable = Portable(Path(run_dir), Path(run_dir))
    return _hex([portable.text(item) for item in argv])


def experiment_digest(plan: Plan) -> str:
    """Give ``sha256:<hex>`` over what a plan runs, free of order and placement.

    In it, for every job by id: ``resource`` (a gpu job is told its device, another is not),
    ``command``, ``cwd`` and ``environment`` (all three decide what the command does),
    ``inputs``, ``outputs`` with ``compare`` and ``ignore`` (the rule by which results count as
    the same is part of what is claimed, and must not change unseen), ``depends_on``,
    ``candidate_id``, ``seed``, and ``budget`` without ``expected_seconds`` (``max_seconds``,
    ``stall_seconds`` and ``vram_mib`` bound what a job may do). ``type``, ``checkpoint`` and
    ``formal`` are in it only where they are used: a plan without them has the digest that it
    had before there were any. Beside the jobs, ``plan_id`` and ``selection_artifact``: the name
    that the results go by, and the decision.

    Budgets may hold decimal numbers, which canonical JSON does not have. So a budget enters
    as a string: its compact JSON with sorted keys, each number in the shortest digits that
    read back as the same number.
    """
    return canonical.digest(
        {
            "_type": "hloop/experiment/v1",
            "plan_id": plan.plan_id,
            "selection_artifact": plan.selection_artifact,
            "jobs": {job.job_id: _experiment_fields(job) for job in plan.jobs},
        }
    )


def placement_digest(plan: Plan) -> str:
    """Give ``sha256:<hex>`` over where and in which order a plan is run.

    In it: the worker limits, and for every job, in plan order, its device and its
    ``expected_seconds``, which only order the ready jobs. The seconds enter as JSON text, as
    budgets do in :func:`experiment_digest`.
    """
    return canonical.digest(
        {
            "_type": "hloop/placement/v1",
            "max_cpu_workers": plan.max_cpu_workers,
            "max_io_workers": plan.max_io_workers,
            "jobs": [
                {
                    "job_id": job.job_id,
                    "device": job.cuda_visible_devices,
                    "expected_seconds": _json(job.budget.get("expected_seconds")),
                }
                for job in plan.jobs
            ],
        }
    )


def _experiment_fields(job: Job) -> dict[str, Any]:
    budget = {key: value for key, value in job.budget.items() if key != "expected_seconds"}
    return {
        "resource": job.resource.value,
        "command": list(job.command),
        "cwd": job.cwd,
        "environment": dict(job.environment),
        "inputs": [_input(artifact) for artifact in sorted(job.inputs, key=_by_path)],
        "outputs": [_output(artifact) for artifact in sorted(job.outputs, key=_by_path)],
        "depends_on": sorted(set(job.depends_on)),
        "candidate_id": job.candidate_id,
        "seed": job.seed,
        "budget": _json(budget),
        **job_additions(job),
    }


def _by_path(artifact: Artifact) -> tuple[str, str, str]:
    return artifact.path, artifact.role, artifact.sha256 or ""


def _input(artifact: Artifact) -> dict[str, Any]:
    return {
        "role": artifact.role,
        "path": artifact.path,
        "sha256": artifact.sha256,
        **artifact_additions(artifact),
    }


def _output(artifact: Artifact) -> dict[str, Any]:
    return {
        **_input(artifact),
        "compare": artifact.compare.value,
        "ignore": sorted(set(artifact.ignore)),
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _hex(value: Any) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()
