"""When a job counts as stalled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hloop.run.watchdog import StallWatch

SECOND = 10**9


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("x")
    return path


def test_a_job_that_shows_nothing_for_long_enough_is_stalled(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    assert watch.is_stalled(2 * SECOND, 5)


def test_a_moment_before_it_is_not(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    assert not watch.is_stalled(2 * SECOND - 1, 5)


def test_the_time_before_the_first_look_does_not_count(log: Path) -> None:
    assert not StallWatch(2, [log]).is_stalled(100 * SECOND, 5)


def test_cpu_time_is_a_sign_of_life(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    watch.is_stalled(1 * SECOND, 6)
    assert not watch.is_stalled(2 * SECOND, 6)


def test_a_file_that_grows_is_a_sign_of_life(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    log.write_text("xx")
    assert not watch.is_stalled(2 * SECOND, 5)


def test_a_file_that_is_written_in_place_is_a_sign_of_life(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    os.utime(log, ns=(0, 1))
    assert not watch.is_stalled(2 * SECOND, 5)


def test_a_file_that_appears_is_a_sign_of_life(tmp_path: Path) -> None:
    watch = StallWatch(2, [tmp_path / "later"])
    watch.is_stalled(0, 5)
    (tmp_path / "later").touch()
    assert not watch.is_stalled(2 * SECOND, 5)


def test_after_a_sign_of_life_the_time_begins_anew(log: Path) -> None:
    watch = StallWatch(2, [log])
    watch.is_stalled(0, 5)
    watch.is_stalled(1 * SECOND, 6)
    assert watch.is_stalled(3 * SECOND, 6)


@pytest.mark.parametrize(
    ("seconds", "interval_ns"), [(0.001, 50_000_000), (2, 500_000_000), (3600, 5 * SECOND)]
)
def test_it_is_asked_four_times_within_bounds(seconds: float, interval_ns: int) -> None:
    assert StallWatch(seconds, []).interval_ns == interval_ns
