"""From a configuration to a plan, whatever the format; and the plan written to a file.

The format is told by the file itself: ``schema: hloop.workload.v1``, ``schema:
mimicx.native-hloop-benchmark.v1``, or a plan with ``schema_version: mimicx.hloop-plan.v1``,
which is passed through. Only :func:`materialize` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop.errors import Problem, RunDirectoryError, WorkloadError
from hloop.files import MATERIALIZED_PLAN_NAME, publish
from hloop.plan.contract import format_problems
from hloop.plan.document import read_document
from hloop.plan.load import load_plan, plan_from_document
from hloop.plan.model import PLAN_SCHEMA, Plan

if TYPE_CHECKING:
    from hloop.plan.placeholder import Scalar
    from hloop.plan.sweep import SweepOptions

WORKLOAD_SCHEMA = "hloop.workload.v1"
NATIVE_SCHEMA = "mimicx.native-hloop-benchmark.v1"

# The schema file of each format but the plan's.
_SCHEMAS = {WORKLOAD_SCHEMA: "workload", NATIVE_SCHEMA: "native-benchmark"}


@dataclass(frozen=True)
class BenchmarkSettings:
    """How a benchmark repeats a plan.

    Attributes:
        repetitions: measured repetitions of every mode.
        modes: names of the modes that are compared.
        warmup: whether one repetition that is not measured comes first.
    """

    repetitions: int = 5
    modes: tuple[str, ...] = ("sequential", "bulk-sync", "hloop")
    warmup: bool = True


@dataclass(frozen=True)
class Prepared:
    """What a configuration gives.

    Attributes:
        plan: the plan.
        benchmark: how a benchmark repeats it; the defaults where the file says nothing.
        points: what each job of a workload stands for, by job id and axis.
        warnings: what was asked for and is left out, and what may not be meant, as sentences.
    """

    plan: Plan
    benchmark: BenchmarkSettings
    points: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def prepare(config_path: Path, *, repo_root: Path, mimicx_root: Path | None = None) -> Plan:
    """Give the plan of a configuration or plan file; see :func:`read_config`."""
    return read_config(config_path, repo_root=repo_root, mimicx_root=mimicx_root).plan


def read_config(
    config_path: Path,
    *,
    repo_root: Path,
    mimicx_root: Path | None = None,
    options: SweepOptions | None = None,
) -> Prepared:
    """Read a configuration or plan file and make its plan. Writes nothing.

    Args:
        config_path: a workload, a native benchmark configuration, or a plan.
        repo_root: the folder that ``{repo_root}`` stands for.
        mimicx_root: the MimicX checkout, where the configuration needs one.
        options: what a command line says of the sweep; workloads only.

    Raises:
        WorkloadError: the configuration is wrong, or a registered input is missing or is not
            the one that it gives the digest of.
        PlanError: the file cannot be read, or is a plan that breaks the format.
    """
    repo_root = repo_root.absolute()
    mimicx_root = None if mimicx_root is None else mimicx_root.resolve()
    document, problems = read_document(config_path)
    name = _format(document, config_path)
    says_nothing = options is None or options == type(options)()
    if not says_nothing and name != WORKLOAD_SCHEMA:
        found = f"a file of the format {name} has no seeds, folds, tag or pool to choose"
        raise WorkloadError(Problem("no_sweep", "", found, f"a workload, {WORKLOAD_SCHEMA}"))
    if name == PLAN_SCHEMA:
        # With problems, the loader tells them together with its own.
        plan = load_plan(config_path) if problems else plan_from_document(document, config_path)
        return Prepared(plan, BenchmarkSettings())
    if problems := [*problems, *format_problems(document, _SCHEMAS[name])]:
        raise WorkloadError(problems, file=config_path)
    if name == NATIVE_SCHEMA:
        from hloop.plan.native import plan_from_native

        plan = plan_from_native(document, file=config_path, mimicx_root=mimicx_root)
        return Prepared(plan, _benchmark_settings(document))
    from hloop.plan.workload import expand_workload

    expanded = expand_workload(
        document,
        file=config_path,
        repo_root=repo_root,
        mimicx_root=mimicx_root,
        options=options,
    )
    return Prepared(
        expanded.plan, _benchmark_settings(document), expanded.points, expanded.warnings
    )


def materialize(plan: Plan, run_dir: Path) -> Path:
    """Write a plan to ``run_dir/materialized_plan.json``, a plan file as any other.

    Writing the same plan again changes nothing.

    Raises:
        RunDirectoryError: another plan lies there already, or the folder cannot be written to.
    """
    path = run_dir.absolute() / MATERIALIZED_PLAN_NAME
    data = json.dumps(plan.to_document(), indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            publish(path, data)
        written = path.read_bytes()
    except OSError as error:
        raise RunDirectoryError(
            Problem("not_writable", "", f"{path} cannot be written: {error.strerror}")
        ) from None
    if written != data:
        raise RunDirectoryError(
            Problem(
                "other_plan",
                "",
                f"{path} holds another plan",
                action="Choose another run directory, or move that file away",
            )
        )
    return path


def _format(document: Any, file: Path) -> str:
    """Give the name of a document's format."""
    name = None
    if isinstance(document, dict):
        name = document.get("schema", document.get("schema_version"))
    if name in (*_SCHEMAS, PLAN_SCHEMA):
        return str(name)
    raise WorkloadError(
        Problem(
            "unknown_schema",
            "",
            "the file names no format" if name is None else f"the format {name!r} is unknown",
            f"schema: {' or '.join(_SCHEMAS)}, or schema_version: {PLAN_SCHEMA}",
        ),
        file=file,
    )


def _benchmark_settings(document: Mapping[str, Any]) -> BenchmarkSettings:
    # The native format has its settings at the top.
    settings = document.get("benchmark", document)
    known = {key: settings[key] for key in ("repetitions", "warmup") if key in settings}
    if "modes" in settings:
        known["modes"] = tuple(settings["modes"])
    return BenchmarkSettings(**known)
