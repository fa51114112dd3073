"""Looks for the patterns of ``budget.fail_on`` in what a job prints, line by line.

Only what is new is read, and only a part at a time, so that a gigabyte holds up nothing. A
pattern that takes too long on one part is found out: Python's re asks for signals while it
searches, so that a timer can end it.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hloop.run.attempt import Failure

# What is read and searched at once: some milliseconds.
PART_BYTES = 1 << 18
# A longer line is searched in pieces of this many characters, which overlap.
MAX_LINE = 8192
OVERLAP = 1024
# CPU time for one part. A pattern that needs more backtracks without end.
MAX_SECONDS = 1.0
# What a message shows of a line.
SHOWN = 200


class _TooSlow(Exception):
    pass


def _too_slow(_number: int, _frame: Any) -> None:
    raise _TooSlow


class LogScan:
    """Searches the logs of one job. Only for the main thread of a process.

    Args:
        logs: stdout and stderr.
        patterns: the regular expressions.
    """

    def __init__(self, logs: Sequence[Path], patterns: Sequence[re.Pattern[str]]):
        self._logs = [_Log(path, patterns) for path in logs]
        signal.signal(signal.SIGVTALRM, _too_slow)

    def search(self, *, last: bool = False) -> Iterator[Failure | None]:
        """Search what is new, a part at each step; the failure that is found is the last.

        Args:
            last: nothing more will come, so a line without an end is searched too.
        """
        for log in self._logs:
            more = True
            while more:
                more, failure = _in_time(log, last)
                yield failure
                if failure is not None:
                    return

    def was_cut(self, path: Path, start: int, end: int) -> None:
        """Note that a log has a hole, which begins where it did before if it had one."""
        for log in self._logs:
            if log.path == path:
                log.hole = (start, end)


def _in_time(log: _Log, last: bool) -> tuple[bool, Failure | None]:
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
        try:
            return log.search_part(last)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooSlow:
        pattern = log.at.pattern
        where = f"from line {log.number} of its {log.path.stem} on"
        text = f"{where}, fail_on took more than {MAX_SECONDS:g} s to look for {pattern!r}"
        return False, Failure("fail_on_slow", text)


class _Log:
    """What was searched of one log.

    Attributes:
        offset: up to where it was read.
        number: of the line that is searched, counted from 1.
        at: the pattern that is searched for.
        hole: what is not there any more, from one offset to another.
        unseen: bytes that were gone before they could be read.
    """

    def __init__(self, path: Path, patterns: Sequence[re.Pattern[str]]):
        self.path, self._patterns, self.at = path, patterns, patterns[0]
        self.hole = (0, 0)
        self.unseen = 0
        self.number = 1
        self.skip_to(0)

    def skip_to(self, offset: int) -> None:
        self.offset = offset
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def search_part(self, last: bool) -> tuple[bool, Failure | None]:
        """Search the next part. Gives whether there is more, and what is wrong."""
        data = self._read()
        at_end = last and not data
        *lines, rest = (self._rest + self._decoder.decode(data, final=at_end)).split("\n")
        self._rest = rest
        if self._may_match(lines):
            for line in lines:
                if failure := self._search(line):
                    return False, failure
                self.number += 1
        else:
            self.number += len(lines)
        if at_end or len(rest) > MAX_LINE:
            if failure := self._search(rest):
                return False, failure
            self._rest = rest[-OVERLAP:]
        if at_end and self.unseen:
            name = self.path.stem
            text = f"{self.unseen} bytes of its {name} were cut before fail_on could search them"
            return False, Failure("fail_on_unseen", text)
        return bool(data), None

    def _may_match(self, lines: list[str]) -> bool:
        """Say no at once where nothing matches, as nearly always: ten times as fast."""
        if any(len(line) > MAX_LINE or "\r" in line for line in lines):
            return True
        for pattern in self._patterns:
            self.at = pattern
            if any(map(pattern.search, lines)):
                return True
        return False

    def _search(self, line: str) -> Failure | None:
        # A progress bar writes over itself.
        for text in line.split("\r"):
            for start in range(0, max(len(text) - OVERLAP, 1), MAX_LINE - OVERLAP):
                piece = text[start : start + MAX_LINE]
                for pattern in self._patterns:
                    self.at = pattern
                    if match := pattern.search(piece):
                        begin = max(0, match.start() - SHOWN // 2)
                        shown = piece[begin : begin + SHOWN]
                        found = f"line {self.number} of its {self.path.stem} is {shown!r}"
                        text = f"{found}, in which fail_on finds {pattern.pattern!r}"
                        return Failure("fail_on", text)
        return None

    def _read(self) -> bytes:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.path, flags)
        except OSError:
            return b""
        with open(fd, "rb", buffering=0) as file:
            found = os.fstat(fd)
            # A job may put anything into its log's place.
            if not stat.S_ISREG(found.st_mode):
                return b""
            if found.st_size < self.offset:
                self.skip_to(0)
                self.number = 1
            start, end = self.hole
            if start <= self.offset < end:
                self.unseen += end - self.offset
                self.skip_to(end)
            wanted = min(PART_BYTES, start - self.offset) if self.offset < start else PART_BYTES
            file.seek(self.offset)
            data = file.read(wanted) or b""
        self.offset += len(data)
        return data
