"""What a plan must hold to be run formally, and the formal manifest that says what it fixes.

A formal job is of one method, case, seed and configuration, has a hard timeout, and lays out
what it makes by the same rule as every other, so that results can be counted without
anybody's choice. The rules come from the requirements of formal author-trainer jobs; see
docs/formal.md.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import Problem
from hloop.plan import claims, identity
from hloop.plan.document import child
from hloop.plan.lint import name_jobs
from hloop.plan.model import Job, Plan
from hloop.plan.render import RenderedJob, RenderedPlan, render_plan
from hloop.portable import Portable
from hloop.provenance.fidelity import Fidelity, Method
from hloop.provenance.records import FORMAL_MANIFEST, Reference

PHASES = ("train", "eval")

CACHE_FOLDERS = {
    "XDG_CACHE_HOME": "xdg",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TRITON_CACHE_DIR": "triton",
    "WARP_CACHE_PATH": "warp",
    # With it Python takes no compiled file from beside the source, where no patch shows it.
    "PYTHONPYCACHEPREFIX": "pycache",
}
"""The variables that lead a formal job to caches of its own: name to folder in its cache."""

# Paths of a plan, the same on every machine.
_PORTABLE = Portable(Path("/run_dir"), Path("/repo_root"))


@dataclass(frozen=True, slots=True)
class FormalKey:
    """What a formal job is counted as."""

    case: str
    method: str
    seed: int

    @property
    def folder(self) -> str:
        """Where their outputs lie, portable."""
        return f"${{RUN_DIR}}/{self.case}/{self.method}/{self.seed}"


def formal_problems(plan: Plan, fidelity: Fidelity) -> list[Problem]:
    """Give every reason why a plan cannot be run formally.

    Args:
        plan: one that lint has nothing against.
        fidelity: what is claimed of its methods.
    """
    problems: list[Problem] = []
    rendered = _rendered(plan)
    for index, job in enumerate(plan.jobs):
        problems += _job_problems(rendered.jobs[job.job_id], fidelity, f"jobs[{index}]")
    problems += _checkpoint_problems(plan, fidelity)
    return name_jobs(problems, [job.job_id for job in plan.jobs])


def formal_manifest(plan: Plan, upstream: Sequence[Reference]) -> dict[str, Any]:
    """Give the formal manifest of a plan that has no formal problems.

    Args:
        upstream: the author-fidelity manifest and the reviewed patch.
    """
    rendered = _rendered(plan)
    return {
        "_type": FORMAL_MANIFEST,
        "plan": {
            "plan_id": plan.plan_id,
            "plan_semantic_hash": identity.plan_semantic_hash(plan),
            "experiment_digest": identity.experiment_digest(plan),
            "placement_digest": identity.placement_digest(plan),
        },
        "jobs": [_manifest_entry(rendered.jobs[job.job_id]) for job in plan.jobs],
        "upstream": [reference.to_dict() for reference in upstream],
    }


def _manifest_entry(entry: RenderedJob) -> dict[str, Any]:
    job = entry.job
    key, limit = key_of(job), job.seconds("max_seconds")
    assert job.formal is not None and key is not None and limit is not None
    (config,) = (item for item in entry.inputs if item.role == job.formal.config)
    return {
        "job_id": job.job_id,
        "method": key.method,
        "case": key.case,
        "seed": key.seed,
        "phase": _phase(entry, key),
        "config": {"path": _PORTABLE.path(config.path), "sha256": config.sha256},
        "command_digest": canonical.digest(
            {
                "command": list(job.command),
                "cwd": job.cwd,
                "environment": dict(job.environment),
            }
        ),
        "hard_timeout_ms": math.ceil(limit * 1000),
        "device": job.cuda_visible_devices,
        "checkpoint_roles": sorted(_roles(job)),
    }


def key_of(job: Job) -> FormalKey | None:
    """Say what a job is counted as; None where it does not say so itself."""
    if job.formal is None or job.seed is None:
        return None
    return FormalKey(job.formal.case, job.formal.method, job.seed)


def training_jobs(plan: Plan) -> set[str]:
    """Give the ids of the jobs that train, by where their outputs lie."""
    entries = _rendered(plan).jobs.values()
    keys = ((entry, key_of(entry.job)) for entry in entries)
    return {entry.job.job_id for entry, key in keys if key and _phase(entry, key) == "train"}


def _rendered(plan: Plan) -> RenderedPlan:
    return render_plan(plan, _PORTABLE.repo_root, _PORTABLE.run_dir)


def _phase(entry: RenderedJob, key: FormalKey) -> str | None:
    paths = [_PORTABLE.path(item.path) for item in entry.outputs]
    for phase in PHASES:
        folder = f"{key.folder}/{phase}/"
        if paths and all(path.startswith(folder) for path in paths):
            return phase
    return None


def _roles(job: Job) -> list[str]:
    return [item.checkpoint for item in job.outputs if item.checkpoint is not None]


def _job_problems(entry: RenderedJob, fidelity: Fidelity, where: str) -> Iterator[Problem]:
    job = entry.job
    if job.seconds("max_seconds") is None:
        yield Problem(
            "no_hard_timeout",
            f"{where}.budget.max_seconds",
            "it may run for ever",
            "a hard timeout in seconds, fixed beforehand",
        )
    for name in sorted(job.environment.keys() & CACHE_FOLDERS.keys()):
        at, found = child(f"{where}.environment", name), "hloop sets it for each formal job"
        yield Problem("own_cache", at, found, action="Leave it out")
    if job.formal is None:
        expected = "its method, case and config"
        yield Problem("not_formal", f"{where}.formal", "it says not what it counts as", expected)
        return
    # Lint asks this too, but not everybody who derives a gate has asked lint.
    if unsound := list(claims.formal_problems(job, where)):
        yield from unsound
        return
    key = key_of(job)
    assert key is not None
    yield from _place_problems(entry, key, where)
    method = fidelity.method(key.method)
    if method is None:
        yield Problem(
            "unknown_method",
            f"{where}.formal.method",
            f"the author-fidelity manifest has no method {key.method!r}",
            f"one of {', '.join(method.name for method in fidelity.methods)}",
        )
    else:
        yield from _digest_problems(job, method, where)


def _place_problems(entry: RenderedJob, key: FormalKey, where: str) -> Iterator[Problem]:
    place = f"{key.folder}/".replace("${RUN_DIR}", "{run_dir}")
    if not entry.outputs:
        found, expected = "it declares no output", f"what it makes, in {place}train/ or eval/"
        yield Problem("no_outputs", f"{where}.outputs", found, expected)
        return
    folders = tuple(f"{key.folder}/{phase}/" for phase in PHASES)
    paths = [_PORTABLE.path(item.path) for item in entry.outputs]
    strayed = [index for index, path in enumerate(paths) if not path.startswith(folders)]
    for index in strayed:
        at, expected = f"{where}.outputs[{index}].path", f"{place}train/… or {place}eval/…"
        yield Problem("output_place", at, f"it lies at {paths[index]}", expected)
    if not strayed and _phase(entry, key) is None:
        yield Problem(
            "two_phases",
            f"{where}.outputs",
            "some of its outputs lie in train/, others in eval/",
            "one job that trains, and another that evaluates",
        )


def _digest_problems(job: Job, method: Method, where: str) -> Iterator[Problem]:
    assert job.formal is not None
    (index, config), *_ = (
        (index, item) for index, item in enumerate(job.inputs) if item.role == job.formal.config
    )
    claim = method.config(job.formal.case)
    if claim is None:
        yield Problem(
            "unknown_case",
            f"{where}.formal.case",
            f"the author-fidelity manifest has no configuration of {method.name!r} for the case "
            f"{job.formal.case!r}",
        )
    elif config.sha256 != claim.sha256:
        at = f"{where}.inputs[{index}].sha256"
        expected = f"{claim.sha256}, as the author-fidelity manifest has it"
        yield Problem("config_mismatch", at, "it is another configuration", expected)
    given = {claim.name: claim.sha256 for claim in method.checkpoints}
    for index, item in enumerate(job.inputs):
        if item.role in given and item.sha256 != given[item.role]:
            at = f"{where}.inputs[{index}].sha256"
            expected = f"{given[item.role]}, as the author-fidelity manifest has it"
            yield Problem("checkpoint_mismatch", at, "it is another checkpoint", expected)


def _checkpoint_problems(plan: Plan, fidelity: Fidelity) -> Iterator[Problem]:
    """Demand of the jobs of each case, method and seed the method's checkpoints, each once."""
    first: dict[FormalKey, int] = {}
    roles: defaultdict[FormalKey, Counter[str]] = defaultdict(Counter)
    for index, job in enumerate(plan.jobs):
        if key := key_of(job):
            first.setdefault(key, index)
            roles[key].update(_roles(job))
    for key, index in first.items():
        if (method := fidelity.method(key.method)) is None:
            continue
        who = f"{key.case}/{key.method}/{key.seed}"
        for role in method.checkpoint_roles:
            if roles[key][role] != 1:
                times = roles[key][role]
                yield Problem(
                    "checkpoint_role",
                    f"jobs[{index}].outputs",
                    f"of {who}, {times or 'no'} outputs are the checkpoint {role!r}",
                    "one, of one of its jobs",
                    f'Give it "checkpoint": "{role}"',
                )
        for role in sorted(roles[key].keys() - set(method.checkpoint_roles)):
            yield Problem(
                "checkpoint_role",
                f"jobs[{index}].outputs",
                f"of {who}, an output is the checkpoint {role!r}",
                f"one of {', '.join(method.checkpoint_roles)}",
            )
