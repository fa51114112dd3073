"""How near a simulated makespan comes to the measured one, for the embedded workload.

A benchmark of the workload is made, or taken from --benchmark. Each measured run is simulated
three times: with its own times, which shows what the simulation itself leaves out; with the
medians of the other repetitions of its mode; and with the medians of the other repetitions of
all modes. In the last two no run predicts itself. Jobs that run side by side slow each other
down, and how many do differs from mode to mode: what that costs is the last step.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from hloop.plan.load import load_plan
from hloop.plan.model import Plan
from hloop.report.benchmark import BenchmarkPaths
from hloop.report.durations import from_reports
from hloop.report.load import RunReport, load_report
from hloop.report.simulation import Order, Question, simulation
from hloop.schedule.events import Mode
from measuring import finish, run

ROOT = Path(__file__).resolve().parents[1]


def predict(plan: Plan, mode: Mode, reports: list[RunReport]) -> float:
    """The makespan of a mode, in seconds, by the times and hand-overs of some runs."""
    durations = from_reports(plan, reports, source="benchmark", path=ROOT)
    # The benchmark ordered nothing by the times of a former run.
    question = Question(modes=(mode,), order=Order.PLAN)
    document = simulation(plan, durations, question, timeline=False)
    seconds: float = document["predictions"][0]["makespan_seconds"]
    return seconds


def errors(folder: Path) -> tuple[dict[str, dict[str, list[float]]], dict[str, Any]]:
    """The relative error of every prediction, by mode and by what it was predicted from."""
    paths = BenchmarkPaths(folder)
    plan, summary = load_plan(paths.plan), json.loads(paths.summary.read_bytes())
    runs = [
        (entry, load_report(folder / entry["run_dir"]))
        for entry in summary["runs"]
        if entry["repetition"] is not None
    ]
    found: dict[str, dict[str, list[float]]] = {}
    for entry, own in runs:
        others = [pair for pair in runs if pair[0]["repetition"] != entry["repetition"]]
        for source, chosen in (
            ("its own times", [own]),
            ("its mode", [report for other, report in others if other["mode"] == entry["mode"]]),
            ("all modes", [report for _, report in others]),
        ):
            predicted = predict(plan, Mode(entry["mode"]), chosen)
            error = predicted / entry["makespan_seconds"] - 1
            found.setdefault(entry["mode"], {}).setdefault(source, []).append(error)
    return found, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--benchmark", type=Path, help="the folder of a benchmark that is there")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.benchmark
        if folder is None:
            folder = Path(temporary, "benchmark")
            argv = [sys.executable, "-m", "hloop", "benchmark", "--config", "config/demo.yaml"]
            argv += ["--repo-root", ".", "--run-dir", str(folder), "--devices", "simulated:2"]
            run([*argv, "--repetitions", str(options.repetitions)], ROOT, Path(temporary))
        found, summary = errors(folder)

    print("simulated over measured makespan, minus 1: median (smallest to largest)")
    for mode, sources in found.items():
        measured = summary["statistics"][mode]["makespan_seconds"]["median"]
        print(f"  {mode:<11} measured {measured:7.3f} s")
        for source, values in sources.items():
            spread = f"({min(values):+.1%} to {max(values):+.1%})"
            print(f"    by {source:<14} {median(values):+7.1%} {spread}")
    finish(
        {
            mode: {source: round(median(values), 4) for source, values in sources.items()}
            for mode, sources in found.items()
        }
    )


if __name__ == "__main__":
    main()
