"""``hloop verify``: what a run directory proves."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json
from hloop.errors import HloopError, Problem, first_of

if TYPE_CHECKING:
    from hloop.provenance.findings import Finding
    from hloop.provenance.verify import Verdict

BAR_AFTER_SECONDS = 1.0
_MOST_PER_CODE = 10


def command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.")],
    expect_head: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="The head as it was kept elsewhere: sha256: and 64 hex digits. Without it a run "
            "is held against itself only.",
        ),
    ] = None,
    repo_root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the repository root lies now. [default: where the run had it]",
        ),
    ] = None,
    attestation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What hloop attest wrote; needs --public-key."),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="The key of whoever signed the attestation."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Derive a run's verdict again from its files: complete, unaltered, eligible?

    Exit 0: it holds. 1: it does not. 2: that cannot be decided.
    """
    from hloop.provenance.verify import verify

    if expect_head is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", expect_head):
        raise HloopError(
            Problem(
                "bad_digest",
                "--expect-head",
                f"{expect_head!r} is no head",
                "sha256: and 64 lowercase hex digits",
                "Give the head as the run printed it",
            )
        )
    signed = None
    if attestation is not None and public_key is not None:
        signed = attestation, public_key
    elif attestation is not None or public_key is not None:
        found = "--attestation and --public-key go together, and only one is given"
        raise HloopError(Problem("usage", "", found))
    with bar() as progress:
        verdict = verify(
            run_dir,
            repo_root=repo_root,
            expect_head=expect_head,
            attestation=signed,
            progress=progress,
        )
    if as_json:
        print_json(verdict.to_dict())
    else:
        _print(verdict)
    raise typer.Exit(verdict.exit_code)


@contextmanager
def bar() -> Iterator[Callable[[int, int], None] | None]:
    """Give what shows how far the reading is: on a terminal, and only if it takes a while."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn

    columns = (BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)
    # The first file may be a large one: the bar does not wait for it.
    timer = threading.Timer(BAR_AFTER_SECONDS, bar.start)
    timer.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def _print(verdict: Verdict) -> None:
    words = {True: "yes", False: "no", None: "cannot be decided"}
    for name in ("complete", "unaltered", "eligible"):
        print(f"{name}: {words[getattr(verdict, name)]}")
    counts = verdict.counts
    print(
        f"{counts['completed']} of {counts['jobs']} jobs completed; "
        f"{counts['records']} records were read"
    )
    print_findings(verdict.findings)
    if verdict.notes:
        print("\nnotes, which cost nothing")
        print_findings(verdict.notes)
    if verdict.head is not None:
        print(f"\nhead: {verdict.head}")


def print_findings(findings: Sequence[Finding]) -> None:
    """Print each kind of finding once, with the first places where it was found."""
    from hloop.provenance.findings import CATALOGUE

    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    for code, group in groups.items():
        rule = CATALOGUE[code]
        print(f"\n{code}: {rule.meaning}")
        # One script that changed is one line, though every job has a finding of it.
        holders: dict[tuple[str, str], list[str]] = {}
        for finding in group:
            holders.setdefault((finding.found, finding.expected), []).append(finding.where)
        for (found, expected), names in list(holders.items())[:_MOST_PER_CODE]:
            where = f"{first_of(names)}: " if any(names) else ""
            print(f"  {where}{found}{f'; expected {expected}' if expected else ''}")
        if len(holders) > _MOST_PER_CODE:
            print(f"  and {len(holders) - _MOST_PER_CODE} more; --json gives all")
        print(f"  -> {rule.action}.")
