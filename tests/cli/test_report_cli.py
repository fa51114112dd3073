from __future__ import annotations

import json

import pytest
from drawn_runs import completed_run, failed_run
from hloop.files import RunPaths


@pytest.fixture(scope="module", autouse=True)
def drawing() -> None:
    """What draws opens pipes at its first picture, and keeps them for the next."""
    from hloop.report.charts import timeline_chart, to_svg
    from hloop.report.timeline import band

    to_svg(timeline_chart([band("", [], {}, {}, mode="hloop", end_seconds=1)]))


def test_a_page_and_a_picture_lie_in_the_run_directory(hloop, tmp_path):
    run = completed_run(tmp_path)
    hloop("report", run.paths.root)
    names = {path.name for path in run.paths.root.glob("report*")}
    assert names == {"report.html", "report-timeline.svg"}


def test_a_page_may_be_elsewhere_with_its_picture_beside_it(hloop, tmp_path):
    run = completed_run(tmp_path)
    outcome = hloop("report", run.paths.root, "--out", tmp_path / "mine.html", "--json")
    assert outcome.document == {
        "page": str(tmp_path / "mine.html"),
        "charts": [str(tmp_path / "mine-timeline.svg")],
    }


@pytest.mark.parametrize("opens", [True, False])
def test_where_no_browser_starts_that_is_told(hloop, tmp_path, monkeypatch, opens):
    run = completed_run(tmp_path / "a b")
    asked = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or opens)
    outcome = hloop("report", run.paths.root, "--open")
    assert asked == [run.paths.html.as_uri()]
    assert ("no browser" in outcome.err, outcome.code) == (not opens, 0)


def test_a_page_elsewhere_links_to_the_logs_where_they_are(hloop, tmp_path):
    run = failed_run(tmp_path)
    hloop("report", run.paths.root, "--out", tmp_path / "mine.html")
    assert 'href="./run/jobs/rollout_b/stderr.log"' in (tmp_path / "mine.html").read_text()


def test_a_run_is_verified(hloop, tmp_path):
    run = failed_run(tmp_path)
    hloop("report", run.paths.root)
    assert "verified, and it does not hold" in run.paths.html.read_text()


def test_what_was_written_changes_nothing_that_verify_finds(hloop, tmp_path):
    run = completed_run(tmp_path)
    before = hloop("verify", run.paths.root, "--json").document
    hloop("report", run.paths.root)
    assert hloop("verify", run.paths.root, "--json").document == before


def test_the_failure_comes_first(hloop, tmp_path):
    run = failed_run(tmp_path)
    hloop("report", run.paths.root)
    page = run.paths.html.read_text()
    assert page.index("What failed") < page.index('id="timeline"')


def test_a_picture_is_one_of_every_job(hloop, tmp_path):
    run = completed_run(tmp_path)
    hloop("report", run.paths.root)
    picture = (run.paths.root / "report-timeline.svg").read_text()
    assert picture.count('aria-roledescription="bar"') == 5


def test_a_folder_that_is_no_run_is_told(hloop, tmp_path):
    outcome = hloop("report", tmp_path)
    assert (outcome.code, RunPaths(tmp_path).html.exists()) == (2, False)


def test_a_benchmark_that_has_just_begun_is_told(hloop, tmp_path):
    (tmp_path / "protocol.json").write_text("{}")
    assert "no repetition has ended" in hloop("report", tmp_path).err


def test_a_run_of_rules_without_a_plan_has_no_page_and_that_is_told(hloop, tmp_path):
    paths = RunPaths(tmp_path)
    paths.rules.mkdir()
    paths.report.write_text(json.dumps({"_type": "hloop/rules_run/v1"}))
    outcome = hloop("report", tmp_path)
    assert (outcome.code, "a run of rules without a plan" in outcome.err) == (2, True)


def test_a_folder_that_is_not_there_is_told(hloop, tmp_path):
    assert "is no folder" in hloop("report", tmp_path / "nowhere").err
