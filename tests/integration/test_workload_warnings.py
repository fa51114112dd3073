"""What a workload may not mean is said by whatever makes a plan of it."""

from __future__ import annotations

import json

import pytest
from hloop.files import data_dir

WORKLOAD = {
    "schema": "hloop.workload.v1",
    "plan_id": "untold",
    "axes": {"lr": ["0.1", "0.2"]},
    "stages": {
        "train": {
            "over": ["lr"],
            "resource": "cpu",
            "outputs": {"model": "{run_dir}/<lr>/model"},
            "command": ["touch", "<outputs.model>"],
        }
    },
}
SNAKEFILE = data_dir("workflow") / "Snakefile"
CALLS = {
    "prepare": ("hloop", "prepare", "--config", "w.json", "--dry-run"),
    "benchmark": ("hloop", "benchmark", "--config", "w.json", "--run-dir", "b", "--prepare-only"),
    "snakemake": (
        *("snakemake", "--snakefile", str(SNAKEFILE), "--workflow-profile", "none", "--dry-run"),
        *("--config", "workload=w.json", "run_dir=run"),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_axis_that_a_command_is_not_told_is_warned_of(workspace, call):
    workspace.write("w.json", json.dumps(WORKLOAD))
    result = workspace.run(*CALLS[call])
    assert result.stdout.count("stage 'train' runs over 'lr', but its command is not told it") == 1
