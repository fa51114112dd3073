"""The embedded workload's programs, as modules and as processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow" / "scripts"
RESOURCES = ROOT / "resources"

# At the end, as the programs do it: select.py must not hide the standard library's select.
sys.path.append(str(SCRIPTS))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def load(path: Path) -> ModuleType:
    """Import a program under a name that nothing else has."""
    spec = importlib.util.spec_from_file_location(f"workload_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def rollout_program() -> ModuleType:
    return load(SCRIPTS / "rollout.py")


@pytest.fixture(scope="session")
def diagnose_program() -> ModuleType:
    return load(SCRIPTS / "diagnose.py")


@pytest.fixture(scope="session")
def select_program() -> ModuleType:
    return load(SCRIPTS / "select.py")


@pytest.fixture(scope="session")
def build_program() -> ModuleType:
    return load(RESOURCES / "build.py")


@pytest.fixture(scope="session")
def command() -> Callable[..., list[str]]:
    """Give the argv of a program: ``command("rollout", seed=1, steps=3)``."""

    def command(program: str, **options: object) -> list[str]:
        argv = [sys.executable, str(SCRIPTS / f"{program}.py")]
        for name, value in options.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        return argv

    return command


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a program to its end; ``device=None`` leaves MIMICX_DEVICE_ID out."""

    def run(argv: list[str], device: str | None = "0", cwd: Path = ROOT) -> object:
        environment = {k: v for k, v in os.environ.items() if k != "MIMICX_DEVICE_ID"}
        if device is not None:
            environment["MIMICX_DEVICE_ID"] = device
        return subprocess.run(argv, env=environment, cwd=cwd, capture_output=True, text=True)

    return run
