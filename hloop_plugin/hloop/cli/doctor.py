"""``hloop doctor``: can runs be made here, and if not, what to do."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json

if TYPE_CHECKING:
    from hloop.run.health import Check

_WORDS = {True: "ok", False: "mend", None: "unknown"}


def command(
    run_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where runs are to go. [default: the current folder]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at the installation and the machine: each line is ok, or says what to do.

    Exit 0: all is ok. 1: something must be mended. 2: something could not be looked at.
    """
    from hloop.run.health import machine_checks
    from hloop.run.installation import installation_checks

    checks = []
    # Shown one by one: importing Snakemake may take a while.
    for check in chain(installation_checks(os.environ), machine_checks(run_dir, os.environ)):
        checks.append(check)
        if not as_json:
            _print(check)
    verdicts = {check.ok for check in checks}
    ok = False if False in verdicts else None if None in verdicts else True
    if as_json:
        print_json({"ok": ok, "checks": [check.to_dict() for check in checks]})
    raise typer.Exit({True: 0, False: 1, None: 2}[ok])


def _print(check: Check) -> None:
    line = f"{_WORDS[check.ok]:<7}  {check.name}: {check.found}"
    print(f"{line}. {check.action}" if check.action else line, flush=True)
