"""Sweeps: how many seeds and folds a workload is run with.

A workload declares its seeds and folds under ``sweep``; here they become axes like any other, and
what a sweep gets wrong before anything is made is told. Nothing is read, written or started.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import Problem
from hloop.plan.model import ARCHITECTURE_VARIABLE
from hloop.plan.placeholder import Scalar, Scope
from hloop.plan.seeds import DEFAULT_SEED, LARGEST_SEED, module_seed


@dataclass(frozen=True)
class SweepOptions:
    """What a command line says of a sweep, in place of the workload.

    Attributes:
        seeds: how many seeds.
        folds: how many folds.
        tag: ``<tag>``, and the end of the plan's name.
        pool: the pool of machines that the gpu jobs are for.
        pools: the table of pools; None for ``config/pools.yaml`` in the repository.
        profile: stages that declare a profiler run under it.
    """

    seeds: int | None = None
    folds: int | None = None
    tag: str | None = None
    pool: str | None = None
    pools: Path | None = None
    profile: bool = False


class Sweep:
    """The sweep of one workload: its axes, and the names that it gives to placeholders."""

    def __init__(
        self, document: Mapping[str, Any], options: SweepOptions, architecture: str | None = None
    ) -> None:
        self._document = document
        self._options = options
        self._architecture = architecture
        declared = document.get("sweep", {})
        self._seeds: dict[str, Any] | None = declared.get("seeds")
        self._folds: dict[str, Any] | None = declared.get("folds")
        self.fold_count = self._count("folds", self._folds)

    def _count(self, part: str, declared: Mapping[str, Any] | None) -> int:
        given = getattr(self._options, part)
        return int((declared or {}).get("count", 1) if given is None else given)

    @property
    def _fans_out(self) -> bool:
        return self._folds is not None and self._folds["mode"] == "fan_out"

    def _axis(self, part: str) -> str:
        declared = (self._seeds if part == "seeds" else self._folds) or {}
        return str(declared.get("axis", part.removesuffix("s")))

    def axes(self) -> dict[str, Any]:
        """Give the axes of the sweep, as a workload would have them."""
        axes: dict[str, Any] = {}
        if self._seeds is not None:
            default = self._seeds.get("default", DEFAULT_SEED)
            first = self._seeds.get("base", default)
            modules = self._seeds.get("modules", {})
            axes[self._axis("seeds")] = {
                first + index: {"index": index}
                | {
                    name: module_seed(first + index, base, default)
                    for name, base in modules.items()
                }
                for index in range(self._count("seeds", self._seeds))
            }
        if self._fans_out:
            axes[self._axis("folds")] = list(range(self.fold_count))
        return axes

    def expanded(self) -> dict[str, Any]:
        """Give the workload with the sweep's axes among its own, and without ``sweep``."""
        document = dict(self._document)
        for key in ("sweep", "pool"):
            document.pop(key, None)
        if self._architecture is not None:
            told = {ARCHITECTURE_VARIABLE: self._architecture}
            document["stages"] = {
                name: {**stage, "environment": {**told, **stage.get("environment", {})}}
                if stage["resource"] == "gpu"
                else stage
                for name, stage in document["stages"].items()
            }
        document["axes"] = {**document.get("axes", {}), **self.axes()}
        if self._options.tag is not None:
            document["plan_id"] = f"{document['plan_id']}_{self._options.tag}"
        return document

    def names(self) -> Scope:
        """Give the placeholders that are known everywhere, such as ``<tag>``."""
        values: dict[str, Scalar] = {"tag": self._options.tag or ""}
        reasons: dict[str, str] = {}
        if self._architecture is None:
            reasons["architecture"] = "Name the pool: pool: NAME, or --pool"
        else:
            values["architecture"] = self._architecture
        if self._folds is None:
            reasons["folds"] = "Declare them: sweep: {folds: {mode: inside}}"
        elif self._fans_out:
            reasons["folds"] = f"Each fold is a job of its own: use <{self._axis('folds')}>"
        else:
            values["folds"] = self.fold_count
        return Scope(values, reasons)

    def problems(self) -> list[Problem]:
        """Give what is wrong with the sweep itself, and with how the stages use its axes."""
        return [*self._undeclared(), *self._collisions(), *self._unused()]

    def warnings(self) -> list[str]:
        """Give what may be meant, as where an axis of the workload's own repeats a job."""
        axes = self._document.get("axes", {})
        untold = [problem for axis in axes if len(axes[axis]) > 1 for problem in self._told(axis)]
        return [f"{problem.found}. {problem.action}" for problem in untold]

    def _undeclared(self) -> Iterator[Problem]:
        options = self._options
        parts = {
            "seeds": ("seeds: {base: 42}", options.seeds, self._seeds),
            "folds": ("folds: {mode: inside}", options.folds, self._folds),
        }
        for part, (example, given, declared) in parts.items():
            # One fold is what a workload without folds has.
            if given is not None and declared is None and (part, given) != ("folds", 1):
                yield Problem(
                    "sweep_undeclared",
                    f"--{part}",
                    f"the workload declares no {part} that could be {given}",
                    action=f"Add sweep: {{{example}}}, or leave out --{part}",
                )
        if options.tag is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", options.tag):
            expected = "up to 64 letters, digits, '.', '_' and '-'"
            yield Problem("bad_tag", "--tag", f"the tag {options.tag!r}", expected)

    def _collisions(self) -> Iterator[Problem]:
        own = list(self._document.get("axes", {}))
        parts = [("seeds", self._seeds is not None), ("folds", self._folds is not None)]
        for part in (part for part, declared in parts if declared):
            axis = self._axis(part)
            if axis in own:
                found = f"the axis {axis!r} of the {part} is also one of the workload's axes"
                action = f"Take it out of axes, or give the {part} another axis"
                yield Problem("axis_collides", f"sweep.{part}.axis", found, action=action)
            own.append(axis)
        if self._seeds is not None:
            if "index" in self._seeds.get("modules", {}):
                found = "a module is called 'index', as the place of a seed in the sweep is"
                yield Problem("name_taken", "sweep.seeds.modules.index", found)
            first = self._seeds.get("base", self._seeds.get("default", DEFAULT_SEED))
            last = first + self._count("seeds", self._seeds) - 1
            if last > LARGEST_SEED:
                found = f"the last seed is {last}"
                yield Problem("seed_too_large", "sweep.seeds", found, f"at most {LARGEST_SEED}")

    def _unused(self) -> Iterator[Problem]:
        if self._folds is not None and not self._fans_out:
            axis = self._axis("folds")
            for name, stage in self._document["stages"].items():
                if axis in stage.get("over", []) and axis not in self._document.get("axes", {}):
                    found = f"stage {name!r} runs over {axis!r}, but the folds are inside each job"
                    action = (
                        f"Take {axis!r} out and tell the command <folds>, or use mode: fan_out"
                    )
                    yield Problem("folds_inside", f"stages.{name}.over", found, action=action)
            if not any(tells(stage, "folds") for stage in self._document["stages"].values()):
                found = "no command is told the number of folds"
                yield Problem("axis_unused", "sweep.folds", found, action="Put <folds> into one")
        for axis in self.axes():
            yield from self._told(axis)

    def _told(self, axis: str) -> Iterator[Problem]:
        """Find stages whose jobs would all do the same, as their command is not told the axis."""
        stages = self._document["stages"]
        told: set[str] = set()
        for name, stage in stages.items():
            if axis not in stage.get("over", []):
                continue
            if tells(stage, axis) or told.intersection(stage.get("needs", [])):
                told.add(name)
                continue
            found = (
                f"stage {name!r} runs over {axis!r}, but its command is not told it: "
                "its jobs would all do the same"
            )
            action = f"Put <{axis}> into the command, or take {axis!r} out of over"
            yield Problem("axis_unused", f"stages.{name}.over", found, action=action)


def tells(stage: Mapping[str, Any], name: str) -> bool:
    """Say whether a stage's command, environment, inputs or folder have ``<name>``.

    They also have it where they name the job or its candidate, and that is made of it. A path in
    the run that a command is given does not count: it says where to write, not what to do.
    """
    job_id = stage.get("job_id", "".join(f"<{axis}>" for axis in stage.get("over", [])))
    made_of = {"candidate": str(stage.get("candidate", "")), "job_id": str(job_id)}
    names = [name, *(own for own, text in made_of.items() if _names(text, name))]
    told = [
        re.sub(r"""\{run_dir\}[^\s"']*""", "", item)
        for item in _items([stage["command"], stage.get("environment")])
    ]
    told += _items([stage.get("inputs"), stage.get("cwd")])
    return any(_names(item, own) for item in told for own in names)


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!<)<{re.escape(name)}[.>]", text) is not None


def _items(value: Any) -> Iterator[str]:
    """Give all texts in a part of a stage."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _items(item)
    else:
        yield str(value)


def unused_axes(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find axes that no stage runs over."""
    stages: Iterable[Mapping[str, Any]] = document["stages"].values()
    used = {axis for stage in stages for axis in stage.get("over", [])}
    for axis in document["axes"]:
        if axis not in used:
            found = f"no stage runs over the axis {axis!r}"
            action = "Add it to the over of a stage, or take it out"
            yield Problem("axis_unused", f"axes.{axis}", found, action=action)
