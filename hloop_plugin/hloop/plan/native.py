"""MimicX's own benchmark configuration becomes the published plan.

The format is ``mimicx.native-hloop-benchmark.v1``. Commands, roles, order and ids are those
of the published plan, so that ``plan_semantic_hash`` is the same as the original's. This
module reads task files and registered inputs, writes nothing and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hloop.errors import HloopError, Problem, WorkloadError
from hloop.plan.contract import format_problems
from hloop.plan.document import read_document
from hloop.plan.model import Artifact, CompareMode, Job, Plan, ResourceClass
from hloop.plan.registered import RegisteredFiles

PLAN_ID = "native_core4_rollout_diagnose_select_v1"
SELECTION = "{run_dir}/selection.json"

_ROLLOUT = "scripts/rollout_mjlab_motion_smoke.py"
_DIAGNOSE = "scripts/autorefine/mine_failures.py"
_SELECT = "scripts/autorefine/select_hloop_native.py"


@dataclass(frozen=True)
class _Checkout:
    """What the commands name. All paths are absolute; a bare name of python stays bare."""

    root: str
    backend: str
    python: str

    def script(self, name: str) -> str:
        return f"{self.root}/{name}"


@dataclass(frozen=True)
class _Task:
    name: str
    horizon: int
    motion: Artifact
    checkpoint: Artifact


@dataclass(frozen=True)
class _Candidate:
    """One task with one seed, and where its files lie."""

    task: _Task
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task.name}_seed{self.seed}"

    @property
    def metrics(self) -> Artifact:
        # Where the inputs lie on this machine, and the device; the digests are compared.
        ignore = ("/motion_file", "/checkpoint_file", "/device")
        return Artifact("metrics", self._path("metrics.json"), None, CompareMode.JSON, ignore)

    @property
    def steps(self) -> Artifact:
        return Artifact("steps", self._path("metrics_steps.csv"), None, CompareMode.CSV)

    @property
    def failure_report(self) -> Artifact:
        # The source is two absolute paths in the run directory.
        path = self._path("failure_report.json")
        return Artifact("failure_report", path, None, CompareMode.JSON, ("/source",))

    def _path(self, file: str) -> str:
        return f"{{run_dir}}/candidates/{self.name}/{file}"


def plan_from_native(document: Mapping[str, Any], *, file: Path, mimicx_root: Path | None) -> Plan:
    """Make the published plan: rollout and diagnosis per task and seed, then one selection.

    Args:
        document: the configuration as read from ``file``; it keeps its schema.
        mimicx_root: the MimicX checkout, absolute and without links, as the original has it.

    Raises:
        WorkloadError: everything that is wrong: a missing checkout, script, task file, motion
            or checkpoint, a task file that breaks its schema, a digest that does not match.
    """
    if mimicx_root is None:
        raise WorkloadError(
            Problem(
                "mimicx_root_missing",
                "",
                "the commands of this configuration lie in the MimicX checkout",
                action="Pass --mimicx-root, the folder of the checkout",
            ),
            file=file,
        )
    folder = file.parent.absolute()
    python = document["runtime_python"]
    checkout = _Checkout(
        root=str(mimicx_root),
        backend=str(folder / document["backend"]),
        python=str(folder / python) if "/" in python else python,
    )
    problems = _missing(checkout)
    tasks = []
    for name in document["tasks"]:
        try:
            tasks.append(_read_task(name, folder / document["task_dir"] / f"{name}.yaml"))
        except HloopError as error:
            problems += [_in_file(error.file, problem) for problem in error.problems]
    if problems:
        raise WorkloadError(problems, file=file)
    candidates = [
        _Candidate(task, seed) for task in tasks for seed in document["evaluation_seeds"]
    ]
    return _plan(checkout, candidates, document["gpus"])


def _in_file(file: str | None, problem: Problem) -> Problem:
    return replace(problem, where=": ".join(filter(None, (file, problem.where))))


def _missing(checkout: _Checkout) -> list[Problem]:
    needed = {"backend": checkout.backend}
    if "/" in checkout.python:
        needed["runtime_python"] = checkout.python
    for name in (_ROLLOUT, _DIAGNOSE, _SELECT):
        needed[f"--mimicx-root {name}"] = checkout.script(name)
    return [
        Problem("missing", where, f"{path} does not exist", action="Correct the path")
        for where, path in needed.items()
        if not os.path.exists(path)
    ]


def _read_task(name: str, file: Path) -> _Task:
    """Read one task file and the digests of the files that it names."""
    document, problems = read_document(file)
    if problems := [*problems, *format_problems(document, "native-task")]:
        raise WorkloadError(problems, file=file)
    files = RegisteredFiles(file.parent)

    def artifact(role: str, key: str) -> Artifact:
        path = str(file.parent / document[key])
        return Artifact(role, path, files.sha256(path, document.get(f"{key}_sha256"), key))

    task = _Task(
        name=name,
        horizon=document["horizon"],
        motion=artifact("motion", "motion_file"),
        checkpoint=artifact("checkpoint", "hloop_checkpoint"),
    )
    # Other keys are MimicX's own; but a digest that nobody checks must not look checked.
    problems = files.problems + [
        Problem(
            "digest_of_nothing",
            key,
            f"there is no {key.removesuffix('_sha256')!r} in this file",
            action="Name the digest motion_file_sha256 or hloop_checkpoint_sha256",
        )
        for key in document
        if key.endswith("_sha256") and key.removesuffix("_sha256") not in document
    ]
    if problems:
        raise WorkloadError(problems, file=file)
    return task


def _plan(checkout: _Checkout, candidates: list[_Candidate], devices: list[int]) -> Plan:
    jobs: list[Job] = []
    for index, candidate in enumerate(candidates):
        jobs.append(_rollout(checkout, candidate, str(devices[index % len(devices)])))
        jobs.append(_diagnosis(checkout, candidate))
    return Plan(
        plan_id=PLAN_ID,
        jobs=(*jobs, _selection(checkout, candidates)),
        max_cpu_workers=8,
        max_io_workers=1,
        selection_artifact=SELECTION,
    )


def _rollout(checkout: _Checkout, candidate: _Candidate, device: str) -> Job:
    task = candidate.task
    metrics, steps = candidate.metrics, candidate.steps
    return Job(
        job_id=f"rollout_{candidate.name}",
        resource=ResourceClass.GPU,
        command=(
            *(checkout.python, checkout.script(_ROLLOUT)),
            *("--task", "Unitree-G1-Tracking-MimicX-Curriculum"),
            *("--motion-file", task.motion.path),
            *("--num-envs", "1"),
            *("--steps", str(task.horizon)),
            *("--seed", str(candidate.seed)),
            *("--device", "cuda:0"),
            "--disable-joint-init-noise",
            *("--checkpoint-file", task.checkpoint.path),
            *("--metrics-output", metrics.path),
            *("--step-metrics-output", steps.path),
        ),
        cwd=checkout.backend,
        environment={
            "PYTHONPATH": f"{checkout.backend}:{checkout.backend}/src:{checkout.root}",
        },
        inputs=(task.motion, task.checkpoint),
        outputs=(metrics, steps),
        candidate_id=candidate.name,
        seed=candidate.seed,
        budget={"rollouts": 1, "policy_updates": 0},
        cuda_visible_devices=device,
    )


def _diagnosis(checkout: _Checkout, candidate: _Candidate) -> Job:
    metrics, steps, report = candidate.metrics, candidate.steps, candidate.failure_report
    return Job(
        job_id=f"diagnose_{candidate.name}",
        resource=ResourceClass.CPU,
        command=(
            *(checkout.python, checkout.script(_DIAGNOSE)),
            *("--metrics-json", metrics.path),
            *("--step-csv", steps.path),
            *("--output-json", report.path),
        ),
        depends_on=(f"rollout_{candidate.name}",),
        cwd=checkout.root,
        inputs=(_as_input(metrics), _as_input(steps)),
        outputs=(report,),
    )


def _selection(checkout: _Checkout, candidates: list[_Candidate]) -> Job:
    reports = [candidate.failure_report for candidate in candidates]
    arguments: list[str] = []
    for candidate, report in zip(candidates, reports, strict=True):
        arguments += ["--candidate", candidate.name, report.path]
    return Job(
        job_id="select_candidates",
        resource=ResourceClass.IO,
        command=(
            *(checkout.python, checkout.script(_SELECT)),
            *arguments,
            *("--output", SELECTION),
        ),
        depends_on=tuple(f"diagnose_{candidate.name}" for candidate in candidates),
        cwd=checkout.root,
        inputs=tuple(_as_input(report) for report in reports),
        outputs=(Artifact("selection", SELECTION),),
    )


def _as_input(output: Artifact) -> Artifact:
    """How an output is compared is said where it is made."""
    return Artifact(output.role, output.path)
