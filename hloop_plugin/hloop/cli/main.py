"""The ``hloop`` command: its sub-commands, and what an error becomes."""

from __future__ import annotations

import io
import os
import sys
import traceback

import typer

from hloop import __version__
from hloop.cli.attest import command as attest
from hloop.cli.benchmark import command as benchmark
from hloop.cli.check_seeds import command as check_seeds
from hloop.cli.compare import command as compare
from hloop.cli.devices import command as devices
from hloop.cli.digest import command as digest
from hloop.cli.doctor import command as doctor
from hloop.cli.export import command as export
from hloop.cli.gate import command as gate
from hloop.cli.oracle import app as oracle
from hloop.cli.output import print_error
from hloop.cli.plan import command as plan
from hloop.cli.prepare import command as prepare
from hloop.cli.profile_compare import command as profile_compare
from hloop.cli.recover import command as recover
from hloop.cli.report import command as report
from hloop.cli.run import command as run
from hloop.cli.seeds import command as seeds
from hloop.cli.simulate import command as simulate
from hloop.cli.tally import command as tally
from hloop.cli.verify import command as verify
from hloop.cli.watch import command as watch
from hloop.errors import HloopError, Problem

app = typer.Typer(
    name="hloop",
    help="Run a fixed plan of cpu, gpu and io jobs on one machine with several GPUs.",
    epilog="Exit codes: 0 yes, 1 no (a job failed, runs differ), 2 could not answer.",
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: `[default: …]` is no markup, and rich need not be imported.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class UsageError(HloopError):
    """A command line that is none of ours."""


def _version(value: bool) -> None:
    if value:
        print(f"hloop {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


app.command("plan")(plan)
app.command("prepare")(prepare)
app.command("run")(run)
app.command("recover")(recover)
app.command("compare")(compare)
app.command("benchmark")(benchmark)
app.add_typer(oracle, name="oracle")
app.command("simulate")(simulate)
app.command("watch")(watch)
app.command("report")(report)
app.command("verify")(verify)
app.command("seeds")(seeds)
app.command("check-seeds")(check_seeds)
app.command("profile-compare")(profile_compare)
app.command("digest")(digest)
app.command("export")(export)
app.command("attest")(attest)
app.command("gate")(gate)
app.command("tally")(tally)
app.command("devices")(devices)
app.command("doctor")(doctor)


def main() -> None:
    """Run the command line and exit. Errors that a user can mend come without a traceback."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding lacks must not end a run with an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(as_json="--json" in sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on, as in `hloop plan … | head`.
        code = _give_up_printing()
    except OSError as error:
        print_error(_system_error(error), as_json=False)
        code = _give_up_printing()
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Open what `>&-` closed: else the next file would get its number, and what is printed."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115


def _give_up_printing() -> int:
    """Keep Python from trying once more at its exit. Gives the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 2


def _run(*, as_json: bool) -> int:
    """Run the command line and give its exit code."""
    try:
        return app(standalone_mode=False) or 0
    except HloopError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        print_error(_usage_error(error), as_json=as_json)
    except SystemExit:
        # So typer ends where nobody reads on; its 1 would be an answer.
        raise BrokenPipeError from None
    except OSError as error:
        print_error(_system_error(error), as_json=as_json)
    except Exception as error:
        traceback.print_exc()
        print_error(HloopError(f"a bug in hloop: {error!r}"), as_json=as_json)
    return 2


def _system_error(error: OSError) -> HloopError:
    """Say what the system refused: a full disk, a folder that is read-only, no process left."""
    found = str(error.strerror or error)
    if error.filename is not None:
        found = f"{error.filename}: {found}"
    action = "hloop doctor looks at disks, limits and the installation"
    return HloopError(Problem("system_error", "", found, action=action))


def _usage_error(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    command = "hloop" if context is None else context.command_path
    found = error.format_message().rstrip(".")
    return UsageError(Problem("usage", "", found, action=f"See {command} --help"))
