"""What the fuzz tests share: the command, and real runs to spoil."""

from __future__ import annotations

from pathlib import Path

import nvml_double
import pytest
from formal_case import FormalCase
from formal_runs import Bench
from fuzzing import Spoilt, ask
from tampering import run_small

__all__ = ["ask"]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    """A run of four small jobs."""
    root = tmp_path_factory.mktemp("fuzz") / "root"
    run_small(root)
    return Spoilt.of(root / "run")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run of the same plan."""
    root = tmp_path_factory.mktemp("other") / "root"
    run_small(root)
    return root / "run"


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> FormalCase:
    return FormalCase(tmp_path_factory.mktemp("case") / "repository", seeds=(1,))


@pytest.fixture(scope="session")
def formal_run(case: FormalCase, tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    """A formal run of four jobs."""
    library = tmp_path_factory.mktemp("nvml")
    nvml_double.build(library)
    return Spoilt.of(Bench(library).formal_run(case))
