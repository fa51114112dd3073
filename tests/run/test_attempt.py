"""What the end of an attempt means, and the record of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hloop.files import FileDigest, JobPaths
from hloop.provenance.records import Status
from hloop.run.attempt import (
    TAIL_BYTES,
    TAIL_LINES,
    Attempt,
    Failure,
    Outcome,
    ReadArtifact,
    check_artifacts,
    judge_exit,
    judge_files,
    read_artifacts,
    tail,
)
from hloop.run.hashing import Hashed, Refusal
from supervised import job, output, rendered

GOOD = FileDigest("a" * 64, 3)
OTHER = FileDigest("b" * 64, 3)
MISSING = Refusal("missing", "/x does not exist")
STALLED = (Status.STALLED, Failure("stalled", "it was silent"))


def ended(wait_status: int = 0, **fields: Any) -> Attempt:
    return Attempt("a", None, "token", pid=7, wait_status=wait_status, **fields)


def artifacts(**sha256: str | None) -> Any:
    """Rendered outputs by role, with the digests that a plan demands of them."""
    made = [{**output(role), "sha256": value} for role, value in sha256.items()]
    return rendered(Path("/repo"), job("a", outputs=made)).jobs["a"].outputs


# Verdicts


def test_an_exit_with_0_leaves_it_to_the_outputs() -> None:
    assert judge_exit(ended(0)) is None


def test_another_exit_status_is_a_failure_that_says_it() -> None:
    outcome = judge_exit(ended(7 << 8))
    assert outcome == Outcome(Status.FAILED, Failure("exit_code", "it exited with 7"))


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGSEGV, "SIGSEGV"),
        (signal.SIGRTMIN, "SIGRTMIN"),
        (signal.SIGRTMIN + 1, "SIGRTMIN+1"),
        (signal.SIGRTMAX, "SIGRTMAX"),
    ],
)
def test_a_signal_is_a_failure_that_names_it(number: int, name: str) -> None:
    outcome = judge_exit(ended(number))
    assert outcome == Outcome(Status.FAILED, Failure("signal", f"it was ended by {name}"))


@pytest.mark.parametrize("wait_status", [0, 7 << 8, signal.SIGTERM])
def test_why_it_was_stopped_counts_more_than_how_it_ended(wait_status: int) -> None:
    assert judge_exit(ended(wait_status, cause=STALLED)) == Outcome(*STALLED)


def test_after_a_signal_there_is_no_exit_status() -> None:
    assert ended(signal.SIGKILL).returncode is None


def test_after_an_exit_there_is_no_signal() -> None:
    assert ended(7 << 8).signal_name is None


def test_what_never_started_has_neither() -> None:
    attempt = Attempt("a", None, "token")
    assert (attempt.returncode, attempt.signal_name) == (None, None)


# Artifacts


@pytest.mark.parametrize(
    ("sha256", "result", "reason"),
    [
        (None, GOOD, None),
        ("a" * 64, GOOD, None),
        ("a" * 64, OTHER, "output_digest"),
        (None, MISSING, "output_missing"),
        ("a" * 64, Refusal("not_a_file", "x"), "output_not_a_file"),
    ],
)
def test_an_artifact_is_as_the_plan_demands(
    sha256: str | None, result: Hashed, reason: str | None
) -> None:
    failure = check_artifacts("output", artifacts(o=sha256), [result])
    assert (failure and failure.reason) == reason


def test_a_wrong_digest_says_both() -> None:
    failure = check_artifacts("output", artifacts(o="a" * 64), [OTHER])
    assert failure and "a" * 64 in failure.message and "b" * 64 in failure.message


def test_the_first_wrong_artifact_is_named_by_its_role() -> None:
    failure = check_artifacts("input", artifacts(x=None, y=None, z=None), [GOOD, MISSING, MISSING])
    assert failure and failure.message.startswith("its input 'y'")


def test_what_could_be_read_is_noted_also_where_something_else_is_wrong() -> None:
    (entry,) = read_artifacts(artifacts(x=None, y=None), [MISSING, GOOD])
    assert entry == ReadArtifact("y", "/repo/run/y", "file", GOOD)


# What was read at the end


def at_end(outcome: Outcome | None = None, *results: Hashed) -> Outcome:
    """The verdict of a job with one input, which was GOOD, and one output."""
    fields = {"inputs": [{"role": "i", "path": "in", "sha256": None}], "outputs": [output("o")]}
    plan = rendered(Path("/repo"), job("a", **fields))
    attempt = Attempt("a", plan.jobs["a"], "token", outcome=outcome)
    attempt.inputs = read_artifacts(plan.jobs["a"].inputs, [GOOD])
    return judge_files(attempt, JobPaths(Path("/repo/run/jobs/a")), results)


def test_with_its_inputs_as_they_were_and_its_outputs_there_it_completed() -> None:
    assert at_end(None, GOOD, GOOD, GOOD, OTHER) == Outcome(Status.COMPLETED)


@pytest.mark.parametrize("now", [OTHER, MISSING])
def test_an_input_that_changed_meanwhile_is_a_failure_of_its_own(now: Hashed) -> None:
    outcome = at_end(None, now, GOOD, GOOD, GOOD)
    assert outcome.failure and outcome.failure.reason == "input_changed"


def test_what_is_settled_stays_whatever_was_read() -> None:
    settled = Outcome(Status.FAILED, Failure("exit_code", "it exited with 7"))
    assert at_end(settled, OTHER, GOOD, GOOD) == settled


# The tail of a log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "stderr.log"


def test_the_last_lines_of_a_log_are_kept(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert tail(log).splitlines() == [f"line {number}" for number in range(100 - TAIL_LINES, 100)]


def test_of_a_huge_log_only_the_end_is_read(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(2**40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    text = tail(log)
    assert text.endswith("\nthe end") and len(text) <= TAIL_BYTES


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    log.write_bytes(b"\xff\xfe ok\n")
    assert tail(log) == "�� ok"


def test_a_progress_line_counts_as_its_last_states(log: Path) -> None:
    log.write_text("\r".join(f"{percent} %" for percent in range(100)))
    assert tail(log).splitlines()[-1] == "99 %"


def test_a_missing_log_has_no_tail(log: Path) -> None:
    assert tail(log) == ""


def test_an_empty_log_has_no_tail(log: Path) -> None:
    log.touch()
    assert tail(log) == ""


def test_a_fifo_in_its_place_has_no_tail_and_is_not_waited_for(log: Path) -> None:
    os.mkfifo(log)
    assert tail(log) == ""


def test_a_folder_in_its_place_has_no_tail(log: Path) -> None:
    log.mkdir()
    assert tail(log) == ""
