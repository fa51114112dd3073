"""``hloop check-seeds``: was the seed used, or only accepted?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json

_WORDS = {
    "seed_ignored": "the seed was accepted and ignored: different seeds gave the same outputs",
    "not_reproducible": "the same seed gave different outputs",
}


def command(
    run_dirs: Annotated[
        list[Path], typer.Argument(metavar="RUN_DIR…", help="Run directories, taken together.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Hold jobs against each other that differ in their seed alone.

    The same seed twice must give the same outputs, and another seed others. Exit 0: so it is.
    1: a seed was ignored, or does not settle the outputs. 2: no two such jobs completed.
    """
    from hloop.report.checkseeds import check_seeds

    found = check_seeds(run_dirs)
    if as_json:
        print_json(found)
    else:
        for finding in found["findings"]:
            seeds = " and ".join(map(str, finding["seeds"]))
            print(f"{_WORDS[finding['code']]} ({seeds}): {' and '.join(finding['jobs'])}")
        print(f"{found['different']} pairs of different seeds, {found['repeated']} of the same")
        if not found["repeated"]:
            print("no seed ran twice: whether it gives the same outputs again was not asked")
    if found["passed"] is None:
        if not as_json:
            print("no two completed jobs differ in their seed alone: there is no answer")
        raise typer.Exit(2)
    raise typer.Exit(0 if found["passed"] else 1)
