"""``hloop compare``: two runs, one verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    baseline: Annotated[
        Path,
        typer.Option(metavar="RUN", help="The run to measure against: its folder or its report."),
    ],
    candidate: Annotated[
        Path, typer.Option(metavar="RUN", help="The run that is measured: its folder or report.")
    ],
    paired: Annotated[
        bool,
        typer.Option(
            "--paired", help="Compare the rows of two runs of one fast path, pair by pair."
        ),
    ] = False,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --paired: the oracle's spec, for what identifies a row and what is left "
            "out.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs: did they do the same, with the same results?

    Exit 0: every check passes. 1: one does not. 2: there is no answer.
    """
    from hloop.report.compare import compare

    if paired:
        _paired(baseline, candidate, spec, as_json=as_json)
    if spec is not None:
        raise typer.BadParameter("--spec goes with --paired")
    parity = compare(baseline, candidate)
    if as_json:
        print_json(parity)
    else:
        _print(parity)
    raise typer.Exit(0 if parity["passed"] else 1)


def _paired(baseline: Path, candidate: Path, spec: Path | None, *, as_json: bool) -> NoReturn:
    from hloop.report.oraclespec import read_spec
    from hloop.report.paired import compare_paired

    if spec is None:
        raise typer.BadParameter("--paired needs --spec, the spec of the oracle")
    rules = read_spec(spec, Path().absolute()).rules
    found = compare_paired(baseline, candidate, rules)
    if as_json:
        print_json(found)
    else:
        rows = found["rows"]
        print(f"{found['schedule']} with {found['workers']} workers in both runs")
        for name, field in found["fields"].items():
            print(
                f"{name}: mean difference {field['mean']:.6g}, largest {field['largest']:.6g}, "
                f"{field['moved']} of {field['pairs']} pairs moved"
            )
        counts = ", ".join(f"{len(rows[n])} {n}" for n in ("missing", "unexpected", "duplicate"))
        how = "within the spec's tolerances" if rules.tolerances else "bit for bit"
        print(f"{rows['identical']} of {rows['baseline']} rows are the same {how}; {counts}")
    raise typer.Exit(0 if found["passed"] else 1)


def _print(parity: dict[str, Any]) -> None:
    for side in ("baseline", "candidate"):
        report = parity[side]
        print(f"{side}: {report['report']} (mode {report['mode']}, {report['status']})")
    checks = parity["checks"]
    # What differs comes before what cannot be told.
    failed = sorted(
        (check for check in checks if not check["passed"]), key=lambda check: check["verdict"]
    )
    if sys.stdout.isatty():
        _print_table(failed)
    else:
        for check in failed:
            print(f"{check['verdict']}  {check['name']}  {_explain(check)}")
    for entry in _not_compared(checks):
        print(f"not compared, as the plan says: {entry}")
    counts = {
        verdict: sum(check["verdict"] == verdict for check in failed)
        for verdict in ("differs", "unknown")
    }
    print(
        f"{'The runs agree' if parity['passed'] else 'The runs do not agree'}: "
        f"{len(checks) - len(failed)} of {len(checks)} checks pass, "
        f"{counts['differs']} differ, {counts['unknown']} unknown."
    )
    _print_speed(parity["speed"])


def _print_table(checks: list[dict[str, Any]]) -> None:
    if not checks:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("verdict", "check", "what was found"):
        table.add_column(heading, overflow="fold")
    styles = {"differs": "red", "unknown": "yellow"}
    for check in checks:
        verdict = Text(check["verdict"], style=styles[check["verdict"]])
        table.add_row(verdict, Text(check["name"]), Text(_explain(check)))
    Console().print(table)


def _explain(check: dict[str, Any]) -> str:
    return check["reason"] or f"{_short(check['baseline'])} against {_short(check['candidate'])}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _not_compared(checks: list[dict[str, Any]]) -> list[str]:
    paths = [
        entry["path"]
        for check in checks
        for entry in check.get("files", ())
        if entry["verdict"] == "not_compared"
    ]
    return list(dict.fromkeys(paths))


def _print_speed(speed: dict[str, Any]) -> None:
    first, second, speedup = (
        speed[name] for name in ("baseline_seconds", "candidate_seconds", "speedup")
    )
    if speedup is not None:
        print(f"Duration: {first:g} s against {second:g} s, a speed-up of {speedup:.3f}.")
    if not speed["claimable"]:
        print("The durations are not comparable:")
        for reason in speed["reasons"]:
            print(f"  - {reason}")
