"""`hloop prepare --profile`: a stage under its profiler, or without it and a word why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hloop.plan.load import load_plan

WORKLOAD = """
schema: hloop.workload.v1
plan_id: p
devices: [0]
stages:
  train:
    resource: gpu
    command: [train, --seed, "1"]
    contract: {flags: [--seed]}
    profile:
      command: [PROFILER, profile, --capture-range=cudaProfilerApi, -o, <outputs.profile>]
      output: "{run_dir}/<job_id>.nsys-rep"
      credentials: [UPLOAD_TOKEN]
"""
PREPARE = ("prepare", "--config", "workload.yaml", "--run-dir", "out")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPLOAD_TOKEN", "secret")
    write("env")


def write(profiler: str) -> None:
    Path("workload.yaml").write_text(WORKLOAD.replace("PROFILER", profiler))


def prepared() -> tuple[str, ...]:
    return load_plan("out/materialized_plan.json").jobs[0].command


def test_the_profiler_goes_before_the_command(hloop: Any) -> None:
    assert hloop(*PREPARE, "--profile").code == 0
    assert prepared() == (
        *("env", "profile", "--capture-range=cudaProfilerApi", "-o"),
        *("{run_dir}/train.nsys-rep", "train", "--seed", "1"),
    )


def test_the_profile_is_an_output(hloop: Any) -> None:
    hloop(*PREPARE, "--profile")
    (output,) = load_plan("out/materialized_plan.json").jobs[0].outputs
    assert (output.role, output.path) == ("profile", "{run_dir}/train.nsys-rep")


def test_the_dry_run_shows_the_profile(hloop: Any) -> None:
    outcome = hloop(*PREPARE, "--profile", "--dry-run")
    assert outcome.out.splitlines()[0] == "job=train class=gpu profile={run_dir}/train.nsys-rep"


def test_without_the_option_nothing_is_profiled(hloop: Any) -> None:
    hloop(*PREPARE)
    assert prepared() == ("train", "--seed", "1")


@pytest.mark.parametrize(
    ("profiler", "token", "words"),
    [
        ("no-such-profiler", "secret", "there is no program 'no-such-profiler'"),
        ('"{repo_root}/no.sh"', "secret", "no.sh'"),
        ("./no.sh", "secret", "there is no program './no.sh'"),
        ("env", "", "the environment has no UPLOAD_TOKEN"),
    ],
)
def test_what_is_missing_is_told_and_the_stage_runs_without(
    hloop: Any, monkeypatch: pytest.MonkeyPatch, profiler: str, token: str, words: str
) -> None:
    write(profiler)
    monkeypatch.setenv("UPLOAD_TOKEN", token)
    outcome = hloop(*PREPARE, "--profile")
    assert (outcome.code, words in outcome.err, prepared()[0]) == (0, True, "train")


def test_a_workload_without_a_profiler_cannot_be_profiled(hloop: Any) -> None:
    text = WORKLOAD.partition("    profile:")[0]
    Path("workload.yaml").write_text(text)
    outcome = hloop(*PREPARE, "--profile")
    assert (outcome.code, "no stage declares a profiler" in outcome.err) == (2, True)
