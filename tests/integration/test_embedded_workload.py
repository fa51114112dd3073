"""The embedded workload as the README runs it: in the repository's root, in each mode."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MODES = ("sequential", "hloop", "bulk-sync")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with the run of each mode, under the mode's name."""
    folder = tmp_path_factory.mktemp("runs")
    for mode in MODES:
        options = ["--hloop-mode", mode, "--config", f"run_dir={folder / mode}"]
        subprocess.run(
            [sys.executable, "-m", "snakemake", "--executor", "hloop", *options],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            timeout=300,
        )
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_every_job_is_in_the_report(runs, mode):
    report = json.loads((runs / mode / "hloop_run.json").read_text())
    assert (report["status"], len(report["jobs"])) == ("completed", 17)


@pytest.mark.parametrize("mode", MODES)
def test_the_report_says_that_the_demos_devices_are_simulated(runs, mode):
    report = json.loads((runs / mode / "hloop_run.json").read_text())
    assert [device["simulated"] for device in report["devices"]] == [True, True]


@pytest.mark.parametrize("pair", [*combinations(MODES, 2)])
def test_the_modes_agree_on_the_embedded_workload(runs, pair):
    one, other = (str(runs / mode) for mode in pair)
    verdict = subprocess.run(
        [sys.executable, "-m", "hloop", "compare", "--baseline", one, "--candidate", other],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert verdict.returncode == 0, verdict.stdout


def test_the_selection_has_something_to_decide(runs):
    selection = json.loads((runs / "hloop/selection.json").read_text())
    accepted = {row["accepted"] for row in selection["rows"]}
    assert accepted == {True, False}


def test_a_second_run_as_configured_says_what_to_do(tmp_path):
    """In a copy of the repository's root, with nothing but the executor on the command line."""
    for name in ("workflow", "config", "resources"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    first, second = (
        subprocess.run(
            [sys.executable, "-m", "snakemake", "--executor", "hloop"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 1), first.stderr
    assert "runs/demo is already used" in second.stderr
    assert "Choose another run directory" in second.stderr


def test_a_foreign_executor_that_fails_leaves_a_report_too(workspace, make_job):
    workspace.plan(make_job("bad", "exit 3"), make_job("after", depends_on=["bad"]))
    result = workspace.run(*workspace.snakemake_argv("--executor", "local"))
    assert result.returncode == 1
    statuses = {job_id: job["status"] for job_id, job in workspace.jobs().items()}
    assert statuses == {"bad": "failed", "after": "skipped"}
