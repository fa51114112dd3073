"""Signs of life of a job: what it writes, and the CPU time that it uses.

Files are looked at by their size and mtime. When something was seen is told by the clock that
never jumps; that a file's own time may be anything does not matter. Each look is bounded, also
where patterns lead through folders of a million files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hloop.files import OWN_NAMES
from hloop.run.journal import Instant

# Entries of folders that are looked at before the loop goes on: a few milliseconds.
MAX_ENTRIES = 2000

State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life.

    Attributes:
        what: a phrase, e.g. ``stdout grew``.
        at: when it was seen; it came at some moment between then and the look before.
    """

    what: str
    at: Instant


class Signs:
    """Notes signs of life of one job.

    Args:
        files: what to look at, by the words for it.
        started: when the job started, which is its first sign.
        watched: more files, by patterns.

    Attributes:
        last: the last sign that was seen.
    """

    def __init__(
        self, files: Mapping[str, Path], started: Instant, watched: WatchedFiles | None = None
    ):
        self._files = {what: (path, state(path)) for what, path in files.items()}
        self._cpu_ticks: int | None = 0
        self._looked_ns = self._counted_ns = started.monotonic_ns
        self.watched = watched
        self.last = Sign("it started", started)

    def look(self, now: Instant, cpu_ticks: int | None) -> None:
        """Look at the job once. ``cpu_ticks`` is the CPU time of all its processes so far; None
        where that was not asked for."""
        seen = ""
        if cpu_ticks not in (None, self._cpu_ticks):
            seen, self._cpu_ticks = "it used CPU time", cpu_ticks
        if self.watched is None:
            self._looked_ns = now.monotonic_ns
        else:
            if name := self.watched.look(now.monotonic_ns):
                seen = f"the watched file {name} changed"
            self._looked_ns = self.watched.looked_ns
        for what, (path, before) in self._files.items():
            found = state(path)
            if found != before:
                self._files[what] = (path, found)
                seen = f"{what} grew" if found and before and found > before else f"{what} changed"
        if seen:
            self.last = Sign(seen, now)

    def is_silent(self, seconds: float) -> bool:
        """Whether no sign was seen for so long, as far as was looked."""
        since = max(self.last.at.monotonic_ns, self._counted_ns)
        return self._looked_ns - since >= seconds * 1e9

    def forgive(self, now: Instant) -> None:
        """Do not count the silence up to now."""
        self._counted_ns = now.monotonic_ns


class WatchedFiles:
    """The files below a folder that match one of some patterns.

    Args:
        root: the run directory. What is hloop's own in it is left out.
        patterns: each as :func:`hloop.plan.watched.watch_parts` gives it. ``**`` is any number
            of folders; it and other wildcards lead through no symbolic link.

    Attributes:
        looked_ns: since when every file has been looked at.
    """

    def __init__(self, root: Path, patterns: Sequence[tuple[str, ...]], now_ns: int):
        self._root, self._patterns = str(root), patterns
        self._states: dict[str, State] = {}
        self._begun_ns = self.looked_ns = now_ns
        self._entries: Iterator[str | None] | None = None
        # What is there already is no sign.
        self.look(now_ns)

    def look(self, now_ns: int) -> str | None:
        """Look at some thousand entries, and give a file that was changed, or is new.

        Where there are more, the next look goes on.
        """
        changed = None
        if self._entries is None:
            self._entries, self._begun_ns = _walk(self._root, self._patterns), now_ns
        for _ in range(MAX_ENTRIES):
            try:
                path = next(self._entries)
            except StopIteration:
                self._entries, self.looked_ns = None, self._begun_ns
                break
            if path is not None and (found := state(path)) and self._states.get(path) != found:
                self._states[path] = found
                changed = path
        return None if changed is None else os.path.relpath(changed, self._root)

    @property
    def newest_mtime_ns(self) -> int | None:
        """The newest time of modification that was seen; None where there is no file."""
        return max((mtime for _, mtime in self._states.values()), default=None)


def state(path: str | Path) -> State | None:
    """Give size and mtime; None where there is nothing."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns)


def _walk(root: str, patterns: Sequence[tuple[str, ...]]) -> Iterator[str | None]:
    """Give what matches, and None for each entry on the way."""
    ahead = [(root, parts) for parts in patterns]
    while ahead:
        folder, parts = ahead.pop()
        first, rest = parts[0], parts[1:]
        if not _has_wildcard(first):
            path = os.path.join(folder, first)
            if rest:
                ahead.append((path, rest))
            else:
                yield path
            continue
        if first == "**":
            ahead.append((folder, rest))
        for entry in _entries(folder):
            yield None
            if folder == root and entry.name in OWN_NAMES:
                continue
            if first == "**":
                if entry.is_dir(follow_symlinks=False):
                    ahead.append((entry.path, parts))
            elif fnmatchcase(entry.name, first):
                if not rest:
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False):
                    ahead.append((entry.path, rest))


def _has_wildcard(part: str) -> bool:
    return any(character in part for character in "*?[")


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Give what lies in a folder; nothing more where it cannot be read, or is gone."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
