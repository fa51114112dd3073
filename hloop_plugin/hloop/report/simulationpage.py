"""The report page of a simulation: what runs would come to, drawn as runs are drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError
from hloop.plan.contract import schema_problems
from hloop.report.html import Markup, asset, element, join, page, section, table
from hloop.report.simulation import SIMULATION_NAME
from hloop.report.timeline import band, stages_of
from hloop.report.whenpage import (
    facts_list,
    seconds,
    timeline_block,
    timeline_section,
    warning,
)

MAX_PROBLEMS = 20
MAX_BARS = 20_000
"""How many bars a page draws; simulations with more than that in all are left out."""


def read_simulation(folder: Path) -> dict[str, Any]:
    """Read what ``hloop simulate --out`` wrote.

    Raises:
        ReportError: it cannot be read, or is not of the format.
    """
    path = folder / SIMULATION_NAME
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        problem = Problem("unreadable", "", f"cannot be read: {error.strerror}")
        raise ReportError(problem, file=path) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(Problem("not_json", "", f"not JSON: {error}"), file=path) from error
    if problems := schema_problems(document, "simulation"):
        raise ReportError(problems[:MAX_PROBLEMS], file=path)
    simulation: dict[str, Any] = document
    return simulation


def simulation_bands(simulation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a band for each simulated run that has its timeline, as many as a page draws."""
    bands, bars = [], 0
    for prediction in simulation["predictions"]:
        jobs = prediction.get("jobs") or ()
        bars += len(jobs)
        if not jobs or bars > MAX_BARS:
            continue
        depends_on = {job["job_id"]: job["depends_on"] for job in jobs}
        bands.append(
            band(
                f"{_name(prediction)}: {seconds(prediction['makespan_seconds'])}",
                jobs,
                depends_on,
                stages_of(jobs, depends_on),
                mode=prediction["mode"],
                waves=prediction["waves"],
                idle_seconds=prediction["idle_seconds"],
            )
        )
    return bands


def simulation_page(simulation: Mapping[str, Any], bands: list[dict[str, Any]]) -> str:
    """Give the page; ``bands`` as :func:`simulation_bands` gives them."""
    name = simulation["plan_id"]
    parts: list[object] = [_source(simulation), section("Predictions", _predictions(simulation))]
    left_out = len(simulation["predictions"]) - len(bands)
    if bands:
        note = "Each simulated run, on one time axis."
        if left_out:
            note += f" {left_out} of them are not drawn, for want of room."
        parts.append(timeline_section(element("p", note, class_="quiet")))
    kind = element("p", "hloop simulation", class_="kind")
    body = join(
        [
            element("header", kind, element("h1", name)),
            element("main", *parts),
            timeline_block(bands),
        ],
        "\n",
    )
    scripts = [asset("timeline.js"), asset("start.js")] if bands else []
    return page(f"simulation of {name}", body, scripts=scripts)


def _source(simulation: Mapping[str, Any]) -> Markup:
    durations, jitter = simulation["durations"], simulation["jitter"]
    facts = [
        ("times from", durations["path"] or "the plan"),
        ("runs", durations["runs"] or None),
        (
            "by default",
            f"{durations['jobs_by_default']} jobs" if durations["jobs_by_default"] else None,
        ),
        ("order of ready jobs", f"by the {simulation['order']}"),
        ("hand-over", seconds(durations["handover_seconds"])),
        ("jitter", None if jitter is None else f"{jitter['spread']}, {jitter['samples']} samples"),
        ("experiment digest", element("code", simulation["experiment_digest"])),
    ]
    simulated = warning("Nothing was run: the engine drove a clock that is not real.")
    return element("section", simulated, facts_list(facts), class_="verdict", aria_label="source")


def _predictions(simulation: Mapping[str, Any]) -> Markup:
    rows = []
    for prediction in simulation["predictions"]:
        bound, efficiency = prediction["lower_bound"], prediction["efficiency"]
        idle = [
            value
            for name, value in prediction["idle_seconds"].items()
            if name.startswith("device")
        ]
        spread = prediction["makespan_with_jitter"]
        rows.append(
            (
                element("strong", _name(prediction)),
                f"{prediction['makespan_seconds']:.3f}",
                ""
                if spread is None
                else f"{spread['median']:.3f} ± {spread['standard_deviation']:.3f}",
                f"{bound['seconds']:.3f}",
                bound["limiting"],
                "" if efficiency is None else f"{efficiency:.1%}",
                f"{sum(idle):.3f}" if idle else "",
            )
        )
    heads = (
        *("mode and devices", "makespan s", "with jitter s", "bound s", "set by"),
        *("bound over makespan", "devices idle s"),
    )
    return table(heads, rows, class_="numbers")


def _name(prediction: Mapping[str, Any]) -> str:
    count = prediction["devices"]
    return f"{prediction['mode']}, {count} device{'' if count == 1 else 's'}"
