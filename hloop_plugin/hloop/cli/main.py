"""The ``hloop`` command: its sub-commands, and what an error becomes."""

from __future__ import annotations

import sys

import typer

from hloop import __version__
from hloop.cli.compare import command as compare
from hloop.cli.output import print_error
from hloop.cli.plan import command as plan
from hloop.cli.prepare import command as prepare
from hloop.cli.run import command as run
from hloop.errors import HloopError

app = typer.Typer(
    name="hloop",
    help="Run a fixed plan of cpu, gpu and io jobs on one machine with several GPUs.",
    epilog="Exit codes: 0 yes, 1 no (a job failed, runs differ), 2 could not answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"hloop {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


app.command("plan")(plan)
app.command("prepare")(prepare)
app.command("run")(run)
app.command("compare")(compare)


def main() -> None:
    """Run the command line. Errors that a user can mend are printed without a traceback."""
    try:
        app()
    except HloopError as error:
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as in `hloop plan … | head`.
        sys.stderr.close()
        sys.exit(0)
