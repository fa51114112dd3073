"""From a plan file to a plan: read, checked against the format, and then against the rules.

Everything that is wrong is collected before anything is raised, so that a user mends a plan
once. Nothing here writes, and nothing but the plan file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hloop.errors import PlanError, Problem
from hloop.plan.contract import format_problems
from hloop.plan.document import child, parse_document, read_document
from hloop.plan.lint import lint, name_jobs
from hloop.plan.model import (
    Artifact,
    ArtifactType,
    CompareMode,
    Formal,
    Job,
    Plan,
    ResourceClass,
)
from hloop.plan.render import RenderedPlan, render_plan
from hloop.plan.wording import show

__all__ = [
    "load_checked",
    "load_plan",
    "parse_document",
    "plan_from_checked_document",
    "plan_from_document",
]


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan from a YAML or JSON file and hold it against the format.

    Raises:
        PlanError: all problems, each with its dotted path. The rules of lint are not asked.
    """
    document, problems = read_document(path)
    problems = _with(problems, _format_problems(document))
    if problems:
        raise PlanError(_named(problems, document), file=path)
    return plan_from_checked_document(document)


def plan_from_document(document: Any, file: object = None) -> Plan:
    """Make a plan of a document that was read from ``file``, holding it against the format.

    Raises:
        PlanError: all problems, each with its dotted path. The rules of lint are not asked.
    """
    if problems := _format_problems(document):
        raise PlanError(_named(problems, document), file=file)
    return plan_from_checked_document(document)


def load_checked(
    path: str | os.PathLike[str], repo_root: str | Path, run_dir: str | Path
) -> RenderedPlan:
    """Read a plan, hold it against format and rules, and fill in its templates.

    Raises:
        PlanError: all problems, of both kinds.
    """
    document, problems = read_document(path)
    problems = _with(problems, _format_problems(document))
    plan = _plan_for_lint(document, problems)
    problems = _named(problems, document)
    if plan is not None:
        problems = _with(problems, lint(plan, repo_root, run_dir))
    if plan is None or problems:
        raise PlanError(problems, file=path)
    return render_plan(plan, Path(repo_root), Path(run_dir))


def _with(problems: list[Problem], more: list[Problem]) -> list[Problem]:
    """Add problems, but none about a place of which something is said already."""
    known = {problem.where for problem in problems}
    return problems + [problem for problem in more if problem.where not in known]


def plan_from_checked_document(document: Any) -> Plan:
    """Make a plan of a document that is known to be right, such as a run's own plan.json."""
    return Plan(
        plan_id=document.get("plan_id", ""),
        jobs=tuple(_job(job) for job in document["jobs"]),
        max_cpu_workers=document.get("max_cpu_workers", 4),
        max_io_workers=document.get("max_io_workers", 2),
        selection_artifact=document.get("selection_artifact"),
    )


def _job(document: Any) -> Job:
    return Job(
        job_id=document["job_id"],
        resource=ResourceClass(document["resource"]),
        command=tuple(document.get("command", ())),
        depends_on=tuple(document.get("depends_on", ())),
        cwd=document.get("cwd", "{repo_root}"),
        environment=document.get("environment", {}),
        inputs=tuple(_artifact(entry) for entry in document.get("inputs", ())),
        outputs=tuple(_artifact(entry) for entry in document.get("outputs", ())),
        candidate_id=document.get("candidate_id"),
        seed=document.get("seed"),
        budget=document.get("budget", {}),
        cuda_visible_devices=document.get("cuda_visible_devices"),
        formal=Formal(**document["formal"]) if "formal" in document else None,
    )


def _artifact(document: Any) -> Artifact:
    return Artifact(
        role=document.get("role", ""),
        path=document["path"],
        sha256=document.get("sha256"),
        compare=CompareMode(document.get("compare", "bytes")),
        ignore=tuple(document.get("ignore", ())),
        type=ArtifactType(document.get("type", "file")),
        checkpoint=document.get("checkpoint"),
    )


def _format_problems(document: Any) -> list[Problem]:
    if not isinstance(document, dict):
        found = "the file is empty" if document is None else f"{show(document)} stands here"
        return [Problem("wrong_type", "", found, "a mapping with schema_version, plan_id, jobs")]
    return format_problems(document, "plan")


def _plan_for_lint(document: Any, problems: Sequence[Problem]) -> Plan | None:
    """Give the plan without what breaks the format; None where that would mislead lint."""
    if not problems:
        return plan_from_checked_document(document)
    broken = set()
    for problem in problems:
        broken.add(problem.where)
        broken |= {problem.where[: cut.start()] for cut in re.finditer(r"[.\[]", problem.where)}
    try:
        return plan_from_checked_document(_usable(document, "", broken))
    except (KeyError, _Misleading):
        return None


class _Misleading(Exception):
    """Something that lint needs is broken."""


def _usable(entry: Any, where: str, broken: set[str]) -> dict[str, Any]:
    usable: dict[str, Any] = {}
    if not isinstance(entry, dict):
        raise _Misleading
    for key, item in entry.items():
        at = child(where, key)
        if key in ("jobs", "inputs", "outputs"):
            if not isinstance(item, list):
                raise _Misleading
            usable[key] = [
                _usable(part, child(at, index), broken) for index, part in enumerate(item)
            ]
        elif at not in broken:
            usable[key] = item
        elif key in ("depends_on", "type"):
            raise _Misleading
    return usable


def _named(problems: Sequence[Problem], document: Any) -> list[Problem]:
    jobs = document.get("jobs") if isinstance(document, dict) else None
    jobs = jobs if isinstance(jobs, list) else []
    return name_jobs(
        problems, [job.get("job_id") if isinstance(job, dict) else None for job in jobs]
    )
