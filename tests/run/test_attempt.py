"""What the end of an attempt means, and the record of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical, files
from hloop.files import FileDigest, JobPaths, Portable
from hloop.provenance.records import Status
from hloop.run.attempt import (
    TAIL_BYTES,
    TAIL_LINES,
    Attempt,
    Failure,
    Outcome,
    artifact_entries,
    check_artifacts,
    judge_exit,
    publish_status,
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
    entries = artifact_entries(artifacts(x=None, y=None), [MISSING, GOOD])
    assert entries == [{"role": "y", "path": "/repo/run/y", "sha256": "a" * 64, "size_bytes": 3}]


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


# The record


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return JobPaths(tmp_path / "run/jobs/a")


def publish(paths: JobPaths, attempt: Attempt, outcome: Outcome) -> bytes:
    run_dir = paths.root.parents[1]
    publish_status(paths, attempt, outcome, Portable(run_dir, run_dir.parent))
    return paths.status.read_bytes()


COMPLETED = Outcome(Status.COMPLETED)


def test_the_record_is_canonical(paths: JobPaths) -> None:
    data = publish(paths, ended(started_ns=5, gone_ns=12), COMPLETED)
    assert canonical.dumps(canonical.loads(data)) == data


def test_the_record_says_how_long_it_took(paths: JobPaths) -> None:
    record = canonical.loads(publish(paths, ended(started_ns=5, gone_ns=12), COMPLETED))
    assert record["wall_ns"] == 7


def test_the_record_says_why_it_failed_and_how(paths: JobPaths) -> None:
    outcome = Outcome(Status.FAILED, Failure("exit_code", "it exited with 7"))
    record = canonical.loads(publish(paths, ended(7 << 8), outcome))
    found = record["status"], record["returncode"], record["failure"]["reason"]
    assert found == ("failed", 7, "exit_code")


def test_the_record_holds_no_path_of_the_machine(paths: JobPaths) -> None:
    run = paths.root.parents[1]
    attempt = ended()
    attempt.outputs = [{"role": "o", "path": f"{run}/o", "sha256": "a" * 64, "size_bytes": 1}]
    outcome = Outcome(Status.FAILED, Failure("output_missing", f"{run}/p does not exist"))
    data = publish(paths, attempt, outcome)
    assert str(run.parent).encode() not in data and b"${RUN_DIR}/o" in data


def test_a_record_is_written_once(paths: JobPaths) -> None:
    first = publish(paths, ended(), COMPLETED)
    with pytest.raises(FileExistsError):
        publish(paths, ended(7 << 8), Outcome(Status.FAILED))
    assert paths.status.read_bytes() == first


def test_a_record_is_read_only(paths: JobPaths) -> None:
    publish(paths, ended(), COMPLETED)
    assert paths.status.stat().st_mode & 0o222 == 0


def test_the_marker_of_a_completed_job_names_its_record(paths: JobPaths) -> None:
    data = publish(paths, ended(), COMPLETED)
    assert paths.completed.read_text() == files.sha256_bytes(data) + "\n"


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.COMPLETED])
def test_no_other_job_has_a_marker(paths: JobPaths, status: Status) -> None:
    publish(paths, ended(), Outcome(status, Failure("why", "it")))
    assert not paths.completed.exists()
