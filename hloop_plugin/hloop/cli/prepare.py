"""``hloop prepare``: make the plan of a configuration and write it down. Runs nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hloop.cli.options import JsonOption, MimicxRootOption, RepoRootOption, repo_root_or_here
from hloop.cli.output import print_json, print_warnings

if TYPE_CHECKING:
    from hloop.plan.model import Plan


def command(
    config: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A workload, or a native benchmark configuration of MimicX."
        ),
    ],
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder that the plan is written into; not needed with --dry-run.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=100_000, help="How many seeds. [default: as in the workload]"
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, max=100_000, help="How many folds. [default: as in the workload]"
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="T", help="What <tag> stands for; ends the plan's name.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The pool that the gpu jobs are for. [default: the workload's]"
        ),
    ] = None,
    pools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The table of pools. [default: {repo_root}/config/pools.yaml]"
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Run stages under the profilers that they declare.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print a line for each job, and write nothing.")
    ] = False,
    mimicx_root: MimicxRootOption = None,
    repo_root: RepoRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a plan of a configuration. Runs nothing.

    Writes RUN_DIR/materialized_plan.json, which `hloop plan` shows and `hloop run` runs.
    """
    from hloop.errors import HloopError, Problem, WorkloadError
    from hloop.plan.identity import plan_semantic_hash
    from hloop.plan.lint import lint
    from hloop.plan.placeholder import as_text
    from hloop.plan.prepare import materialize, read_config
    from hloop.plan.profiles import ROLE
    from hloop.plan.sweep import SweepOptions

    if run_dir is None and not dry_run:
        raise HloopError(Problem("usage", "", "Missing option '--run-dir'", action="Give it"))
    root = repo_root_or_here(repo_root)
    prepared = read_config(
        config,
        repo_root=root,
        mimicx_root=mimicx_root,
        options=SweepOptions(seeds, folds, tag, pool, pools, profile),
    )
    print_warnings(prepared.warnings)
    plan = prepared.plan
    folder = (run_dir or Path("run")).absolute()
    if problems := lint(plan, root, folder):
        raise WorkloadError(problems, file=config)
    path = None if dry_run else materialize(plan, folder)
    semantic_hash = plan_semantic_hash(plan)
    if as_json:
        print_json(
            {
                "plan": None if path is None else str(path),
                "plan_id": plan.plan_id,
                "plan_semantic_hash": semantic_hash,
                "jobs": len(plan.jobs),
                "jobs_by_resource": _by_class(plan),
                "benchmark": asdict(prepared.benchmark),
            }
        )
    elif dry_run:
        for job in plan.jobs:
            point = prepared.points.get(job.job_id, {})
            axes = "".join(f" {axis}={as_text(value)}" for axis, value in point.items())
            profiles = [f" profile={a.path}" for a in job.outputs if a.role == ROLE]
            print(f"job={job.job_id}{axes} class={job.resource.value}{''.join(profiles)}")
        for name, count in _by_class(plan).items():
            print(f"class={name} jobs={count}")
    else:
        print(f"prepared HLoop jobs={len(plan.jobs)} hash={semantic_hash}")


def _by_class(plan: Plan) -> dict[str, int]:
    """Give how many jobs there are of each resource class."""
    return Counter(job.resource.value for job in plan.jobs)
