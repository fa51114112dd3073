"""Hashing beside the supervisor's loop, so that a large file holds up nothing.

Small files are read at once. Large ones, and folders, go to one worker process, which is
started when the first of them comes; it does nothing but read and answer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

from hloop.files import FileDigest, FileRefused, hash_file
from hloop.plan.paths import inside
from hloop.run.channel import LineReader, Message, encode
from hloop.run.processes import die_with_parent
from hloop.trees import hash_tree

# A few milliseconds of reading: less than it takes to hand the files over.
INLINE_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file or folder to hash. Inputs may be symbolic links, outputs may not.

    Attributes:
        directory: it is a folder, whose digest is that of :func:`hloop.trees.hash_tree`.
        inside: the run directory, where it must really lie in it: a job may have made a link
            of a folder on the way to its output.
    """

    path: str
    follow: bool
    directory: bool = False
    inside: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file cannot be taken: a stable code and a sentence."""

    code: str
    message: str


Hashed = FileDigest | Refusal
Callback = Callable[[list[Hashed]], None]
Identity = tuple[int, ...]


class DigestCache:
    """Reads a file once for as long as its device, inode, size, mtime and ctime are the same.

    A folder is read each time: these say nothing about what lies deep in it.
    """

    def __init__(self) -> None:
        self._known: dict[Identity, FileDigest] = {}
        self._real: dict[str, str] = {}

    def lookup(self, wanted: Wanted) -> FileDigest | None:
        identity = _identity(wanted)
        return None if identity is None else self._known.get(identity)

    def hash(self, wanted: Wanted) -> Hashed:
        if wanted.inside is not None and (real := self._outside(wanted.path, wanted.inside)):
            found = f"{wanted.path} leads out of the run directory, to {real}"
            return Refusal("outside_run_directory", found)
        before = _identity(wanted)
        if before is not None and before in self._known:
            return self._known[before]
        read = hash_tree if wanted.directory else hash_file
        try:
            result = read(wanted.path, follow=wanted.follow)
        except FileRefused as error:
            return Refusal(error.code, error.problems[0].found)
        self.remember(before, wanted, result)
        return result

    def _outside(self, path: str, run_dir: str) -> str:
        """Say where a path really lies, its last component aside; "" where inside."""
        if run_dir not in self._real:
            self._real[run_dir] = os.path.realpath(run_dir)
        folder, name = os.path.split(path)
        real = os.path.join(os.path.realpath(folder), name)
        return "" if inside(real, self._real[run_dir]) else real

    def remember(self, before: Identity | None, wanted: Wanted, result: FileDigest) -> None:
        """Keep a digest, unless the file became another one while it was read."""
        if before is not None and before == _identity(wanted):
            self._known[before] = result


class HashService:
    """Hashes files and calls back: at once, or when the worker has answered.

    The worker has one request at a time, so that neither side ever waits for the other to
    read.

    Attributes:
        socket: readable when the worker has answered; None while there is no worker.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self._cache = DigestCache()
        self._requests: deque[tuple[Sequence[Wanted], Callback]] = deque()
        self._identities: list[Identity | None] = []
        self._reader = LineReader()
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def worker_pid(self) -> int | None:
        return None if self._worker is None else self._worker.pid

    def submit(self, wanted: Sequence[Wanted], callback: Callback) -> None:
        """Hash ``wanted`` and give ``callback`` one result for each, in their order."""
        if self._is_small(wanted):
            callback([self._cache.hash(item) for item in wanted])
            return
        self._requests.append((wanted, callback))
        if len(self._requests) == 1:
            self._send()

    def read(self) -> None:
        """Take the worker's answer; call when :attr:`socket` is readable."""
        assert self.socket is not None
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._give_up()
            return
        for message in self._reader.feed(data):
            wanted, callback = self._requests.popleft()
            results = [_result(item) for item in message["results"]]
            for before, item, result in zip(self._identities, wanted, results, strict=True):
                if isinstance(result, FileDigest):
                    self._cache.remember(before, item, result)
            answered = [(callback, results), *self._known_by_now()]
            if self._requests:
                self._send()
            # Last, since a callback may submit more.
            for callback, results in answered:
                callback(results)

    def _known_by_now(self) -> list[tuple[Callback, list[Hashed]]]:
        """Take from the queue's head what the last answer made small: jobs share inputs."""
        answered = []
        while self._requests and self._is_small(self._requests[0][0]):
            wanted, callback = self._requests.popleft()
            answered.append((callback, [self._cache.hash(item) for item in wanted]))
        return answered

    def _is_small(self, wanted: Sequence[Wanted]) -> bool:
        unread = (item for item in wanted if self._cache.lookup(item) is None)
        return sum(_size(item) for item in unread) <= INLINE_BYTES

    def _send(self) -> None:
        """Give the worker the first request of the queue."""
        while self._requests and self.socket is None:
            try:
                self.socket = self._start()
            except OSError as error:
                found = f"no process can be started that reads large files: {error.strerror}"
                wanted, callback = self._requests.popleft()
                callback([Refusal("unreadable", found) for _ in wanted])
        if not self._requests or self.socket is None:
            return
        wanted, _ = self._requests[0]
        self._identities = [_identity(item) for item in wanted]
        # Where the worker is gone, read() finds out.
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(encode({"files": [astuple(item) for item in wanted]}))

    def close(self) -> None:
        """End the worker. What it has not answered is forgotten."""
        self._reader = LineReader()
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            self._worker = None

    def _start(self) -> socket.socket:
        parent = os.getpid()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._worker = subprocess.Popen(
                    [sys.executable, "-P", "-m", "hloop.run.hashing", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    preexec_fn=lambda: die_with_parent(parent),
                )
            except OSError:
                ours.close()
                raise
        return ours

    def _give_up(self) -> None:
        """The worker is gone (killed, out of memory): what it was reading counts as unreadable,
        and a new one reads the rest."""
        self.close()
        if not self._requests:
            return
        wanted, callback = self._requests.popleft()
        if self._requests:
            self._send()
        refusal = Refusal("unreadable", "the process that reads large files died")
        callback([refusal for _ in wanted])


def _identity(wanted: Wanted) -> Identity | None:
    if wanted.directory:
        return None
    try:
        found = os.stat(wanted.path, follow_symlinks=wanted.follow)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _size(wanted: Wanted) -> int:
    if wanted.directory:
        return INLINE_BYTES + 1  # To know more, one would have to walk through it.
    identity = _identity(wanted)
    return 0 if identity is None else identity[2]


def _result(item: Message) -> Hashed:
    if "sha256" in item:
        return FileDigest(item["sha256"], item["size"])
    return Refusal(item["code"], item["message"])


def _answer(result: Hashed) -> Message:
    if isinstance(result, FileDigest):
        return {"sha256": result.sha256, "size": result.size}
    return {"code": result.code, "message": result.message}


def main() -> None:
    """The worker: read requests, answer each in order, end when the socket closes."""
    reader, cache = LineReader(), DigestCache()
    with socket.socket(fileno=int(sys.argv[1])) as sock:
        while data := sock.recv(65536):
            for request in reader.feed(data):
                results = [cache.hash(Wanted(*item)) for item in request["files"]]
                sock.sendall(encode({"results": [_answer(result) for result in results]}))


if __name__ == "__main__":
    main()
