"""Expansion: the stages of a workload, over its axes, become jobs.

It takes a workload that is right in form and whose references hold, and collects what is
wrong with its placeholders and its registered inputs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import Problem
from hloop.plan.model import (
    Artifact,
    ArtifactType,
    CompareMode,
    Formal,
    Job,
    Plan,
    ResourceClass,
)
from hloop.plan.placeholder import PlaceholderFiller, Scalar, Scope, as_text
from hloop.plan.registered import RegisteredFiles
from hloop.plan.seeds import LARGEST_SEED
from hloop.plan.template import uses_run_dir

Point = Mapping[str, Scalar]
"""One combination: the value of each axis of a stage, by axis."""


@dataclass(frozen=True)
class _Made:
    """A job that was made, and the names under which jobs that need it know it."""

    point: Point
    job: Job
    names: Mapping[str, Scalar]


class Expansion:
    """Makes the plan of one workload.

    Look at :attr:`problems` at once, for the constants, and again after :meth:`plan`.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        repo_root: Path,
        mimicx_root: Path | None,
        names: Scope,
    ) -> None:
        self._document = document
        self._filler = PlaceholderFiller()
        self._registered = RegisteredFiles(repo_root)
        # By stage, and by the values on its axes.
        self._made: dict[str, dict[tuple[Scalar, ...], _Made]] = {}
        self._global = self._global_scope(repo_root, mimicx_root, names)
        self._axis_names = {axis: self._names_of_axis(axis) for axis in document["axes"]}
        self._all_names = {
            axis: frozenset(itertools.chain(*by_value.values()))
            for axis, by_value in self._axis_names.items()
        }

    @property
    def problems(self) -> list[Problem]:
        return self._filler.problems + self._registered.problems

    def plan(self) -> Plan:
        document = self._document
        jobs: list[Job] = []
        stages = document["stages"].items()
        for over, group in itertools.groupby(stages, key=lambda item: item[1].get("over", [])):
            together = list(group)
            for values in itertools.product(*(document["axes"][axis] for axis in over)):
                point = dict(zip(over, values, strict=True))
                jobs += [self._job(name, stage, point) for name, stage in together]
        if not self._filler.problems:
            self._check_job_ids()
        limits = ("max_cpu_workers", "max_io_workers")
        selection = document.get("selection_artifact")
        if selection is not None:
            selection = self._filler.text(selection, self._global, "selection_artifact")
        return Plan(
            plan_id=document["plan_id"],
            jobs=tuple(jobs),
            selection_artifact=selection,
            **{name: document[name] for name in limits if name in document},
        )

    def points(self) -> dict[str, dict[str, Point]]:
        """Give the point of each job that was made, by stage and by job id."""
        return {
            stage: {made.job.job_id: made.point for made in jobs.values()}
            for stage, jobs in self._made.items()
        }

    def text(self, template: Scalar, where: str) -> str:
        """Fill in a text with the names that are known everywhere."""
        return self._filler.text(template, self._global, where)

    def _global_scope(self, repo_root: Path, mimicx_root: Path | None, scope: Scope) -> Scope:
        """The names that are known everywhere."""
        if mimicx_root is None:
            action = "Pass --mimicx-root, the MimicX checkout"
            scope = scope.extended({}, {"mimicx_root": action})
        else:
            scope = scope.extended({"mimicx_root": str(mimicx_root)})
        python = self._document.get("python", running_python(repo_root))
        scope = scope.extended({"python": self._filler.text(python, scope, "python")})
        constants = self._document.get("constants", {}).items()
        return scope.extended(
            {
                f"constants.{name}": self._filler.value(value, scope, f"constants.{name}")
                for name, value in constants
            }
        )

    def _names_of_axis(self, axis: str) -> dict[Scalar, dict[str, Scalar]]:
        """For each value of an axis: the axis itself, and the constants of the value."""
        values = self._document["axes"][axis]
        names: dict[Scalar, dict[str, Scalar]] = {value: {axis: value} for value in values}
        if isinstance(values, dict):
            for value, constants in values.items():
                scope = self._global.extended({axis: value})
                for name, constant in constants.items():
                    where = f"axes.{axis}.{value}.{name}"
                    names[value][f"{axis}.{name}"] = self._filler.value(constant, scope, where)
        return names

    def _scope_of_point(self, stage: str, point: Point) -> Scope:
        values: dict[str, Scalar] = {}
        reasons: dict[str, str] = {}
        for axis, by_value in self._axis_names.items():
            if axis in point:
                values |= by_value[point[axis]]
                reason = f"{axis} {point[axis]!r} has no constant of this name"
            else:
                reason = f"Stage {stage!r} does not run over {axis!r}"
            reasons |= dict.fromkeys(self._all_names[axis], reason)
        return self._global.extended(values, reasons)

    def _needed(self, stage: Mapping[str, Any], point: Point) -> dict[str, list[_Made]]:
        """The jobs that a job depends on, by stage."""
        return {need: self._matching(need, point) for need in stage.get("needs", [])}

    def _matching(self, stage: str, point: Point) -> list[_Made]:
        made = self._made[stage]
        over = self._over(stage)
        if point.keys() >= set(over):
            return [made[tuple(point[axis] for axis in over)]]
        return [
            job
            for job in made.values()
            if all(point.get(axis, value) == value for axis, value in job.point.items())
        ]

    def _over(self, stage: str) -> list[str]:
        over: list[str] = self._document["stages"][stage].get("over", [])
        return over

    def _scope_of_stages(
        self, scope: Scope, point: Point, needed: Mapping[str, list[_Made]]
    ) -> Scope:
        values: dict[str, Scalar] = {}
        reasons: dict[str, str] = {}
        for stage, made in self._made.items():
            names = next(iter(made.values())).names
            if stage not in needed:
                reason = f"Add {stage!r} to the needs of this stage"
            elif point.keys() >= set(self._over(stage)):
                values |= needed[stage][0].names
                continue
            else:
                reason = (
                    f"This stage gathers {len(needed[stage])} jobs of {stage!r}: "
                    f"use it in an entry with each: {stage}"
                )
            reasons |= dict.fromkeys(names, reason)
        return scope.extended(values, reasons)

    def _job(self, name: str, stage: Mapping[str, Any], point: Point) -> Job:
        where = f"stages.{name}"
        fill = self._filler
        needed = self._needed(stage, point)
        scope = self._scope_of_stages(self._scope_of_point(name, point), point, needed)
        candidate = stage.get("candidate")
        if candidate is None:
            scope = scope.extended({}, {"candidate": f"Give stage {name!r} a candidate"})
        else:
            candidate = fill.text(candidate, scope, f"{where}.candidate")
            scope = scope.extended({"candidate": candidate})
        default_id = "_".join([name, *(as_text(value) for value in point.values())])
        job_id = fill.text(stage.get("job_id", default_id), scope, f"{where}.job_id")
        scope = scope.extended({"job_id": job_id})
        inputs = self._inputs(stage, scope, needed, where)
        outputs = self._outputs(stage, scope, where)
        repeated = {role for role, entry in _entries(stage, "inputs") if "each" in entry}
        scope = scope.extended(
            {f"inputs.{a.role}": a.path for a in inputs if a.role not in repeated}
            | {f"outputs.{a.role}": a.path for a in outputs},
            {
                f"inputs.{role}": f"{role!r} is repeated with each: repeat this"
                for role in repeated
            },
        )
        job = Job(
            job_id=job_id,
            resource=ResourceClass(stage["resource"]),
            command=tuple(self._command(stage, scope, needed, where)),
            depends_on=tuple(made.job.job_id for jobs in needed.values() for made in jobs),
            cwd=fill.text(stage.get("cwd", "{repo_root}"), scope, f"{where}.cwd"),
            environment={
                key: fill.text(value, scope, f"{where}.environment.{key}")
                for key, value in stage.get("environment", {}).items()
            },
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            candidate_id=candidate,
            seed=self._seed(stage, scope, where),
            budget=self._budget(stage.get("budget", {}), scope, f"{where}.budget"),
            cuda_visible_devices=self._device(name, stage),
            formal=self._formal(stage, scope, where),
        )
        names: dict[str, Scalar] = {f"{name}.job_id": job_id}
        names |= {f"{name}.outputs.{artifact.role}": artifact.path for artifact in outputs}
        if candidate is not None:
            names[f"{name}.candidate"] = candidate
        self._made.setdefault(name, {})[tuple(point.values())] = _Made(point, job, names)
        return job

    def _repeated(
        self, scope: Scope, stage: str, needed: Mapping[str, list[_Made]]
    ) -> Iterator[Scope]:
        """For an entry with ``each``: a scope per needed job, which knows that job's axes."""
        for made in needed[stage]:
            axes: dict[str, Scalar] = {}
            for axis, value in made.point.items():
                axes |= self._axis_names[axis][value]
            yield scope.extended({**axes, **made.names})

    def _inputs(
        self,
        stage: Mapping[str, Any],
        scope: Scope,
        needed: Mapping[str, list[_Made]],
        where: str,
    ) -> list[Artifact]:
        artifacts = []
        for role, entry in _entries(stage, "inputs"):
            at = f"{where}.inputs.{role}"
            each = entry.get("each")
            for known in self._repeated(scope, each, needed) if each else [scope]:
                problems_before = len(self._filler.problems)
                path = self._filler.text(entry["path"], known, f"{at}.path")
                sha256 = entry.get("sha256")
                if sha256 is not None:
                    sha256 = self._filler.text(sha256, known, f"{at}.sha256")
                filled = len(self._filler.problems) == problems_before
                type = ArtifactType(entry.get("type", "file"))
                if filled and not uses_run_dir(path):
                    sha256 = self._registered.sha256(path, sha256, at, type)
                artifacts.append(Artifact(role, path, sha256, type=type))
        return artifacts

    def _outputs(self, stage: Mapping[str, Any], scope: Scope, where: str) -> list[Artifact]:
        artifacts = []
        for role, entry in _entries(stage, "outputs"):
            at = f"{where}.outputs.{role}"
            checkpoint = entry.get("checkpoint")
            if checkpoint is not None:
                checkpoint = self._filler.text(checkpoint, scope, f"{at}.checkpoint")
            artifacts.append(
                Artifact(
                    role,
                    self._filler.text(entry["path"], scope, f"{at}.path"),
                    compare=CompareMode(entry.get("compare", "bytes")),
                    ignore=tuple(entry.get("ignore", ())),
                    type=ArtifactType(entry.get("type", "file")),
                    checkpoint=checkpoint,
                )
            )
        return artifacts

    def _command(
        self,
        stage: Mapping[str, Any],
        scope: Scope,
        needed: Mapping[str, list[_Made]],
        where: str,
    ) -> Iterator[str]:
        for index, item in enumerate(stage["command"]):
            at = f"{where}.command[{index}]"
            if not isinstance(item, dict):
                yield self._filler.text(item, scope, at)
                continue
            for known in self._repeated(scope, item["each"], needed):
                for inner, repeated in enumerate(item["items"]):
                    yield self._filler.text(repeated, known, f"{at}.items[{inner}]")

    def _seed(self, stage: Mapping[str, Any], scope: Scope, where: str) -> int | None:
        if "seed" not in stage:
            return None
        problems_before = len(self._filler.problems)
        seed = self._filler.value(stage["seed"], scope, f"{where}.seed")
        if len(self._filler.problems) > problems_before:
            return None
        whole = isinstance(seed, int) and not isinstance(seed, bool)
        if isinstance(seed, int) and whole and abs(seed) <= LARGEST_SEED:
            return seed
        self._filler.add(
            Problem(
                "seed_too_large" if whole else "seed_not_integer",
                f"{where}.seed",
                f"the seed of a job is {seed!r}",
                f"at most {LARGEST_SEED}, which records can hold" if whole else "an integer",
                "Give the seed of the run, and that of a module to the command"
                if whole
                else "Give an integer, or an axis or constant that holds one",
            )
        )
        return None

    def _formal(self, stage: Mapping[str, Any], scope: Scope, where: str) -> Formal | None:
        if "formal" not in stage:
            return None
        return Formal(
            **{
                key: self._filler.text(value, scope, f"{where}.formal.{key}")
                for key, value in stage["formal"].items()
            }
        )

    def _budget(self, value: Any, scope: Scope, where: str) -> Any:
        if isinstance(value, dict):
            return {
                key: self._budget(item, scope, f"{where}.{key}") for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                self._budget(item, scope, f"{where}[{index}]") for index, item in enumerate(value)
            ]
        return self._filler.value(value, scope, where)

    def _device(self, name: str, stage: Mapping[str, Any]) -> str | None:
        if stage["resource"] != ResourceClass.GPU:
            return None
        devices = self._document["devices"]
        return str(devices[len(self._made.get(name, ())) % len(devices)])

    def _check_job_ids(self) -> None:
        seen: set[str] = set()
        for stage, made in self._made.items():
            for job in (entry.job for entry in made.values()):
                if job.job_id in seen:
                    parts = ["the name of the stage", *(f"<{axis}>" for axis in self._over(stage))]
                    self._filler.add(
                        Problem(
                            "duplicate_job_id",
                            f"stages.{stage}.job_id",
                            f"two jobs have the id {job.job_id!r}",
                            "an id for each job",
                            f"Put into it: {', '.join(parts)}",
                        )
                    )
                    break
                seen.add(job.job_id)


def _entries(stage: Mapping[str, Any], part: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the inputs or outputs of a stage by role, the short form written out."""
    for role, entry in stage.get(part, {}).items():
        yield role, {"path": entry} if isinstance(entry, str) else entry


def running_python(repo_root: Path, executable: str = sys.executable) -> str:
    """Give the interpreter that runs this, which is what ``<python>`` stands for.

    ``python3`` and ``python3.11`` of an environment are written as its ``python``, so that the
    plan does not depend on which name hloop was started by. An interpreter in the repository,
    such as ``.venv/bin/python``, is written with ``{repo_root}``, so that the plan is the same
    wherever the repository lies. That an environment's interpreter is a link is kept.
    """
    python = Path(executable)
    plain = python.with_name("python")
    if plain.exists() and plain.samefile(python):
        python = plain
    if python.is_relative_to(repo_root):
        return "{repo_root}/" + str(python.relative_to(repo_root))
    return str(python)
