"""Which jobs of a run are done: by their evidence, and by nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hloop.provenance.resume import decide
from tampering import JOBS, Copy, run_small, small_plan


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original") / "repository"
    run_small(root)
    return root


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Copy:
    return Copy.of(original, tmp_path / "copy")


def decisions(copy: Copy) -> dict[str, str]:
    """What speaks against each job; "" for one that is kept."""
    plan = small_plan_as_it_is(copy)
    return {item.job_id: "" if item.kept else item.reason for item in decide(plan)}


def small_plan_as_it_is(copy: Copy):  # type: ignore[no-untyped-def]
    """The plan for the copy; what it makes anew is put back."""
    text = copy.repo_root / "in.txt"
    data = text.read_bytes() if text.exists() else None
    plan = small_plan(copy.repo_root)
    if data is None:
        text.unlink()
    else:
        text.write_bytes(data)
    return plan


def again(copy: Copy) -> set[str]:
    return {job_id for job_id, reason in decisions(copy).items() if reason}


def test_every_job_of_a_complete_run_is_done(copy: Copy) -> None:
    assert again(copy) == set()


DECIDE_NOTHING: dict[str, Callable[[Copy], object]] = {
    "the report": lambda copy: copy.paths.report.unlink(),
    "a report that lies": lambda copy: copy.edit(
        "hloop_run.json", lambda report: report["jobs"][0].update(status="failed")
    ),
    "the journal": lambda copy: copy.paths.journal.write_bytes(b""),
    "a marker": lambda copy: copy.paths.job("make").completed.unlink(),
    "a time": lambda copy: os.utime(copy.path("deep/er/copy"), (0, 0)),
    "a file that nobody declared": lambda copy: copy.path("more").write_text("x"),
}


@pytest.mark.parametrize("what", DECIDE_NOTHING)
def test_what_is_no_evidence_decides_nothing(copy: Copy, what: str) -> None:
    DECIDE_NOTHING[what](copy)
    assert again(copy) == set()


ALL_BELOW_MAKE = {"make", "read", "last"}
AGAINST: dict[str, tuple[Callable[[Copy], object], set[str], str]] = {
    "output changed": (
        lambda copy: copy.put_back_mtime("other", lambda path: path.write_text("OTHER\n")),
        {"other", "last"},
        "other: its output 'other'",
    ),
    "output gone": (
        lambda copy: copy.path("deep/er/copy").unlink(),
        ALL_BELOW_MAKE,
        "make: its output 'copy'",
    ),
    "file in a folder changed": (
        lambda copy: copy.path("folder/x").write_text("y\n"),
        ALL_BELOW_MAKE,
        "make: its output 'folder'",
    ),
    "log changed": (
        lambda copy: copy.path("jobs/read/stdout.log").write_text("x"),
        {"read", "last"},
        "read: its stdout",
    ),
    "input changed": (
        lambda copy: (copy.repo_root / "in.txt").write_text("another text here\n"),
        ALL_BELOW_MAKE,
        "make: its input 'text'",
    ),
    "input gone": (
        lambda copy: (copy.repo_root / "in.txt").unlink(),
        ALL_BELOW_MAKE,
        "make: its input 'text'",
    ),
    "status gone": (
        lambda copy: copy.path("jobs/other/attempt_status.json").unlink(),
        {"other", "last"},
        "other: it was scheduled, and nothing shows how it ended",
    ),
    "status half": (
        lambda copy: copy.change("jobs/other/attempt_status.json", lambda data: data[:-9]),
        {"other", "last"},
        "other: attempt_status.json: not JSON",
    ),
    "record changed": (
        lambda copy: copy.edit("jobs/make/run_record.json", lambda r: r.update(returncode=1)),
        ALL_BELOW_MAKE,
        "make: run_record.json: it has sha256",
    ),
    "record gone": (
        lambda copy: copy.path("jobs/make/run_record.json").unlink(),
        ALL_BELOW_MAKE,
        "make: run_record.json: it is not there",
    ),
    "everything of a job gone": (
        lambda copy: [path.unlink() for path in copy.path("jobs/last").iterdir()],
        {"last"},
        "last: it never ran",
    ),
    "manifest changed": (
        lambda copy: copy.edit("manifest.json", lambda document: document.update(session_id="x")),
        set(JOBS),
        "make: manifest.json: it has sha256",
    ),
}


@pytest.mark.parametrize("what", AGAINST)
def test_what_speaks_against_a_job_runs_it_again_with_all_below_it(copy: Copy, what: str) -> None:
    spoil, expected, _ = AGAINST[what]
    spoil(copy)
    assert again(copy) == expected


@pytest.mark.parametrize("what", AGAINST)
def test_the_first_reason_is_given(copy: Copy, what: str) -> None:
    spoil, _, reason = AGAINST[what]
    spoil(copy)
    said = [f"{job_id}: {text}" for job_id, text in decisions(copy).items() if text]
    assert said[0].startswith(reason), said


def test_a_job_below_one_that_runs_again_says_so(copy: Copy) -> None:
    copy.path("other").unlink()
    assert decisions(copy)["last"] == "it depends on other, which runs again"


def test_a_status_that_claims_another_output_is_not_believed(copy: Copy) -> None:
    def lie(status: dict) -> None:  # type: ignore[type-arg]
        status["outputs"][0]["path"] = "${RUN_DIR}/elsewhere"

    copy.edit("jobs/other/attempt_status.json", lie)
    copy.path("elsewhere").write_text("other\n")
    assert "other" in again(copy)


def test_a_job_that_failed_runs_again_and_says_why(copy: Copy) -> None:
    def fail(status: dict) -> None:  # type: ignore[type-arg]
        failure = {"reason": "exit_code", "message": "it exited with 3"}
        status.update(status="failed", returncode=3, outputs=[], failure=failure)

    copy.edit("jobs/last/attempt_status.json", fail)
    copy.edit("jobs/last/run_record.json", lambda record: record.update(returncode=3))
    copy.seal()
    assert decisions(copy)["last"] == "it is failed: it exited with 3"


def test_nothing_is_written(copy: Copy) -> None:
    plan = small_plan_as_it_is(copy)
    before = sorted((path, path.lstat().st_mtime_ns) for path in copy.root.rglob("*"))
    decide(plan)
    assert sorted((path, path.lstat().st_mtime_ns) for path in copy.root.rglob("*")) == before


def test_the_plan_that_a_run_began_with_is_the_one_that_counts(copy: Copy) -> None:
    plan = json.loads(copy.paths.plan.read_bytes())
    plan["jobs"][0]["seed"] = 4
    copy.store("plan.json", plan)
    assert again(copy) == set(JOBS)
