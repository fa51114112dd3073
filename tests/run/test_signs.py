"""Signs of life: what counts as one, and when a job has been silent for long enough."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hloop.run import signs
from hloop.run.journal import Instant
from hloop.run.signs import Signs, WatchedFiles

SECOND = 10**9


def at(seconds: float) -> Instant:
    return Instant(round(seconds * SECOND), f"second {seconds}")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("x")
    return path


@pytest.fixture
def seen(log: Path) -> Signs:
    """The signs of a job that has used no CPU time when it started, at second 0."""
    return Signs({"stdout": log}, at(0))


def test_a_job_that_shows_nothing_for_long_enough_is_silent(seen: Signs) -> None:
    seen.look(at(2), 0)
    assert seen.is_silent(2)


def test_a_moment_before_it_is_not(seen: Signs) -> None:
    seen.look(at(1.999), 0)
    assert not seen.is_silent(2)


def test_the_first_sign_is_the_start(seen: Signs) -> None:
    seen.look(at(1), 0)
    assert (seen.last.what, seen.last.at) == ("it started", at(0))


def test_cpu_time_is_a_sign_of_life(seen: Signs) -> None:
    seen.look(at(2), 1)
    assert not seen.is_silent(2)
    assert seen.last.what == "it used CPU time"


def test_a_file_that_grows_is_a_sign_of_life(seen: Signs, log: Path) -> None:
    log.write_text("xx")
    seen.look(at(2), 0)
    assert (seen.last.what, seen.last.at) == ("stdout grew", at(2))


def test_a_file_that_is_written_in_place_is_a_sign_of_life(seen: Signs, log: Path) -> None:
    os.utime(log, ns=(0, 1))
    seen.look(at(2), 0)
    assert seen.last.what == "stdout changed"


def test_a_file_that_appears_is_a_sign_of_life(tmp_path: Path) -> None:
    seen = Signs({"the output 'x'": tmp_path / "later"}, at(0))
    (tmp_path / "later").touch()
    seen.look(at(2), 0)
    assert seen.last.what == "the output 'x' changed"


def test_after_a_sign_of_life_the_time_begins_anew(seen: Signs) -> None:
    seen.look(at(1), 6)
    seen.look(at(2.5), 6)
    assert not seen.is_silent(2)
    seen.look(at(3), 6)
    assert seen.is_silent(2)


# Watched files


def watched(root: Path, *patterns: str) -> WatchedFiles:
    return WatchedFiles(root, [tuple(pattern.split("/")) for pattern in patterns], 0)


def put(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("x")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("log.txt", "log.txt"),
        ("tb/events.*", "tb/events.1"),
        ("tb/**/events.*", "tb/events.1"),
        ("tb/**/events.*", "tb/deep/er/events.1"),
        ("**/where", "any/where"),
        ("run_?/[ab]", "run_1/a"),
        ("*", ".hidden"),
    ],
)
def test_a_new_file_that_matches_is_found(tmp_path: Path, pattern: str, name: str) -> None:
    files = watched(tmp_path, pattern)
    put(tmp_path, name)
    assert files.look(1) == name


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("tb/events.*", "tb/other"),
        ("tb/events.*", "tb/deep/events.1"),
        ("run_?/[ab]", "run_1/c"),
        ("**/*", "journal.jsonl"),
        ("**/*", "jobs/other/stdout.log"),
    ],
)
def test_a_file_that_does_not_match_is_not(tmp_path: Path, pattern: str, name: str) -> None:
    files = watched(tmp_path, pattern)
    put(tmp_path, name)
    assert files.look(1) is None


def test_a_file_that_grows_is_found_again(tmp_path: Path) -> None:
    put(tmp_path, "tb/events")
    files = watched(tmp_path, "tb/*")
    assert files.look(1) is None
    put(tmp_path, "tb/events")
    assert files.look(2) == "tb/events"


def test_wildcards_lead_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    files = watched(tmp_path, "**/deep/*")
    put(tmp_path, "deep/file")
    assert files.look(1) == "deep/file"
    assert files.look(2) is None


def test_a_growing_watched_file_is_a_sign_of_life(tmp_path: Path, log: Path) -> None:
    seen = Signs({"stdout": log}, at(0), watched(tmp_path, "tb/*"))
    put(tmp_path, "tb/events")
    seen.look(at(2), 0)
    assert seen.last.what == "the watched file tb/events changed"


def test_a_job_is_not_silent_before_every_file_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signs, "MAX_ENTRIES", 20)
    for number in range(30):
        put(tmp_path, f"tb/{number}")
    seen = Signs({}, at(0), watched(tmp_path, "tb/*"))
    for _ in range(10):  # Until each was seen once: new files are signs.
        seen.look(at(1), 0)
    seen.look(at(5), 0)
    silent = [seen.is_silent(2)]
    for second in (6, 7, 8, 9, 10, 11):
        seen.look(at(second), 0)
        silent.append(seen.is_silent(2))
    assert silent[0] is False and silent[-1] is True


def test_the_newest_time_of_the_watched_files_is_known(tmp_path: Path) -> None:
    put(tmp_path, "tb/old")
    put(tmp_path, "tb/new")
    os.utime(tmp_path / "tb/old", ns=(0, 5))
    os.utime(tmp_path / "tb/new", ns=(0, 7))
    assert watched(tmp_path, "tb/*").newest_mtime_ns == 7
