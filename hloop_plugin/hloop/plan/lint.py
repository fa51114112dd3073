"""The rules that a plan must keep beyond its format, all asked at once.

Lint looks at the plan, and at the disk only to follow symbolic links. Whether the external
inputs are there and unaltered is asked by ``external.py``, and again when a job starts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hloop.errors import Problem
from hloop.files import OWN_NAMES
from hloop.plan.claims import checkpoint_problems, formal_problems
from hloop.plan.document import child
from hloop.plan.model import Artifact, ArtifactType, CompareMode, Job, Plan, ResourceClass
from hloop.plan.order import Ancestors, cycle_problem, find_cycles
from hloop.plan.paths import Resolver, inside
from hloop.plan.render import Filler, RenderedJob
from hloop.plan.watched import fail_on_problems, watch_problems

RESERVED_ENVIRONMENT = ("MIMICX_DEVICE_ID", "HLOOP_DEVICE_ID", "CUDA_VISIBLE_DEVICES")
"""What hloop itself sets, or passes on untouched, for every job."""

MAX_ID_BYTES = 200

# Looking for the nearest id costs a walk over all ids; after this many it helps nobody.
_MOST_SUGGESTIONS = 10


def lint(plan: Plan, repo_root: str | Path, run_dir: str | Path) -> list[Problem]:
    """Hold a plan against every rule, and give all problems in the order of the plan.

    Args:
        plan: a plan that keeps its format.
        repo_root: what ``{repo_root}`` stands for.
        run_dir: what ``{run_dir}`` stands for; it need not exist.
    """
    filler = Filler(repo_root, run_dir)
    if plan.selection_artifact is not None:
        filler.path(plan.selection_artifact, "selection_artifact")
    rendered = [filler.job(job, f"jobs[{index}]") for index, job in enumerate(plan.jobs)]
    problems = [
        *_limits(plan),
        *_ids(plan),
        *_dependencies(plan),
        *map(cycle_problem, find_cycles(plan)),
        *filler.problems,
    ]
    for index, job in enumerate(plan.jobs):
        where = f"jobs[{index}]"
        problems += [*_device(job, where), *_environment(job, where), *_compared(job, where)]
        problems += [*checkpoint_problems(job, where), *formal_problems(job, where)]
        problems += [*watch_problems(job, where), *fail_on_problems(job, where)]
    if not filler.problems:
        # Only now is every path known.
        problems += _Files(rendered, plan, filler.run).problems()
    return name_jobs(problems, [job.job_id for job in plan.jobs])


def name_jobs(problems: Iterable[Problem], ids: Sequence[object]) -> list[Problem]:
    """Put the id of the job into each problem that lies in one."""
    named = []
    for problem in problems:
        match = re.match(r"jobs\[(\d+)\]", problem.where)
        job_id = ids[int(match[1])] if match else None
        if job_id is not None:
            problem = replace(problem, found=f"job {job_id!r}: {problem.found}")
        named.append(problem)
    return named


def _limits(plan: Plan) -> Iterator[Problem]:
    for name in ("max_cpu_workers", "max_io_workers"):
        if (value := getattr(plan, name)) < 1:
            yield Problem("too_small", name, f"the limit is {value}", "1 or more")


def _ids(plan: Plan) -> Iterator[Problem]:
    first: dict[str, int] = {}
    folded: dict[str, str] = {}
    for index, job in enumerate(plan.jobs):
        where = f"jobs[{index}].job_id"
        if reason := _unsafe(job.job_id):
            yield Problem(
                code="unsafe_job_id",
                where=where,
                found=f"the id {reason}",
                expected="an id that can be the name of a folder",
                action="Use letters, digits, _, - and .",
            )
        other = folded.setdefault(job.job_id.casefold(), job.job_id)
        if first.setdefault(job.job_id, index) != index:
            yield Problem(
                code="duplicate_job_id",
                where=where,
                found=f"jobs[{first[job.job_id]}] has the same id",
                action="Give each job an id of its own",
            )
        elif other != job.job_id:
            yield Problem(
                code="unsafe_job_id",
                where=where,
                found=f"the id differs only in case from {other!r}",
                expected="an id whose folder is another one on every file system",
                action="Change one of the two",
            )


def _unsafe(job_id: str) -> str:
    """Say why an id cannot be the name of a folder; "" where it can."""
    if not job_id:
        return "is empty"
    if "/" in job_id:
        return "holds a slash"
    if job_id.startswith((".", "-")):
        return f"begins with {job_id[0]!r}"
    if not job_id.isprintable():
        return "holds a control character"
    if job_id != job_id.strip():
        return "begins or ends with a blank"
    if len(job_id.encode()) > MAX_ID_BYTES:
        return f"has more than {MAX_ID_BYTES} bytes"
    return ""


def _dependencies(plan: Plan) -> Iterator[Problem]:
    ids = plan.by_id()
    suggestions = 0
    for index, job in enumerate(plan.jobs):
        for position, dependency in enumerate(job.depends_on):
            where = f"jobs[{index}].depends_on[{position}]"
            if dependency == job.job_id:
                yield Problem(
                    "self_dependency", where, "it depends on itself", action="Remove this entry"
                )
            elif dependency not in ids:
                close: list[str] = []
                if suggestions < _MOST_SUGGESTIONS:
                    close = difflib.get_close_matches(dependency, ids, 1)
                    suggestions += 1
                yield Problem(
                    code="unknown_dependency",
                    where=where,
                    found=f"there is no job {dependency!r}",
                    expected="the id of a job of this plan",
                    action=f"Did you mean {close[0]!r}?" if close else "",
                )


def _device(job: Job, where: str) -> Iterator[Problem]:
    where, device = f"{where}.cuda_visible_devices", job.cuda_visible_devices
    if job.resource is not ResourceClass.GPU:
        if device is not None:
            yield Problem(
                code="device_on_other_job",
                where=where,
                found=f"its resource is {job.resource}, and it has the device {device!r}",
                expected="a device on gpu jobs only",
                action="Remove the key, or make it a gpu job",
            )
    elif device is None:
        yield Problem(
            code="device_missing",
            where=where,
            found="a gpu job has no device",
            expected='its logical device as text, e.g. "0"',
            action='Add cuda_visible_devices: "0"',
        )
    elif not re.fullmatch(r"0|[1-9][0-9]{0,4}", device):
        yield Problem(
            code="device_not_one_index",
            where=where,
            found=f"{device!r} is not one logical device",
            expected='one index as text, e.g. "0"',
            action="Give each gpu job one device",
        )


def _environment(job: Job, where: str) -> Iterator[Problem]:
    for name in RESERVED_ENVIRONMENT:
        if name in job.environment:
            yield Problem(
                code="reserved_environment",
                where=child(f"{where}.environment", name),
                found=f"{name} is set by hloop",
                action="Remove it; a gpu job's device is cuda_visible_devices",
            )


def _compared(job: Job, where: str) -> Iterator[Problem]:
    for index, output in enumerate(job.outputs):
        if output.type is ArtifactType.DIRECTORY and output.compare in (
            CompareMode.JSON,
            CompareMode.CSV,
        ):
            yield Problem(
                code="compare_of_directory",
                where=f"{where}.outputs[{index}].compare",
                found=f"compare is {output.compare}, and the output is a folder",
                expected="bytes, by which all that lies in it is compared, or none",
                action="Correct compare; or declare the files in it instead",
            )
        if reason := _ignored_in_vain(output):
            yield Problem(
                code="ignore_without_effect",
                where=f"{where}.outputs[{index}].ignore",
                found=reason,
                expected="JSON pointers with compare: json, or column names with compare: csv",
                action="Correct ignore, or compare",
            )


def _ignored_in_vain(output: Artifact) -> str:
    if output.ignore and output.compare in (CompareMode.BYTES, CompareMode.NONE):
        return f"compare is {output.compare}, which leaves nothing out"
    if output.compare is CompareMode.JSON:
        for pointer in output.ignore:
            if not re.fullmatch(r"(/([^~/]|~[01])*)*", pointer):
                return f"{pointer!r} is no JSON pointer: it begins with a slash, as /source"
    return ""


@dataclass(frozen=True)
class _Made:
    """A declared output, with the job and the place in the plan where it stands."""

    job_id: str
    where: str
    path: str
    type: ArtifactType


class _Files:
    """The rules about artifacts. Paths are compared after symbolic links are followed."""

    def __init__(self, jobs: Sequence[RenderedJob], plan: Plan, run_dir: str) -> None:
        self._jobs = jobs
        self._resolver = Resolver()
        self._run = self._resolver.resolve(run_dir)
        self._ancestors = Ancestors(plan)
        self._made: dict[str, _Made] = {}

    def problems(self) -> list[Problem]:
        problems = list(self._outputs())
        for index, entry in enumerate(self._jobs):
            problems += self._inputs(entry, f"jobs[{index}]")
        return problems

    def _outputs(self) -> Iterator[Problem]:
        for index, entry in enumerate(self._jobs):
            for position, output in enumerate(entry.outputs):
                where = f"jobs[{index}].outputs[{position}].path"
                real = self._resolver.resolve(output.path)
                made = _Made(entry.job.job_id, where, output.path, output.declared.type)
                other = self._made.setdefault(real, made)
                if other is not made:
                    yield Problem(
                        code="duplicate_output",
                        where=where,
                        found=f"{output.path} is also an output of {other.job_id!r}",
                        expected=f"a path of its own; the other one is {other.where}",
                        action="Change one of the two",
                    )
                yield from self._place(real, made)
        for real, made in self._made.items():
            if above := self._maker_above(real):
                yield Problem(
                    code="nested_output",
                    where=made.where,
                    found=f"{made.path} lies inside {above.path}, an output of {above.job_id!r}",
                    expected=f"a path outside of it; the other one is {above.where}",
                    action="Change one of the two",
                )

    def _place(self, real: str, made: _Made) -> Iterator[Problem]:
        if not inside(real, self._run):
            yield Problem(
                code="output_outside_run_dir",
                where=made.where,
                found=f"{made.path} "
                + ("is the run directory" if real == self._run else f"leads to {real}"),
                expected=f"a file inside the run directory, {self._run}",
                action="Begin the path with {run_dir}/",
            )
        elif (name := real[len(self._run) :].strip("/").partition("/")[0]) in OWN_NAMES:
            yield Problem(
                code="reserved_output",
                where=made.where,
                found=f"{name} in the run directory is hloop's own",
                expected=f"another name than {', '.join(sorted(OWN_NAMES))}",
                action="Put the output into a folder, e.g. {run_dir}/out/",
            )

    def _maker_above(self, real: str) -> _Made | None:
        while inside(real, self._run):
            real = real.rpartition("/")[0]
            if real in self._made:
                return self._made[real]
        return None

    def _inputs(self, entry: RenderedJob, where: str) -> Iterator[Problem]:
        job_id = entry.job.job_id
        for position, artifact in enumerate(entry.inputs):
            at = f"{where}.inputs[{position}]"
            real = self._resolver.resolve(artifact.path)
            made = self._made.get(real)
            if not inside(real, self._run):
                if artifact.sha256 is None and made is None:
                    yield Problem(
                        code="input_without_digest",
                        where=f"{at}.sha256",
                        found=f"{artifact.path} is made by no job, and has no sha256",
                        expected="the digest of every external input",
                        action="Add its digest; docs/plan.md says how to get a folder's"
                        if artifact.directory
                        else "Add what sha256sum prints for it",
                    )
            elif made is None:
                above = self._maker_above(real)
                yield Problem(
                    code="input_without_producer",
                    where=f"{at}.path",
                    found=f"{artifact.path} lies in the run directory, and no job makes it",
                    expected="an output of a job that comes before",
                    action=f"Name the whole output of {above.job_id!r}, {above.path}"
                    if above
                    else "Declare it as an output of the job that makes it",
                )
            elif made.type is not artifact.declared.type:
                yield Problem(
                    code="type_of_producer",
                    where=f"{at}.type",
                    found=f"{artifact.path} is a {artifact.declared.type} here",
                    expected=f"a {made.type}, which {made.job_id!r} makes",
                    action="Correct the type of one of the two",
                )
            elif made.job_id == job_id:
                yield Problem(
                    code="producer_not_ancestor",
                    where=f"{at}.path",
                    found=f"{artifact.path} is an output of the job itself",
                    expected="an output of a job that comes before",
                    action="Remove this input",
                )
            elif (
                job_id in self._ancestors
                and made.job_id in self._ancestors
                and not self._ancestors.has(job_id, made.job_id)
            ):
                yield Problem(
                    code="producer_not_ancestor",
                    where=f"{at}.path",
                    found=f"{artifact.path} is made by {made.job_id!r}, which may run later",
                    expected="an output of a job that comes before",
                    action=f"Add {made.job_id!r} to depends_on",
                )
