"""The NVML double: a small library that reports what a text file says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NVML = Path(__file__).parents[1] / "data/nvml"


def build(folder: Path) -> None:
    """Compile the double as ``libnvidia-ml.so.1``."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.fail("these tests compile a small C library: install a C compiler (gcc or cc)")
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-include", "strings.h"]
    names = ["-Wl,-soname,libnvidia-ml.so.1", "-o", folder / "libnvidia-ml.so.1"]
    subprocess.run([compiler, *flags, *names, NVML / "fake_nvml.c"], check=True)


def environment(library: Path, state: Path) -> dict[str, str]:
    """The environment in which NVML reports ``state``, and nothing else is known of devices."""
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("CUDA_")}
    return inherited | {"FAKE_NVML": str(state), "LD_LIBRARY_PATH": str(library)}
