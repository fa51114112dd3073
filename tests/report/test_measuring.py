"""Which completed runs are those that a benchmark planned."""

from __future__ import annotations

import pytest
from hloop.report.benchmark import PlannedRun, Protocol
from hloop.report.measuring import unfit
from hloop.schedule.events import Mode

PLANNED = PlannedRun("repetition_00", 0, 0, Mode.HLOOP)
PROTOCOL = Protocol((Mode.HLOOP,), cpu_workers=4)
REPORT = {
    "mode": "hloop",
    "evidence": {},
    "scheduling": {"placement": "pinned", "limits": {"cpu": 4, "io": 2}},
}


def test_a_run_as_it_was_planned_is():
    assert unfit(REPORT, PLANNED, PROTOCOL) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mode": "sequential"}, "its mode is sequential"),
        (
            {"scheduling": {"placement": "any", "limits": {"cpu": 4, "io": 2}}},
            "its placement is any",
        ),
        (
            {"scheduling": {"placement": "pinned", "limits": {"cpu": 3, "io": 2}}},
            "its limit of cpu workers is 3",
        ),
        (
            {"evidence": {"resumed": [{"path": "${RUN_DIR}/resumed/1"}]}},
            "it was resumed, so that its times are those of several sessions",
        ),
    ],
)
def test_any_other_run_is_not(change: dict[str, object], why: str):
    assert unfit({**REPORT, **change}, PLANNED, PROTOCOL) == why
