"""Runs that are killed and resumed, through `hloop run` and through Snakemake itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTPUT = [{"role": "o", "path": "{run_dir}/deep/o"}]


def make_plan(workspace, make_job) -> None:
    """`one` makes a file, `two` waits until somebody has made `go`."""
    workspace.plan(
        make_job("one", "echo made > run/deep/o", outputs=OUTPUT),
        make_job("two", "until [ -e go ]; do sleep 0.05; done; cat run/deep/o",
                 depends_on=["one"], inputs=OUTPUT),
    )  # fmt: skip


def interrupt(workspace, waiting, make_job) -> None:
    """Kill `hloop run` while `two` runs."""
    make_plan(workspace, make_job)
    process = workspace.start(workspace.hloop_argv("--grace-seconds", "0"))
    waiting((workspace.root / "run/jobs/two/stdout.log").exists, "the second job")
    process.send_signal(signal.SIGTERM)
    workspace.finish(process)
    (workspace.root / "go").touch()


def started(workspace) -> list[str]:
    lines = (workspace.root / "run/journal.jsonl").read_text().splitlines()
    return [e["job"] for e in map(json.loads, lines) if e["event"] == "job_started"]


def test_a_run_is_resumed_without_its_plan(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    (workspace.root / "plan.json").unlink()
    result = workspace.run("hloop", "run", "--resume", "run")
    assert result.returncode == 0, result.stdout
    assert started(workspace) == ["one", "two", "two"]
    assert workspace.run("hloop", "verify", "run").returncode == 0


def test_the_logs_of_the_former_attempt_are_kept(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    workspace.run("hloop", "run", "--resume", "run")
    attempt = workspace.root / "run/jobs/two/attempts/1"
    assert {"stdout.log", "stderr.log", "attempt_status.json"} <= set(os.listdir(attempt))


def test_a_dry_run_says_what_would_be_and_writes_nothing(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    before = sorted((p, p.stat().st_mtime_ns) for p in (workspace.root / "run").rglob("*"))
    result = workspace.run("hloop", "run", "--resume", "run", "-n")
    assert result.stdout.splitlines() == [
        "kept   one: its records hold, and its 1 input or output is as they say",
        "again  two: it is cancelled: the run was stopped: SIGTERM",
        "1 kept, 1 to run",
    ]
    after = sorted((p, p.stat().st_mtime_ns) for p in (workspace.root / "run").rglob("*"))
    assert (result.returncode, after) == (0, before)


def test_snakemake_resumes_a_run_by_the_same_command_and_one_option(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    result = workspace.run(*workspace.snakemake_argv("--hloop-resume"))
    assert result.returncode == 0, result.stdout
    assert "hloop: kept   one: its records hold" in result.stdout
    assert started(workspace) == ["one", "two", "two"]
    assert workspace.run("hloop", "verify", "run").returncode == 0


def test_snakemake_resumes_what_it_calls_incomplete_and_forgets_no_job_whose_files_are_there(
    workspace, waiting, make_job
):
    make_plan(workspace, make_job)
    process = workspace.start(workspace.snakemake_argv("--nolock"))
    waiting((workspace.root / "run/jobs/two/stdout.log").exists, "the second job")
    process.kill()
    workspace.finish(process)
    waiting((workspace.root / "run/hloop_run.json").exists, "the report")
    (workspace.root / "run/deep/o").write_text("spoilt\n")
    (workspace.root / "go").touch()
    result = workspace.run(*workspace.snakemake_argv("--nolock", "--hloop-resume"))
    assert result.returncode == 0, result.stdout
    assert started(workspace) == ["one", "two", "one", "two"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--hloop-resume", "--hloop-mode", "sequential"), "'sequential', to resume a run"),
        (("two", "--hloop-resume"), "Name no targets, or add --forceall"),
        ((), "is already used: it holds a finished run"),
        (("--executor", "local", "--hloop-resume"), "is already used: it holds a finished run"),
    ],
)
def test_what_snakemake_cannot_resume_is_refused_with_a_sentence(
    workspace, waiting, make_job, options, text
):
    interrupt(workspace, waiting, make_job)
    result = workspace.run(*workspace.snakemake_argv(*options))
    assert (result.returncode, text in result.stdout) == (1, True), result.stdout
    assert started(workspace) == ["one", "two"]


def test_a_workflow_without_a_plan_is_not_resumed(workspace):
    workspace.write("Snakefile", "rule all:\n    output: 'x'\n    shell: 'touch x'\n")
    result = workspace.snakemake("--hloop-resume")
    assert result.returncode == 1
    assert "--hloop-resume: this workflow has no plan" in result.stdout


def test_a_run_that_carried_on_after_a_failure_does_so_when_it_is_resumed(workspace, make_job):
    workspace.plan(
        make_job("bad", "exit 3"), make_job("good", "[ -e go ]"),
        make_job("after", depends_on=["good"]),
        max_cpu_workers=1,
    )  # fmt: skip
    workspace.hloop_run("--keep-going")
    (workspace.root / "go").touch()
    assert workspace.run("hloop", "run", "--resume", "run").returncode == 1
    statuses = {name: job["status"] for name, job in workspace.jobs().items()}
    assert statuses == {"bad": "failed", "good": "completed", "after": "completed"}


def test_a_run_that_has_completed_keeps_its_head_when_it_is_resumed(workspace, make_job):
    workspace.plan(make_job("a"))
    workspace.hloop_run()
    before = (workspace.root / "run/hloop_run.json").read_bytes()
    result = workspace.run("hloop", "run", "--resume", "run")
    assert (result.returncode, "nothing to resume: the run has comp" in result.stdout) == (0, True)
    assert (workspace.root / "run/hloop_run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--resume", "absent"), "absent cannot be resumed: it has no plan.json"),
        (("--resume", "run", "--run-dir", "run"), "leave --run-dir out"),
        ((), "give --plan and --run-dir, or --resume"),
        (("--plan", "p", "--run-dir", "r", "-n"), "--dry-run needs --resume"),
    ],
)
def test_what_cannot_be_is_refused(workspace, options, text):
    result = workspace.run("hloop", "run", *options, env={"COLUMNS": "200"})
    assert (result.returncode, text in result.stdout) == (2, True), result.stdout


def test_runs_that_are_killed_at_random_are_resumed_until_they_are_complete(tmp_path):
    argv = [sys.executable, ROOT / "benchmarks/soak.py", "--runs", "2", "--folder", tmp_path]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
