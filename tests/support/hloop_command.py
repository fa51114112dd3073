"""The ``hloop`` command in this process, as a user would call it: the fixture ``hloop``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hloop.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout, which is one JSON document and nothing else."""
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
