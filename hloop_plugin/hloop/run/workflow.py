"""What workflow/rules/common.smk needs: a plan compiled into the facts of Snakemake's rules.

It reads the workflow's configuration and decides nothing about Snakemake. Reading it twice
gives the same, and writes nothing: Snakemake reads its workflow also for a dry run.
"""

from __future__ import annotations

import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError, PlanError, Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.contract import format_problems
from hloop.plan.lint import lint
from hloop.plan.model import Plan
from hloop.plan.order import topological_order
from hloop.plan.paths import check_repo_root
from hloop.plan.prepare import read_config
from hloop.plan.render import RenderedArtifact, RenderedPlan, render_plan
from hloop.run import resuming
from hloop.run.approval import check_formal
from hloop.run.claiming import claim, load_claimed
from hloop.run.opening import PlanOpening
from hloop.run.resuming import settings_to_resume
from hloop.run.runlock import RunLock
from hloop.run.settings import OPTIONS, RunSettings
from hloop.schedule.events import EngineSettings

if TYPE_CHECKING:
    from hloop.provenance.resume import Decision

CONFIGURATION = "the workflow's configuration"
# The target rule is called all.
_SAFE_NAME = re.compile(r"(?!all$)[\w.-]+")


@dataclass(frozen=True)
class RuleFacts:
    """One job of the plan as a rule of Snakemake's. Paths are absolute.

    Attributes:
        name: the job's id, unless Snakemake could not use that as the name of a rule.
        runtime: minutes, from the budget's ``max_seconds``; None without one.
    """

    name: str
    job_id: str
    inputs: list[str]
    outputs: list[str]
    logs: list[str]
    runtime: int | None


@dataclass(frozen=True)
class WorkflowRun:
    """A plan, its run directory and its settings.

    Attributes:
        settings: as configured.
        source: the file that the plan was made from; None in a process that runs one job.
        config: the configuration.
        warnings: what the plan's file may not mean, as sentences.
    """

    rendered: RenderedPlan
    settings: RunSettings
    source: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @cached_property
    def paths(self) -> RunPaths:
        return RunPaths(self.rendered.run_dir)

    @property
    def markers(self) -> list[str]:
        """The completion markers of all jobs: what there is when the plan has completed."""
        return [str(self.paths.job(job_id).completed) for job_id in self.rendered.jobs]

    def settings_with(self, options: Mapping[str, Any]) -> RunSettings:
        """Give the settings with those of the executor; of a run that is resumed, as it had
        them where neither says anything.

        Raises:
            HloopError: a setting cannot be, or the run cannot be resumed, or not so.
        """
        if options.get("resume"):
            return settings_to_resume(
                self.rendered, (self.config, CONFIGURATION), (options, OPTIONS)
            )
        return self.settings.override(options, source=OPTIONS)

    def opening(
        self,
        settings: RunSettings,
        *,
        executor: str = "",
        snakemake: str = "",
        only: str | None = None,
    ) -> PlanOpening:
        """Give what a supervisor, or whoever begins the run, must know of it."""
        return PlanOpening(
            run_dir=str(self.rendered.run_dir),
            repo_root=str(self.rendered.repo_root),
            executor=executor,
            snakemake=snakemake,
            session_id=settings.session_id or uuid.uuid4().hex,
            config_files=() if self.source is None else (str(self.source),),
            only=only,
            durations_ns=settings.durations_ns(),
        )

    def start(
        self, settings: RunSettings, engine: EngineSettings, table: DeviceTable, snakemake: str
    ) -> Started:
        """Claim the run directory, or take up the run in it. For hloop's own executor.

        Args:
            engine: what the engine is told.
            snakemake: its version.

        Raises:
            HloopError: it cannot be, or another execution has it.
        """
        opening = self.opening(settings, executor="hloop", snakemake=snakemake)
        if not settings.resume:
            claim(self.rendered, check_formal(self.rendered, settings, table))
        lock = RunLock.take(self.paths, opening.session_id)
        if not settings.resume:
            return Started(opening, lock)
        try:
            decisions, resumed = resuming.prepare(self.rendered)
            if resumed is not None:
                grace = settings.grace_seconds
                resuming.take_up(opening, self.rendered, engine, table, grace, resumed)
        except BaseException as error:
            lock.release()
            if not isinstance(error, OSError):
                raise
            name = error.filename2 or error.filename
            found = f"{self.paths.root} cannot be resumed: {name}: {error.strerror}"
            raise RunDirectoryError(Problem("run_dir_unwritable", "", found)) from None
        return Started(replace(opening, resumed=resumed is not None), lock, tuple(decisions))

    def begin(self, *, executor: str, snakemake: str) -> None:
        """See :func:`hloop.run.elsewhere.begin`."""
        from hloop.run import elsewhere

        elsewhere.begin(self, executor=executor, snakemake=snakemake)

    def run_job(self, job_id: str) -> None:
        """See :func:`hloop.run.elsewhere.run_job`."""
        from hloop.run import elsewhere

        elsewhere.run_job(self, job_id)

    def end(self) -> dict[str, Any]:
        """See :func:`hloop.run.elsewhere.end`."""
        from hloop.run import elsewhere

        return elsewhere.end(self)

    def rules(self, resource: str) -> list[RuleFacts]:
        """Give the jobs of one resource class, in topological order."""
        plan = self.rendered.plan
        jobs = plan.by_id()
        return [
            self._facts(place, job_id)
            for place, job_id in enumerate(topological_order(plan))
            if jobs[job_id].resource.value == resource
        ]

    def _facts(self, place: int, job_id: str) -> RuleFacts:
        entry, paths = self.rendered.jobs[job_id], self.paths.job(job_id)
        limit = entry.job.seconds("max_seconds")
        inputs = [item.path for item in entry.inputs if _can_be_told(item)]
        outputs = [item.path for item in entry.outputs if _can_be_told(item)]
        # An edge without a file between its two jobs is carried by the marker.
        inputs += [str(self.paths.job(name).completed) for name in entry.job.depends_on]
        return RuleFacts(
            # Other executors put it into a shell command without quotes.
            name=job_id if _SAFE_NAME.fullmatch(job_id) else f"job@{place}",
            job_id=job_id,
            inputs=inputs,
            outputs=[*outputs, str(paths.completed)],
            logs=[str(paths.stdout), str(paths.stderr)],
            runtime=None if limit is None else math.ceil(limit / 60),
        )


@dataclass(frozen=True)
class Started:
    """A run directory that is this run's own, and what a supervisor must know of it.

    Attributes:
        lock: keeps others out of it.
        decisions: of a run that is resumed, what becomes of each job.
    """

    opening: PlanOpening
    lock: RunLock
    decisions: tuple[Decision, ...] = ()

    @property
    def kept(self) -> frozenset[str]:
        return frozenset(item.job_id for item in self.decisions if item.kept)


def define(
    config: Mapping[str, Any], *, default_root: Path, subprocess: bool = False
) -> WorkflowRun:
    """Make the run that a configuration asks for.

    Args:
        config: the keys of schemas/config.schema.json. Relative paths are relative to the
            current folder.
        default_root: the repository root, where the configuration names none.
        subprocess: this is a Snakemake that another one started for one job, so the plan is
            the one in the run directory.

    Raises:
        HloopError: the configuration, the workload or the plan is not right.
    """
    source = _checked_source(config)
    root = Path(os.path.abspath(config.get("repo_root") or default_root))
    check_repo_root(root)
    run_dir = Path(os.path.abspath(config["run_dir"]))
    settings = RunSettings().override(config, source=CONFIGURATION)
    if subprocess:
        return WorkflowRun(load_claimed(run_dir, root), settings)
    mimicx_root = config.get("mimicx_root")
    prepared = read_config(
        Path(source),
        repo_root=root,
        mimicx_root=None if mimicx_root is None else Path(mimicx_root),
    )
    plan = prepared.plan
    if problems := lint(plan, root, run_dir) + pattern_problems(plan, run_dir):
        raise PlanError(problems, file=source)
    rendered = render_plan(plan, root, run_dir)
    file = Path(os.path.abspath(source))
    return WorkflowRun(rendered, settings, file, config, prepared.warnings)


def _can_be_told(artifact: RenderedArtifact) -> bool:
    """Whether Snakemake may know of an artifact.

    It takes some paths for patterns, and into a folder that it is told of as an output it
    writes a file of its own when the job has ended (``.snakemake_timestamp``). It need not
    know: the attempt checks each artifact, and the markers carry every edge.
    """
    return not artifact.directory and not _is_pattern(artifact.path)


def _is_pattern(path: str) -> bool:
    """Whether Snakemake could take a path for a pattern: ``{wildcard}`` or ``<pathvar>``.

    It knows no way to quote either.
    """
    return "{" in path or "<" in path


def pattern_problems(plan: Plan, run_dir: Path) -> list[Problem]:
    """Find what would make a pattern of a completion marker's path."""
    found = [("run_dir", f"the path of the run directory, {run_dir}", str(run_dir))]
    found += [
        (f"jobs[{index}].job_id", f"the id {job.job_id!r}", job.job_id)
        for index, job in enumerate(plan.jobs)
    ]
    return [
        Problem(
            "pattern",
            where,
            f"{what} holds a brace or an angle bracket",
            "a name that Snakemake does not take for a pattern",
            "Choose another one",
        )
        for where, what, text in found
        if _is_pattern(text)
    ]


def _checked_source(config: Mapping[str, Any]) -> str:
    """Hold the configuration against its format; give the one file that the plan is made of."""
    problems = format_problems(dict(config), "config")
    given = [key for key in ("workload", "plan") if config.get(key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "neither workload nor plan"
        problems.append(
            Problem(
                "plan_source",
                "",
                f"it names {found}",
                "one of workload and plan",
                "See config/README.md for the keys",
            )
        )
    if problems:
        raise HloopError(problems, file=CONFIGURATION)
    return str(config[given[0]])
