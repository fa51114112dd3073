"""`hloop tally`: every job that was to run is a Success or a Fail, and nothing is left out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ended_runs import run_plan
from hloop import canonical
from supervised import job

Change = Callable[[Path], object]
EVERY = {"train_repho_1", "eval_repho_1", "train_ppo_1", "eval_ppo_1"}


@pytest.fixture
def run_dir(successful: Any, tmp_path: Path) -> Path:
    """A copy of a formal run in which everything completed."""
    shutil.copytree(successful.run_dir, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def fails(document: Any) -> set[str]:
    return {job["job_id"] for job in document["jobs"] if job["result"] == "Fail"}


def test_a_run_in_which_all_completed_is_a_success(hloop: Any, run_dir: Path) -> None:
    outcome = hloop("tally", run_dir, "--json")
    assert (outcome.code, outcome.document["counts"], outcome.document["errors"]) == (
        0,
        {"Success": 4, "Fail": 0, "jobs": 4},
        [],
    )


def test_a_job_is_told_with_all_that_it_is_counted_by(hloop: Any, run_dir: Path) -> None:
    first = hloop("tally", run_dir, "--json").document["jobs"][0]
    assert first == {
        "run_dir": str(run_dir),
        "job_id": "train_repho_1",
        "case": "walk",
        "method": "repho",
        "seed": 1,
        "phase": "train",
        "result": "Success",
        "reasons": [],
    }


def test_the_lines_for_people_end_with_the_counts(hloop: Any, run_dir: Path) -> None:
    out = hloop("tally", run_dir).out
    assert out.splitlines()[-1] == "4 Success, 0 Fail of 4 jobs; 0 errors"


def test_a_crash_a_timeout_and_what_never_started_are_fails(hloop: Any, failing: Any) -> None:
    outcome = hloop("tally", failing.run_dir, "--json")
    assert (outcome.code, outcome.document["counts"], fails(outcome.document)) == (
        1,
        {"Success": 4, "Fail": 4, "jobs": 8},
        {"train_repho_2", "eval_repho_2", "train_ppo_1", "eval_ppo_1"},
    )


def test_a_fail_says_why(hloop: Any, failing: Any) -> None:
    jobs = hloop("tally", failing.run_dir, "--json").document["jobs"]
    reasons = {job["job_id"]: " ".join(job["reasons"]) for job in jobs}
    assert "exited with 3" in reasons["train_repho_2"]
    assert "timed_out" in reasons["train_ppo_1"]


def write(name: str, text: str = "x") -> Change:
    def change(run_dir: Path) -> None:
        path = run_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)

    return change


def remove(name: str) -> Change:
    return lambda run_dir: (run_dir / name).unlink()


def never_started(run_dir: Path) -> None:
    """The run died when it had claimed its directory."""
    for path in run_dir.iterdir():
        if path.name not in ("plan.json", "formal"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def drop_a_job(run_dir: Path) -> None:
    path = run_dir / "formal/formal_manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["jobs"] = manifest["jobs"][1:]
    path.unlink()
    path.write_bytes(canonical.dumps(manifest))


def other_seed_in_the_report(run_dir: Path) -> None:
    path = run_dir / "hloop_run.json"
    report = json.loads(path.read_bytes())
    next(job for job in report["jobs"] if job["job_id"] == "eval_ppo_1")["seed"] = 9
    path.write_text(json.dumps(report))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (write("walk/repho/1/train/checkpoints/forward_00012.pt"), {"train_repho_1"}),
        (remove("walk/ppo/1/eval/evaluation.json"), {"eval_ppo_1"}),
        (write("walk/ppo/1/train/extra.pt"), {"train_ppo_1", "eval_ppo_1"}),
        (other_seed_in_the_report, {"eval_ppo_1"}),
        # The report says that all completed: it can then be believed in nothing.
        (remove("jobs/eval_ppo_1/run_record.json"), EVERY),
        (remove("jobs/eval_ppo_1/attempt_status.json"), EVERY),
        (write("jobs/train_ppo_1/scheduled_job.json", "{}\n"), EVERY),
        (write("extra.txt"), EVERY),
        (remove("hloop_run.json"), EVERY),
        (remove("manifest.json"), EVERY),
        (remove("plan.json"), EVERY),
        (remove("formal/fidelity_gate.json"), EVERY),
        (remove("formal/formal_manifest.json"), EVERY),
        (write("formal/reviewed.patch"), EVERY),
        (write("formal/evidence/parity.json"), EVERY),
        (never_started, EVERY),
        (drop_a_job, EVERY - {"train_repho_1"}),
    ],
)
def test_missing_and_altered_evidence_is_a_fail_and_stays_in_the_count(
    hloop: Any, run_dir: Path, change: Change, expected: set[str]
) -> None:
    change(run_dir)
    outcome = hloop("tally", run_dir, "--json")
    assert (outcome.code, fails(outcome.document)) == (1, expected)


def errors(outcome: Any) -> list[str]:
    return [problem["code"] for problem in outcome.document["errors"]]


def test_a_job_that_the_formal_manifest_does_not_name_is_an_error(
    hloop: Any, run_dir: Path
) -> None:
    drop_a_job(run_dir)
    assert errors(hloop("tally", run_dir, "--json")) == ["unexpected_job"]


def test_a_job_that_is_nowhere_named_is_an_error(hloop: Any, run_dir: Path) -> None:
    (run_dir / "jobs/extra").mkdir()
    outcome = hloop("tally", run_dir, "--json")
    assert (outcome.code, errors(outcome)) == (1, ["unexpected_job"])


def test_what_two_runs_did_is_an_error(hloop: Any, run_dir: Path, successful: Any) -> None:
    outcome = hloop("tally", successful.run_dir, run_dir, "--json")
    assert (outcome.code, errors(outcome)) == (1, ["duplicate_job"] * 4)


def test_a_run_that_is_given_twice_is_an_error_and_counts_once(hloop: Any, run_dir: Path) -> None:
    outcome = hloop("tally", run_dir, run_dir / "../run", "--json")
    assert (errors(outcome), outcome.document["counts"]["jobs"]) == (["same_run"], 4)


def test_every_job_of_a_formal_run_whose_gate_is_gone_is_a_fail(hloop: Any, run_dir: Path) -> None:
    shutil.rmtree(run_dir / "formal")
    outcome = hloop("tally", run_dir, "--json")
    assert (outcome.code, fails(outcome.document)) == (1, EVERY)


@pytest.fixture
def exploratory(tmp_path: Path) -> Path:
    return run_plan(tmp_path, job("a"))


def test_a_run_that_is_not_formal_is_an_error(hloop: Any, exploratory: Path) -> None:
    outcome = hloop("tally", exploratory, "--json")
    assert (outcome.code, errors(outcome)) == (1, ["not_formal"])


def test_an_error_beside_a_good_run_is_no_success(
    hloop: Any, exploratory: Path, successful: Any
) -> None:
    outcome = hloop("tally", successful.run_dir, exploratory, "--json")
    assert (outcome.code, outcome.document["counts"]["Success"]) == (1, 4)


def test_a_folder_that_is_no_run_is_no_answer(hloop: Any, tmp_path: Path) -> None:
    assert hloop("tally", tmp_path).code == 2


def test_a_run_of_which_nothing_names_the_jobs_is_no_answer(hloop: Any, run_dir: Path) -> None:
    for name in ("plan.json", "formal/formal_manifest.json"):
        (run_dir / name).unlink()
    outcome = hloop("tally", run_dir, "--json")
    assert (outcome.code, outcome.codes) == (2, ["no_jobs"])
