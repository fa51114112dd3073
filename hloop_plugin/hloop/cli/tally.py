"""``hloop tally``: the jobs of formal runs, each a Success or a Fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json

if TYPE_CHECKING:
    from hloop.provenance.tally import Tally


def command(
    run_dirs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The run directories of formal runs.")
    ],
    repo_root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the repository root lies now. [default: where the runs had it]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count the jobs that formal runs were to run: each is a Success or a Fail.

    Exit 0: every job is a Success. 1: one is a Fail, or a run or a job has no place in the
    count. 2: there is no answer.
    """
    from hloop.provenance.tally import tally

    counted = tally(run_dirs, repo_root=repo_root)
    if as_json:
        print_json(counted.to_dict())
    else:
        _print(counted)
    raise typer.Exit(counted.exit_code)


def _print(counted: Tally) -> None:
    from hloop.provenance.tally import FAIL, SUCCESS

    for job in counted.jobs:
        if job.reasons:
            print(f"{job.result}: {job.run_dir}: {job.job.job_id}: {job.reasons[0]}")
            if more := len(job.reasons) - 1:
                print(f"    and {more} more; --json gives all")
    for problem in counted.errors:
        print(f"{problem.code}: {problem}")
    groups = Counter((job.job.key.case, job.job.key.method, job.job.phase) for job in counted.jobs)
    for (case, method, phase), total in groups.items():
        successes = sum(
            job.result == SUCCESS
            for job in counted.jobs
            if (job.job.key.case, job.job.key.method, job.job.phase) == (case, method, phase)
        )
        print(f"{case}  {method}  {phase}  {successes} of {total}")
    print(
        f"{counted.count(SUCCESS)} {SUCCESS}, {counted.count(FAIL)} {FAIL} "
        f"of {len(counted.jobs)} jobs; {len(counted.errors)} errors"
    )
