"""``hloop export``: a run as a folder that others can read without hloop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.")],
    crate: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the crate goes; it must be new or empty.")
    ],
    no_inputs: Annotated[
        bool,
        typer.Option(
            "--no-inputs", help="Do not copy the inputs that lie outside the run directory."
        ),
    ] = False,
    license: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The crate's licence, a URL or a text. [default: not stated]"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a run as a Provenance Run Crate (RO-Crate 1.1). Verifies and changes nothing.

    A failed or interrupted run can be exported as well.
    """
    from hloop.provenance.crate import export_crate
    from hloop.provenance.crate_terms import NO_LICENSE

    exported = export_crate(run_dir, crate, inputs=not no_inputs, license=license or NO_LICENSE)
    if as_json:
        print_json(
            {
                "crate": str(exported.crate),
                "head": exported.head,
                "files": exported.files,
                "bytes": exported.size,
                "left_out": dict(exported.left_out),
            }
        )
        return
    for path, reason in exported.left_out.items():
        print(f"left out: {path}: {reason}")
    print(f"crate: {exported.crate} ({exported.files} files, {exported.size} bytes)")
    print(f"head: {exported.head}")
