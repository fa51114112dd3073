"""The code that a run uses: the state of its git repository, and the scripts by name.

What git says covers what is imported; a script that a command names has a digest of its own,
so that it counts also where there is no git. Nothing here changes a repository.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from stat import S_ISREG
from typing import Any

from hloop.files import FileRefused, hash_file
from hloop.plan.paths import Resolver, inside
from hloop.plan.render import RenderedJob
from hloop.portable import Portable
from hloop.provenance.records import FILE, Reference

TIMEOUT_SECONDS = 10.0

_GIT = (
    "git",
    # A file system monitor is a program that the repository's configuration names.
    *("-c", "core.fsmonitor=false"),
    # A partial clone would fetch what it lacks.
    *("-c", "protocol.allow=never"),
    *("-c", "core.quotePath=true"),
)
# What `git diff --binary HEAD` prints where nothing is configured, whatever is configured.
_DIFF = (
    *("diff", "--binary", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3"),
    *("--inter-hunk-context=0", "--diff-algorithm=myers", "--indent-heuristic"),
    *("--find-renames", "--submodule=short", "--no-relative", "-O/dev/null", "HEAD"),
)
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")


def git_facts(repo_root: Path, run_dir: Path) -> dict[str, Any] | None:
    """Give the commit that is checked out at ``repo_root``, and what differs from it.

    At most three git processes, each with 10 seconds. Untracked files are those that git does
    not ignore, without those in ``run_dir``. Where ``problem`` says that git gave no answer,
    ``dirty`` is true: the repository is not known to be clean.

    Returns:
        ``commit`` (None before the first), ``dirty``, ``diff_sha256`` (over
        ``git diff --binary HEAD``; None where that is empty), ``untracked_files`` (a count) and
        ``problem`` (a sentence or None). None where there is no repository or no git.
    """
    facts: dict[str, Any] = {
        "commit": None,
        "dirty": True,
        "diff_sha256": None,
        "untracked_files": 0,
        "problem": None,
    }
    try:
        with _git(repo_root, "rev-parse", "--show-toplevel") as printed:
            top = os.fsdecode(printed.read().removesuffix(b"\n"))
        with _git(repo_root, *_STATUS) as printed:
            status = _Status.read(printed.read())
        facts["commit"] = status.commit
        own = os.path.realpath(run_dir)
        untracked = [path for path in status.untracked if not inside(f"{top}/{path}", own)]
        facts["untracked_files"] = len(untracked)
        facts["dirty"] = status.changed or bool(untracked)
        if status.changed and status.commit is not None:
            with _git(repo_root, *_DIFF) as printed:
                if printed.seek(0, os.SEEK_END):
                    printed.seek(0)
                    facts["diff_sha256"] = hashlib.file_digest(printed, "sha256").hexdigest()
    except OSError:
        return None
    except _GitFailed as error:
        if "not a git repository" in error.message:
            return None
        facts["problem"] = error.message
    return facts


class _GitFailed(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@contextmanager
def _git(folder: Path, *arguments: str) -> Iterator[BufferedRandom]:
    """Run git in a folder. Gives what it printed, at its beginning.

    Raises:
        OSError: there is no git.
        _GitFailed: it did not answer, or said why it cannot.
    """
    # Files and no pipes: a program that git started and left behind would hold a pipe open.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        try:
            code = subprocess.run(
                [*_GIT, *arguments],
                cwd=folder,
                env=_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complaints,
                timeout=TIMEOUT_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            text = f"git {arguments[0]} gave no answer within {TIMEOUT_SECONDS:g} seconds"
            raise _GitFailed(text) from None
        if code != 0:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").split("\n")[0]
            raise _GitFailed(f"git {arguments[0]}: {said or code}")
        printed.seek(0)
        yield printed


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what points git at another repository or makes it print more."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    # The index is not refreshed, and messages are not translated.
    return kept | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


@dataclass(frozen=True)
class _Status:
    """What ``git status`` said. ``changed``: a tracked file differs from the commit."""

    commit: str | None
    changed: bool
    untracked: list[str]

    @classmethod
    def read(cls, printed: bytes) -> _Status:
        commit, changed, untracked = None, False, []
        for entry in printed.split(b"\0"):
            if entry.startswith(b"# branch.oid "):
                text = entry.removeprefix(b"# branch.oid ").decode()
                commit = None if text == "(initial)" else text
            elif entry.startswith(b"? "):
                untracked.append(os.fsdecode(entry[2:]))
            elif entry.startswith((b"1 ", b"2 ", b"u ")):
                changed = True
        return cls(commit, changed, untracked)


class Scripts:
    """The scripts that the commands of a plan name, each read once.

    A script is a plain file that an item of the command is the path of, or that follows the
    ``=`` of ``--option=path``. It lies in the repository, also by its symbolic links (so the
    interpreter of a virtual environment is none), and neither in the run directory nor among
    the inputs that the job declares.
    """

    def __init__(self, portable: Portable) -> None:
        self._portable = portable
        self._resolver = Resolver()
        self._repo_root = os.path.realpath(portable.repo_root)
        self._run_dir = os.path.realpath(portable.run_dir)
        # By the working directory and the text in the command.
        self._found: dict[tuple[str, str], str | None] = {}
        # By path, with what would be different if the file were another one.
        self._known: dict[str, tuple[tuple[int, ...], Reference]] = {}

    def paths(self, job: RenderedJob) -> list[str]:
        """Give the scripts of a job: absolute, in the order of its command, each once."""
        inputs = {item.path for item in job.inputs}
        found: dict[str, None] = {}
        for index, item in enumerate(job.argv):
            # A program's bare name is looked up in PATH.
            if index == 0 and "/" not in item:
                continue
            if item.startswith("-"):
                item = item.partition("=")[2]
            path = self._find(job.cwd, item)
            if path is not None and path not in inputs:
                found[path] = None
        return list(found)

    def references(self, jobs: Iterable[RenderedJob]) -> list[Reference]:
        """Give the scripts of some jobs as they are now, by path. One that is gone is left out.

        Raises:
            FileRefused: one cannot be read, or changes meanwhile.
        """
        paths = {path for job in jobs for path in self.paths(job)}
        found = (self._reference(path) for path in paths)
        return sorted((entry for entry in found if entry), key=lambda entry: entry.path)

    def _find(self, cwd: str, item: str) -> str | None:
        key = (cwd, item)
        if key not in self._found:
            self._found[key] = self._look(os.path.normpath(os.path.join(cwd, item)))
        return self._found[key]

    def _look(self, path: str) -> str | None:
        if not inside(path, str(self._portable.repo_root)):
            return None
        try:
            if not S_ISREG(os.stat(path).st_mode):
                return None
        except (OSError, ValueError):
            # No path at all: code after `python -c`, or a text with a zero byte.
            return None
        real = self._resolver.resolve(path)
        if not inside(real, self._repo_root) or inside(real, self._run_dir):
            return None
        return path

    def _reference(self, path: str) -> Reference | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        identity = (
            *(found.st_dev, found.st_ino, found.st_size),
            *(found.st_mtime_ns, found.st_ctime_ns),
        )
        known = self._known.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        try:
            digest = hash_file(path, follow=True)
        except FileRefused as error:
            if error.code in ("missing", "not_a_file"):
                return None
            raise
        reference = Reference.of_digest(self._portable.path(path), FILE, digest)
        self._known[path] = (identity, reference)
        return reference
