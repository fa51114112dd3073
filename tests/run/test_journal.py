"""The journal: one line per event, from several processes, up to the last whole line."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hloop.errors import ReportError
from hloop.run.journal import Journal, mend_journal, read_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal.create(path, plan_id="p")
    yield journal
    journal.close()


def test_a_journal_begins_with_the_start_of_the_run(journal: Journal, path: Path) -> None:
    (first,) = read_journal(path)
    assert (first["event"], first["offset_ns"], first["plan_id"]) == ("run_started", 0, "p")


def test_events_are_there_at_once_and_in_order(journal: Journal, path: Path) -> None:
    journal.append("job_ready", job="a")
    journal.append("job_ready", job="b")
    assert [event.get("job") for event in read_journal(path)] == [None, "a", "b"]


def test_what_was_written_is_given_back(journal: Journal, path: Path) -> None:
    written = journal.append("job_ready", job="ü")
    assert read_journal(path)[-1] == written


def test_offsets_never_go_back(journal: Journal, path: Path) -> None:
    for _ in range(10):
        journal.append("job_ready")
    offsets = [event["offset_ns"] for event in read_journal(path)]
    assert offsets == sorted(offsets)


def test_a_second_run_cannot_start_the_same_journal(journal: Journal, path: Path) -> None:
    with pytest.raises(FileExistsError):
        Journal.create(path)


def test_a_journal_is_not_inherited_by_jobs(journal: Journal, path: Path) -> None:
    result = subprocess.run(
        ["sh", "-c", "ls -l /proc/self/fd"], close_fds=False, capture_output=True, text=True
    )
    assert path.name not in result.stdout


APPEND = """
import sys
from pathlib import Path
from hloop.run.journal import Journal
journal = Journal.attach(Path(sys.argv[1]))
for number in range(100):
    journal.append("job_ended", job=sys.argv[2], number=number, text=sys.argv[2] * 1000)
"""


def test_lines_of_several_processes_do_not_mix(journal: Journal, path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", APPEND, path, name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    events = read_journal(path)[1:]
    numbers = {name: [e["number"] for e in events if e["job"] == name] for name in "abc"}
    assert numbers == dict.fromkeys("abc", list(range(100)))


def test_who_joins_counts_from_the_same_start(journal: Journal, path: Path) -> None:
    joined = Journal.attach(path)
    joined.close()
    assert joined.started_ns == journal.started_ns


def test_a_last_line_that_was_cut_off_is_left_out(journal: Journal, path: Path) -> None:
    journal.append("job_ready", job="a")
    with path.open("ab") as file:
        file.write(b'{"event": "job_ended", "jo')
    assert [event["event"] for event in read_journal(path)] == ["run_started", "job_ready"]


def test_after_mending_another_process_can_go_on(journal: Journal, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"event": "job_ended", "jo')
    mend_journal(path)
    journal.append("job_ready", job="a")
    assert [event["event"] for event in read_journal(path)] == ["run_started", "job_ready"]


def test_mending_a_whole_journal_changes_nothing(journal: Journal, path: Path) -> None:
    before = path.read_bytes()
    mend_journal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "no_start"),
        ('{"event": "job_ready"}\n', "no_start"),
        ('{"event": "run_started"}\n{"event"\n{}\n', "not_json"),
    ],
)
def test_a_journal_that_cannot_be_read_says_why(path: Path, text: str, code: str) -> None:
    path.write_text(text)
    with pytest.raises(ReportError) as caught:
        read_journal(path)
    assert caught.value.problems[0].code == code


def test_a_broken_line_is_named_by_its_number(path: Path) -> None:
    path.write_text('{"event": "run_started"}\n{}\nx\n')
    with pytest.raises(ReportError) as caught:
        read_journal(path)
    assert caught.value.problems[0].where == "line 3"


def test_a_journal_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(ReportError) as caught:
        read_journal(path)
    assert str(path) in str(caught.value)


FILL = """
import sys
from pathlib import Path
from hloop.run.journal import Journal
journal, written = Journal.create(Path(sys.argv[1])), 1
try:
    while True:
        journal.append("job_ready", job="a" * 100)
        written += 1
except OSError as error:
    print(written, error.strerror)
"""


def test_on_a_full_disk_what_is_not_written_whole_is_an_error(path: Path) -> None:
    # A limit on the size of files acts as a full disk does: the last write is cut short.
    result = subprocess.run(
        [sys.executable, "-c", FILL, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5001, 5001)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert path.stat().st_size == 5001
    assert result.stdout == f"{len(read_journal(path))} {os.strerror(errno.EFBIG)}\n"
