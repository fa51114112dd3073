"""Resuming: what runs again is set aside whole, the session goes on where the journal ended."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import HloopError
from hloop.files import RunPaths
from hloop.plan.render import RenderedPlan
from hloop.provenance.verify import verify
from hloop.run import resuming
from hloop.run.journal import read_journal
from hloop.run.settings import RunSettings
from hloop.run.workflow import define
from resumed_runs import interrupt_small, resume, run_resumed, take_up
from supervised import Supervised
from tampering import small_plan


def events(root: Path, event: str) -> list[dict[str, Any]]:
    return [e for e in read_journal(RunPaths(root / "run").journal) if e["event"] == event]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which one output was spoilt between its two sessions. Not to be changed."""
    root = tmp_path_factory.mktemp("resumed") / "root"
    run_resumed(root)
    return root


def test_a_resumed_run_is_complete_and_unaltered(resumed: Path) -> None:
    assert verify(resumed / "run").exit_code == 0


def test_what_is_done_does_not_run_again(resumed: Path) -> None:
    started = Counter(event["job"] for event in events(resumed, "job_started"))
    assert started == {"make": 1, "other": 2, "read": 1, "last": 1}


def test_the_journal_says_why(resumed: Path) -> None:
    (event,) = events(resumed, "run_resumed")
    again = {entry["job"]: entry["reason"] for entry in event["again"]}
    assert again.keys() == {"other", "read", "last"}
    assert again["other"].startswith("its output 'other' ${RUN_DIR}/other has sha256")


def test_the_former_attempt_is_kept_with_its_outputs(resumed: Path) -> None:
    attempt = resumed / "run/jobs/other/attempts/1"
    names = {str(p.relative_to(attempt)) for p in attempt.rglob("*") if p.is_file()}
    records = {"attempt_status.json", "run_record.json", "scheduled_job.json", "completed"}
    assert names == records | {"stdout.log", "stderr.log", "outputs/other"}


def test_the_report_covers_all_sessions(resumed: Path) -> None:
    report = json.loads(RunPaths(resumed / "run").report.read_bytes())
    starts = {job["job_id"]: job["start_offset_ns"] for job in report["jobs"]}
    last = max(job["end_offset_ns"] for job in report["jobs"]) / 1e9
    (event,) = events(resumed, "run_resumed")
    assert starts["make"] < event["offset_ns"] < starts["other"]
    assert report["elapsed_seconds"] > last


def test_the_report_refers_to_the_manifest_of_each_session(resumed: Path) -> None:
    report = json.loads(RunPaths(resumed / "run").report.read_bytes())
    paths = [entry["path"] for entry in report["evidence"]["resumed"]]
    assert paths == ["${RUN_DIR}/resumed/manifest.2.json"]


@pytest.mark.parametrize("mode", ["sequential", "bulk-sync"])
def test_a_run_is_resumed_in_every_mode(mode: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root, mode) if mode == "bulk-sync" else interrupt_one(root, mode)
    waves = [["read"], ["last"]] if mode == "bulk-sync" else [["other"], ["read"], ["last"]]
    resume(root, plan, *waves, mode=mode)
    assert verify(root / "run").exit_code == 0


def interrupt_one(root: Path, mode: str) -> RenderedPlan:
    """As interrupt_small, after the first job."""
    root.mkdir()
    plan = small_plan(root)
    supervised = Supervised(root)
    try:
        supervised.open(plan, mode=mode)
        supervised.ready("make")
        assert supervised.ended("make") == ["completed"]
        supervised.hang_up()
    finally:
        supervised.end()
    return plan


def test_the_waves_of_a_session_come_after_those_of_the_one_before(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root, "bulk-sync")
    resume(root, plan, ["read"], ["last"], mode="bulk-sync")
    report = json.loads(RunPaths(root / "run").report.read_bytes())
    assert report["waves"] == [["make", "other"], ["read"], ["last"]]


def test_a_run_is_resumed_more_than_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = run_resumed(root)
    (root / "run/selection.json").unlink()
    resume(root, plan, ["last"])
    report = json.loads(RunPaths(root / "run").report.read_bytes())
    assert (verify(root / "run").exit_code, len(report["evidence"]["resumed"])) == (0, 2)


def test_a_complete_run_that_is_resumed_runs_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = run_resumed(root)
    before = len(events(root, "job_started"))
    resume(root, plan)
    assert (len(events(root, "job_started")), verify(root / "run").exit_code) == (before, 0)


def test_a_session_that_dies_at_once_is_no_completed_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root)
    resume(root, plan)
    report = json.loads(RunPaths(root / "run").report.read_bytes())
    statuses = [job["status"] for job in report["jobs"]]
    assert (report["status"], sorted(statuses)) == ("failed", ["completed"] * 2 + ["skipped"] * 2)


# Setting aside


def contents(root: Path) -> Counter[str]:
    """The digests of all files that jobs and their records left, wherever they are now."""
    made = [path for path in (root / "run").rglob("*") if path.is_file()]
    own = {"journal.jsonl", ".lock"}
    return Counter(
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in made
        if path.name not in own and "manifest." not in path.name
    )


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which the first job's status is damaged, so that everything but one runs again."""
    root = tmp_path_factory.mktemp("interrupted") / "root"
    interrupt_small(root)
    status = root / "run/jobs/make/attempt_status.json"
    status.chmod(0o644)
    status.write_bytes(b"{}\n")
    return root


@pytest.mark.parametrize("steps", range(11))
def test_a_death_between_two_renames_loses_nothing(
    interrupted: Path, tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    shutil.copytree(interrupted / "run", root / "run", symlinks=True)
    for path in (root / "run").rglob("*.json*"):
        path.chmod(0o644)
        text = path.read_text().replace(str(interrupted), str(root))
        path.write_text(text)
    # The manifest names the run directory; what refers to it fits no more, so all run again.
    plan, before, left = small_plan(root), contents(root), steps
    rename = os.rename

    def dying(source: Any, target: Any, **options: Any) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        take_up(plan)
    monkeypatch.setattr(os, "rename", rename)
    take_up(plan)
    after = contents(root)
    assert not before - after
    assert not [path for path in (root / "run").rglob("*.part")]
    assert sorted(os.listdir(root / "run/jobs/make")) == ["attempts"]
    assert os.listdir(root / "run/jobs/make/attempts") == ["1"]


def test_a_file_in_the_way_of_what_is_set_aside_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root)
    (root / "run/other").write_text("spoilt\n")
    (root / "run/jobs/other/attempts").write_text("a job made this\n")
    with pytest.raises(HloopError, match="cannot be resumed: .*attempts"):
        take_up(plan)


def test_a_folder_that_a_job_made_in_its_own_does_not_stand_in_the_way(tmp_path: Path) -> None:
    root = tmp_path / "root"
    plan = interrupt_small(root)
    (root / "run/jobs/other/outputs").mkdir()
    (root / "run/other").write_text("spoilt\n")
    take_up(plan)
    attempt = root / "run/jobs/other/attempts/1"
    assert (attempt / "outputs.other").is_dir()
    assert (attempt / "outputs/other").read_text() == "spoilt\n"


# Which runs, and how


def settings(root: Path, *, default_root: Path | None = None, **config: Any) -> RunSettings:
    """Give the settings with which a configuration resumes a run."""
    config = {"run_dir": str(root / "run"), "plan": str(root / "run/plan.json"), **config}
    run = define(config, default_root=default_root or root)
    return run.settings_with({"resume": True})


def refusal(root: Path, **config: Any) -> str:
    with pytest.raises(HloopError) as caught:
        settings(root, **config)
    return str(caught.value)


def test_a_run_is_resumed_with_its_own_settings(resumed: Path) -> None:
    assert settings(resumed).devices == "simulated:2"


def test_the_configuration_goes_before_the_settings_that_a_run_had(resumed: Path) -> None:
    assert settings(resumed, devices="simulated:3").devices == "simulated:3"


def test_another_plan_is_refused_with_what_differs(resumed: Path, tmp_path: Path) -> None:
    plan = json.loads((resumed / "run/plan.json").read_bytes())
    plan["jobs"][0]["seed"] = 4
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    text = refusal(resumed, plan=str(path))
    assert "the plan is another one: line " in text and '"seed": 4' in text


def test_another_mode_is_refused(resumed: Path) -> None:
    assert "mode: 'bulk-sync', to resume a run; expected 'hloop'" in refusal(
        resumed, mode="bulk-sync"
    )


def test_another_repository_root_is_refused(resumed: Path) -> None:
    assert "repo_root: it is /" in refusal(resumed, repo_root="/")


def test_another_name_of_the_run_directory_is_refused(resumed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(resumed)
    text = refusal(resumed, run_dir=str(tmp_path / "link/run"))
    assert f"run_dir: it is {tmp_path}/link/run; expected {resumed}/run" in text


def test_a_run_directory_that_was_moved_is_refused(resumed: Path, tmp_path: Path) -> None:
    shutil.copytree(resumed / "run", tmp_path / "run", symlinks=True)
    assert f"the run was made in {resumed}/run" in refusal(tmp_path)


def test_a_plan_that_was_changed_in_its_place_is_refused(tmp_path: Path) -> None:
    interrupt_small(tmp_path / "root")
    path = tmp_path / "root/run/plan.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\n")
    assert "its plan.json is not the one that it began with" in refusal(tmp_path / "root")


def test_a_folder_without_a_run_is_refused(resumed: Path, tmp_path: Path) -> None:
    assert "it has no plan.json" in refusal(tmp_path, plan=str(resumed / "run/plan.json"))


def test_a_run_that_goes_on_is_not_resumed(tmp_path: Path) -> None:
    from hloop.run.runlock import RunLock

    plan = interrupt_small(tmp_path / "root")
    lock = RunLock.take(RunPaths(plan.run_dir))
    try:
        with pytest.raises(HloopError, match="is being run by"):
            take_up(plan)
    finally:
        lock.release()


def test_a_run_that_died_before_its_manifest_begins_now(tmp_path: Path) -> None:
    from hloop.run.claiming import claim

    plan = small_plan(tmp_path)
    paths = claim(plan)
    paths.journal.write_bytes(b'{"event": "run_st')
    _, session = resuming.prepare(plan)
    assert (session, paths.journal.exists()) == (None, False)
