"""The embedded workload as the README runs it: in the repository's root, in each mode."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
MODES = ("sequential", "hloop", "bulk-sync")


def test_the_modes_agree_on_the_embedded_workload(tmp_path):
    for mode in MODES:
        options = ["--hloop-mode", mode, "--config", f"run_dir={tmp_path / mode}"]
        subprocess.run(
            [sys.executable, "-m", "snakemake", "--executor", "hloop", *options],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            timeout=300,
        )
    reports = [json.loads((tmp_path / mode / "hloop_run.json").read_text()) for mode in MODES]
    assert [len(report["jobs"]) for report in reports] == [17, 17, 17]
    verdicts = [
        subprocess.run(
            [sys.executable, "-m", "hloop", "compare"]
            + ["--baseline", str(tmp_path / one), "--candidate", str(tmp_path / other)],
            capture_output=True,
            timeout=120,
        ).returncode
        for one, other in combinations(MODES, 2)
    ]
    assert verdicts == [0, 0, 0]


def test_the_selection_has_something_to_decide(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--executor", "hloop"]
        + ["--config", f"run_dir={tmp_path / 'run'}"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        timeout=300,
    )
    selection = json.loads((tmp_path / "run/selection.json").read_text())
    accepted = {row["accepted"] for row in selection["rows"]}
    assert accepted == {True, False}


def test_a_foreign_executor_that_fails_leaves_a_report_too(workspace, make_job):
    workspace.plan(make_job("bad", "exit 3"), make_job("after", depends_on=["bad"]))
    result = workspace.run(*workspace.snakemake_argv("--executor", "local"))
    assert result.returncode == 1
    statuses = {job_id: job["status"] for job_id, job in workspace.jobs().items()}
    assert statuses == {"bad": "failed", "after": "skipped"}
