"""A plan with its templates filled in for one run: what would be launched, exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hloop.errors import PlanError, Problem
from hloop.plan.document import child
from hloop.plan.model import Artifact, ArtifactType, Job, Plan
from hloop.plan.template import fill, near_miss


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

    @property
    def directory(self) -> bool:
        return self.declared.type is ArtifactType.DIRECTORY


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


def render_plan(plan: Plan, repo_root: str | Path, run_dir: str | Path) -> RenderedPlan:
    """Fill in ``{repo_root}`` and ``{run_dir}``. A relative path is relative to ``repo_root``.

    Raises:
        PlanError: every template with a near miss of the two names.
    """
    filler = Filler(repo_root, run_dir)
    jobs = [filler.job(job, f"jobs[{index}]") for index, job in enumerate(plan.jobs)]
    selection = None
    if plan.selection_artifact is not None:
        selection = filler.path(plan.selection_artifact, "selection_artifact")
    if filler.problems:
        raise PlanError(filler.problems)
    by_id = {entry.job.job_id: entry for entry in jobs}
    return RenderedPlan(plan, Path(filler.root), Path(filler.run), by_id, selection)


class Filler:
    """Fills in the templates of a plan. Near misses are left as they are, and collected.

    Attributes:
        root: the repository root, absolute.
        run: the run directory, absolute.
        problems: the near misses, with their dotted paths.
    """

    def __init__(self, repo_root: str | Path, run_dir: str | Path) -> None:
        self.root, self.run = _normalised(repo_root), _normalised(run_dir)
        self.problems: list[Problem] = []

    def job(self, job: Job, where: str) -> RenderedJob:
        return RenderedJob(
            job=job,
            argv=tuple(
                self.text(item, f"{where}.command[{index}]")
                for index, item in enumerate(job.command)
            ),
            cwd=self.path(job.cwd, f"{where}.cwd"),
            environment={
                name: self.text(value, child(f"{where}.environment", name))
                for name, value in job.environment.items()
            },
            inputs=self._artifacts(job.inputs, f"{where}.inputs"),
            outputs=self._artifacts(job.outputs, f"{where}.outputs"),
        )

    def _artifacts(self, declared: Sequence[Artifact], where: str) -> tuple[RenderedArtifact, ...]:
        return tuple(
            RenderedArtifact(artifact, self.path(artifact.path, f"{where}[{index}].path"))
            for index, artifact in enumerate(declared)
        )

    def path(self, template: str, where: str) -> str:
        return _normalised(os.path.join(self.root, self.text(template, where)))

    def text(self, template: str, where: str) -> str:
        if "{" not in template and "}" not in template:
            return template
        if problem := near_miss(template):
            self.problems.append(replace(problem, where=where))
        return fill(template, self.root, self.run)


def _normalised(path: str | Path) -> str:
    """Make a path absolute and resolve ``..`` by text. Links are kept."""
    # Python keeps two slashes in front, whose meaning POSIX leaves open. On Linux they are one.
    return re.sub("^//+", "/", os.path.abspath(path))
