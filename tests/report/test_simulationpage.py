from __future__ import annotations

import json

import pytest
from hloop.errors import ReportError
from hloop.report import simulationpage
from hloop.report.durations import Durations
from hloop.report.simulation import SIMULATION_NAME, Question, simulation
from hloop.report.simulationpage import read_simulation, simulation_bands, simulation_page
from synthetic_run import PLAN

SECONDS = {"rollout_a": 2, "rollout_b": 4, "diagnose_a": 1, "diagnose_b": 1, "select": 1}
TIMES = Durations("plan", seconds_ns={name: value * 10**9 for name, value in SECONDS.items()})


@pytest.fixture
def document():
    return json.loads(json.dumps(simulation(PLAN, TIMES, Question())))


def test_every_simulated_run_is_a_band(document):
    titles = [band["title"] for band in simulation_bands(document)]
    assert titles == [
        "sequential, 2 devices: 9.000 s",
        "hloop, 2 devices: 6.000 s",
        "bulk-sync, 2 devices: 6.000 s",
    ]


def test_what_is_too_much_to_draw_is_left_out_and_said(document, monkeypatch):
    monkeypatch.setattr(simulationpage, "MAX_BARS", 9)
    page = simulation_page(document, simulation_bands(document))
    assert "2 of them are not drawn" in page


def test_a_page_says_that_nothing_was_run(document):
    assert "Nothing was run" in simulation_page(document, simulation_bands(document))


def test_a_simulation_without_timelines_has_a_page(document):
    for prediction in document["predictions"]:
        del prediction["jobs"]
    assert 'id="timeline"' not in simulation_page(document, simulation_bands(document))


def test_what_is_no_simulation_is_refused(tmp_path):
    (tmp_path / SIMULATION_NAME).write_text("{}")
    with pytest.raises(ReportError):
        read_simulation(tmp_path)
