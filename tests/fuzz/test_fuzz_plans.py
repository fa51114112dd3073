"""2,000 spoilt plans: ``hloop plan`` shows each or says what is wrong with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from fuzzing import is_answer
from hloop_command import Hloop
from mutations import as_json, change_bytes, change_document

PLANS = Path(__file__).parents[1] / "data" / "plans"
GOOD = sorted((PLANS / "good").iterdir())
BAD = sorted((PLANS / "bad").iterdir())
PER_TEST, TESTS = 100, 20


def spoilt(seed: int) -> bytes:
    rng = Random(seed)
    path = rng.choice(GOOD if rng.random() < 0.7 else BAD)
    data = path.read_bytes()
    # Aliases of a bad plan may stand for millions of values.
    if path in GOOD and rng.random() < 0.7:
        return as_json(change_document(rng, document(path)))
    return change_bytes(rng, data)


@cache
def document(path: Path) -> Any:
    return yaml.safe_load(path.read_bytes())


@pytest.mark.parametrize("test", range(TESTS))
def test_a_spoilt_plan_is_shown_or_refused(
    ask: Hloop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: int
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for seed in range(test * PER_TEST, (test + 1) * PER_TEST):
        data = spoilt(seed)
        plan = tmp_path / ("plan.json" if data[:1] == b"{" and seed % 4 else "plan.yaml")
        plan.write_bytes(data)
        answer = ask("plan", plan, *(["--json"] if seed % 3 == 0 else []))
        plan.unlink()  # To write over a file takes some disks much longer.
        if answer.code == 1 or not is_answer(answer):
            wrong[seed] = answer
    assert not wrong
