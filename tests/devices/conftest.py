"""The NVML double: compiled once, then asked in a process of its own for every scenario."""

import json
import os
import subprocess
import sys

import nvml_double
import pytest


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    """The folder that holds the double as ``libnvidia-ml.so.1``."""
    folder = tmp_path_factory.mktemp("nvml")
    nvml_double.build(folder)
    return folder


@pytest.fixture
def with_nvml(nvml_library, tmp_path):
    """Run Python code where NVML reports ``state``; give what it printed, read as JSON."""

    def run(code, state, **environ):
        (tmp_path / "state.txt").write_text(state)
        environ |= {"FAKE_NVML": str(tmp_path / "state.txt"), "LD_LIBRARY_PATH": str(nvml_library)}
        return python(code, environ)

    return run


@pytest.fixture
def without_nvml(tmp_path):
    """Run Python code where the NVML library cannot be loaded."""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")

    def run(code, **environ):
        return python(code, environ | {"LD_LIBRARY_PATH": str(tmp_path)})

    return run


def python(code, environ):
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("CUDA_")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=inherited | environ, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
