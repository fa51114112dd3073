"""Which completed runs are those that a benchmark planned."""

from __future__ import annotations

from hloop.report.benchmark import PlannedRun
from hloop.report.measuring import unfit
from hloop.schedule.events import Mode

PLANNED = PlannedRun("repetition_00", 0, 0, Mode.HLOOP)


def test_a_run_of_the_planned_mode_is():
    assert unfit({"mode": "hloop", "evidence": {}}, PLANNED) == ""


def test_a_run_of_another_mode_is_not():
    assert unfit({"mode": "sequential", "evidence": {}}, PLANNED) == "its mode is sequential"


def test_a_run_that_was_resumed_is_not():
    report = {"mode": "hloop", "evidence": {"resumed": [{"path": "${RUN_DIR}/resumed/1"}]}}
    assert unfit(report, PLANNED).startswith("it was resumed")
