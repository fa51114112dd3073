from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browsing import complaints, requested
from drawn_runs import completed_run, waves_run
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.report.benchmark import BenchmarkPaths, Protocol
from hloop.report.summary import summarize, write_summary
from hloop.report.write import write_pages
from hloop.schedule.events import Mode
from measured_runs import runs_of
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PROTOCOL = Protocol((Mode.BULK_SYNC, Mode.HLOOP), repetitions=3, wanted=3)
SECONDS = {Mode.BULK_SYNC: [12.0, 11.0, 10.0], Mode.HLOOP: [10.0, 10.0, 15.0]}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    plan = Plan("p", (Job("a", ResourceClass.CPU, ("true",)),))
    summary = summarize(plan, PROTOCOL, runs_of(PROTOCOL, SECONDS))
    write_summary(BenchmarkPaths(folder), summary)
    # Of each mode, the run that is nearest to the median.
    for make, name in (
        (waves_run, "repetition_01/bulk-sync"),
        (completed_run, "repetition_00/hloop"),
    ):
        run = make(tmp_path_factory.mktemp("run"))
        shutil.copytree(run.paths.root, folder / name)
    return write_pages(folder).page


def test_it_asks_for_nothing_but_itself(opened, page):
    assert requested(opened(page)) == {page.as_uri()}


def test_it_has_no_fault_that_the_console_tells_of(opened, page):
    assert complaints(opened(page)) == []


def test_it_says_first_whether_the_numbers_may_be_quoted(opened, page):
    verdict = opened(page).find_element(By.CSS_SELECTOR, ".verdict .status").text
    assert verdict == "✓\nthese numbers may be quoted"


def test_every_repetition_is_a_point(opened, page):
    browser = opened(page)
    points = WebDriverWait(browser, 20).until(
        lambda found: found.find_elements(By.CSS_SELECTOR, ".vega .mark-symbol path")
    )
    assert len(points) == 6


def test_the_modes_stand_one_above_the_other(opened, page):
    bands = opened(page).find_elements(By.CSS_SELECTOR, "text.band")
    assert [band.text for band in bands] == [
        "repetition_01/bulk-sync: 0.300 s",
        "repetition_00/hloop: 0.280 s",
    ]


def test_a_second_is_as_long_in_every_mode(opened, page):
    bars = opened(page).find_elements(By.CSS_SELECTOR, '.bar[aria-label^="rollout_b on"]')
    assert len({round(bar.rect["width"]) for bar in bars}) == 1


def test_each_chart_is_a_picture_too(page):
    names = {path.name for path in page.parent.glob("*.svg")}
    assert names == {"report-repetitions.svg", "report-timeline.svg"}
