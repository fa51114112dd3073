"""``hloop prepare``: make the plan of a configuration and write it down. Runs nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption, RepoRootOption, repo_root_or_here
from hloop.cli.output import print_json


def command(
    config: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A workload, or a native benchmark configuration of MimicX."
        ),
    ],
    run_dir: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder that the plan is written into.")
    ],
    mimicx_root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The MimicX checkout, where the configuration needs one."
        ),
    ] = None,
    repo_root: RepoRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a plan of a configuration. Runs nothing.

    Writes RUN_DIR/materialized_plan.json, which `hloop plan` shows and `hloop run` runs.
    """
    from hloop.errors import WorkloadError
    from hloop.plan.identity import plan_semantic_hash
    from hloop.plan.lint import lint
    from hloop.plan.prepare import materialize, read_config

    root = repo_root_or_here(repo_root)
    prepared = read_config(config, repo_root=root, mimicx_root=mimicx_root)
    plan = prepared.plan
    if problems := lint(plan, root, run_dir.absolute()):
        raise WorkloadError(problems, file=config)
    path = materialize(plan, run_dir)
    semantic_hash = plan_semantic_hash(plan)
    if as_json:
        print_json(
            {
                "plan": str(path),
                "plan_id": plan.plan_id,
                "plan_semantic_hash": semantic_hash,
                "jobs": len(plan.jobs),
                "jobs_by_resource": Counter(job.resource.value for job in plan.jobs),
                "benchmark": asdict(prepared.benchmark),
            }
        )
    else:
        print(f"prepared HLoop jobs={len(plan.jobs)} hash={semantic_hash}")
