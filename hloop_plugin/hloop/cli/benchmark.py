"""``hloop benchmark``: one plan, several times in every mode, and what that comes to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hloop.cli.options import (
    CpuWorkersOption,
    DevicesOption,
    DurationsOption,
    IoWorkersOption,
    JsonOption,
    LeaseDirOption,
    MimicxRootOption,
    ModesOption,
    PlacementOption,
    RepoRootOption,
    modes_of,
    repo_root_or_here,
)
from hloop.cli.output import print_json, print_warnings

if TYPE_CHECKING:
    from hloop.plan.prepare import Prepared
    from hloop.report.benchmark import PlannedRun
    from hloop.report.measuring import Benchmark, MeasuredRun


def command(
    config: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="A workload, a native benchmark configuration of MimicX, or a plan.",
        ),
    ],
    run_dir: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the benchmark, with a run directory for each run. Where a "
            "benchmark was interrupted, it goes on.",
        ),
    ],
    prepare_only: Annotated[
        bool, typer.Option("--prepare-only", help="Write the plan and stop.")
    ] = False,
    repetitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Measured repetitions of every mode. [default: as in the configuration, else 5]",
        ),
    ] = None,
    modes: ModesOption = None,
    devices: DevicesOption = None,
    placement: PlacementOption = None,
    cpu_workers: CpuWorkersOption = None,
    io_workers: IoWorkersOption = None,
    durations: DurationsOption = None,
    lease_dir: LeaseDirOption = None,
    mimicx_root: MimicxRootOption = None,
    repo_root: RepoRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a plan several times in every mode, and sum up.

    One repetition to warm up comes first; in each repetition the order of the modes is rotated.
    Writes summary.json, SUMMARY.md and timings.csv, says whether the numbers may be quoted, and
    draws it all in report.html.

    Exit 0: all repetitions are complete and all modes decided the same. 1: a run failed, or
    they did not. 2: there is no answer, as after an interruption.
    """
    from hloop.plan.prepare import read_config
    from hloop.report.benchmark import Protocol
    from hloop.report.measuring import Benchmark
    from hloop.schedule.events import Placement

    root = repo_root_or_here(repo_root)
    prepared = read_config(config, repo_root=root, mimicx_root=mimicx_root)
    print_warnings(prepared.warnings)
    if prepare_only:
        _prepare(prepared, config, root, run_dir, as_json=as_json)
        return
    settings = prepared.benchmark
    protocol = Protocol(
        modes=modes_of(modes, settings.modes),
        repetitions=repetitions or settings.repetitions,
        wanted=settings.repetitions,
        warmup=settings.warmup,
        devices=devices or "auto",
        placement=placement or Placement.PINNED,
        cpu_workers=cpu_workers,
        io_workers=io_workers,
        durations=None if durations is None else str(durations.absolute()),
    )
    benchmark = Benchmark(prepared.plan, protocol, run_dir, root, lease_dir)
    try:
        benchmark.check(config)
        with benchmark.claimed():
            summary, agree = _measure(benchmark)
    except KeyboardInterrupt:
        raise benchmark.interrupted() from None
    if as_json:
        print_json(summary)
    else:
        print(benchmark.paths.text.read_text(), end="")
        print(f"\nsummary: {benchmark.paths.summary}", flush=True)
    if (page := _page(benchmark)) and not as_json:
        print(f"report: {page}")
    raise typer.Exit(0 if agree else 1)


def _prepare(
    prepared: Prepared, config: Path, root: Path, run_dir: Path, *, as_json: bool
) -> None:
    from hloop.errors import WorkloadError
    from hloop.plan.identity import plan_semantic_hash
    from hloop.plan.lint import lint
    from hloop.plan.prepare import materialize

    plan = prepared.plan
    if problems := lint(plan, root, run_dir.absolute()):
        raise WorkloadError(problems, file=config)
    path = materialize(plan, run_dir)
    semantic_hash = plan_semantic_hash(plan)
    if as_json:
        print_json(
            {"plan": str(path), "jobs": len(plan.jobs), "plan_semantic_hash": semantic_hash}
        )
    else:
        print(f"prepared HLoop jobs={len(plan.jobs)} hash={semantic_hash}")


def _measure(benchmark: Benchmark) -> tuple[dict[str, Any], bool]:
    """Make all runs. Gives the summary, and whether the modes of each repetition agree."""
    from hloop.report.summary import decisions_agree, summarize, write_summary

    summary: dict[str, Any] = {}
    done: list[MeasuredRun] = []
    for planned_runs in benchmark.protocol.rounds():
        runs = [_one(benchmark, planned) for planned in planned_runs]
        done += runs
        summary = summarize(benchmark.plan, benchmark.protocol, done)
        write_summary(benchmark.paths, summary)
        if not decisions_agree(runs):
            _tell(f"{runs[0].planned.label}: the modes did not decide the same")
            for run in runs:
                _tell(f"  {run.planned.mode}: {run.decision or 'no decision'}")
            return summary, False
    return summary, True


def _one(benchmark: Benchmark, planned: PlannedRun) -> MeasuredRun:
    """Make a run, or take it over, and tell of it in one line."""
    how = "taken over"
    measured, aside = benchmark.existing(planned)
    if aside:
        _tell(f"{planned.name}: {aside}")
    if measured is None:
        how = "completed"
        measured = benchmark.measure(planned, _watch(benchmark, planned))
    seconds = measured.report["elapsed_seconds"]
    _tell(f"{planned.name:<28} {seconds:9.3f} s  {how}, verified")
    return measured


def _page(benchmark: Benchmark) -> Path | None:
    """Have the page made, where it is wanted. Gives it, if there is one."""
    from hloop.run.page import is_wanted, make_page

    if not is_wanted():
        return None
    try:
        trouble = make_page(benchmark.paths.root)
    except KeyboardInterrupt:
        trouble = "report.html was not made: interrupted"
    if trouble:
        _tell(f"hloop: {trouble}")
        return None
    return benchmark.paths.html


def _watch(benchmark: Benchmark, planned: PlannedRun) -> Callable[[Callable[[], bool]], None]:
    """Give what is shown while a run goes on: lanes on a terminal, nothing elsewhere."""
    from hloop.cli.live import follow, show
    from hloop.files import RunPaths

    journal = RunPaths(benchmark.paths.run_dir(planned)).journal

    def watch(alive: Callable[[], bool]) -> None:
        if sys.stderr.isatty():
            _tell(f"{planned.name} …", end="\r")
            show(follow(journal, alive), len(benchmark.plan.jobs))
        else:
            while alive():
                time.sleep(0.05)

    return watch


def _tell(text: str, *, end: str = "\n") -> None:
    print(text, file=sys.stderr, end=end, flush=True)
