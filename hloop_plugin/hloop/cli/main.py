"""The ``hloop`` command: its sub-commands, and what an error becomes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import import_module

import typer

from hloop import __version__
from hloop.cli.output import print_error
from hloop.errors import HloopError, Problem

COMMANDS = (
    *("plan", "prepare", "run", "recover", "compare", "benchmark", "oracle", "simulate", "watch"),
    *("report", "verify", "seeds", "check-seeds", "profile-compare", "digest", "export"),
    *("attest", "gate", "tally", "devices", "doctor"),
)
"""The sub-commands, each a module of this package, in the order of ``hloop --help``."""


def application(*wanted: str) -> typer.Typer:
    """Make the command line of these commands; of all, if none is named.

    A command needs no other one's modules, and all of them take as long to import as a small
    command takes.
    """
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
    app.callback(invoke_without_command=True)(_options)
    for name in wanted or COMMANDS:
        module = import_module(f"hloop.cli.{name.replace('-', '_')}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
    return app


class UsageError(HloopError):
    """A command line that is none of ours."""


def _version(value: bool) -> None:
    if value:
        print(f"hloop {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


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
        named = [name for name in sys.argv[1:2] if name in COMMANDS]
        return application(*named)(standalone_mode=False) or 0
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
