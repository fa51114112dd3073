"""Where the times of a simulation come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import ReportError
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.report.durations import read_durations

MS = 10**6
PLAN = Plan(
    "p",
    (
        Job("a", ResourceClass.CPU, ("true",), budget={"expected_seconds": 2.5}),
        Job("b", ResourceClass.IO, ("true",), ("a",)),
    ),
)


def write_run(folder: Path, a: tuple[int, int], b: tuple[int, int], waited: int) -> None:
    """A run report with starts and ends, and how long b was ready, in milliseconds."""
    folder.mkdir(parents=True)
    document = {
        "schema_version": "mimicx.hloop-run.v1",
        "jobs": [
            {
                "job_id": job_id,
                "status": "completed",
                "start_offset_ns": start * MS,
                "end_offset_ns": end * MS,
            }
            for job_id, (start, end) in (("a", a), ("b", b))
        ],
        "scheduling": {"ready_to_start_seconds": {"a": 0.0, "b": waited / 1e3}},
    }
    (folder / "hloop_run.json").write_text(json.dumps(document))


def write_benchmark(folder: Path) -> None:
    write_run(folder / "warmup/hloop", (0, 900), (900, 1800), 0)
    write_run(folder / "repetition_00/hloop", (0, 100), (110, 210), 0)
    write_run(folder / "repetition_01/hloop", (0, 300), (330, 530), 10)
    write_run(folder / "repetition_02/hloop", (0, 200), (230, 630), 0)
    runs = [{"run_dir": "warmup/hloop", "repetition": None}]
    runs += [{"run_dir": f"repetition_0{n}/hloop", "repetition": n} for n in range(3)]
    (folder / "summary.json").write_text(json.dumps({"runs": runs}))


def test_the_plan_says_what_it_expects():
    assert read_durations(PLAN, None).seconds_ns == {"a": 2500 * MS}


def test_a_former_run_says_how_long_its_jobs_took(tmp_path: Path):
    write_run(tmp_path / "run", (5, 105), (115, 415), 0)
    assert read_durations(PLAN, tmp_path / "run").seconds_ns == {"a": 100 * MS, "b": 300 * MS}


def test_its_report_says_the_same(tmp_path: Path):
    write_run(tmp_path / "run", (5, 105), (115, 415), 0)
    found = read_durations(PLAN, tmp_path / "run/hloop_run.json")
    assert found.seconds_ns == {"a": 100 * MS, "b": 300 * MS}


def test_the_hand_over_is_from_the_end_above_to_when_the_job_was_ready(tmp_path: Path):
    # b started 15 ms after a had ended, and had been ready for 4 ms of these.
    write_run(tmp_path / "run", (0, 100), (115, 200), 4)
    assert read_durations(PLAN, tmp_path / "run").handover_ns == 11 * MS


def test_a_job_that_did_not_complete_has_no_time(tmp_path: Path):
    write_run(tmp_path / "run", (0, 100), (100, 200), 0)
    path = tmp_path / "run/hloop_run.json"
    document = json.loads(path.read_bytes())
    document["jobs"][1]["status"] = "failed"
    path.write_text(json.dumps(document))
    assert read_durations(PLAN, path).seconds_ns == {"a": 100 * MS}


def test_a_benchmark_gives_medians_over_its_measured_runs(tmp_path: Path):
    write_benchmark(tmp_path / "bench")
    found = read_durations(PLAN, tmp_path / "bench")
    assert (found.runs, found.seconds_ns) == (3, {"a": 200 * MS, "b": 200 * MS})


def test_a_benchmark_gives_the_median_hand_over(tmp_path: Path):
    # 10, 20 and 30 ms.
    write_benchmark(tmp_path / "bench")
    assert read_durations(PLAN, tmp_path / "bench").handover_ns == 20 * MS


def test_a_json_object_gives_seconds(tmp_path: Path):
    path = tmp_path / "times.json"
    path.write_text('{"a": 1.5, "b": 2}')
    assert read_durations(PLAN, path).seconds_ns == {"a": 1500 * MS, "b": 2000 * MS}


def test_a_csv_table_gives_seconds(tmp_path: Path):
    path = tmp_path / "times.csv"
    path.write_text("job_id,host,seconds\na,x,1.5\nb,x,2\n")
    assert read_durations(PLAN, path).seconds_ns == {"a": 1500 * MS, "b": 2000 * MS}


def test_a_table_may_begin_with_the_mark_of_a_spreadsheet(tmp_path: Path):
    path = tmp_path / "times.csv"
    path.write_bytes(b"\xef\xbb\xbfjob_id,seconds\r\na,1.5\r\n")
    assert read_durations(PLAN, path).seconds_ns == {"a": 1500 * MS}


def test_nothing_takes_no_time(tmp_path: Path):
    path = tmp_path / "times.json"
    path.write_text('{"a": 0}')
    assert read_durations(PLAN, path).seconds_ns == {"a": 0}


@pytest.mark.parametrize(
    "value", [-1, None, "soon", True, [1], 1e300, 10**400, float("inf"), float("nan")]
)
def test_what_is_no_time_is_refused_with_the_job(tmp_path: Path, value: Any):
    path = tmp_path / "times.json"
    path.write_text(json.dumps({"a": value}))
    with pytest.raises(ReportError, match=r"times\.json: a: the time is .*expected seconds"):
        read_durations(PLAN, path)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("times.json", "[1]", "it holds no JSON object"),
        ("times.json", "{", "it is not JSON"),
        ("times.json", '{"a": 1, "a": 2}', "it is not JSON: .*'a'"),
        ("times.csv", "job,seconds\n", "it lacks the columns job_id and seconds"),
        ("times.csv", "job_id,seconds\na,1\na,2\n", "a stands there twice"),
        ("summary.json", "{}", "it is no summary of a benchmark"),
    ],
)
def test_what_is_none_of_these_is_refused(tmp_path: Path, name: str, text: str, found: str):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ReportError, match=found):
        read_durations(PLAN, tmp_path if name == "summary.json" else path)


def test_what_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ReportError, match="it cannot be read"):
        read_durations(PLAN, tmp_path / "nothing")
