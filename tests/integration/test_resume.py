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


def test_snakemake_resumes_a_run_where_it_is_told_to_leave_the_choice(
    workspace, waiting, make_job
):
    interrupt(workspace, waiting, make_job)
    argv = workspace.snakemake_argv("--forceall")
    config = argv.index("--config")
    result = workspace.run(*argv[:config], "--config", "run_dir=run", "resume=True")
    assert result.returncode == 0, result.stdout
    assert "hloop: kept   one: its records hold" in result.stdout
    assert started(workspace) == ["one", "two", "two"]


def test_snakemake_alone_does_not_choose_what_is_done(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    argv = workspace.snakemake_argv()
    config = argv.index("--config")
    result = workspace.run(*argv[:config], "--config", "run_dir=run", "resume=True")
    assert result.returncode == 1
    assert "Add --forceall" in result.stdout


def test_another_executor_does_not_resume(workspace, waiting, make_job):
    interrupt(workspace, waiting, make_job)
    argv = [*workspace.snakemake_argv("--forceall")]
    argv[argv.index("--executor") + 1] = "local"
    del argv[argv.index("--hloop-devices") : argv.index("--hloop-devices") + 2]
    config = argv.index("--config")
    result = workspace.run(*argv[:config], "--config", "run_dir=run", "resume=True")
    assert result.returncode == 1
    assert "Use --executor hloop" in result.stdout


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
