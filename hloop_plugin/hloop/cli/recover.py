"""``hloop recover``: the records and the report of a run that was killed, or lost its power."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json
from hloop.files import RunPaths


def command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory.")],
    as_json: JsonOption = False,
) -> None:
    """Close a run whose Snakemake and supervisor are both gone: its report says what the
    journal and the records hold. What has its report already is left alone.

    Exit 0: the run has its report. 2: it goes on, or had not begun.
    """
    from hloop.run.page import is_wanted, make_page
    from hloop.run.recovering import recover

    found = recover(run_dir)
    # Only a plan's run has a page.
    if found.anew and is_wanted() and RunPaths(run_dir).plan.exists():
        make_page(run_dir)
    if as_json:
        print_json(found.to_dict())
        return
    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
    how = "recovered" if found.anew else "nothing to recover: the run has its report"
    print(f"{how}: {found.status} ({counts})")
    print(f"report: {found.report}")
    print(f"head: {found.head}")
