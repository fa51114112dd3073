"""Keeps the logs of jobs within ``max_log_bytes``: of a longer one, the middle is cut out.

A job writes straight into its log, so nothing can be held back. While it runs, the middle of a
log that is too long becomes a hole, which takes no space on the disk; what the job writes goes
on at the end. When its processes are gone, the hole is closed. Where a file system cannot make
holes, a log is cut only then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hloop.run.timers import Timers

# What file systems allocate at once; holes begin and end at a multiple of it.
BLOCK = 4096
# What is moved at once when a hole is closed: a few milliseconds.
PART_BYTES = 1 << 22
# How fast a job may write before its log takes more than twice its bound on the disk.
BYTES_PER_SECOND = 1 << 30

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


@dataclass
class _Log:
    """One log.

    Attributes:
        identity: device and inode: what a job puts in its place is left alone.
        punched: up to where it has a hole; 0 without one.
    """

    path: Path
    identity: tuple[int, int]
    punched: int = 0


class LogBound:
    """Watches the sizes of all running jobs' logs.

    Args:
        timers: the loop's timers.
        max_bytes: of one log, what is kept at its beginning and its end together.
        on_cut: called with a log and where its hole begins and ends.
    """

    def __init__(self, timers: Timers, max_bytes: int, on_cut: Callable[[Path, int, int], None]):
        self._timers = timers
        self._on_cut = on_cut
        self._max = max_bytes
        self._head = max_bytes // 2 // BLOCK * BLOCK
        # A block is for the words that stand at the cut.
        self._tail = max_bytes - self._head - BLOCK
        seconds = min(max(max_bytes / BYTES_PER_SECOND, 0.05), 1.0)
        self._interval_ns = round(seconds * 1e9)
        self._logs: dict[Path, _Log] = {}
        self._looking = False

    def add(self, path: Path) -> None:
        """Take the log of a job that was just started."""
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            self._logs[path] = _Log(path, (found.st_dev, found.st_ino))
        if not self._looking:
            self._looking = True
            self._timers.at(time.monotonic_ns() + self._interval_ns, self._look)

    def _look(self) -> None:
        for log in self._logs.values():
            with contextlib.suppress(OSError):
                self._make_hole(log)
        self._looking = bool(self._logs)
        if self._looking:
            self._timers.at(time.monotonic_ns() + self._interval_ns, self._look)

    def _make_hole(self, log: _Log) -> None:
        if os.lstat(log.path).st_size <= self._max:
            return
        with _opened(log) as fd:
            end = (os.fstat(fd).st_size - self._tail) // BLOCK * BLOCK
            start = max(self._head + BLOCK, log.punched)
            if end <= start:
                return
            if _libc.fallocate(fd, _KEEP_SIZE | _PUNCH_HOLE, start, end - start) != 0:
                return
            if not log.punched:
                # It stays so if this process dies.
                os.pwrite(fd, self._words(None), self._head)
            log.punched = end
        self._on_cut(log.path, self._head, end)

    def finish(self, path: Path) -> Iterator[int]:
        """Take a log whose job is gone: no hole is made in it from now on.

        What this gives cuts it, a part at each step, and gives how many bytes are cut out.
        """
        log = self._logs.pop(path, None)
        return iter(()) if log is None else self._cut(log)

    def _cut(self, log: _Log) -> Iterator[int]:
        try:
            with _opened(log) as fd:
                yield from self._close_hole(log, fd)
        except OSError:
            # It is gone, or not the job's log any more, or cannot be written.
            yield max(log.punched - self._head - BLOCK, 0)

    def _close_hole(self, log: _Log, fd: int) -> Iterator[int]:
        size = os.fstat(fd).st_size
        if size <= self._max:
            return
        source = size - self._tail
        cut = source - self._head
        words = self._words(cut)
        target = self._head + os.pwrite(fd, words, self._head)
        while data := os.pread(fd, min(PART_BYTES, size - source), source):
            count = os.pwrite(fd, data, target)
            source, target = source + count, target + count
            yield cut
        os.ftruncate(fd, target)
        yield cut

    def _words(self, cut: int | None) -> bytes:
        what = "what follows is" if cut is None else f"{cut} bytes are"
        text = f"{what} cut out here, since the log grew above {self._max} bytes"
        return f"\n[hloop: {text}]\n".encode()


@contextlib.contextmanager
def _opened(log: _Log) -> Iterator[int]:
    """Open a log for writing.

    Raises:
        OSError: it cannot be opened, or is not the one that the job was started with.
    """
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(log.path, flags)
    try:
        found = os.fstat(fd)
        same = (found.st_dev, found.st_ino) == log.identity and found.st_nlink == 1
        if not (same and stat.S_ISREG(found.st_mode)):
            raise OSError(f"{log.path} is another file")
        yield fd
    finally:
        os.close(fd)
