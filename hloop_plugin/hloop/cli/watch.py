"""``hloop watch``: a run that goes on anywhere on this file system, seen from its journal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hloop.errors import HloopError, Problem

if TYPE_CHECKING:
    from hloop.cli.live import Progress
    from hloop.files import RunPaths
    from hloop.plan.model import Plan

LOOK_SECONDS = 0.5
"""How often it is looked whether somebody executes the run: a look is a lock for a moment."""
QUIET_SECONDS = 180
"""A run on another machine, whose lock cannot be seen, is taken for dead after that long."""


def command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory.")],
    once: Annotated[
        bool, typer.Option("--once", help="Say how things stand now, and end.")
    ] = False,
    durations: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="A former run or a benchmark, by whose times the time left is estimated. "
            "[default: the plan's expected_seconds, and what jobs took so far]",
        ),
    ] = None,
) -> None:
    """Show what a run does: its slots, how many jobs have ended, the time left. Reads its
    journal, and changes nothing.

    Exit 0: it completed, or goes on (--once). 1: it did not complete, or died. 2: there is no
    run.
    """
    from hloop.cli.live import Progress, follow, lanes, show
    from hloop.files import RunPaths
    from hloop.report.durations import read_durations
    from hloop.report.remaining import Outlook

    paths = RunPaths(run_dir)
    plan = _plan(paths)
    outlook = Outlook(plan, read_durations(plan, durations).seconds_ns)
    progress, left = Progress(len(plan.jobs)), TimeLeft(outlook.left_ns)
    try:
        if once:
            for event in follow(paths.journal, lambda: False):
                if event is not None:
                    progress.take(event)
        else:
            show(follow(paths.journal, _watch_over(paths)), len(plan.jobs), progress, left)
    except (ValueError, KeyError) as error:
        problem = Problem(
            "journal", "", f"the journal is damaged: {error!r}", action="hloop verify"
        )
        raise HloopError(problem, file=paths.journal) from None
    if progress.start is None:
        _refuse(paths, "no run has begun in it")
    goes_on = progress.status is None and is_executed(paths)
    if progress.status is None and not goes_on:
        progress.died(_last_offset(paths))
    if once:
        from rich.console import Console

        Console().print(lanes(progress, left(progress) if goes_on else None))
    print(_verdict(paths, progress, goes_on))
    raise typer.Exit(0 if goes_on or progress.status == "completed" else 1)


def _verdict(paths: RunPaths, progress: Progress, goes_on: bool) -> str:
    from hloop.cli.live import span

    counts = ", ".join(f"{count} {status}" for status, count in progress.done.items())
    elapsed = span(progress.elapsed, 2)
    told = f"{counts or 'no job has ended'} of {progress.total} jobs, {elapsed}"
    if goes_on:
        return f"it goes on: {told}"
    if progress.status is not None:
        return f"{progress.status}: {told}"
    return (
        f"it died: {told}. Nobody executes it, and its journal has no end. "
        f"hloop recover {paths.root} closes it"
    )


def _plan(paths: RunPaths) -> Plan:
    """Read the plan of a run directory.

    Raises:
        HloopError: there is none that can be read.
    """
    from hloop.plan.load import plan_from_document

    try:
        document = json.loads(paths.plan.read_bytes())
    except OSError:
        _refuse(paths, "it holds no plan.json")
    except ValueError:
        _refuse(paths, "its plan.json is no JSON")
    return plan_from_document(document, file=paths.plan)


def _refuse(paths: RunPaths, found: str) -> NoReturn:
    expected = "the run directory of a plan's run"
    raise HloopError(Problem("no_run", "", f"{paths.root}: {found}", expected))


def _watch_over(paths: RunPaths) -> Callable[[], bool]:
    """Give what says whether a run goes on, and looks only so often."""
    looked, found = 0.0, True

    def goes_on() -> bool:
        nonlocal looked, found
        if time.monotonic() - looked > LOOK_SECONDS:
            found, looked = is_executed(paths), time.monotonic()
        return found

    return goes_on


def is_executed(paths: RunPaths) -> bool:
    """Say whether a run goes on, by its lock; where that cannot be seen, by its journal."""
    from hloop.provenance.host import boot_id
    from hloop.run import runlock
    from hloop.run.journal import read_journal

    if runlock.is_executed(paths):
        return True
    try:
        events = read_journal(paths.journal)
        quiet = time.time() - paths.journal.stat().st_mtime
    except (HloopError, OSError):
        return False
    start = next(event for event in reversed(events) if "monotonic_ns" in event)
    if events[-1]["event"] == "run_ended":
        return False
    # A lock is not seen from another machine, and another executor holds none between jobs.
    elsewhere = start["host"].get("boot_id") != boot_id() or start["mode"] == "external"
    return elsewhere and quiet < QUIET_SECONDS


def _last_offset(paths: RunPaths) -> float:
    from hloop.run.journal import read_journal

    return float(max(event["offset_ns"] for event in read_journal(paths.journal))) / 1e9


class TimeLeft:
    """Estimates the time left when a job has ended, and counts down meanwhile."""

    def __init__(self, estimate: Callable[..., int | None]):
        self._estimate = estimate
        self._over = -1
        self._until: float | None = None

    def __call__(self, progress: Progress) -> float | None:
        if progress.start is None or progress.status is not None:
            return None
        now = progress.elapsed
        if len(progress.over) != self._over:
            self._over = len(progress.over)
            left = self._estimate(
                progress.start,
                progress.over,
                {job: round(seconds * 1e9) for job, seconds in progress.running.items()},
                {job: round(seconds * 1e9) for job, seconds in progress.took.items()},
            )
            self._until = None if left is None else now + left / 1e9
        return None if self._until is None else max(0.0, self._until - now)
