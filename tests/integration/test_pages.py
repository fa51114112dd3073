"""A run's page is there at its end, however it ended, and counts for nothing."""

from __future__ import annotations

import signal

import pytest
from hloop.files import HTML_NAME, RunPaths
from hloop.provenance.verify import verify
from hloop.report.rundata import read_run
from hloop.report.runpage import run_page
from hloop.run import page

# The other tests' runs make none.
ON = {page.SWITCH: "yes"}


@pytest.fixture
def html(workspace):
    return workspace.root / "run" / HTML_NAME


def test_hloop_run_makes_it(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.hloop_argv(), env=ON)
    assert "not verified yet" in html.read_text()


def test_snakemake_makes_it(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.snakemake_argv(), env=ON)
    assert html.exists()


def test_another_executor_makes_it(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.snakemake_argv("--executor", "local"), env=ON)
    assert html.exists()


def test_a_failed_run_has_one(workspace, make_job, html):
    workspace.plan(make_job("a", "echo why >&2; exit 3"))
    workspace.run(*workspace.hloop_argv(), env=ON)
    assert "What failed" in html.read_text()


def test_an_interrupted_run_has_one(workspace, make_job, html, waiting):
    workspace.plan(make_job("a", "touch begun; sleep 60", cwd=str(workspace.root)))
    process = workspace.start(workspace.hloop_argv(), env=ON)
    waiting((workspace.root / "begun").exists, "the job to begin")
    process.send_signal(signal.SIGINT)
    workspace.finish(process)
    assert "interrupted" in html.read_text()


def test_a_run_whose_supervisor_was_killed_has_one(workspace, make_job, html):
    workspace.plan(make_job("a", "kill -9 $PPID; sleep 60"))
    workspace.run(*workspace.hloop_argv(), env=ON)
    assert "the supervisor died" in html.read_text()


def test_no_job_inherits_the_switch(workspace, make_job):
    workspace.plan(make_job("a", f"env | grep -c ^{page.SWITCH}= >&2; true"))
    workspace.run(*workspace.snakemake_argv(), env={page.SWITCH: page.OFF})
    stderr = RunPaths(workspace.root / "run").job("a").stderr
    assert stderr.read_text() == "0\n"


def test_a_run_that_wants_none_has_none(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.hloop_argv(), env={page.SWITCH: page.OFF})
    assert not html.exists()


def test_it_is_neither_evidence_nor_in_the_way_of_it(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.hloop_argv(), env=ON)
    with_page = verify(html.parent)
    html.unlink()
    assert with_page == verify(html.parent)


def test_a_signal_while_it_is_made_leaves_no_lock(workspace, make_job):
    workspace.plan(make_job("a"))
    process = workspace.start(workspace.snakemake_argv(), env=ON)
    for line in process.stdout:
        if line.startswith("head: "):
            process.send_signal(signal.SIGHUP)
    workspace.finish(process)
    assert list(workspace.root.glob(".snakemake/locks/*")) == []


def test_it_tells_what_verify_finds_also_of_a_run_that_was_changed(workspace, make_job, html):
    workspace.plan(make_job("a"))
    workspace.run(*workspace.hloop_argv(), env={page.SWITCH: page.OFF})
    told = []
    for text in ("", "added"):
        with RunPaths(html.parent).job("a").stdout.open("a") as log:
            log.write(text)
        shown = run_page(read_run(html.parent, with_verdict=True), html.parent)
        told.append("complete: yes, unaltered: yes" in shown)
    assert told == [True, False]


def test_what_goes_wrong_with_it_is_one_line(tmp_path):
    assert page.make_page(tmp_path).startswith("report.html was not made: ")
