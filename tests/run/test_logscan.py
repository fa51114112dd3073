"""What fail_on finds in logs that grow."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hloop.run import logscan
from hloop.run.attempt import Failure
from hloop.run.logscan import MAX_LINE, PART_BYTES, LogScan


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "stdout.log"
    path.touch()
    return path


def scan(log: Path, *patterns: str) -> LogScan:
    return LogScan([log], [re.compile(pattern) for pattern in patterns or ("nan",)])


def found(scan: LogScan, *, last: bool = False) -> Failure | None:
    return list(scan.search(last=last))[-1]


def add(log: Path, text: str) -> None:
    with log.open("a", newline="") as file:
        file.write(text)


def test_the_message_has_line_log_number_and_pattern(log: Path) -> None:
    add(log, "first\nloss=nan\n")
    failure = found(scan(log, r"loss=(nan|inf)"))
    assert failure == Failure(
        "fail_on",
        "line 2 of its stdout is 'loss=nan', in which fail_on finds 'loss=(nan|inf)'",
    )


def test_a_log_without_a_match_is_fine(log: Path) -> None:
    add(log, "loss=1\n" * 100)
    assert found(scan(log), last=True) is None


def test_what_comes_later_is_found_with_its_number(log: Path) -> None:
    search = scan(log)
    add(log, "one\ntwo\n")
    assert found(search) is None
    add(log, "three\nnan\n")
    failure = found(search)
    assert failure is not None and failure.message.startswith("line 4 ")


def test_a_line_that_grows_in_parts_is_one_line(log: Path) -> None:
    search = scan(log)
    add(log, "loss=n")
    assert found(search) is None
    add(log, "an\n")
    assert found(search) is not None


def test_a_last_line_without_an_end_is_searched_at_the_end(log: Path) -> None:
    search = scan(log)
    add(log, "loss=nan")
    assert found(search) is None
    assert found(search, last=True) is not None


def test_a_dollar_does_not_match_where_a_line_goes_on(log: Path) -> None:
    search = scan(log, "loss=1$")
    add(log, "loss=1")
    assert found(search) is None
    add(log, "0\n")
    assert found(search, last=True) is None


def test_a_caret_matches_at_the_beginning_of_each_line(log: Path) -> None:
    add(log, "an Error\nError: it broke\n")
    failure = found(scan(log, "^Error"))
    assert failure is not None and failure.message.startswith("line 2 ")


def test_a_progress_bar_is_many_lines_of_one_number(log: Path) -> None:
    add(log, "1%\r2% nan\r3%\n")
    failure = found(scan(log, "nan$"))
    assert failure is not None and "line 1 of its stdout is '2% nan'" in failure.message


def test_in_a_line_without_an_end_a_match_is_found(log: Path) -> None:
    add(log, "x" * (5 * PART_BYTES) + "nan" + "x" * PART_BYTES)
    assert found(scan(log)) is not None


@pytest.mark.parametrize("before", [MAX_LINE - 2, PART_BYTES - 2, 7168 - 1])
def test_a_match_across_the_pieces_of_a_long_line_is_found(log: Path, before: int) -> None:
    add(log, "x" * before + "nan" + "x" * MAX_LINE + "\n")
    assert found(scan(log)) is not None


def test_of_a_long_line_little_is_kept(log: Path) -> None:
    search = scan(log)
    add(log, "x" * (3 * PART_BYTES))
    found(search)
    assert len(search._logs[0]._rest) <= MAX_LINE


def test_a_message_shows_a_part_of_a_long_line(log: Path) -> None:
    add(log, "x" * 3000 + "nan" + "x" * 3000 + "\n")
    failure = found(scan(log))
    assert failure is not None and len(failure.message) < 400 and "xnanx" in failure.message


def test_a_letter_that_comes_in_two_parts_is_one(log: Path) -> None:
    search = scan(log, "größe")
    data = "größe\n".encode()
    log.write_bytes(data[:3])
    assert found(search) is None
    log.write_bytes(data)
    assert found(search) is not None


def test_bytes_that_are_no_text_hide_nothing(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\x00 nan \xc3\n")
    assert found(scan(log)) is not None


def test_a_log_that_was_emptied_is_searched_from_its_beginning(log: Path) -> None:
    search = scan(log)
    add(log, "much that is fine\n" * 10)
    found(search)
    log.write_text("nan\n")
    failure = found(search)
    assert failure is not None and failure.message.startswith("line 1 ")


@pytest.mark.parametrize("text", ["a" * 40 + "!", "a" * 40 + "!\n"])
def test_a_pattern_that_takes_for_ever_is_given_up(
    log: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(logscan, "MAX_SECONDS", 0.05)
    add(log, text)
    failure = found(scan(log, "(a+)+$"), last=True)
    assert failure is not None and failure.reason == "fail_on_slow"


def test_what_was_cut_before_it_was_searched_is_told_at_the_end(log: Path) -> None:
    search = scan(log)
    add(log, "x" * 100)
    search.was_cut(log, 20, 80)
    failure = found(search, last=True)
    assert failure is not None and failure.reason == "fail_on_unseen"
    assert failure.message.startswith("60 bytes of its stdout ")


def test_what_is_left_around_a_cut_is_searched(log: Path) -> None:
    search = scan(log)
    add(log, "x" * 10 + "\nnan\n" + "x" * 100)
    search.was_cut(log, 20, 80)
    failure = found(search, last=True)
    assert failure is not None and failure.reason == "fail_on"


def test_a_cut_in_what_was_searched_is_none_of_its_business(log: Path) -> None:
    search = scan(log)
    add(log, "x\n" * 50)
    found(search)
    search.was_cut(log, 20, 60)
    assert found(search, last=True) is None


def test_a_fifo_in_the_place_of_a_log_holds_up_nothing(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)
    assert found(scan(log), last=True) is None
