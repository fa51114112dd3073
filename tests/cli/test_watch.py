from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from drawn_runs import drawn_run
from hloop.cli.live import Progress, lanes, span
from hloop.provenance.host import boot_id
from hloop.run.runlock import RunLock
from rich.console import Console
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


def test_a_device_that_another_run_holds_is_not_idle(hloop, executed):
    executed.add("job_waiting", 12, job="x", devices=[dict(device=0, holder=None, problem=None)])
    journal(executed)
    lines = hloop("watch", executed.paths.root, "--once").out.splitlines()
    assert lines[0].split() == ["device", "0", "held", "by", "another", "run"]


def test_a_narrow_terminal_shows_each_slot_in_one_line(hloop, executed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    lines = hloop("watch", executed.paths.root, "--once").out.splitlines()
    assert [line[:8] for line in lines[:2]] == ["device 0", "device 1"]


def test_a_low_terminal_shows_how_much_is_done_before_it_shows_every_slot():
    progress = Progress(5)
    progress.lanes = {f"device {number}": ("j", 0.0) for number in range(64)}
    console = Console(width=60, height=10, file=StringIO())
    console.print(lanes(progress, height=10))
    shown = console.file.getvalue().splitlines()
    assert (len(shown), shown[5].split()[:4]) == (8, ["…", "and", "59", "more"])


@pytest.mark.parametrize(
    ("seconds", "text"), [(119.4, "119 s"), (200, "3 min 20 s"), (36_300, "10 h 05 min")]
)
def test_hours_are_not_told_in_seconds(seconds, text):
    assert span(seconds) == text


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
    assert " left" in out
