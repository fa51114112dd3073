"""Is what a source tree holds exactly the authors' commit with the reviewed patch?

Git is asked only for objects, and in a repository of its own, made for the question: the
source's repository is not written to, and none of its configuration, attributes, hooks,
filters or replaced objects has a say. What lies in the tree is read here, byte by byte.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hloop.errors import HloopError, Problem

Entries = Mapping[bytes, str]
"""Path to mode and object id, as ``git ls-tree`` prints them: ``100644 <hex>``."""

_ALGORITHMS = {40: "sha1", 64: "sha256"}


@dataclass(frozen=True, slots=True)
class SourceTree:
    """What a source tree should be.

    Attributes:
        tree: the id of Git's tree object for the commit with the patch; "" where there is none.
        problems: how the tree on the disk differs from that, or why there is none.
    """

    tree: str
    problems: tuple[Problem, ...]


def compare_source(folder: Path, commit: str, patch: bytes) -> SourceTree:
    """Compare a source tree with a commit and a patch on top of it.

    Every file in the tree counts, also one that Git ignores: Python would import it. Modes
    and symbolic links count as Git keeps them. What does not count: ``.git`` at the top,
    compiled files (``*.pyc``) in ``__pycache__``, and empty folders.

    Args:
        folder: the top of a Git work tree.
        commit: the full id of a commit that its repository has.
        patch: as ``git diff --binary`` makes it; may be empty.

    Raises:
        HloopError: ``folder`` is no such tree, or it cannot be read.
    """
    objects = _objects_of(folder)
    with tempfile.TemporaryDirectory(prefix="hloop-") as scratch:
        git = _Git(Path(scratch))
        algorithm = _ALGORITHMS[len(commit)]
        git("init", "--quiet", "--bare", "--template=", f"--object-format={algorithm}", ".")
        Path(scratch, "objects/info").mkdir(exist_ok=True)
        Path(scratch, "objects/info/alternates").write_bytes(objects + b"\n")
        if git("cat-file", "-t", commit, check=False) != b"commit\n":
            found = f"the repository of {folder} has no commit {commit}"
            problem = Problem(
                "no_commit", "source.commit", found, "the authors' commit", "Fetch it"
            )
            return SourceTree("", (problem,))
        git("read-tree", commit)
        if patch.strip():
            try:
                git("apply", "--cached", "--whitespace=nowarn", "-", data=patch)
            except _Refused as error:
                return SourceTree("", (_does_not_apply(error),))
        tree = git("write-tree").decode().strip()
        expected = _entries(git("ls-tree", "-r", "-z", "--full-tree", tree))
        original = _entries(git("ls-tree", "-r", "-z", "--full-tree", commit))
    actual = read_tree(os.fsencode(folder), algorithm)
    return SourceTree(tree, tuple(_differences(original, expected, actual)))


class _Git:
    """Git in a repository of its own, deaf to every configuration but that one's."""

    def __init__(self, folder: Path):
        self._folder = folder

    def __call__(self, *arguments: str, data: bytes = b"", check: bool = True) -> bytes:
        return _run(
            ["git", "-C", str(self._folder), *arguments],
            data=data,
            check=check,
            GIT_DIR=str(self._folder),
            GIT_INDEX_FILE=str(self._folder / "index"),
        )


def _run(argv: list[str], *, data: bytes = b"", check: bool = True, **variables: str) -> bytes:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **variables,
    }
    try:
        done = subprocess.run(argv, input=data, env=environment, capture_output=True, check=False)
    except OSError as error:
        found = f"git cannot be started: {error.strerror}"
        raise HloopError(Problem("git", "", found, action="Install git")) from None
    if check and done.returncode:
        raise _Refused(done.stderr.decode(errors="replace").strip())
    return done.stdout


class _Refused(HloopError):
    """Git said no; holds what it printed."""


def _objects_of(folder: Path) -> bytes:
    """Find where the repository of a work tree keeps its objects.

    Raises:
        HloopError: the folder is not the top of a Git work tree.
    """
    # Whoever owns it: nothing in it is run, and objects are named by what they hold.
    git = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(folder)]
    try:
        top = _run([*git, "rev-parse", "--show-toplevel"]).rstrip(b"\n")
        objects = _run([*git, "rev-parse", "--git-path", "objects"]).rstrip(b"\n")
    except _Refused as error:
        found = f"it is not a Git work tree: {error}"
    else:
        if os.path.samefile(top, folder):
            return os.path.join(os.fsencode(folder.absolute()), objects)
        found = f"it lies in a Git work tree, whose top is {os.fsdecode(top)}"
    expected = "the top of a Git work tree that has the authors' commit"
    raise HloopError(Problem("source", "", found, expected), file=folder)


def _does_not_apply(error: _Refused) -> Problem:
    return Problem(
        "patch_does_not_apply",
        "",
        f"the reviewed patch does not apply to the authors' commit: {error}",
        "a patch as `git diff --binary COMMIT` prints it",
        "Make it anew, and have it reviewed",
    )


def _entries(listing: bytes) -> dict[bytes, str]:
    entries = {}
    for line in listing.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, name = facts.decode().split(" ")
        entries[path] = f"{mode} {name}"
    return entries


def read_tree(folder: bytes, algorithm: str) -> dict[bytes, str]:
    """Give every file of a source tree by its path, as Git would name it.

    What Git cannot keep (a FIFO, a device, a socket) is there with what it is.

    Raises:
        HloopError: something cannot be read.
    """
    entries: dict[bytes, str] = {}
    folders = [b""]
    try:
        while folders:
            below = folders.pop()
            with os.scandir(os.path.join(folder, below)) as found:
                for entry in found:
                    path = os.path.join(below, entry.name)
                    if path == b".git" or _is_compiled(path):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        entries[path] = _entry(entry, algorithm)
    except OSError as error:
        name = os.fsdecode(error.filename)
        raise HloopError(f"the source tree cannot be read: {name}: {error.strerror}") from None
    return entries


def _is_compiled(path: bytes) -> bool:
    folder, name = os.path.split(path)
    return os.path.basename(folder) == b"__pycache__" and name.endswith(b".pyc")


def _entry(entry: os.DirEntry[bytes], algorithm: str) -> str:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return f"120000 {_object_id(os.readlink(entry.path), algorithm)}"
    if not stat.S_ISREG(mode):
        return "not a plain file"
    with open(entry.path, "rb", opener=_open_plain) as file:
        data = file.read()
    kind = "100755" if mode & stat.S_IXUSR else "100644"
    return f"{kind} {_object_id(data, algorithm)}"


def _open_plain(path: str, flags: int) -> int:
    # What was put in the file's place meanwhile must neither be followed nor waited for.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _object_id(data: bytes, algorithm: str) -> str:
    digest = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def _differences(original: Entries, expected: Entries, actual: Entries) -> list[Problem]:
    """Name every path at which the tree is not the commit with the patch."""
    problems = []
    for path in sorted(expected.keys() | actual.keys() | original.keys()):
        want, have = expected.get(path), actual.get(path)
        if want == have:
            continue
        name = os.fsdecode(path)
        patched = original.get(path) != want
        changed = original.get(path) != have
        if patched and changed:
            found = f"{name} is not as the reviewed patch makes it"
        elif patched:
            found = f"the reviewed patch changes {name}, and the source tree does not"
        elif have is None:
            found = f"{name} is gone from the source tree, and the reviewed patch keeps it"
        elif want is None:
            found = f"{name} is in the source tree, and neither in the commit nor in the patch"
        else:
            found = f"{name} is changed in the source tree, and not in the reviewed patch"
        problems.append(
            Problem(
                "source_differs",
                "",
                _printable(found),
                "the authors' commit with exactly the reviewed patch",
                "Undo the change, or have it reviewed",
            )
        )
    return problems


def _printable(text: str) -> str:
    """Show what is no text in a file's name as it can be printed."""
    return text.encode(errors="backslashreplace").decode()
