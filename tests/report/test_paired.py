"""Rows of two runs of one fast path, pair by pair; what may not be paired is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import ReportError
from hloop.report.oraclerows import RowRules
from hloop.report.paired import compare_paired

RULES = RowRules(("seed",), {"latency_ms": "wall clock"}, {})


def write_run(
    root: Path,
    values: Sequence[Any],
    schedule: str = "lockstep-v1",
    workers: int | None = 2,
    seeds: Sequence[int] = (0, 1, 2),
) -> Path:
    """Write a run of one job with these values in its rows, as its report has it."""
    root.mkdir()
    rows = [{"seed": n, "v": value, "latency_ms": id(root)} for n, value in enumerate(values)]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"schedule": schedule, "workers": workers, "seeds": seeds}
    (root / "settings.json").write_text(json.dumps(settings))
    outputs = [
        {
            "role": role,
            "path": f"${{RUN_DIR}}/{name}",
            "sha256": hashlib.sha256((root / name).read_bytes()).hexdigest(),
            "size_bytes": (root / name).stat().st_size,
        }
        for role, name in (("rows", "rows.jsonl"), ("settings", "settings.json"))
    ]
    job = {"job_id": "fast", "outputs": outputs}
    report = {"schema_version": "mimicx.hloop-run.v1", "jobs": [job]}
    (root / "hloop_run.json").write_text(json.dumps(report))
    return root


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return write_run(tmp_path / "baseline", [1.0, 2.0, 4.0])


def test_pairs_that_are_the_same_pass(baseline: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [1.0, 2.0, 4.0])
    assert compare_paired(baseline, other, RULES)["passed"] is True


def test_the_differences_of_pairs_are_summed_up(baseline: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [1.0, 2.5, 2.0])
    found = compare_paired(baseline, other, RULES)
    expected = {"mean": -0.5, "largest": 2.0, "moved": 2, "pairs": 3}
    assert (found["passed"], found["fields"]) == (False, {"v": expected})


def test_a_field_that_is_no_number_in_every_pair_has_no_mean(
    baseline: Path, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "other", [1.0, float("nan"), None])
    assert compare_paired(baseline, other, RULES)["fields"] == {}


def test_a_row_without_its_pair_does_not_pass(baseline: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [1.0, 2.0])
    found = compare_paired(baseline, other, RULES)
    assert (found["passed"], len(found["rows"]["missing"])) == (False, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": 8}, "ran in lockstep-v1 with 8 workers"),
        ({"schedule": "lockstep-v2"}, "ran in lockstep-v2 with 2 workers"),
        ({"schedule": "one-by-one", "workers": None}, "a run of the slow path"),
        ({"seeds": (2, 1, 0)}, "ran other seeds, or in another order"),
    ],
)
def test_what_may_not_be_paired_is_refused(
    baseline: Path, tmp_path: Path, changes: Any, message: str
) -> None:
    other = write_run(tmp_path / "other", [1.0, 2.0, 4.0], **changes)
    for pair in ((baseline, other), (other, baseline)):
        with pytest.raises(ReportError):
            compare_paired(*pair, RULES)
    with pytest.raises(ReportError, match=message):
        compare_paired(baseline, other, RULES)


def test_two_runs_of_the_slow_path_are_refused(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / n, [1.0], "one-by-one", None) for n in ("a", "b")]
    with pytest.raises(ReportError, match="a run of the slow path"):
        compare_paired(*runs, RULES)


def test_rows_that_were_altered_are_refused(baseline: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [1.0, 2.5, 4.0])
    (other / "rows.jsonl").write_bytes((baseline / "rows.jsonl").read_bytes())
    with pytest.raises(ReportError, match="has not the digest"):
        compare_paired(baseline, other, RULES)


def test_a_run_without_rows_is_refused(baseline: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [1.0])
    report = json.loads((other / "hloop_run.json").read_text())
    report["jobs"][0]["outputs"].pop(0)
    (other / "hloop_run.json").write_text(json.dumps(report))
    with pytest.raises(ReportError, match="no job has outputs of the roles"):
        compare_paired(baseline, other, RULES)


def test_a_run_is_not_paired_with_itself(baseline: Path) -> None:
    with pytest.raises(ReportError, match="both are one run"):
        compare_paired(baseline, baseline, RULES)
