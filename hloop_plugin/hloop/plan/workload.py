"""Workloads: axes and stages become a plan.

The format is ``hloop.workload.v1``, described in ``schemas/workload.schema.json`` and
``docs/workloads.md``. This module reads registered inputs for their digests, writes nothing, and
starts nothing but what a stage declares as the help of its program.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import Problem, WorkloadError
from hloop.plan.contracts import contract_problems
from hloop.plan.expansion import Expansion
from hloop.plan.model import Plan
from hloop.plan.placeholder import Scalar, as_text
from hloop.plan.pools import architecture_of
from hloop.plan.profiles import profile_problems, with_profiles
from hloop.plan.sweep import Sweep, SweepOptions, tells, unused_axes

_RESERVED = (
    *("python", "mimicx_root", "constants", "candidate", "job_id", "inputs", "outputs"),
    *("folds", "tag", "architecture"),
)


@dataclass(frozen=True)
class Expanded:
    """What a workload becomes.

    Attributes:
        points: by job id, the value of each axis that the job stands for, and as ``max_folds``
            the number of folds where its command is told it.
        warnings: what was asked for and is left out, and what may not be meant, as sentences.
    """

    plan: Plan
    points: Mapping[str, Mapping[str, Scalar]]
    warnings: Sequence[str]


def expand_workload(
    document: Mapping[str, Any],
    *,
    file: object,
    repo_root: Path,
    mimicx_root: Path | None = None,
    options: SweepOptions | None = None,
) -> Expanded:
    """Make the plan of a workload.

    Jobs come combination by combination: stages that follow each other and run over the same
    axes give their jobs together.

    Args:
        document: the workload as read from ``file``; it keeps its schema.
        repo_root: what ``{repo_root}`` stands for while digests are made; absolute.
        mimicx_root: what ``<mimicx_root>`` stands for; absolute.
        options: what a command line says in place of the workload.

    Raises:
        WorkloadError: everything that is wrong: the sweep first; then unknown names; then
            constants; then placeholders, missing files, and files whose digest is not the one
            given; then flags.
    """
    options = options or SweepOptions()
    pool = document.get("pool") if options.pool is None else options.pool
    architecture = None
    if pool is not None:
        architecture = architecture_of(pool, options.pools or repo_root / "config/pools.yaml")
    sweep = Sweep(document, options, architecture)
    undeclared = profile_problems(document) if options.profile else []
    if problems := [*sweep.problems(), *undeclared]:
        raise WorkloadError(problems, file=file)
    document, warnings = with_profiles(
        sweep.expanded(), os.environ, repo_root, wanted=options.profile
    )
    if problems := list(_reference_problems(document)) or list(unused_axes(document)):
        raise WorkloadError(problems, file=file)
    expansion = Expansion(document, repo_root, mimicx_root, sweep.names())
    if problems := expansion.problems:
        # What is built on a wrong constant is not worth telling.
        raise WorkloadError(problems, file=file)
    plan = expansion.plan()
    if problems := expansion.problems:
        raise WorkloadError(problems, file=file)
    by_id = plan.by_id()
    wrong = contract_problems(
        document["stages"],
        {name: [by_id[job_id] for job_id in made] for name, made in expansion.points().items()},
        document["axes"],
        fill=expansion.text,
        repo_root=repo_root,
    )
    if problems := [*expansion.problems, *wrong]:
        raise WorkloadError(problems, file=file)
    points: dict[str, Mapping[str, Scalar]] = {}
    for name, made in expansion.points().items():
        folds = {"max_folds": sweep.fold_count} if tells(document["stages"][name], "folds") else {}
        points |= {job_id: {**point, **folds} for job_id, point in made.items()}
    return Expanded(plan, points, [*sweep.warnings(), *warnings])


def _reference_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what the schema cannot say: names that clash, and names that there are not."""
    axes, stages = document["axes"], document["stages"]
    yield from _taken("axes", axes, dict.fromkeys(_RESERVED, "of hloop's own"))
    yield from _taken(
        "stages",
        stages,
        {**dict.fromkeys(axes, "of an axis"), **dict.fromkeys(_RESERVED, "of hloop's own")},
    )
    for name, values in axes.items():
        for text, count in Counter(as_text(value) for value in values).items():
            if count > 1:
                found = f"the value {text} stands there as a number and as text"
                yield Problem("axis_value_twice", f"axes.{name}", found, action="Keep one of them")
    above: list[str] = []
    for name in stages:
        yield from _of_stage(document, name, above)
        above.append(name)


def _taken(part: str, names: Iterable[str], taken: Mapping[str, str]) -> Iterator[Problem]:
    for name in names:
        if name in taken:
            found = f"{name!r} is already the name of a placeholder {taken[name]}"
            yield Problem("name_taken", f"{part}.{name}", found, action="Choose another name")


def _of_stage(document: Mapping[str, Any], name: str, above: list[str]) -> Iterator[Problem]:
    where, stage, stages = f"stages.{name}", document["stages"][name], document["stages"]
    for index, axis in enumerate(stage.get("over", [])):
        if axis not in document["axes"]:
            yield _unknown("axis", f"{where}.over[{index}]", axis, document["axes"])
    needs = stage.get("needs", [])
    for index, need in enumerate(needs):
        if need not in stages:
            yield _unknown("stage", f"{where}.needs[{index}]", need, above)
        elif need not in above:
            found = f"the stage {need!r} does not stand above {name!r}"
            action = "Write each stage after those that it needs"
            yield Problem("stage_order", f"{where}.needs[{index}]", found, action=action)
    for at, each in _each_entries(stage):
        # A need that is written wrong is told above.
        if each not in needs and all(need in stages for need in needs):
            yield _unknown("needed stage", f"{where}.{at}.each", each, needs)
    if stage["resource"] == "gpu" and "devices" not in document:
        found = "the jobs of this stage need a device, and the workload lists none"
        action = "Add devices, e.g. devices: [0, 1]"
        yield Problem("devices_missing", where, found, action=action)


def _each_entries(stage: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(stage["command"]):
        if isinstance(item, dict):
            yield f"command[{index}]", item["each"]
    for role, entry in stage.get("inputs", {}).items():
        if isinstance(entry, dict) and "each" in entry:
            yield f"inputs.{role}", entry["each"]


def _unknown(kind: str, where: str, name: str, known: Iterable[str]) -> Problem:
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    action = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known) or 'none'}"
    return Problem(
        f"unknown_{kind.split()[-1]}", where, f"there is no {kind} {name!r}", action=action
    )
