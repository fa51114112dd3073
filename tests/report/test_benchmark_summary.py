"""The summary of a benchmark, against numbers made by hand."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hloop.plan.contract import schema_problems
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.report.benchmark import BenchmarkPaths, Protocol
from hloop.report.summary import summarize, write_summary
from hloop.run.page import make_page
from hloop.schedule.events import Mode
from measured_runs import runs_of

S, H, B = Mode.SEQUENTIAL, Mode.HLOOP, Mode.BULK_SYNC
PLAN = Plan("p", (Job("a", ResourceClass.CPU, ("true",)),))
PROTOCOL = Protocol((S, B, H), repetitions=3, wanted=3)
MODES, NUMBER = [S.value, B.value, H.value], {"type": "number"}
SECONDS = {S: [20.0, 22.0, 30.0], B: [12.0, 11.0, 10.0], H: [10.0, 10.0, 15.0]}


@pytest.fixture
def summary() -> dict[str, Any]:
    return summarize(PLAN, PROTOCOL, runs_of(PROTOCOL, SECONDS))


def test_it_keeps_its_schema(summary: dict[str, Any]):
    assert schema_problems(json.loads(json.dumps(summary)), "benchmark-summary") == []


def test_timings_stand_by_repetition_whatever_the_order_of_the_runs(summary: dict[str, Any]):
    assert summary["timings"] == [
        {"repetition": n, **{mode: seconds[n] for mode, seconds in SECONDS.items()}}
        for n in range(3)
    ]


# The published summary: benchmark_native_hloop.py of MimicX, but for the names of two modes.
OF_MODES = {"type": "object", "properties": {S: NUMBER, B: NUMBER, H: NUMBER}, "required": MODES}
PUBLISHED = {
    "schema": {"const": "mimicx.native-hloop-benchmark-summary.v1"},
    "repetitions": {"type": "integer"},
    "plan_semantic_hash": {"type": "string"},
    "selection_hashes": {"type": "array", "items": {"type": "string"}},
    "decision_parity": {"type": "boolean"},
    "median_seconds": OF_MODES,
    "mean_seconds": OF_MODES,
    "speedup_hloop_vs_sequential": NUMBER,
    "speedup_hloop_vs_bulk_sync": NUMBER,
    "every_repetition_hloop_faster_than_sequential": {"type": "boolean"},
    "timings": {
        "type": "array",
        "items": {**OF_MODES, "required": ["repetition", *MODES]},
    },
}


def test_it_has_every_published_field_in_its_published_form(summary: dict[str, Any]):
    schema = {"type": "object", "properties": PUBLISHED, "required": list(PUBLISHED)}
    jsonschema.validate(json.loads(json.dumps(summary)), schema)


def test_the_warm_up_is_not_in_the_numbers(summary: dict[str, Any]):
    assert summary["median_seconds"] == {S: 22.0, B: 11.0, H: 10.0}


def test_means(summary: dict[str, Any]):
    assert summary["mean_seconds"] == {S: 24.0, B: 11.0, H: 11.666667}


def test_speed_ups_are_ratios_of_medians(summary: dict[str, Any]):
    assert summary["speedup_hloop_vs_sequential"] == 2.2
    assert summary["speedup_hloop_vs_bulk_sync"] == 1.1


def test_a_speed_up_has_its_paired_ratios(summary: dict[str, Any]):
    entry = next(
        entry for entry in summary["speedups"] if (entry["mode"], entry["baseline"]) == (H, S)
    )
    assert entry["paired_ratios"] == [2.0, 2.2, 2.0]
    assert entry["interval"] == [2.0, 2.2]


def test_hloop_was_faster_than_sequential_each_time(summary: dict[str, Any]):
    assert summary["every_repetition_hloop_faster_than_sequential"] is True


def test_one_repetition_in_which_it_was_not_counts():
    seconds = {**SECONDS, H: [10.0, 22.0, 15.0]}
    summary = summarize(PLAN, PROTOCOL, runs_of(PROTOCOL, seconds))
    assert summary["every_repetition_hloop_faster_than_sequential"] is False


def test_without_sequential_there_is_no_such_statement():
    protocol = Protocol((B, H), repetitions=3)
    summary = summarize(PLAN, protocol, runs_of(protocol, SECONDS))
    assert summary["every_repetition_hloop_faster_than_sequential"] is None
    assert summary["speedup_hloop_vs_sequential"] is None


def test_makespans_have_statistics_of_their_own(summary: dict[str, Any]):
    assert summary["statistics"][S]["makespan_seconds"]["median"] == pytest.approx(21.9)


def test_decisions_that_agree(summary: dict[str, Any]):
    assert summary["decision_parity"] is True


def test_decisions_of_one_repetition_that_do_not():
    *runs, last = runs_of(PROTOCOL, SECONDS)
    summary = summarize(PLAN, PROTOCOL, [*runs, replace(last, decision="e" * 64)])
    assert summary["decision_parity"] is False


def test_repetitions_that_decide_otherwise_than_each_other_are_no_parity():
    runs = [
        replace(run, decision=f"{run.planned.repetition or 0:064x}")
        for run in runs_of(PROTOCOL, SECONDS)
    ]
    summary = summarize(PLAN, PROTOCOL, runs)
    assert summary["decision_parity"] is False
    assert summary["selection_hashes"] == [f"{number:064x}" for number in range(3)]


@pytest.fixture
def warmed_up() -> dict[str, Any]:
    """After the warm-up alone."""
    return summarize(PLAN, PROTOCOL, runs_of(PROTOCOL, SECONDS)[:3])


def test_after_the_warm_up_no_mode_has_numbers(warmed_up: dict[str, Any]):
    assert schema_problems(json.loads(json.dumps(warmed_up)), "benchmark-summary") == []
    assert (warmed_up["repetitions"], warmed_up["median_seconds"]) == (0, {})
    assert warmed_up["every_repetition_hloop_faster_than_sequential"] is None


def test_after_the_warm_up_there_are_files_and_a_page(warmed_up: dict[str, Any], tmp_path: Path):
    write_summary(BenchmarkPaths(tmp_path), warmed_up)
    assert "0 of 3 measured repetitions" in (tmp_path / "SUMMARY.md").read_text()
    assert make_page(tmp_path) == ""
    assert (tmp_path / "report.html").exists()


def test_idle_time_is_the_median_for_each_slot():
    runs = runs_of(PROTOCOL, SECONDS)
    hloop = [run for run in runs if run.planned.mode is H and run.planned.repetition is not None]
    for run, idle in zip(hloop, (1.0, 5.0, 2.5), strict=True):
        run.report["scheduling"]["idle_seconds"] = {"device 0": idle, "device 1": 2 * idle}
    statistics = summarize(PLAN, PROTOCOL, runs)["statistics"]
    assert statistics[H]["idle_seconds"] == {"device 0": 2.5, "device 1": 5.0}


def test_efficiency_is_that_of_the_reports():
    runs = runs_of(PROTOCOL, SECONDS)
    bulk = [run for run in runs if run.planned.mode is B and run.planned.repetition is not None]
    for run, efficiency in zip(bulk, (0.5, 0.8, 0.6), strict=True):
        run.report["scheduling"]["efficiency"] = efficiency
    sample = summarize(PLAN, PROTOCOL, runs)["statistics"][B]["efficiency"]
    assert (sample["median"], sample["minimum"], sample["maximum"]) == (0.6, 0.5, 0.8)


def test_a_plan_that_selects_nothing_has_no_parity():
    runs = [replace(run, decision=None) for run in runs_of(PROTOCOL, SECONDS)]
    assert summarize(PLAN, PROTOCOL, runs)["decision_parity"] is None


def test_every_run_is_named_in_the_order_in_which_it_was_made(summary: dict[str, Any]):
    names = [run["run_dir"] for run in summary["runs"]]
    assert names[:5] == [
        *("warmup/sequential", "warmup/bulk-sync", "warmup/hloop"),
        *("repetition_00/sequential", "repetition_00/bulk-sync"),
    ]


@pytest.fixture
def folder(tmp_path: Path, summary: dict[str, Any]) -> BenchmarkPaths:
    paths = BenchmarkPaths(tmp_path)
    write_summary(paths, summary)
    return paths


def test_the_table_has_a_row_for_each_run(folder: BenchmarkPaths):
    with folder.timings.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["elapsed_seconds"] for row in rows if row["label"] == "repetition_01"] == [
        *("11.0", "10.0", "22.0"),
    ]


def test_the_page_has_a_row_for_each_mode(folder: BenchmarkPaths):
    row = next(line for line in folder.text.read_text().splitlines() if "| sequential" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "sequential",
        "22.000",
        "20.000 to 30.000",
        "24.000",
        "5.292",
        "50.0%",
        "0.500",
    ]


def test_the_page_says_that_the_numbers_may_be_quoted(folder: BenchmarkPaths):
    assert folder.text.read_text().endswith("\nThese numbers may be quoted.\n")


def test_the_page_gives_every_reason_against_it(tmp_path: Path):
    protocol = Protocol((S, B, H), repetitions=3, wanted=5)
    paths = BenchmarkPaths(tmp_path)
    write_summary(paths, summarize(PLAN, protocol, runs_of(protocol, SECONDS)))
    text = paths.text.read_text()
    assert text.endswith("\n- 3 repetitions, and the configuration asks for 5\n")
