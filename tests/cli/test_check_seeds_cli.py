"""`hloop check-seeds`, on real runs: a program that uses its seed, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

JOB = """
  - job_id: {name}
    resource: io
    seed: {seed}
    command: [sh, -c, '{script}', sh, "{seed}", "{{run_dir}}/{name}"]
    outputs: [{{role: x, path: "{{run_dir}}/{name}"}}]"""
PLAN = "schema_version: mimicx.hloop-plan.v1\nplan_id: seeds\njobs:"


@pytest.mark.parametrize(
    ("script", "second", "code", "words"),
    [
        ('expr "$1" \\* 1664525 > "$2"', 2, 0, "1 pairs of different seeds, 0 of the same"),
        ('echo "seed $1: done" > "$2"', 2, 1, "accepted and ignored"),
        ('echo "$1" > "$2"', 1, 2, "there is no answer"),
    ],
)
def test_it_tells_whether_a_seed_was_used(
    hloop: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    second: int,
    code: int,
    words: str,
) -> None:
    plan = tmp_path / "plan.yaml"
    jobs = (JOB.format(name=n, seed=s, script=script) for n, s in (("one", 1), ("two", second)))
    plan.write_text(PLAN + "".join(jobs))
    run = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    assert hloop("run", "--plan", plan, "--run-dir", run).code == 0
    outcome = hloop("check-seeds", run)
    assert (outcome.code, words in outcome.out) == (code, True)
