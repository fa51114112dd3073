"""Formal runs that ended, on GPUs that the NVML double reports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nvml_double
from formal_case import FormalCase

GPUS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-18ef14e9-dec6-1d38-1284-3010c6ce98b1")


@dataclass(frozen=True)
class Bench:
    """Where formal runs can be made.

    Attributes:
        library: the folder with the NVML double.
    """

    library: Path

    def run(self, argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a Python module where there are two GPUs."""
        environment = nvml_double.environment(self.library, nvml_double.NVML / "two_gpus.txt")
        return subprocess.run(
            [sys.executable, "-m", *argv],
            cwd=cwd,
            env=environment | {"CUDA_VISIBLE_DEVICES": ",".join(GPUS)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def formal_run(self, case: FormalCase, name: str = "run") -> Path:
        """Make the gate and run formally. Gives the run directory, however the run ended."""
        passed = self.run(["hloop", *case.arguments()], case.root)
        assert passed.returncode == 0, passed.stderr
        run_dir = case.root.parent / name
        ended = self.run(["hloop", *options(case, run_dir), "--keep-going"], case.root)
        assert ended.returncode in (0, 1), ended.stderr
        return run_dir


def options(case: FormalCase, run_dir: Path) -> list[str]:
    """What ``hloop`` is called with to run a case formally."""
    given = {
        "--plan": case.plan,
        "--repo-root": case.root,
        "--run-dir": run_dir,
        "--gate": case.gate,
    }
    return ["run", *(str(item) for pair in given.items() for item in pair), "--formal"]
