"""``hloop oracle``: may the fast path's rows stand for those of the slow one?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hloop.cli.options import JsonOption, RepoRootOption, repo_root_or_here
from hloop.cli.output import print_json

app = typer.Typer(
    invoke_without_command=True,
    # As in main: typer's own help would need rich.
    rich_markup_mode=None,
    subcommand_metavar="[check]",
)


@app.callback()
def command(
    context: typer.Context,
    spec: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The spec, hloop.oracle.v1.")
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The oracle's folder, for spec, runs and verdict; new or empty."
        ),
    ] = None,
    legs: Annotated[
        str,
        typer.Option(
            metavar="LEGS",
            help="What is asked, in this order, with commas: equality (of fast and slow path), "
            "reproducibility (of the fast path from run to run).",
        ),
    ] = "equality",
    devices: Annotated[
        str, typer.Option(metavar="DEVICES", help="As in hloop run: auto, or simulated:N.")
    ] = "auto",
    repo_root: RepoRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run both paths of a spec, compare their rows, and write a verdict. Any FAIL decides.

    Exit 0: GREEN. 1: FAIL. 2: there is no answer.
    """
    if context.invoked_subcommand is not None:
        return
    from hloop.report.oracle import VERDICT_NAME, run_oracle

    if spec is None or run_dir is None:
        raise typer.BadParameter("give --spec and --run-dir")
    verdict = run_oracle(
        spec,
        run_dir.absolute(),
        repo_root_or_here(repo_root),
        questions=_questions(legs),
        devices=devices,
        tell=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if as_json:
        print_json(verdict)
    else:
        _print(verdict)
        print(f"verdict: {run_dir / VERDICT_NAME}")
    raise typer.Exit(0 if verdict["verdict"] == "GREEN" else 1)


@app.command("check")
def check(
    verdict: Annotated[Path, typer.Option(metavar="FILE", help="What hloop oracle wrote.")],
    settings: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The settings of a run, by name: JSON or YAML, as a path wrote."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Say whether a verdict covers a run with these settings.

    Exit 0: it does. 1: it does not. 2: there is no answer.
    """
    from hloop.report.oracle import read_settings
    from hloop.report.oraclecheck import read_verdict

    reasons = read_verdict(verdict).against(read_settings(settings))
    if as_json:
        print_json({"covered": not reasons, "reasons": reasons})
    else:
        print("covered: no" if reasons else "covered: yes")
        for reason in reasons:
            print(f"  - {reason}")
    raise typer.Exit(1 if reasons else 0)


def _questions(text: str) -> list[Any]:
    from hloop.report.oracle import Question

    names = [name.strip() for name in text.split(",")]
    known = [question.value for question in Question]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        raise typer.BadParameter(
            f"--legs {text!r}: expected some of {', '.join(known)}, each once"
        )
    return [Question(name) for name in names]


_MOST_SHOWN = 10


def _print(verdict: dict[str, Any]) -> None:
    for leg in verdict["legs"]:
        what = f"{leg['question']} at {leg['workers']} workers"
        if leg["rows"] is None:
            print(f"{what}: not run")
            continue
        rows = leg["rows"]
        print(f"{what}: {leg['verdict']} ({rows['identical']} of {rows['baseline']} identical)")
        for finding in ("missing", "unexpected", "duplicate"):
            for surplus in rows[finding]:
                counts = f"{surplus['baseline']} against {surplus['candidate']}"
                print(f"  {finding}: {_identity(surplus)}: {counts}")
        for difference in rows["differences"][:_MOST_SHOWN]:
            print(f"  {_identity(difference)}: {_difference(difference)}")
        if (more := len(rows["differences"]) - _MOST_SHOWN) > 0:
            print(f"  and {more} more fields, in the verdict")
        if leg["speedup"] is not None:
            print(f"  speed-up: {leg['speedup']:g}")
    print(f"ORACLE {verdict['oracle_id']}: {verdict['verdict']}")
    if verdict["verdict"] == "FAIL":
        print(f"as the spec says: {verdict['on_fail']}")


def _identity(finding: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in finding["identity"].items())


def _difference(difference: dict[str, Any]) -> str:
    step, largest = difference["first_step"], difference["largest"]
    place = f"{difference['field']} parts at step {step}" if step else difference["where"]
    by = "" if largest is None else f", by at most {largest:.3g}"
    return f"{place}: {difference['reason']}{by}"
