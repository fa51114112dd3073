"""What once ended in a traceback, each by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Spoilt, is_answer
from hloop_command import Hloop


def set_time(report: Any) -> None:
    report["completed_at"] = "0"


def set_time_before_all_zones(report: Any) -> None:
    report["jobs"][0]["started_at"] = "0001-01-01T00:00:00+14:00"


def drop_memory(report: Any) -> None:
    del report["jobs"][0]["max_rss_bytes"]


def drop_versions(report: Any) -> None:
    del report["versions"]


@pytest.mark.parametrize(
    "spoil", [set_time, set_time_before_all_zones, drop_memory, drop_versions]
)
def test_a_report_that_is_not_hloops_own_is_not_exported(
    ask: Hloop, run: Spoilt, tmp_path: Path, spoil: Callable[[Any], None]
) -> None:
    answer = export(ask, run, tmp_path, spoil)
    assert (answer.code, is_answer(answer)) == (2, True)


def forget_version(report: Any) -> None:
    del report["versions"]["hloop"]


def fail_without_a_reason(report: Any) -> None:
    report["jobs"][0] |= {"status": "failed", "failure": None}


def put_half_a_surrogate_pair(report: Any) -> None:
    # What a job's argument becomes that is not UTF-8.
    report["jobs"][0]["command"].append("\ud800")


@pytest.mark.parametrize(
    "spoil", [forget_version, fail_without_a_reason, put_half_a_surrogate_pair]
)
def test_an_odd_report_is_exported(
    ask: Hloop, run: Spoilt, tmp_path: Path, spoil: Callable[[Any], None]
) -> None:
    assert export(ask, run, tmp_path, spoil).code == 0


def export(ask: Hloop, run: Spoilt, tmp_path: Path, spoil: Callable[[Any], None]) -> Any:
    path = run.root / "hloop_run.json"
    report = json.loads(path.read_bytes())
    spoil(report)
    try:
        path.write_text(json.dumps(report))
        return ask("export", run.root, "--crate", tmp_path / "crate")
    finally:
        path.write_bytes(run.files[path])
