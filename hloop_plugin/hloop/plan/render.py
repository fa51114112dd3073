"""A plan with its templates filled in for one run: what would be launched, exactly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hloop.plan.model import Artifact, Job, Plan
from hloop.plan.template import render


@dataclass(frozen=True, slots=True)
class RenderedArtifact:
    """An artifact with an absolute path.

    Attributes:
        declared: the artifact as the plan has it.
        path: absolute and normalised (``..`` resolved by text, symlinks kept).
    """

    declared: Artifact
    path: str

    @property
    def role(self) -> str:
        return self.declared.role

    @property
    def sha256(self) -> str | None:
        return self.declared.sha256


@dataclass(frozen=True, slots=True)
class RenderedJob:
    """A job as it is launched.

    Attributes:
        job: the job as the plan has it.
        argv: the command, never given to a shell.
        cwd: absolute.
        environment: what the job adds to the inherited environment, without the device.
    """

    job: Job
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    inputs: tuple[RenderedArtifact, ...]
    outputs: tuple[RenderedArtifact, ...]


@dataclass(frozen=True, slots=True)
class RenderedPlan:
    """A plan for one run directory and one repository root, both absolute."""

    plan: Plan
    repo_root: Path
    run_dir: Path
    jobs: Mapping[str, RenderedJob]
    selection_artifact: str | None


def render_plan(plan: Plan, repo_root: Path, run_dir: Path) -> RenderedPlan:
    """Fill in ``{repo_root}`` and ``{run_dir}``. A relative path is relative to ``repo_root``.

    Raises:
        PlanError: a template has a near miss of the two names.
    """
    root, run = os.path.abspath(repo_root), os.path.abspath(run_dir)

    def text(template: str) -> str:
        return render(template, root, run)

    def path(template: str) -> str:
        return os.path.normpath(os.path.join(root, text(template)))

    def artifact(declared: Artifact) -> RenderedArtifact:
        return RenderedArtifact(declared, path(declared.path))

    jobs = {
        job.job_id: RenderedJob(
            job=job,
            argv=tuple(text(item) for item in job.command),
            cwd=path(job.cwd),
            environment={name: text(value) for name, value in job.environment.items()},
            inputs=tuple(artifact(item) for item in job.inputs),
            outputs=tuple(artifact(item) for item in job.outputs),
        )
        for job in plan.jobs
    }
    selection = None if plan.selection_artifact is None else path(plan.selection_artifact)
    return RenderedPlan(plan, Path(root), Path(run), jobs, selection)
