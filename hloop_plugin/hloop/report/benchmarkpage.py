"""The report page of a benchmark: may it be quoted, how long did each mode take, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop.errors import HloopError, Problem, ReportError
from hloop.files import RunPaths
from hloop.plan.contract import schema_problems
from hloop.report.benchmark import BenchmarkPaths
from hloop.report.html import (
    Markup,
    asset,
    data_block,
    element,
    join,
    page,
    section,
    table,
)
from hloop.report.load import load_report
from hloop.report.rundata import read_dependencies, run_band
from hloop.report.timeline import stages_of
from hloop.report.whenpage import (
    facts_list,
    seconds,
    timeline_block,
    timeline_section,
    warning,
)

MAX_PROBLEMS = 20


def read_summary(folder: Path) -> dict[str, Any]:
    """Read a benchmark's summary.

    Raises:
        ReportError: it cannot be read, or is not of the format.
    """
    path = BenchmarkPaths(folder).summary
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(
            Problem("unreadable", "", f"cannot be read: {error.strerror}"), file=path
        ) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(Problem("not_json", "", f"not JSON: {error}"), file=path) from error
    if problems := schema_problems(document, "benchmark-summary"):
        raise ReportError(problems[:MAX_PROBLEMS], file=path)
    summary: dict[str, Any] = document
    return summary


def bands_of(folder: Path, summary: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Give one band for each mode: the measured run that is nearest to the mode's median.

    Returns:
        The bands, and a sentence for each run that could not be read.
    """
    reports, troubles = {}, []
    for mode, median in summary["median_seconds"].items():
        runs = [
            run for run in summary["runs"] if run["mode"] == mode and run["repetition"] is not None
        ]
        nearest = min(runs, key=lambda run: abs(run["elapsed_seconds"] - median))
        try:
            reports[nearest["run_dir"]] = load_report(folder / nearest["run_dir"])
        except HloopError as error:
            troubles.append(str(error))
    bands = []
    for name, report in reports.items():
        depends_on = read_dependencies(RunPaths(report.run_dir))
        stages = stages_of(report.document["jobs"], depends_on)
        took = seconds(report.document["elapsed_seconds"])
        bands.append(run_band(report, f"{name}: {took}", stages))
    return bands, troubles


def benchmark_page(
    summary: Mapping[str, Any],
    bands: list[dict[str, Any]],
    troubles: list[str],
    chart: Mapping[str, Any],
    embed: str,
) -> str:
    """Give the page.

    Args:
        bands, troubles: as :func:`bands_of` gives them.
        chart: the specification of the plot of every repetition.
        embed: the script that draws it.
    """
    name = summary["plan_id"]
    # The place of a chart says where its specification lies.
    place = element("div", class_="vega", data_chart="repetitions", role="img", aria_label="plot")
    parts: list[object] = [
        _verdict(summary),
        section("Modes", _modes(summary)),
        section("Every repetition", place, _note(summary)),
    ]
    for trouble in troubles:
        parts.append(warning(trouble))
    if bands:
        note = "Of each mode the measured run nearest to its median, on one time axis."
        parts.append(timeline_section(element("p", note, class_="quiet")))
    parts += [section("Speed-ups", _speedups(summary)), section("Runs", _runs(summary))]
    parts.append(section("Where it ran", _origin(summary)))
    body = join(
        [
            element("header", element("p", "hloop benchmark", class_="kind"), element("h1", name)),
            element("main", *parts),
            timeline_block(bands),
            data_block("repetitions", chart),
        ],
        "\n",
    )
    scripts = [asset("timeline.js"), asset("start.js")] if bands else []
    return page(f"benchmark of {name}", body, scripts=[*scripts, embed])


def _verdict(summary: Mapping[str, Any]) -> Markup:
    quotable = summary["quotable"]
    good = quotable["passed"]
    parity = summary["decision_parity"]
    decided = {
        True: "In every repetition all modes decided the same.",
        False: "The runs did not all decide the same.",
        None: "The plan makes no selection that modes could agree on.",
    }[parity]
    words = "these numbers may be quoted" if good else "these numbers may not be quoted"
    lines: list[object] = [
        element(
            "p",
            element("span", "✓" if good else "✗", class_="sign", aria_hidden="true"),
            element("strong", words),
            class_=f"status {'completed' if good else 'failed'}",
        )
    ]
    if quotable["reasons"]:
        reasons = [element("li", reason) for reason in quotable["reasons"]]
        lines.append(element("ul", *reasons, class_="findings"))
    lines.append(element("p", decided) if parity is not False else warning(decided))
    facts = [
        ("repetitions", f"{summary['repetitions']} of {summary['repetitions_asked_for']}"),
        ("warm-up", "yes" if summary["warmup"] else "no"),
        ("placement", summary["placement"]),
        ("experiment digest", element("code", summary["experiment_digest"])),
    ]
    return element("section", *lines, facts_list(facts), class_="verdict", aria_label="verdict")


def _modes(summary: Mapping[str, Any]) -> Markup:
    first = summary["modes"][0]
    base = "sequential" if "sequential" in summary["modes"] else first
    speedups = {(entry["mode"], entry["baseline"]): entry for entry in summary["speedups"]}
    rows = []
    for mode, statistics in summary["statistics"].items():
        elapsed, efficiency = statistics["elapsed_seconds"], statistics.get("efficiency")
        idle = [
            value
            for name, value in statistics["idle_seconds"].items()
            if name.startswith("device")
        ]
        rows.append(
            (
                element("strong", mode),
                f"{elapsed['median']:.3f}",
                _interval(elapsed["interval"]),
                f"{elapsed['mean']:.3f}",
                _number(elapsed["standard_deviation"]),
                _speedup(speedups.get((mode, base))) if mode != base else "1",
                "" if efficiency is None else f"{efficiency['median']:.1%}",
                f"{sum(idle):.3f}" if idle else "",
            )
        )
    heads = (
        *("mode", "median s", "interval", "mean s", "deviation", f"speed-up over {base}"),
        *("bound over makespan", "devices idle s"),
    )
    return table(heads, rows, class_="numbers")


def _note(summary: Mapping[str, Any]) -> Markup:
    bootstrap = summary["bootstrap"]
    return element(
        "p",
        "A point is a run, the tick a mode's median, the line its interval: "
        f"{bootstrap['confidence']:.0%} of {bootstrap['resamples']:,} bootstrap resamples.",
        class_="quiet",
    )


def _speedups(summary: Mapping[str, Any]) -> Markup:
    rows = [
        (
            f"{entry['mode']} over {entry['baseline']}",
            f"{entry['ratio_of_medians']:.3f}",
            _interval(entry["interval"]),
            ", ".join(f"{ratio:.3f}" for ratio in entry["paired_ratios"]),
        )
        for entry in summary["speedups"]
    ]
    heads = ("", "ratio of medians", "interval of paired ratios", "in each repetition")
    return table(heads, rows, class_="numbers")


def _runs(summary: Mapping[str, Any]) -> Markup:
    rows = [
        (
            run["run_dir"],
            f"{run['elapsed_seconds']:.3f}",
            f"{run['makespan_seconds']:.3f}",
            run["started_at"],
            element("code", run["selection_hash"] or ""),
            element("code", run["head"]),
        )
        for run in summary["runs"]
    ]
    heads = ("run", "elapsed s", "makespan s", "started", "decision", "head")
    listed = table(heads, rows, class_="digests")
    return element("details", element("summary", f"{len(rows)} runs"), listed)


def _origin(summary: Mapping[str, Any]) -> Markup:
    devices = [
        (
            device["logical"],
            device["uuid"] or device["token"] or "",
            device["name"] or "",
            "simulated" if device["simulated"] else "",
        )
        for device in summary["devices"]
    ]
    heads = ("device", "token", "model", "")
    facts = [*summary["host"].items(), *summary["versions"].items()]
    return join([table(heads, devices, class_="plain"), facts_list(facts)])


def _interval(interval: list[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _speedup(entry: Mapping[str, Any] | None) -> str:
    return "" if entry is None else f"{entry['ratio_of_medians']:.3f}"
