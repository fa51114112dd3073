"""Hashing beside a loop: at once, or by a worker that may die."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hloop.files import FileDigest
from hloop.run.hashing import INLINE_BYTES, DigestCache, Hashed, HashService, Refusal, Wanted
from hloop.trees import hash_tree
from supervised import PATIENCE, is_alive, wait_for


def digest(data: bytes) -> FileDigest:
    return FileDigest(hashlib.sha256(data).hexdigest(), len(data))


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


# The cache


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are read, in order."""
    import hloop.run.hashing as module

    found: list[str] = []
    hash_file = module.hash_file

    def noting(path: str, *, follow: bool) -> FileDigest:
        found.append(path)
        return hash_file(path, follow=follow)

    monkeypatch.setattr(module, "hash_file", noting)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    return path


def test_a_file_that_stays_the_same_is_read_once(file: Path, reads: list[str]) -> None:
    cache = DigestCache()
    results = [cache.hash(Wanted(str(file), follow=False)) for _ in range(3)]
    assert (results, reads) == ([digest(b"one")] * 3, [str(file)])


def test_a_file_is_known_through_a_link(file: Path, tmp_path: Path, reads: list[str]) -> None:
    (tmp_path / "link").symlink_to(file)
    cache = DigestCache()
    for name in ("file", "link"):
        cache.hash(Wanted(str(tmp_path / name), follow=True))
    assert reads == [str(file)]


def test_a_file_that_was_written_again_is_read_again(file: Path) -> None:
    cache = DigestCache()
    cache.hash(Wanted(str(file), follow=False))
    file.write_bytes(b"two2")
    assert cache.hash(Wanted(str(file), follow=False)) == digest(b"two2")


def test_a_change_that_hides_behind_its_mtime_is_seen(file: Path) -> None:
    cache, before = DigestCache(), file.stat()
    cache.hash(Wanted(str(file), follow=False))

    def changed() -> bool:
        # Once more, where the kernel's clock has not moved on in between.
        file.write_bytes(b"two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return file.stat().st_ctime_ns != before.st_ctime_ns

    wait_for(changed, "the kernel's clock")
    assert cache.hash(Wanted(str(file), follow=False)) == digest(b"two")


def test_a_file_that_was_put_in_the_place_is_read(file: Path, tmp_path: Path) -> None:
    cache, other = DigestCache(), tmp_path / "other"
    cache.hash(Wanted(str(file), follow=False))
    other.write_bytes(b"two")
    os.replace(other, file)
    assert cache.hash(Wanted(str(file), follow=False)) == digest(b"two")


def test_a_refusal_is_not_remembered(tmp_path: Path) -> None:
    cache, path = DigestCache(), tmp_path / "late"
    cache.hash(Wanted(str(path), follow=False))
    path.write_bytes(b"x")
    assert cache.hash(Wanted(str(path), follow=False)) == digest(b"x")


def test_a_link_is_followed_where_that_is_asked_for(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    found = DigestCache().hash(Wanted(str(tmp_path / "link"), follow=True))
    assert found == digest(b"one")


def test_a_link_is_refused_where_it_is_not(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    found = DigestCache().hash(Wanted(str(tmp_path / "link"), follow=False))
    assert isinstance(found, Refusal) and found.code == "not_a_file"


def test_a_digest_read_through_a_link_does_not_allow_the_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    cache = DigestCache()
    cache.hash(Wanted(str(tmp_path / "link"), follow=True))
    assert isinstance(cache.hash(Wanted(str(tmp_path / "link"), follow=False)), Refusal)


@pytest.mark.parametrize("follow", [True, False])
def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path, follow: bool) -> None:
    os.mkfifo(tmp_path / "fifo")
    found = DigestCache().hash(Wanted(str(tmp_path / "fifo"), follow))
    assert isinstance(found, Refusal) and found.code == "not_a_file"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    found = DigestCache().hash(Wanted(str(tmp_path), follow=False))
    assert isinstance(found, Refusal) and found.code == "not_a_file"


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "file").write_bytes(b"one")
    return tmp_path / "folder"


def test_a_folder_is_hashed_where_that_is_asked_for(folder: Path) -> None:
    found = DigestCache().hash(Wanted(str(folder), follow=False, directory=True))
    assert found == hash_tree(folder)


def test_a_folder_is_read_again_each_time(folder: Path) -> None:
    cache, wanted = DigestCache(), Wanted(str(folder), follow=False, directory=True)
    cache.hash(wanted)
    (folder / "deep" / "file").write_bytes(b"two")
    assert cache.hash(wanted) == hash_tree(folder)


def test_a_file_is_no_folder_even_where_it_is_known(file: Path) -> None:
    cache = DigestCache()
    cache.hash(Wanted(str(file), follow=False))
    found = cache.hash(Wanted(str(file), follow=False, directory=True))
    assert isinstance(found, Refusal) and found.code == "not_a_directory"


def test_an_input_folder_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    found = DigestCache().hash(Wanted(str(tmp_path / "link"), follow=True, directory=True))
    assert found == hash_tree(folder)


# Inside the run directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with a file and a folder, and beside it what is no part of it."""
    for name in ("run", "run2"):
        (tmp_path / name / "out" / "folder").mkdir(parents=True)
        (tmp_path / name / "out" / "file").write_bytes(b"one")
    return tmp_path / "run"


def within(run: Path, path: str, *, directory: bool = False) -> FileDigest | str:
    found = DigestCache().hash(Wanted(str(run / path), False, directory, str(run)))
    return found.code if isinstance(found, Refusal) else found


def test_an_output_in_the_run_directory_is_taken(run: Path) -> None:
    assert within(run, "out/file") == digest(b"one")


def test_an_output_at_the_top_of_the_run_directory_is_taken(run: Path) -> None:
    (run / "file").write_bytes(b"one")
    assert within(run, "file") == digest(b"one")


def test_the_run_directory_may_be_reached_by_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert within(tmp_path / "link", "out/file") == digest(b"one")


def test_a_link_on_the_way_may_stay_inside(run: Path) -> None:
    (run / "link").symlink_to("out")
    assert within(run, "link/file") == digest(b"one")


@pytest.mark.parametrize("name", ["file", "missing"])
def test_a_link_on_the_way_that_leads_out_is_refused(run: Path, name: str) -> None:
    (run / "link").symlink_to(run.parent / "run2" / "out")
    assert within(run, f"link/{name}") == "outside_run_directory"


def test_a_folder_behind_a_link_that_leads_out_is_refused(run: Path) -> None:
    (run / "link").symlink_to(run.parent / "run2" / "out")
    assert within(run, "link/folder", directory=True) == "outside_run_directory"


def test_a_file_that_is_known_is_refused_outside_all_the_same(run: Path) -> None:
    (run / "link").symlink_to(run.parent / "run2" / "out")
    cache, path = DigestCache(), str(run / "link" / "file")
    cache.hash(Wanted(path, follow=False))
    found = cache.hash(Wanted(path, follow=False, inside=str(run)))
    assert isinstance(found, Refusal) and found.code == "outside_run_directory"


def test_an_output_in_a_folder_that_is_not_there_is_missing(run: Path) -> None:
    assert within(run, "nowhere/file") == "missing"


# The service


class Loop:
    """Runs a service as the supervisor does, and keeps what it answers, in order."""

    def __init__(self) -> None:
        self.service = HashService()
        self.answers: list[tuple[str, list[Hashed]]] = []

    def submit(self, name: str, *paths: Path, follow: bool = False) -> None:
        wanted = [Wanted(str(path), follow) for path in paths]
        self.service.submit(wanted, lambda results: self.answers.append((name, results)))

    def run(self, count: int) -> list[str]:
        """Read until so many answers have come; give their names."""
        while len(self.answers) < count:
            sock = self.service.socket
            assert sock is not None
            self.wait(sock)
            self.service.read()
        return [name for name, _ in self.answers]

    @staticmethod
    def wait(sock: socket.socket) -> None:
        assert select.select([sock], [], [], PATIENCE)[0]

    def kill(self) -> None:
        assert self.service.worker_pid is not None
        os.kill(self.service.worker_pid, signal.SIGKILL)

    @property
    def results(self) -> list[Hashed]:
        return [result for _, results in self.answers for result in results]


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.service.close()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return sparse(tmp_path / "large", INLINE_BYTES + 1)


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A file that takes seconds to read."""
    return sparse(tmp_path / "huge", 2**31)


def test_small_files_are_answered_at_once_without_a_worker(loop: Loop, file: Path) -> None:
    loop.submit("small", file)
    assert (loop.results, loop.service.worker_pid) == ([digest(b"one")], None)


def test_no_files_are_answered_at_once(loop: Loop) -> None:
    loop.submit("none")
    assert loop.answers == [("none", [])]


def test_a_large_file_is_left_to_the_worker(loop: Loop, large: Path) -> None:
    loop.submit("large", large)
    assert loop.answers == []
    loop.run(1)
    assert loop.results == [digest(bytes(INLINE_BYTES + 1))]


def test_many_small_files_that_are_large_together_are_too(loop: Loop, tmp_path: Path) -> None:
    paths = [sparse(tmp_path / str(index), INLINE_BYTES // 2) for index in range(3)]
    loop.submit("together", *paths)
    assert loop.answers == []
    loop.run(1)


def test_a_folder_is_left_to_the_worker(loop: Loop, folder: Path) -> None:
    wanted = [Wanted(str(folder), follow=False, directory=True)]
    loop.service.submit(wanted, lambda results: loop.answers.append(("folder", results)))
    assert loop.answers == []
    loop.run(1)
    assert loop.results == [hash_tree(folder)]


def test_the_worker_too_refuses_what_lies_outside(loop: Loop, folder: Path, run: Path) -> None:
    wanted = [Wanted(str(folder), follow=False, directory=True, inside=str(run))]
    loop.service.submit(wanted, lambda results: loop.answers.append(("folder", results)))
    loop.run(1)
    (result,) = loop.results
    assert isinstance(result, Refusal) and result.code == "outside_run_directory"


def test_results_stand_in_the_order_of_the_request(
    loop: Loop, file: Path, large: Path, tmp_path: Path
) -> None:
    loop.submit("mixed", large, tmp_path / "absent", file)
    loop.run(1)
    kinds = [r.code if isinstance(r, Refusal) else r.size for r in loop.results]
    assert kinds == [INLINE_BYTES + 1, "missing", 3]


def test_small_files_do_not_wait_for_large_ones(loop: Loop, huge: Path, file: Path) -> None:
    loop.submit("huge", huge)
    loop.submit("small", file)
    assert [name for name, _ in loop.answers] == ["small"]


def test_large_requests_are_answered_in_their_order(loop: Loop, tmp_path: Path) -> None:
    for index in range(5):
        loop.submit(str(index), sparse(tmp_path / str(index), INLINE_BYTES + index + 1))
    assert loop.run(5) == ["0", "1", "2", "3", "4"]


def test_a_large_input_that_thousands_share_is_read_once(loop: Loop, large: Path) -> None:
    for index in range(3000):
        loop.submit(str(index), large)
    loop.run(1)
    assert len(loop.answers) == 3000


def test_requests_and_answers_may_be_larger_than_a_socket_holds(
    loop: Loop, large: Path, tmp_path: Path
) -> None:
    absent = [tmp_path / f"absent-{'x' * 100}-{index}" for index in range(3000)]
    for index in range(5):
        os.utime(large, ns=(index, index))
        loop.submit(str(index), large, *absent)
    loop.run(5)
    assert len(loop.results) == 5 * 3001


def test_a_killed_worker_fails_what_it_was_reading(loop: Loop, huge: Path) -> None:
    loop.submit("huge", huge)
    loop.kill()
    loop.run(1)
    (result,) = loop.results
    assert isinstance(result, Refusal) and result.code == "unreadable"


def test_a_new_worker_reads_what_the_killed_one_had_not_begun(
    loop: Loop, huge: Path, large: Path
) -> None:
    loop.submit("huge", huge)
    loop.submit("large", large)
    loop.kill()
    loop.run(2)
    assert isinstance(loop.results[1], FileDigest)


def test_half_an_answer_of_a_killed_worker_is_forgotten(
    loop: Loop, large: Path, tmp_path: Path
) -> None:
    absent = [tmp_path / f"absent-{'x' * 100}-{index}" for index in range(5000)]
    loop.submit("cut off", large, *absent)
    sock = loop.service.socket
    assert sock is not None
    loop.wait(sock)
    loop.service.read()
    loop.kill()
    loop.submit("whole", sparse(tmp_path / "other", INLINE_BYTES + 2))
    loop.run(2)
    refused = {r.code if isinstance(r, Refusal) else r.size for _, [r, *_] in loop.answers}
    assert refused == {"unreadable", INLINE_BYTES + 2}


def test_after_a_worker_that_died_idle_a_new_one_is_started(
    loop: Loop, large: Path, tmp_path: Path
) -> None:
    loop.submit("first", large)
    loop.run(1)
    sock = loop.service.socket
    assert sock is not None
    loop.kill()
    loop.wait(sock)
    loop.service.read()
    loop.submit("second", sparse(tmp_path / "other", INLINE_BYTES + 2))
    loop.run(2)
    assert isinstance(loop.results[1], FileDigest)


def test_a_request_to_a_worker_that_just_died_is_answered(
    loop: Loop, large: Path, tmp_path: Path
) -> None:
    loop.submit("first", large)
    loop.run(1)
    pid = loop.service.worker_pid
    loop.kill()
    wait_for(lambda: not is_alive(pid or 0), "its death")
    loop.submit("second", sparse(tmp_path / "other", INLINE_BYTES + 2))
    assert loop.run(2) == ["first", "second"]


def test_a_request_from_within_an_answer_is_answered(
    loop: Loop, large: Path, tmp_path: Path
) -> None:
    other = sparse(tmp_path / "other", INLINE_BYTES + 2)
    wanted = [Wanted(str(large), follow=False)]
    loop.service.submit(wanted, lambda _: loop.submit("inner", other))
    assert loop.run(1) == ["inner"]


def test_closing_ends_the_worker(loop: Loop, huge: Path) -> None:
    loop.submit("huge", huge)
    pid = loop.service.worker_pid
    loop.service.close()
    assert not Path(f"/proc/{pid}").exists()
