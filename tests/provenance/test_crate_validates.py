"""An exported run is a Provenance Run Crate: roc-validator says so, and needs no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ended_runs import external, run_plan
from hloop.provenance.crate import export_crate
from supervised import job, output


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    motion = folder / "motion.txt"
    motion.write_text("motion\n")
    odd = "öd d#?%.txt"
    return run_plan(
        folder,
        job(
            "rollout",
            f"cat {motion} > '{{run_dir}}/{odd}'",
            "gpu",
            seed=7,
            environment={"PACE": "slow"},
            inputs=[external(motion)],
            outputs=[output(odd)],
        ),
        job(
            "grow",
            "mkdir -p {run_dir}/tree/empty; echo deep > {run_dir}/tree/deep",
            depends_on=["rollout"],
            inputs=[output(odd)],
            outputs=[{**output("tree"), "type": "directory"}],
        ),
        job("break", "exit 3", outputs=[output("never")]),
        job("after", depends_on=["break"], inputs=[output("never")]),
    )


def validated(crate: Path) -> tuple[int, list[str]]:
    """What roc-validator exits with, and what it finds. Every connection is refused to it."""
    nowhere = "http://127.0.0.1:1"
    process = subprocess.run(
        [
            *(sys.executable, "-c", "from rocrate_validator.cli import cli; cli()"),
            *("--no-interactive", "validate", "--no-paging", "--output-format", "json"),
            *("--profile-identifier", "provenance-run-crate-0.5"),
            *("--requirement-severity", "required", "--output-file", "found.json", str(crate)),
        ],
        cwd=crate.parent,
        env={
            **os.environ,
            # No answers kept from earlier either.
            "HOME": str(crate.parent),
            "XDG_CACHE_HOME": str(crate.parent),
            **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), nowhere),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads((crate.parent / "found.json").read_text())
    return process.returncode, [issue["message"] for issue in found["issues"]]


@pytest.mark.parametrize("inputs", [True, False], ids=["inputs", "no inputs"])
def test_a_failed_run_passes(run_dir: Path, tmp_path: Path, inputs: bool):
    export_crate(run_dir, tmp_path / "crate", inputs=inputs)
    assert validated(tmp_path / "crate") == (0, [])


def test_a_run_without_a_single_job_done_passes(tmp_path: Path):
    run_dir = run_plan(tmp_path, job("break", "exit 1"))
    export_crate(run_dir, tmp_path / "crate")
    assert validated(tmp_path / "crate") == (0, [])


def test_a_crate_that_breaks_the_profile_does_not_pass(run_dir: Path, tmp_path: Path):
    export_crate(run_dir, tmp_path / "crate")
    metadata = tmp_path / "crate/ro-crate-metadata.json"
    document = json.loads(metadata.read_text())
    action = next(entity for entity in document["@graph"] if entity["@id"] == "#job/rollout")
    del action["instrument"]
    metadata.write_text(json.dumps(document))
    code, problems = validated(tmp_path / "crate")
    assert code == 1 and any("instrument" in problem for problem in problems)


def test_a_crate_that_lacks_a_file_does_not_pass(run_dir: Path, tmp_path: Path):
    export_crate(run_dir, tmp_path / "crate")
    (tmp_path / "crate/run/jobs/rollout/stdout.log").unlink()
    code, problems = validated(tmp_path / "crate")
    assert code == 1 and any("stdout.log" in problem for problem in problems)
