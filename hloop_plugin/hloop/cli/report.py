"""``hloop report``: a run, benchmark or simulation as one HTML file that needs no network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A run directory, or the folder of a benchmark or of a simulation.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page. [default: FOLDER/report.html]"),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a page of a run, a benchmark or a simulation: one file that asks no network.

    A run is verified first, which reads all its inputs and outputs. Each chart also comes as an
    SVG beside the page.

    Exit 0: it is written. 2: it cannot be.
    """
    from hloop.cli.verify import bar
    from hloop.report.write import write_pages

    with bar() as progress:
        written = write_pages(folder, out, progress=progress)
    if as_json:
        print_json(written.to_dict())
    else:
        print(f"report: {written.page}")
        for chart in written.charts:
            print(f"chart: {chart}")
    if open_it:
        import webbrowser

        address = written.page.absolute().as_uri()
        if not webbrowser.open(address):
            print(f"hloop: no browser could be started; the page is {address}", file=sys.stderr)
