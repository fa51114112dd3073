"""Snakemake's own tests of an executor, run for hloop in this process.

Left as they are, the classes collect no test without a word: ``__test__`` is inherited.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake_executor_plugin_hloop import ExecutorSettings

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Give back what Snakemake itself changes in its process: the folder, and SIGTERM."""
    folder, handler = os.getcwd(), signal.getsignal(signal.SIGTERM)
    yield
    os.chdir(folder)
    signal.signal(signal.SIGTERM, handler)


class TestWorkflows(TestWorkflowsLocalStorageBase):
    __test__ = True
    latency_wait = 0

    def get_executor(self) -> str:
        return "hloop"

    def get_executor_settings(self) -> ExecutorSettings:
        return ExecutorSettings(devices="simulated:2")


def run_simple(folder: Path) -> None:
    TestWorkflows().run_workflow("simple", folder)


def test_signal_handlers_are_as_snakemake_leaves_them_without_hloop(tmp_path: Path) -> None:
    class Local(TestWorkflows):
        __test__ = False

        def get_executor(self) -> str:
            return "local"

        def get_executor_settings(self) -> Any:
            return None

    def handlers() -> list[str]:
        return [str(getattr(signal.getsignal(n), "__name__", n)) for n in SIGNALS]

    Local().run_workflow("simple", tmp_path / "local")
    without = handlers()
    run_simple(tmp_path / "hloop")
    assert handlers() == without


def test_two_workflows_can_run_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    for name in ("first", "second"):
        run_simple(tmp_path / name)
        assert (tmp_path / name / "simple/test1.out").exists()


def test_snakemakes_two_tests_are_collected() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", __file__ + "::TestWorkflows"],
        capture_output=True,
        text=True,
    )
    names = [line.rpartition("::")[2] for line in result.stdout.splitlines() if "::" in line]
    assert names == ["test_simple_workflow", "test_group_workflow"]
