"""Logs that grow above their bound, cut while a job writes and when it is gone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from hloop.run.logbound import BLOCK, LogBound
from hloop.run.timers import Timers

BOUND = 1 << 16
PART = 4 * BOUND


class Writer:
    """A job that writes into its log, and what watches it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "stdout.log"
        self.file: BinaryIO = self.path.open("ab", buffering=0)
        self.timers = Timers()
        self.cuts: list[tuple[int, int]] = []
        self.bound = LogBound(
            self.timers, BOUND, lambda _, start, end: self.cuts.append((start, end))
        )
        self.bound.add(self.path)

    def write(self, data: bytes) -> None:
        self.file.write(data)

    def look(self) -> None:
        """Let the time come at which the sizes are looked at."""
        patience = self.timers.patience()
        assert patience is not None
        time.sleep(patience)
        self.timers.run_due()

    def finish(self) -> int:
        """The job is gone. Gives how many bytes were cut out."""
        return [0, *self.bound.finish(self.path)][-1]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path)
    with writer.file:
        yield writer


def test_a_log_within_its_bound_stays_as_it_is(writer: Writer) -> None:
    writer.write(b"x" * BOUND)
    writer.look()
    assert writer.finish() == 0
    assert writer.path.read_bytes() == b"x" * BOUND


def test_a_longer_one_keeps_its_beginning_and_its_end(writer: Writer) -> None:
    writer.write(b"first\n" + b"x" * PART + b"last\n")
    writer.finish()
    text = writer.path.read_bytes()
    assert text.startswith(b"first\nxxx") and text.endswith(b"xxxlast\n")


def test_it_is_no_longer_than_the_bound(writer: Writer) -> None:
    writer.write(b"x" * PART)
    writer.finish()
    assert BOUND - BLOCK < writer.path.stat().st_size <= BOUND


def test_the_cut_is_said_where_it_is_with_its_size(writer: Writer) -> None:
    writer.write(b"x" * PART)
    cut = writer.finish()
    words = f"\n[hloop: {cut} bytes are cut out here, since the log grew above {BOUND} bytes]\n"
    text = writer.path.read_bytes()
    assert text.count(b"x") + cut == PART
    assert text.index(words.encode()) == BOUND // 2


def test_one_byte_too_many_cuts_too(writer: Writer) -> None:
    writer.write(b"x" * (BOUND + 1))
    cut = writer.finish()
    assert writer.path.read_bytes().count(b"x") == BOUND + 1 - cut
    assert writer.path.stat().st_size <= BOUND


def test_while_the_job_runs_the_middle_takes_no_space(writer: Writer) -> None:
    for _ in range(8):
        writer.write(b"x" * PART)
        writer.look()
    found = writer.path.stat()
    assert found.st_size == 8 * PART
    assert found.st_blocks * 512 <= 2 * BOUND


def test_the_place_of_the_hole_is_marked_while_the_job_runs(writer: Writer) -> None:
    writer.write(b"x" * PART)
    writer.look()
    assert b"[hloop: what follows is cut out here" in writer.path.read_bytes()


def test_what_is_written_after_a_hole_is_at_the_end(writer: Writer) -> None:
    writer.write(b"first\n" + b"x" * PART)
    writer.look()
    writer.write(b"Y" * PART + b"last\n")
    writer.look()
    cut = writer.finish()
    text = writer.path.read_bytes()
    assert text.startswith(b"first\nx") and text.endswith(b"Ylast\n") and b"\0" not in text
    assert text.count(b"x") + text.count(b"Y") + len(b"first\nlast\n") + cut == 2 * PART + 11


def test_what_searches_the_log_is_told_what_is_gone(writer: Writer) -> None:
    writer.write(b"x" * PART)
    writer.look()
    ((start, end),) = writer.cuts
    data = writer.path.read_bytes()
    assert set(data[:start]) == {ord("x")} and data[start : start + 8] == b"\n[hloop:"
    assert set(data[end:]) == {ord("x")} and data[end - 1] == 0


def test_a_file_that_the_job_put_in_its_place_is_left_alone(writer: Writer) -> None:
    other = writer.path.with_name("other")
    other.write_bytes(b"x" * PART)
    os.rename(other, writer.path)
    writer.look()
    assert writer.finish() == 0
    assert writer.path.read_bytes() == b"x" * PART


def test_a_log_that_is_another_file_too_is_left_alone(writer: Writer) -> None:
    os.link(writer.path, writer.path.with_name("precious"))
    writer.write(b"x" * PART)
    writer.look()
    assert writer.finish() == 0


def test_a_log_that_is_gone_was_not_cut(writer: Writer) -> None:
    writer.path.unlink()
    writer.look()
    assert writer.finish() == 0


def test_nobody_looks_when_no_job_runs(writer: Writer) -> None:
    writer.finish()
    writer.look()
    assert writer.timers.patience() is None
