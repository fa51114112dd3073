"""The architecture of devices, asked of the NVML double, and jobs that are for another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nvml_double
import pytest
from source_tree import ROOT

PLAN = """
schema_version: mimicx.hloop-plan.v1
plan_id: one
jobs:
  - job_id: train
    resource: gpu
    cuda_visible_devices: "{device}"
    command: ["true"]
    environment: {{HLOOP_ARCHITECTURE: {architecture}}}
"""
CAPABILITIES = "cc 0 8 9\ncc 1 9 0\ncc 2 8 0\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    nvml_double.build(folder)
    return folder


ASK = """
import os, sys
from hloop.errors import DeviceError
from hloop.plan.load import load_plan
from hloop.run.settings import RunSettings
from hloop.schedule.events import Placement
settings = RunSettings(devices=sys.argv[2], placement=Placement(sys.argv[3]))
try:
    settings.resolve(load_plan(sys.argv[1]), os.environ)
except DeviceError as error:
    print(error)
"""


def refusal(
    folder: Path,
    library: Path,
    *,
    device: int,
    capabilities: str = CAPABILITIES,
    devices: str = "auto",
    placement: str = "pinned",
) -> str:
    """Begin a run of a job for sm_90, in a process of its own, and give what it is told."""
    plan, environment = prepared(folder, library, device, capabilities)
    command = [sys.executable, "-c", ASK, plan, devices, placement]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def prepared(
    folder: Path, library: Path, device: int, capabilities: str = CAPABILITIES
) -> tuple[Path, dict[str, str]]:
    """Give a plan with a job for sm_90 on a device, and the environment of a run of it."""
    state = folder / "state.txt"
    state.write_text((nvml_double.NVML / "two_gpus.txt").read_text() + capabilities)
    plan = folder / "plan.yaml"
    plan.write_text(PLAN.format(device=device, architecture="sm_90"))
    return plan, {
        **nvml_double.environment(library, state),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


SNAKEMAKE = ("-m", "snakemake", "-s", str(ROOT / "workflow/Snakefile"), "--cores", "1")


def test_snakemake_starts_nothing_on_another_architecture(tmp_path: Path, library: Path) -> None:
    plan, environment = prepared(tmp_path, library, device=0)
    settings = (f"plan={plan}", f"run_dir={tmp_path}/run", f"repo_root={tmp_path}", "devices=auto")
    ended = subprocess.run(
        [sys.executable, *SNAKEMAKE, "--executor", "hloop", "--config", *settings],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "is sm_89, and job train is for sm_90" in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_device_of_the_right_architecture_is_taken(tmp_path: Path, library: Path) -> None:
    assert refusal(tmp_path, library, device=1) == ""


def test_a_device_of_another_architecture_is_refused(tmp_path: Path, library: Path) -> None:
    told = refusal(tmp_path, library, device=0)
    assert "(NVIDIA A100-SXM4-80GB) is sm_89, and job train is for sm_90" in told


def test_a_job_that_may_run_anywhere_needs_all_devices(tmp_path: Path, library: Path) -> None:
    assert "device 0" in refusal(tmp_path, library, device=1, placement="any")


def test_a_device_that_does_not_tell_is_taken(tmp_path: Path, library: Path) -> None:
    assert refusal(tmp_path, library, device=0, capabilities="") == ""


def test_simulated_devices_are_of_every_architecture(tmp_path: Path, library: Path) -> None:
    assert refusal(tmp_path, library, device=0, devices="simulated:2") == ""
