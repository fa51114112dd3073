from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from drawn_runs import drawn_run
from hloop.provenance.host import boot_id
from hloop.run.runlock import RunLock
from synthetic_run import SyntheticRun


@pytest.fixture
def run(tmp_path) -> SyntheticRun:
    """A run of this machine, in which one job has ended and one runs."""
    run = drawn_run(tmp_path, host={"hostname": "here", "boot_id": boot_id()})
    run.write_files()
    run.run("rollout_a", 10, 110)
    run.ready("rollout_b", 9)
    run.started("rollout_b", 10)
    return run


def journal(run: SyntheticRun) -> None:
    run.paths.journal.write_text("".join(json.dumps(event) + "\n" for event in run.events))


@pytest.fixture
def executed(run) -> Iterator[SyntheticRun]:
    journal(run)
    lock = RunLock.take(run.paths)
    yield run
    lock.release()


def test_a_run_that_goes_on_is_told_with_its_counts(hloop, executed):
    outcome = hloop("watch", executed.paths.root, "--once")
    assert "it goes on: 1 completed of 5 jobs" in outcome.out


def test_a_run_that_goes_on_shows_what_each_slot_does(hloop, executed):
    lines = hloop("watch", executed.paths.root, "--once").out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["device", "0", "idle"],
        ["device", "1", "rollout_b"],
    ]


def test_to_go_on_is_a_yes(hloop, executed):
    assert hloop("watch", executed.paths.root, "--once").code == 0


def test_a_run_that_ended_is_told_by_its_status(hloop, run):
    run.gone("rollout_b", 200)
    run.ended("rollout_b", 200, "failed")
    run.end(300, "failed")
    journal(run)
    outcome = hloop("watch", run.paths.root)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (
        1,
        "failed: 1 completed, 1 failed of 5 jobs, 0.30 s",
    )


def test_a_run_that_died_is_told_to_have_died(hloop, run):
    journal(run)
    outcome = hloop("watch", run.paths.root)
    assert (outcome.code, outcome.out.split(":")[0]) == (1, "it died")


def test_a_run_on_another_machine_whose_lock_is_not_seen_goes_on(hloop, tmp_path):
    run = drawn_run(tmp_path)
    journal(run)
    assert "it goes on" in hloop("watch", run.paths.root, "--once").out


def test_a_journal_that_is_damaged_is_told(hloop, run):
    run.paths.journal.write_text("{}\n")
    outcome = hloop("watch", run.paths.root, "--once")
    assert (outcome.code, "the journal is damaged" in outcome.err) == (2, True)


def test_a_folder_without_a_run_is_told(hloop, tmp_path):
    assert hloop("watch", tmp_path).code == 2


def test_the_time_left_comes_from_a_former_run(hloop, executed, tmp_path):
    former = tmp_path / "former.json"
    names = ("rollout_a", "rollout_b", "diagnose_a", "diagnose_b", "select")
    former.write_text(json.dumps({name: 5000 for name in names}))
    out = hloop("watch", executed.paths.root, "--once", "--durations", former).out
    assert "s left" in out
