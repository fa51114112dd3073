"""The ``hloop`` command in this process, and a small formal run to spoil."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nvml_double
import pytest
from formal_case import FormalCase
from formal_runs import Bench
from hloop_command import hloop

__all__ = ["hloop"]


@pytest.fixture
def case(tmp_path: Path) -> FormalCase:
    return FormalCase(tmp_path / "repository")


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("nvml")
    nvml_double.build(folder)
    return Bench(folder)


@dataclass(frozen=True)
class Ended:
    """A formal run that has ended, and what it was made of."""

    case: FormalCase
    run_dir: Path


@pytest.fixture(scope="session")
def successful(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Two methods, one seed: two jobs that train and two that evaluate. All completed."""
    case = FormalCase(tmp_path_factory.mktemp("successful") / "repository", seeds=(1,))
    return Ended(case, bench.formal_run(case))


@pytest.fixture(scope="session")
def failing(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """As :func:`successful`, with two seeds: one job crashes, one runs out of time."""
    case = FormalCase(tmp_path_factory.mktemp("failing") / "repository")
    for job in case.document["jobs"]:
        if job["job_id"] == "train_repho_2":
            job |= {"cwd": "source", "command": ["sh", "-c", "exit 3"]}
        if job["job_id"] == "train_ppo_1":
            job |= {"cwd": "source", "command": ["sleep", "60"], "budget": {"max_seconds": 1}}
    case.write()
    return Ended(case, bench.formal_run(case))
