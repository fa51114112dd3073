"""``hloop plan``: what it says of a plan, in text and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.identity import experiment_digest, placement_digest, plan_semantic_hash
from hloop.plan.load import load_plan
from hloop.run.page import SWITCH

SIX_JOBS: list[dict[str, Any]] = [
    {
        "job_id": "roll_a",
        "resource": "gpu",
        "cuda_visible_devices": "0",
        "command": ["roll", "--out", "{run_dir}/a b.json"],
        "environment": {"SEED": "1 2"},
        "budget": {"expected_seconds": 3},
    },
    {
        "job_id": "roll_b",
        "resource": "gpu",
        "cuda_visible_devices": "1",
        "command": ["roll"],
        "budget": {"expected_seconds": 1},
    },
    {
        "job_id": "roll_c",
        "resource": "gpu",
        "cuda_visible_devices": "1",
        "command": ["roll"],
        "budget": {"expected_seconds": 1.5},
    },
    {
        "job_id": "look_a",
        "resource": "cpu",
        "depends_on": ["roll_a"],
        "command": ["look"],
        "budget": {"expected_seconds": 0.5},
    },
    {
        "job_id": "look_b",
        "resource": "cpu",
        "depends_on": ["roll_b"],
        "command": ["look"],
        "cwd": "{repo_root}/sub",
        "budget": {"expected_seconds": 0.5},
    },
    {
        "job_id": "choose",
        "resource": "io",
        "depends_on": ["look_a", "look_b"],
        "command": ["choose"],
        "budget": {"expected_seconds": 0.25},
    },
]


def write_plan(jobs: list[dict[str, Any]] = SIX_JOBS, **fields: Any) -> None:
    document = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "six", **fields}
    Path("plan.json").write_text(json.dumps({**document, "jobs": jobs}))


def without_durations() -> list[dict[str, Any]]:
    return [{k: v for k, v in job.items() if k != "budget"} for job in SIX_JOBS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CUDA_VISIBLE_DEVICES", "HLOOP_DEVICE_ID", "MIMICX_DEVICE_ID"):
        monkeypatch.delenv(name, raising=False)
    write_plan()


def section(text: str, heading: str) -> list[str]:
    """The lines below a heading, up to the next empty line."""
    return text.split(f"\n{heading}\n", 1)[1].split("\n\n", 1)[0].splitlines()


# Text


def test_the_three_digests_stand_under_their_names(hloop):
    plan = load_plan("plan.json")
    assert hloop("plan", "plan.json").out.splitlines()[:4] == [
        "plan six: 6 jobs",
        f"  plan_semantic_hash  {plan_semantic_hash(plan)}",
        f"  experiment_digest   {experiment_digest(plan)}",
        f"  placement_digest    {placement_digest(plan)}",
    ]


def test_it_says_what_a_run_would_have(hloop):
    assert section(hloop("plan", "plan.json").out, "a run would have") == [
        "  mode       hloop",
        "  placement  pinned",
        "  devices    2 simulated: as many as the plan pins",
        "  workers    4 cpu, 2 io",
    ]


def test_jobs_are_listed_by_class(hloop):
    assert section(hloop("plan", "plan.json").out, "jobs by class") == [
        "  gpu     3  roll_a, roll_b, roll_c",
        "  cpu     2  look_a, look_b",
        "  io      1  choose",
    ]


def test_a_long_list_is_broken_between_names(hloop):
    names = [f"job-number-{number}" for number in range(20)]
    write_plan([{"job_id": name, "resource": "cpu", "command": ["x"]} for name in names])
    lines = section(hloop("plan", "plan.json").out, "jobs by class")
    assert len(lines) > 1 and max(map(len, lines)) < 100
    assert "".join(lines).split(maxsplit=2)[2].replace(" ", "").split(",") == names


def test_the_order_of_starts_names_the_slots(hloop):
    assert section(hloop("plan", "plan.json").out, "order of starts") == [
        "     1  roll_a on device 0",
        "     2  roll_b on device 1",
        "     3  roll_c on device 1",
        "     4  look_b on cpu 0",
        "     5  look_a on cpu 0",
        "     6  choose on io 0",
    ]


def test_bulk_sync_shows_its_waves_instead(hloop):
    text = hloop("plan", "plan.json", "--mode", "bulk-sync").out
    assert "order of starts" not in text
    assert section(text, "waves") == [
        "     1  roll_a, roll_b",
        "     2  roll_c, look_a, look_b",
        "     3  choose",
    ]


def test_the_lower_bound_says_what_sets_it(hloop):
    assert "\nlower bound: 3.750 s, set by longest path\n" in hloop("plan", "plan.json").out


def test_a_lower_bound_that_leaves_jobs_out_says_so(hloop):
    write_plan([SIX_JOBS[0], {"job_id": "more", "resource": "io", "command": ["more"]}])
    assert (
        "lower bound: 3.000 s, set by longest path; 1 of 2 jobs counted as 0 s, "
        "for want of a budget.expected_seconds\n" in hloop("plan", "plan.json").out
    )


def test_without_durations_there_is_no_lower_bound(hloop):
    write_plan(without_durations())
    assert "lower bound: not known, as no job has a budget" in hloop("plan", "plan.json").out


def test_a_launch_is_shown_as_a_shell_would_take_it(hloop, tmp_path):
    lines = section(hloop("plan", "plan.json").out, "what would be launched, and where")
    assert lines[:7] == [
        f"  roll_a on device 0, in {tmp_path}",
        "    SEED='1 2'",
        "    HLOOP_DEVICE_ID=0",
        "    MIMICX_DEVICE_ID=0",
        "    HLOOP_JOB_ID=roll_a",
        f"    HLOOP_TRANSITIONS={tmp_path}/run/jobs/roll_a/transitions",
        f"    roll --out '{tmp_path}/run/a b.json'",
    ]


def test_a_variable_that_a_job_does_not_inherit_is_named(hloop, monkeypatch):
    monkeypatch.setenv("HLOOP_DEVICE_ID", "7")
    lines = section(hloop("plan", "plan.json").out, "what would be launched, and where")
    start = next(index for index, line in enumerate(lines) if "look_b on" in line)
    assert lines[start + 1] == "    without HLOOP_DEVICE_ID"


def test_an_input_that_is_not_there_is_a_warning(hloop, tmp_path):
    (job,) = without_durations()[3:4]
    gone = {"role": "weights", "path": "gone.bin", "sha256": "0" * 64}
    write_plan([{**job, "depends_on": [], "inputs": [gone]}])
    outcome = hloop("plan", "plan.json")
    assert outcome.code == 0
    assert section(outcome.out, "before a run can begin") == [
        f"  jobs[0].inputs[0].path: job 'look_a': {tmp_path}/gone.bin does not exist; expected a "
        "plain file, or a link to one. Put it there, or correct the path"
    ]


# JSON


def test_json_holds_the_digests_under_their_names(hloop):
    plan, document = load_plan("plan.json"), hloop("plan", "plan.json", "--json").document
    names = ("plan_semantic_hash", "experiment_digest", "placement_digest")
    assert {name: document[name] for name in names} == {
        "plan_semantic_hash": plan_semantic_hash(plan),
        "experiment_digest": experiment_digest(plan),
        "placement_digest": placement_digest(plan),
    }


def test_json_holds_a_launch_as_a_program_would_take_it(hloop, tmp_path):
    document = hloop("plan", "plan.json", "--json", "--repo-root", "..").document
    launches = {launch["job_id"]: launch for launch in document["launches"]}
    assert launches["look_b"] == {
        "job_id": "look_b",
        "slot": "cpu 0",
        "device": None,
        "argv": ["look"],
        "cwd": str(tmp_path.parent / "sub"),
        "environment": {
            "HLOOP_JOB_ID": "look_b",
            "HLOOP_TRANSITIONS": str(tmp_path / "run/jobs/look_b/transitions"),
        },
        "unset": [],
    }


def test_launches_come_in_the_order_of_starts(hloop):
    document = hloop("plan", "plan.json", "--json").document
    assert [launch["job_id"] for launch in document["launches"]] == document["order"]


def test_json_holds_the_waves(hloop):
    document = hloop("plan", "plan.json", "--json", "--mode", "bulk-sync").document
    assert document["waves"][0] == ["roll_a", "roll_b"]


def test_the_published_waves(hloop):
    def job(name: str, device: int, *depends_on: str) -> dict[str, Any]:
        return {
            "job_id": name,
            "resource": "gpu",
            "cuda_visible_devices": str(device),
            "depends_on": depends_on,
            "command": ["x"],
        }

    write_plan([job("gpu_a0", 3), job("gpu_a1", 3), job("gpu_b0", 4), job("gpu_b1", 4, "gpu_b0")])
    document = hloop("plan", "plan.json", "--json", "--mode", "bulk-sync").document
    assert document["waves"] == [["gpu_a0", "gpu_b0"], ["gpu_a1", "gpu_b1"]]


def test_sequential_shows_the_topological_order(hloop):
    document = hloop("plan", "plan.json", "--json", "--mode", "sequential").document
    assert document["order"] == ["roll_a", "roll_b", "roll_c", "look_a", "look_b", "choose"]


def test_json_holds_the_lower_bound_and_what_sets_it(hloop):
    document = hloop("plan", "plan.json", "--json", "--cpu-workers", "1").document
    assert (document["lower_bound_seconds"], document["lower_bound_limited_by"]) == (
        3.75,
        "longest path",
    )


def test_json_names_the_jobs_without_a_duration(hloop):
    write_plan(without_durations())
    document = hloop("plan", "plan.json", "--json").document
    assert document["lower_bound_seconds"] is None
    assert document["jobs_without_duration"] == [job["job_id"] for job in SIX_JOBS]


# Options


def test_a_number_of_devices_is_simulated(hloop):
    document = hloop("plan", "plan.json", "--json", "--devices", "5").document
    assert [device["simulated"] for device in document["devices"]] == [True] * 5


def test_with_placement_any_a_job_takes_the_idle_device(hloop):
    write_plan([{**job, "cuda_visible_devices": "0"} for job in SIX_JOBS[:2]])
    document = hloop(
        *("plan", "plan.json", "--json", "--devices", "2", "--placement", "any")
    ).document
    assert [launch["device"] for launch in document["launches"]] == [0, 1]


def test_worker_limits_take_the_place_of_the_plans(hloop):
    document = hloop(
        *("plan", "plan.json", "--json", "--cpu-workers", "7", "--io-workers", "5")
    ).document
    assert document["limits"] == {"cpu": 7, "io": 5}


def test_the_run_directory_and_the_root_can_be_given(hloop, tmp_path):
    (tmp_path / "sub").mkdir()
    document = hloop(
        *("plan", "plan.json", "--json", "--run-dir", "else", "--repo-root", "sub")
    ).document
    launch = document["launches"][0]
    assert (launch["argv"][-1], launch["cwd"]) == (
        f"{tmp_path}/else/a b.json",
        f"{tmp_path}/sub",
    )


def test_it_writes_nothing(hloop, tmp_path):
    hloop("plan", "plan.json")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


# No answer


def test_a_plan_that_is_not_right_exits_2_with_all_its_problems(hloop):
    first, second, *rest = without_durations()
    write_plan([{**first, "seed": "7"}, {**second, "depends_on": ["roll_z"]}, *rest])
    outcome = hloop("plan", "plan.json", "--json")
    assert outcome.code == 2
    assert [problem["where"] for problem in outcome.document["problems"]] == [
        "jobs[0].seed",
        "jobs[1].depends_on[0]",
    ]


def test_too_few_devices_exit_2(hloop):
    outcome = hloop("plan", "plan.json", "--devices", "1")
    assert outcome.code == 2
    assert "job roll_b (and 1 more) needs device 1, but 1 device is visible" in outcome.err


# Against a run


def test_a_run_launches_what_the_plan_shows(hloop, tmp_path, monkeypatch):
    monkeypatch.setenv("MIMICX_DEVICE_ID", "5")
    script = "import json,os,sys; json.dump([sys.argv, os.getcwd(), dict(os.environ)], sys.stdout)"
    command = [sys.executable, "-c", script, "{run_dir}/x", "a b"]
    write_plan(
        [
            {**SIX_JOBS[0], "command": command},
            {"job_id": "plain", "resource": "cpu", "command": command, "cwd": "/"},
        ]
    )
    document = hloop("plan", "plan.json", "--json").document
    argv = ("run", "--plan", "plan.json", "--run-dir", "run", "--devices", "simulated:1")
    # os.environ, and not what C libraries of this process wrote into the environment.
    hloop_run = [sys.executable, "-m", "hloop", *argv]
    subprocess.run(hloop_run, check=True, capture_output=True, env=os.environ)
    launched = {}
    for job_id in ("roll_a", "plain"):
        told = json.loads(Path("run/jobs", job_id, "stdout.log").read_text())
        arguments, cwd, environment = told
        # Every attempt has a mark of its own.
        del environment["HLOOP_ATTEMPT"]
        added = {k: v for k, v in environment.items() if os.environ.get(k) != v}
        # What only concerns the run's own page is no job's business.
        unset = os.environ.keys() - environment - {SWITCH}
        launched[job_id] = (arguments[1:], cwd, added, sorted(unset))
    shown = {
        launch["job_id"]: (
            launch["argv"][3:],
            launch["cwd"],
            launch["environment"],
            launch["unset"],
        )
        for launch in document["launches"]
    }
    assert launched == shown
