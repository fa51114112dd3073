"""A secret of the environment is in no file of a run, and in nothing that hloop prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hloop.files import data_dir

CANARY = "canary-6c1f0e"

ENVIRONMENT = {
    name: CANARY
    for name in (
        *("SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SLURM_JWT", "WANDB_API_KEY"),
        # Almost names of the list.
        *("CUDA_VISIBLE_DEVICES_TOKEN", "OMP_NUM_THREADS_", "XLA_FLAGS_SECRET", "TF_CONFIG"),
        *("LC_SECRET", "CONDA_TOKEN", "cublas_workspace_config", "HLOOP_SECRET"),
    )
} | {"PIP_INDEX_URL": f"https://user:{CANARY}@example.org/simple"}

PLAN = """
schema_version: mimicx.hloop-plan.v1
plan_id: secrets
jobs:
  - job_id: ends-well
    resource: gpu
    cuda_visible_devices: "0"
    command: [sh, -c, "sleep 0.1; echo done | tee {run_dir}/out"]
    outputs: [{role: out, path: "{run_dir}/out"}]
  - job_id: fails
    resource: cpu
    command: [sh, script.sh]
  - job_id: cannot-start
    resource: cpu
    command: [/nowhere/program]
  - job_id: is-never-run
    resource: cpu
    depends_on: [fails]
    command: ["true"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that was cloned with a password, with a difference to its commit."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "plan.yaml").write_text(PLAN)
    (root / "script.sh").write_text("echo failing >&2; exit 3\n")
    url = f"https://user:{CANARY}@example.org/r.git"
    for arguments in (
        ["init", "-q"],
        ["remote", "add", "origin", url],
        ["config", f"http.{url}.extraHeader", f"Authorization: {CANARY}"],
        ["add", "."],
        ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    (root / "script.sh").write_text("echo failing still >&2; exit 3\n")
    return root


def files_with_the_canary(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if CANARY in path.name or (path.is_file() and CANARY.encode() in path.read_bytes())
    ]


SNAKEFILE = str(data_dir("workflow") / "Snakefile")
RUNS = {
    "hloop": [
        *("hloop", "run", "--plan", "plan.yaml", "--run-dir", "run"),
        *("--keep-going", "--devices", "simulated:1"),
    ],
    "local": [
        *("snakemake", "--snakefile", SNAKEFILE, "--executor", "local", "--cores", "2"),
        *("--keep-going", "--config", "plan=plan.yaml", "run_dir=run", "repo_root=."),
        "devices=simulated:1",
    ],
}


@pytest.mark.parametrize("executor", RUNS)
def test_a_secret_of_the_environment_is_in_no_file_of_a_run(
    repository: Path, executor: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *RUNS[executor]],
        cwd=repository,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    run = repository / "run"
    # There is something to look at: what was made before, while and after jobs ran.
    made = ("manifest.json", "hloop_run.json", "jobs/ends-well/run_record.json")
    assert all((run / name).exists() for name in made), done.stdout
    assert files_with_the_canary(run) == []
    assert CANARY.encode() not in done.stdout
