"""The tamper matrix of a run with two sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from resumed_runs import run_resumed
from tampering import Copy

SECOND = "resumed/manifest.2.json"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original") / "repository"
    run_resumed(root)
    return root


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Copy:
    return Copy.of(original, tmp_path / "copy")


def notes(copy: Copy) -> set[str]:
    return {note.where for note in copy.verify().notes if note.code == "earlier_attempt"}


def test_a_copy_of_a_resumed_run_is_unaltered(copy: Copy) -> None:
    assert (copy.codes(), copy.verify().exit_code) == (set(), 0)


def test_what_was_set_aside_is_noted(copy: Copy) -> None:
    assert notes(copy) == {
        "${RUN_DIR}/jobs/other/attempts",
        "${RUN_DIR}/resumed/hloop_run.1.json",
    }


SPOILT: dict[str, tuple[Callable[[Copy], object], str]] = {
    "the second manifest gone": (lambda copy: copy.path(SECOND).unlink(), "record_missing"),
    "the second manifest cut": (
        lambda copy: copy.change(SECOND, lambda data: data[:-3]),
        "record_changed",
    ),
    "a manifest that nobody knows": (
        lambda copy: copy.write("resumed/manifest.3.json", copy.path(SECOND).read_bytes()),
        "unexpected_file",
    ),
    "a file among the manifests": (
        lambda copy: copy.write("resumed/more", b""),
        "unexpected_file",
    ),
    "an earlier attempt in the place of the last": (
        lambda copy: copy.write(
            "jobs/other/attempt_status.json",
            copy.path("jobs/other/attempts/1/attempt_status.json").read_bytes(),
        ),
        "record_changed",
    ),
    "an earlier output in the place of the last": (
        lambda copy: copy.write(
            "other", copy.path("jobs/other/attempts/1/outputs/other").read_bytes()
        ),
        "output_changed",
    ),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_spoilt_is_seen(copy: Copy, what: str) -> None:
    spoil, code = SPOILT[what]
    spoil(copy)
    assert code in copy.codes()


def other_mode(document: dict) -> None:  # type: ignore[type-arg]
    document["mode"] = "bulk-sync"


def one_worker(document: dict) -> None:  # type: ignore[type-arg]
    document["limits"]["cpu"] = 1


def later(document: dict) -> None:  # type: ignore[type-arg]
    document["created"]["offset_ns"] += 10**15


def no_devices(document: dict) -> None:  # type: ignore[type-arg]
    document["devices"]["devices"] = []


FORGED: dict[str, tuple[str, Callable[[dict], object], str]] = {  # type: ignore[type-arg]
    "another mode": (SECOND, other_mode, "plan_mismatch"),
    "made after its jobs": (SECOND, later, "time_order"),
    "without its devices": (SECOND, no_devices, "plan_mismatch"),
    "without a session": (
        "hloop_run.json",
        lambda report: report["evidence"].pop("resumed"),
        "reference_place",
    ),
    "of the first session": (
        "jobs/other/scheduled_job.json",
        lambda job: job["upstream"][0].update(path="${RUN_DIR}/manifest.json"),
        "self_report_mismatch",
    ),
    "of no session": (
        "jobs/other/scheduled_job.json",
        lambda job: job["upstream"][0].update(path="${RUN_DIR}/resumed/manifest.7.json"),
        "reference_place",
    ),
    "beside a job of a later session": (
        "jobs/read/run_record.json",
        lambda record: record.update(concurrent_with=["make"]),
        "self_report_mismatch",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_chain_that_was_made_anew_contradicts_itself(copy: Copy, what: str) -> None:
    name, how, code = FORGED[what]
    copy.edit(name, how)
    reseal(copy)
    assert code in copy.codes()


def reseal(copy: Copy) -> None:
    """As Copy.seal, with the second manifest."""
    copy._refresh(SECOND, lambda document: document["upstream"])
    copy.seal()
    copy._refresh("hloop_run.json", lambda report: iter(report["evidence"].get("resumed", ())))


def test_sealing_changes_nothing_of_a_resumed_run(copy: Copy) -> None:
    before = copy.head()
    reseal(copy)
    assert copy.head() == before
