"""The ``hloop`` command in this process, and a small formal run to spoil."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nvml_double
import pytest
from formal_case import FormalCase
from formal_runs import Bench
from hloop.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def codes(self) -> list[str]:
        """The codes of the problems, with ``--json``."""
        return [problem["code"] for problem in self.document["problems"]]


Hloop = Callable[..., Outcome]


@pytest.fixture
def hloop(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hloop:
    """Run ``hloop`` with these arguments."""

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["hloop", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Outcome(int(end.value.code or 0), captured.out, captured.err)

    return call


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
