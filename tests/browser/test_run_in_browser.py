from __future__ import annotations

import json
from pathlib import Path

import pytest
from browsing import complaints, requested
from drawn_runs import completed_run, evil_run, failed_run, many_jobs, waves_run
from hloop.report.write import write_run_page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

MAKERS = {
    "completed": completed_run,
    "failed": failed_run,
    "waves": waves_run,
    "evil": evil_run,
}

# With the page scrolled to each job in turn and the job pointed at: those that are covered then.
COVERED = """
return [...document.querySelectorAll('.bar')].filter((bar) => {
  return ['start', 'center', 'end'].some((block) => {
    bar.scrollIntoView({ block });
    bar.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    const box = bar.getBoundingClientRect();
    const there = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return !bar.contains(there);
  });
}).map((bar) => bar.getAttribute('aria-label'));
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    return {name: write_run_page(make(root / name).paths.root) for name, make in MAKERS.items()}


def bar(browser, name):
    return browser.find_element(By.CSS_SELECTOR, f'.bar[aria-label^="{name} on"]')


def detail(browser):
    return browser.find_element(By.CSS_SELECTOR, ".detail").text


def focused(browser):
    return browser.switch_to.active_element.get_attribute("aria-label") or ""


def rows(browser):
    cells = browser.find_elements(By.CSS_SELECTOR, "#jobs tr.job td:first-child")
    return [cell.text for cell in cells]


@pytest.mark.parametrize("name", MAKERS)
def test_a_page_asks_for_nothing_but_itself(opened, pages, name):
    browser = opened(pages[name])
    assert requested(browser) == {pages[name].as_uri()}


@pytest.mark.parametrize("name", MAKERS)
def test_a_page_has_no_fault_that_the_console_tells_of(opened, pages, name):
    assert complaints(opened(pages[name])) == []


def test_what_a_run_holds_is_text_and_nothing_of_it_works(opened, pages):
    browser = opened(pages["evil"])
    assert "owned" not in browser.title.replace("onerror=document.title='owned'", "")


def test_no_element_comes_from_what_a_run_holds(opened, pages):
    assert opened(pages["evil"]).find_elements(By.TAG_NAME, "img") == []


def test_a_name_is_shown_as_it_is_with_escapes_for_what_cannot_be_seen(opened, pages):
    title = opened(pages["evil"]).find_element(By.TAG_NAME, "h1").text
    assert title == r"</script><img src=x onerror=document.title='owned'>\u202e\x00"


def test_every_job_that_ran_has_a_bar_in_the_lane_of_its_slot(opened, pages):
    browser = opened(pages["completed"])
    labels = {
        node.get_attribute("aria-label").split(",")[0]
        for node in browser.find_elements(By.CSS_SELECTOR, ".bar")
    }
    assert labels == {
        "rollout_a on device 0",
        "rollout_b on device 1",
        "diagnose_a on cpu 0",
        "diagnose_b on cpu 0",
        "select on io 0",
    }


def test_a_bar_is_as_long_as_its_job_took(opened, pages):
    browser = opened(pages["completed"])
    long, short = (bar(browser, name).rect["width"] for name in ("rollout_b", "rollout_a"))
    assert long / short == pytest.approx(2, rel=0.05)


def test_a_lane_tells_how_long_its_slot_was_idle(opened, pages):
    lanes = opened(pages["completed"]).find_element(By.CSS_SELECTOR, ".lanes").text
    assert lanes.split("\n")[0] == "device 0 idle 0.164 s (62%)"


def test_a_gap_tells_how_long_it_is(opened, pages):
    gaps = opened(pages["completed"]).find_elements(By.CSS_SELECTOR, "text.idle")
    assert [gap.text for gap in gaps][:2] == ["0.164 s", "0.064 s"]


def test_waves_are_drawn_in_bulk_sync(opened, pages):
    browser = opened(pages["waves"])
    assert len(browser.find_elements(By.CSS_SELECTOR, ".wave")) == 3


def test_pointing_at_a_job_tells_its_command(opened, pages):
    browser = opened(pages["completed"])
    ActionChains(browser).move_to_element(bar(browser, "rollout_a")).perform()
    assert "scripts/rollout.py" in detail(browser)


def test_pointing_at_a_job_tells_its_device_digest_and_log(opened, pages):
    browser = opened(pages["completed"])
    ActionChains(browser).move_to_element(bar(browser, "rollout_a")).perform()
    document = json.loads((pages["completed"].parent / "hloop_run.json").read_text())
    job = next(job for job in document["jobs"] if job["job_id"] == "rollout_a")
    wanted = ("GPU-a", job["outputs"][0]["sha256"], job["log"])
    assert [text for text in wanted if text not in detail(browser)] == []


def test_pointing_at_a_job_draws_what_it_needs_and_what_needs_it(opened, pages):
    browser = opened(pages["completed"])
    ActionChains(browser).move_to_element(bar(browser, "diagnose_a")).perform()
    kinds = [
        edge.get_attribute("class") for edge in browser.find_elements(By.CSS_SELECTOR, ".edge")
    ]
    assert kinds == ["edge before", "edge after"]


def test_tab_reaches_the_timeline_and_arrows_go_from_job_to_job(opened, pages):
    browser = opened(pages["completed"])
    browser.execute_script("document.querySelector('.bar[tabindex=\"0\"]').focus()")
    ActionChains(browser).send_keys(Keys.ARROW_DOWN).send_keys(Keys.ARROW_DOWN).send_keys(
        Keys.ARROW_RIGHT
    ).perform()
    assert focused(browser).startswith("diagnose_b on cpu 0")


def test_one_bar_only_is_reached_with_tab(opened, pages):
    browser = opened(pages["completed"])
    assert len(browser.find_elements(By.CSS_SELECTOR, '.bar[tabindex="0"]')) == 1


def test_the_job_in_focus_is_seen_to_be(opened, pages):
    browser = opened(pages["completed"])
    browser.execute_script("document.querySelector('.bar[tabindex=\"0\"]').focus()")
    assert "self" in browser.switch_to.active_element.get_attribute("class")


def test_escape_lets_a_job_go(opened, pages):
    browser = opened(pages["completed"])
    bar(browser, "rollout_a").click()
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert browser.find_elements(By.CSS_SELECTOR, ".lit") == []


def test_escape_goes_back_to_the_job_from_what_is_told_of_it(opened, pages):
    browser = opened(pages["completed"])
    bar(browser, "rollout_a").click()
    browser.find_element(By.CSS_SELECTOR, ".detail .close").send_keys(Keys.ESCAPE)
    assert focused(browser).startswith("rollout_a on device 0")


def test_a_failed_run_shows_its_failure_before_its_timeline(opened, pages):
    headings = opened(pages["failed"]).find_elements(By.TAG_NAME, "h2")
    assert [heading.text for heading in headings][:2] == ["What failed", "Timeline"]


def test_a_failed_run_shows_the_end_of_stderr_without_a_click(opened, pages):
    failure = opened(pages["failed"]).find_element(By.CSS_SELECTOR, ".failure")
    assert failure.find_element(By.TAG_NAME, "pre").text == "the end"


def test_the_table_begins_with_what_failed(opened, pages):
    assert rows(opened(pages["failed"]))[0] == "rollout_b"


def test_one_row_only_is_reached_with_tab(opened, pages):
    browser = opened(pages["completed"])
    assert len(browser.find_elements(By.CSS_SELECTOR, '#jobs tr[tabindex="0"]')) == 1


def test_the_table_is_sorted_by_a_click_on_a_heading(opened, pages):
    browser = opened(pages["completed"])
    browser.find_element(By.XPATH, "//th/button[text()='seconds']").click()
    assert rows(browser) == ["select", "diagnose_a", "diagnose_b", "rollout_a", "rollout_b"]


def test_the_table_is_filtered_by_any_text(opened, pages):
    browser = opened(pages["completed"])
    browser.find_element(By.CSS_SELECTOR, "#jobs input").send_keys("DIAGNOSE_A")
    assert rows(browser) == ["diagnose_a"]


def test_the_table_is_filtered_by_status(opened, pages):
    browser = opened(pages["failed"])
    browser.find_element(By.CSS_SELECTOR, '#jobs option[value="skipped"]').click()
    assert rows(browser) == ["diagnose_b", "select"]


def test_a_click_on_a_row_goes_to_the_job_in_the_timeline(opened, pages):
    browser = opened(pages["completed"])
    browser.find_element(By.XPATH, "//*[@id='jobs']//td[text()='select']").click()
    assert "self" in bar(browser, "select").get_attribute("class")


def test_the_colours_may_stand_for_candidates(opened, pages):
    browser = opened(pages["completed"])
    browser.find_element(By.CSS_SELECTOR, 'option[value="candidate"]').click()
    legend = browser.find_element(By.CSS_SELECTOR, ".legend").text
    assert legend.split("\n") == ["a", "b", "idle"]


def test_a_page_is_no_wider_than_a_phone(chromium, opened, pages):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser = opened(pages["failed"])
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_two_thousand_jobs_are_all_there(opened, tmp_path):
    browser = opened(write_run_page(many_jobs(tmp_path, 1000).paths.root))
    assert len(browser.find_elements(By.CSS_SELECTOR, ".bar")) == 2000


def test_two_thousand_jobs_are_less_than_ten_megabytes(tmp_path):
    page = write_run_page(many_jobs(tmp_path, 1000).paths.root)
    assert page.stat().st_size < 10_000_000


def test_what_is_told_of_a_job_does_not_cover_it(chromium, opened, pages):
    size = {"width": 900, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser = opened(pages["completed"])
        covered = browser.execute_script(COVERED)
        assert covered == []
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
