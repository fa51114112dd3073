"""``hloop simulate``: what would runs of a plan take, in which mode, on how many devices?"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from hloop.cli.options import (
    CpuWorkersOption,
    IoWorkersOption,
    JsonOption,
    ModesOption,
    modes_of,
)
from hloop.cli.output import print_json
from hloop.report.durations import MOST_SECONDS
from hloop.report.simulation import SIMULATION_NAME, Order, Pins

# With more, a few times are all that counts: of 5 the mean is 268,000 times the median.
MOST_JITTER = 5


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, YAML or JSON.")],
    durations: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="What the jobs take: a former run, the folder of a benchmark (medians over its "
            "measured runs), a JSON object of job id to seconds, or a CSV table with the columns "
            "job_id and seconds. [default: the plan's expected_seconds]",
        ),
    ] = None,
    default_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=MOST_SECONDS,
            help="For jobs of which no time is known. [default: refuse]",
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Numbers of devices, with commas between them. [default: as many as the plan "
            "pins]",
        ),
    ] = None,
    modes: ModesOption = None,
    placement: Annotated[
        Pins,
        typer.Option(
            help="What becomes of the plan's device pins: they hold; they are preferences; or "
            "they are dealt anew, the gpu job number k to device k modulo the number of devices."
        ),
    ] = Pins.PINNED,
    order: Annotated[
        Order,
        typer.Option(
            help="Which ready job starts first: by these times, as with hloop run --durations, or "
            "by what the plan expects, as without."
        ),
    ] = Order.TIMES,
    cpu_workers: CpuWorkersOption = None,
    io_workers: IoWorkersOption = None,
    jitter: Annotated[
        float,
        typer.Option(
            metavar="SPREAD",
            min=0,
            max=MOST_JITTER,
            help="Multiply each time by exp(SPREAD * z), z from a standard normal distribution, "
            "and tell how far the makespans spread.",
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="K", min=0, help="Of the jitter.")] = 0,
    samples: Annotated[
        int, typer.Option(metavar="N", min=2, help="Simulations with jitter.")
    ] = 20,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help=f"Write {SIMULATION_NAME} there, with every job's place in time.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let the engine run a plan by a clock that is not real. Starts nothing.

    --json prints what --out writes, but for the jobs.

    Exit 0: here it is. 2: there is no answer, as where no time of a job is known.
    """
    from hloop.plan.load import load_plan
    from hloop.report.durations import read_durations
    from hloop.report.simulation import Question, simulation

    # Millions of objects, nearly none of them garbage: to look through them took a sixth of the
    # time.
    gc.set_threshold(100_000)
    question = Question(
        modes=modes_of(modes),
        devices=_numbers(devices),
        pins=placement,
        order=order,
        cpu_workers=cpu_workers,
        io_workers=io_workers,
        default_seconds=default_seconds,
        jitter=jitter,
        seed=seed,
        samples=samples,
    )
    loaded = load_plan(plan)
    document = simulation(
        loaded, read_durations(loaded, durations), question, timeline=out is not None
    )
    if out is not None:
        _write(document, out)
    for prediction in document["predictions"]:
        prediction.pop("jobs", None)
    if as_json:
        print_json(document)
        return
    _print(document)
    if out is not None:
        print(f"\nsimulation: {out / SIMULATION_NAME}")


def _numbers(text: str | None) -> tuple[int, ...]:
    from hloop.errors import HloopError, Problem

    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if all(re.fullmatch("[0-9]{1,5}", word) for word in words):
        return tuple(dict.fromkeys(map(int, words)))
    expected = "numbers of devices, such as 1,2,4, each below 100,000"
    raise HloopError(Problem("usage", "--devices", f"{text!r} is not possible", expected))


def _write(document: dict[str, Any], out: Path) -> None:
    import json

    from hloop import files
    from hloop.errors import HloopError, Problem, RunDirectoryError
    from hloop.report.benchmark import BenchmarkPaths

    paths = files.RunPaths(out)
    for path in (paths.journal, paths.report, BenchmarkPaths(out).protocol):
        if path.exists():
            found, action = f"{path} lies there", "Choose another folder"
            raise RunDirectoryError(Problem("run_dir_used", "--out", found, action=action))
    try:
        out.mkdir(parents=True, exist_ok=True)
        files.replace(out.absolute() / SIMULATION_NAME, json.dumps(document).encode() + b"\n")
    except OSError as error:
        found = f"{out} cannot be written to: {error.strerror}"
        raise HloopError(Problem("not_writable", "--out", found)) from None


def _print(document: dict[str, Any]) -> None:
    durations = document["durations"]
    of = {"plan": "the plan's expected_seconds"}.get(durations["source"], durations["path"])
    if durations["runs"]:
        what = (
            "median of 1 run" if durations["runs"] == 1 else f"medians of {durations['runs']} runs"
        )
        of += f" ({what}; hand-over {durations['handover_seconds'] * 1e3:.1f} ms)"
    print(f"plan {document['plan_id']}; times: {of}")
    if document["order"] == Order.PLAN:
        print("ready jobs start in the order of a run without --durations")
    if durations["times_unused"]:
        print(f"{durations['times_unused']} times are of jobs that the plan does not have")
    if durations["jobs_by_plan"]:
        print(f"{durations['jobs_by_plan']} jobs take what the plan expects of them")
    if durations["jobs_by_default"]:
        print(f"{durations['jobs_by_default']} jobs count {durations['default_seconds']:g} s")
    print()
    head = ["devices", "mode", "makespan s", "bound s", "limited by", "efficiency", "idle s"]
    rows = [_row(prediction) for prediction in document["predictions"]]
    if document["jitter"]:
        head.append("with jitter s")
        for row, prediction in zip(rows, document["predictions"], strict=True):
            spread = prediction["makespan_with_jitter"]
            ends = f"{spread['minimum']:.3f} to {spread['maximum']:.3f}"
            row.append(f"{spread['median']:.3f} ({ends})")
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    print("\nidle: of all devices together")


def _row(prediction: dict[str, Any]) -> list[str]:
    bound, efficiency = prediction["lower_bound"], prediction["efficiency"]
    idle = [
        seconds
        for slot, seconds in prediction["idle_seconds"].items()
        if slot.startswith("device ")
    ]
    return [
        str(prediction["devices"]),
        prediction["mode"],
        f"{prediction['makespan_seconds']:.3f}",
        f"{bound['seconds']:.3f}",
        bound["limiting"],
        "-" if efficiency is None else f"{efficiency:.1%}",
        f"{sum(idle):.3f}" if idle else "-",
    ]
