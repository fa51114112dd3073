"""A record is published whole or not at all, by one writer, whenever it is killed."""

import errno
import os
import resource
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hloop.files import publish, replace

OLD, NEW = b"old" * 1000, b"new!" * 1000
CALLS = ("open", "write", "fsync", "link", "unlink", "rename", "close")
LOST, KILLED = 3, -signal.SIGKILL


@pytest.fixture
def folder() -> Iterator[Path]:
    # Wherever the other tests write: tmpfs can make files without a name.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def in_child(action: Callable[[], object]) -> int:
    """Do something in a process of its own and give its exit code; LOST: the file is there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        except FileExistsError:
            code = LOST
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def no_unnamed_files() -> None:
    """Let this process meet a file system that has no O_TMPFILE."""
    make = os.open

    def refuse(path: str, flags: int, *args: int, **kwargs: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return make(path, flags, *args, **kwargs)

    os.open = refuse


def no_proc() -> None:
    """Let this process meet a machine without /proc."""
    link = os.link

    def refuse(source: str, *args: str, **kwargs: int) -> None:
        if source.startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        link(source, *args, **kwargs)

    os.link = refuse


def die_before_call(number: int) -> None:
    """Let this process be killed before its ``number``-th system call on files."""
    left = number

    def counting(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return call(*args, **kwargs)

        return counted

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))


def endings(
    folder: Path, write: Callable[[Path, bytes], None], *conditions: Callable[[], None]
) -> Iterator[tuple[bytes | None, set[str]]]:
    """Kill a writer before each of its calls in turn, until one comes through.

    Gives what the record holds then, and the other names in its folder.
    """
    for number in range(100):
        place = folder / str(number)
        place.mkdir()
        record = place / "record.json"
        if write is replace:
            record.write_bytes(OLD)

        def attempt(record: Path = record, number: int = number) -> None:
            die_before_call(number)
            for condition in conditions:
                condition()
            write(record, NEW)

        code = in_child(attempt)
        held = record.read_bytes() if record.exists() else None
        yield held, {entry.name for entry in place.iterdir()} - {record.name}
        if code == 0:
            # A writer makes at least: open folder, open, write, fsync, link or rename.
            assert number > 5
            return
        assert code == KILLED
    raise AssertionError("the writer came through no time")


WAYS = pytest.mark.parametrize(
    "conditions",
    [(), (no_unnamed_files,), (no_proc,)],
    ids=["unnamed", "no O_TMPFILE", "no /proc"],
)


@WAYS
def test_a_publisher_that_is_killed_leaves_no_half_record(
    folder: Path, conditions: tuple[Callable[[], None], ...]
) -> None:
    assert {held for held, _ in endings(folder, publish, *conditions)} == {None, NEW}


def test_a_publisher_that_is_killed_leaves_no_other_name(folder: Path) -> None:
    assert all(not others for _, others in endings(folder, publish))


def test_without_unnamed_files_a_killed_publisher_leaves_names_in_tmp_only(folder: Path) -> None:
    left = {name for _, others in endings(folder, publish, no_unnamed_files) for name in others}
    assert left
    assert all(name.endswith(".tmp") for name in left)


def test_a_replacer_that_is_killed_leaves_the_old_or_the_new(folder: Path) -> None:
    assert {held for held, _ in endings(folder, replace)} == {OLD, NEW}


@WAYS
def test_a_record_is_read_only_and_has_one_name(
    folder: Path, conditions: tuple[Callable[[], None], ...]
) -> None:
    def action() -> None:
        os.umask(0o022)
        for condition in conditions:
            condition()
        publish(folder / "record.json", NEW)

    assert in_child(action) == 0
    facts = os.stat(folder / "record.json")
    assert (stat.S_IMODE(facts.st_mode), facts.st_nlink) == (0o444, 1)


@WAYS
def test_of_24_racing_writers_one_publishes(
    folder: Path, conditions: tuple[Callable[[], None], ...]
) -> None:
    record = folder / "record.json"
    contents = [bytes([65 + number]) * 200_000 for number in range(24)]
    start, go = os.pipe()
    writers = []
    for content in contents:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for condition in conditions:
                    condition()
                os.close(go)
                os.read(start, 1)  # until all are there
                publish(record, content)
                code = 0
            except FileExistsError:
                code = LOST
            finally:
                os._exit(code)
        writers.append(pid)
    os.close(start)
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in writers]
    assert sorted(codes) == [0] + [LOST] * 23
    assert record.read_bytes() == contents[codes.index(0)]
    assert os.listdir(folder) == ["record.json"]


@WAYS
@pytest.mark.parametrize("write", [publish, replace])
def test_a_full_disk_leaves_nothing_new(
    folder: Path,
    write: Callable[[Path, bytes], None],
    conditions: tuple[Callable[[], None], ...],
) -> None:
    def action() -> None:
        for condition in conditions:
            condition()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(OSError, match=r"File too large: '.*/record\.json'"):
            write(folder / "record.json", NEW)

    assert in_child(action) == 0
    assert os.listdir(folder) == []


def test_a_published_record_is_not_written_again(folder: Path) -> None:
    publish(folder / "record.json", OLD)
    with pytest.raises(FileExistsError, match=r"record\.json'$"):
        publish(folder / "record.json", NEW)
    assert (folder / "record.json").read_bytes() == OLD


@pytest.mark.parametrize("write", [publish, replace])
def test_what_cannot_be_written_is_told_by_its_own_name(
    folder: Path, write: Callable[[Path, bytes], None]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"/missing/record\.json'$"):
        write(folder / "missing" / "record.json", NEW)
