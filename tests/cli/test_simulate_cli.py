"""``hloop simulate`` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.contract import schema_problems


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Two rollouts of 2 and 3 s on two devices, and a selection of 1 s."""
    jobs: list[dict[str, Any]] = [
        {
            "job_id": f"r{n}",
            "resource": "gpu",
            "cuda_visible_devices": str(n),
            "command": ["true"],
            "budget": {"expected_seconds": 2 + n},
        }
        for n in range(2)
    ]
    jobs.append(
        {
            "job_id": "select",
            "resource": "io",
            "depends_on": ["r0", "r1"],
            "command": ["true"],
            "budget": {"expected_seconds": 1},
        }
    )
    path = tmp_path / "plan.json"
    document = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "two", "jobs": jobs}
    path.write_text(json.dumps(document))
    return path


def test_a_line_for_each_number_of_devices_and_mode(hloop: Any, plan: Path):
    outcome = hloop("simulate", plan, "--devices", "1,2", "--placement", "any")
    rows = [line.split()[:3] for line in outcome.out.splitlines() if line[:1].isdigit()]
    assert rows == [
        ["1", "sequential", "6.000"],
        ["1", "hloop", "6.000"],
        ["1", "bulk-sync", "6.000"],
        ["2", "sequential", "6.000"],
        ["2", "hloop", "4.000"],
        ["2", "bulk-sync", "4.000"],
    ]


def test_json_holds_no_jobs(hloop: Any, plan: Path):
    document = hloop("simulate", plan, "--modes", "hloop", "--json").document
    assert schema_problems(document, "simulation") == []
    assert "jobs" not in document["predictions"][0]


def test_out_holds_them(hloop: Any, plan: Path, tmp_path: Path):
    hloop("simulate", plan, "--modes", "hloop", "--out", tmp_path / "out")
    document = json.loads((tmp_path / "out/simulation.json").read_bytes())
    assert schema_problems(document, "simulation") == []
    assert [job["job_id"] for job in document["predictions"][0]["jobs"]] == ["r0", "r1", "select"]


def test_times_of_a_file_go_before_those_of_the_plan(hloop: Any, plan: Path, tmp_path: Path):
    (tmp_path / "times.json").write_text('{"r0": 20, "r1": 30, "select": 5}')
    argv = ["simulate", plan, "--durations", tmp_path / "times.json", "--modes", "hloop", "--json"]
    assert hloop(*argv).document["predictions"][0]["makespan_seconds"] == 35


def test_jitter_is_told_with_its_spread(hloop: Any, plan: Path):
    outcome = hloop("simulate", plan, "--modes", "hloop", "--jitter", "0.1")
    assert "with jitter s" in outcome.out


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--devices", "1"), "the plan pins 2, and there are to be 1"),
        (("--devices", "0", "--placement", "any"), "Its gpu jobs need at least one"),
        (("--devices", "two"), "'two' is not possible; expected numbers of devices"),
        (("--devices", "9" * 5000), "each below 100,000"),
        (("--jitter", "inf"), "less than or equal to 5"),
        (("--jitter", "nan"), "Invalid value for '--jitter'"),
        (("--default-seconds", "inf"), "less than or equal to 1000000000"),
        (("--modes", "hloop,hloop"), "'hloop, hloop' is not possible"),
        (("--durations", "nothing"), "it cannot be read"),
    ],
)
def test_no_answer_exits_with_2_and_a_sentence(
    hloop: Any, plan: Path, options: tuple[str, ...], found: str
):
    outcome = hloop("simulate", plan, *options)
    assert outcome.code == 2
    assert found in outcome.err


def test_a_job_that_a_file_does_not_name_takes_what_the_plan_expects(
    hloop: Any, plan: Path, tmp_path: Path
):
    (tmp_path / "times.json").write_text('{"r0": 20}')
    outcome = hloop("simulate", plan, "--durations", tmp_path / "times.json", "--json").document
    assert outcome["durations"]["jobs_by_plan"] == 2
    assert outcome["predictions"][0]["makespan_seconds"] == 20 + 3 + 1


def test_times_of_jobs_that_the_plan_lacks_are_told(hloop: Any, plan: Path, tmp_path: Path):
    (tmp_path / "times.json").write_text('{"r0": 20, "r_0": 30, "r9": 1}')
    outcome = hloop("simulate", plan, "--durations", tmp_path / "times.json")
    assert "2 times are of jobs that the plan does not have" in outcome.out


def test_the_largest_jitter_gives_numbers(hloop: Any, plan: Path):
    outcome = hloop("simulate", plan, "--modes", "hloop", "--jitter", "5", "--json")
    assert outcome.document["predictions"][0]["makespan_with_jitter"]["maximum"] > 0


@pytest.mark.parametrize("name", ["journal.jsonl", "hloop_run.json", "protocol.json"])
def test_out_leaves_runs_and_benchmarks_alone(hloop: Any, plan: Path, tmp_path: Path, name: str):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / name).touch()
    outcome = hloop("simulate", plan, "--modes", "hloop", "--out", tmp_path / "used")
    assert (outcome.code, f"{name} lies there" in outcome.err) == (2, True)
    assert not (tmp_path / "used/simulation.json").exists()


def test_a_plan_of_cpu_jobs_has_no_device_that_could_be_idle(hloop: Any, plan: Path):
    document = json.loads(plan.read_bytes())
    for job in document["jobs"]:
        job.pop("cuda_visible_devices", None)
        job["resource"] = "cpu"
    plan.write_text(json.dumps(document))
    row = hloop("simulate", plan, "--modes", "hloop").out.splitlines()[3].split()
    assert (row[0], row[2], row[-1]) == ("0", "4.000", "-")


def test_jobs_without_a_time_are_no_answer(hloop: Any, plan: Path):
    document = json.loads(plan.read_bytes())
    for job in document["jobs"][1:]:
        del job["budget"]
    plan.write_text(json.dumps(document))
    outcome = hloop("simulate", plan)
    assert (outcome.code, "no time is known for r1, select" in outcome.err) == (2, True)
