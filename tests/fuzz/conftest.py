"""What the fuzz tests share: the command, and real runs to spoil."""

from __future__ import annotations

from pathlib import Path

import nvml_double
import pytest
from formal_case import FormalCase
from formal_runs import Bench
from fuzzing import Spoilt, ask
from hloop_command import hloop
from supervised import Supervised, job, output, rendered
from tampering import FOLDER

__all__ = ["ask", "hloop"]


def run_two_jobs(root: Path) -> Path:
    """Run two jobs that have something of everything, and give the run directory."""
    make = 'mkdir -p "$0"; echo x > "$0/x"; echo "{}" > "$1"'
    make_outputs = [FOLDER, {**output("copy"), "checkpoint": "policy"}]
    plan = rendered(
        root,
        job(
            "make",
            resource="gpu",
            command=["sh", "-c", make, "{run_dir}/folder", "{run_dir}/copy"],
            outputs=make_outputs,
            environment={"WHERE": "{run_dir}/folder"},
            seed=3,
            candidate_id="a",
            budget={"max_seconds": 30.5},
        ),
        job(
            "select",
            command=["cp", "{run_dir}/copy", "{run_dir}/selection.json"],
            inputs=[FOLDER, output("copy")],
            outputs=[output("selection.json")],
            depends_on=["make"],
        ),
        selection_artifact="{run_dir}/selection.json",
    )
    supervised = Supervised(root)
    try:
        supervised.open(plan)
        for name in ("make", "select"):
            supervised.ready(name)
            assert supervised.ended(name) == ["completed"]
        supervised.close()
    finally:
        supervised.end()
    return root / "run"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    return Spoilt.of(run_two_jobs(tmp_path_factory.mktemp("fuzz")))


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run of the same plan."""
    return run_two_jobs(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> FormalCase:
    return FormalCase(tmp_path_factory.mktemp("case") / "repository", seeds=(1,))


@pytest.fixture(scope="session")
def formal_run(case: FormalCase, tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    """A formal run of four jobs."""
    library = tmp_path_factory.mktemp("nvml")
    nvml_double.build(library)
    return Spoilt.of(Bench(library).formal_run(case))
