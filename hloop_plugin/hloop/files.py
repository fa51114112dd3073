"""Files: the names in a run directory, digests, and writing that leaves no half file.

Every name that hloop writes into a run directory stands here and nowhere else.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.formalpaths import FormalPaths

PLAN_NAME = "plan.json"
JOURNAL_NAME = "journal.jsonl"
REPORT_NAME = "hloop_run.json"
# In the folder that `hloop prepare` is given, which no run has claimed.
MATERIALIZED_PLAN_NAME = "materialized_plan.json"
MANIFEST_NAME = "manifest.json"
# Made after the run, of what it left; no evidence, and nothing's digest covers them.
HTML_NAME = "report.html"
TIMELINE_NAME = "report-timeline.svg"
JOBS_NAME = "jobs"
# The gate of a formal run, with what it builds on.
FORMAL_NAME = "formal"
# Records of Snakemake's own rules, where they are asked for.
RULES_NAME = "rules"

# Held by whoever executes the run; no evidence.
LOCK_NAME = ".lock"

# Of a run that was resumed: the manifests of its further sessions, and earlier reports.
RESUMED_NAME = "resumed"
FIRST_RESUMED = 2
"""The number of the session that resumes a run for the first time."""

OWN_NAMES = frozenset(
    {
        LOCK_NAME,
        PLAN_NAME,
        JOURNAL_NAME,
        REPORT_NAME,
        MANIFEST_NAME,
        HTML_NAME,
        TIMELINE_NAME,
        JOBS_NAME,
        FORMAL_NAME,
        RULES_NAME,
        RESUMED_NAME,
    }
)
"""What hloop itself writes at the top of a run directory; no job may write there."""


@dataclass(frozen=True)
class RunPaths:
    """The names in one run directory.

    Attributes:
        root: the run directory, absolute.
    """

    root: Path

    @property
    def plan(self) -> Path:
        return self.root / PLAN_NAME

    @property
    def lock(self) -> Path:
        return self.root / LOCK_NAME

    @property
    def journal(self) -> Path:
        return self.root / JOURNAL_NAME

    @property
    def report(self) -> Path:
        return self.root / REPORT_NAME

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST_NAME

    @property
    def resumed(self) -> Path:
        return self.root / RESUMED_NAME

    def session_manifest(self, number: int) -> Path:
        """The manifest of a further session, :data:`FIRST_RESUMED` or later."""
        return self.resumed / f"manifest.{number}.json"

    def session_report(self, number: int) -> Path:
        """The report that a session wrote before the run was resumed; the first is 1."""
        return self.resumed / f"hloop_run.{number}.json"

    def next_session(self) -> int:
        """Number the session that comes next: 1 where none has written its manifest."""
        if not self.manifest.exists():
            return 1
        return next(n for n in count(FIRST_RESUMED) if not self.session_manifest(n).exists())

    @property
    def html(self) -> Path:
        return self.root / HTML_NAME

    @property
    def timeline(self) -> Path:
        return self.root / TIMELINE_NAME

    @property
    def formal(self) -> FormalPaths:
        return FormalPaths(self.root / FORMAL_NAME)

    @property
    def jobs(self) -> Path:
        return self.root / JOBS_NAME

    def job(self, job_id: str) -> JobPaths:
        return JobPaths(self.jobs / job_id)

    @property
    def rules(self) -> Path:
        return self.root / RULES_NAME

    def check_new(self) -> None:
        """Demand that the run directory is absent or an empty folder.

        Raises:
            RunDirectoryError: it holds something, or is not a folder.
        """
        if not os.path.lexists(self.root):
            reason = _obstacle(self.root)
            if not reason:
                return
            found = f"the run directory {self.root} cannot be made: {reason}"
        elif not self.root.is_dir():
            found = f"the run directory {self.root} is not a folder"
        elif first := next(iter(sorted(os.listdir(self.root))), None):
            what = "a finished run" if self.report.exists() else f"{first!r} and maybe more"
            found = f"the run directory {self.root} is already used: it holds {what}"
        else:
            return
        action = "Choose another run directory, or move this one away"
        if os.path.exists(self.plan):
            action += "; hloop run --resume goes on with a run that did not complete"
        expected = "a folder that is new or empty"
        raise RunDirectoryError(Problem("run_dir_used", "", found, expected, action))


def _obstacle(path: Path) -> str:
    """Say why a folder that is not there cannot be made; "" where nothing is in the way."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        above = next(parent for parent in path.parents if os.path.lexists(parent))
        return "" if above.is_dir() else f"{above} is not a folder"
    except OSError as error:
        return str(error.strerror)
    return ""


@dataclass(frozen=True)
class JobPaths:
    """The names in the folder of one job.

    Attributes:
        root: ``RUN/jobs/<job_id>``, or ``RUN/rules/<name>`` of a job that no plan holds.
    """

    root: Path

    @property
    def scheduled(self) -> Path:
        return self.root / "scheduled_job.json"

    @property
    def record(self) -> Path:
        return self.root / "run_record.json"

    @property
    def status(self) -> Path:
        return self.root / "attempt_status.json"

    @property
    def transitions(self) -> Path:
        """Where a job may write how many environment transitions it made."""
        return self.root / "transitions"

    @property
    def cache(self) -> Path:
        """The cache folders of a formal job."""
        return self.root / "cache"

    @property
    def attempts(self) -> Path:
        """Earlier attempts, by number from 1, in a run that was resumed."""
        return self.root / "attempts"

    @property
    def completed(self) -> Path:
        """The completion marker, which carries ``depends_on`` to Snakemake."""
        return self.root / "completed"

    @property
    def stdout(self) -> Path:
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.root / "stderr.log"


@dataclass(frozen=True)
class FileDigest:
    """What a file held when it was read.

    Attributes:
        sha256: 64 lowercase hex digits over its bytes.
        size: its length in bytes.
    """

    sha256: str
    size: int


class FileRefused(HloopError):
    """A file that cannot be taken as an artifact: missing, of a wrong kind, or changing.

    The problem's ``code`` is the reason: ``missing``, ``not_a_file``, ``unreadable`` or
    ``changed_while_read``; of a folder, those of :func:`hloop.trees.hash_tree`.
    """

    @property
    def code(self) -> str:
        return self.problems[0].code


def _refuse(path: object, code: str, found: str) -> FileRefused:
    return FileRefused(Problem(code=code, where="", found=found, expected="a plain file"))


_KINDS = {
    stat.S_IFREG: "a plain file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(mode: int) -> str:
    """Say what a file is by its ``st_mode``: "a plain file", "a folder", "a FIFO"."""
    return _KINDS[stat.S_IFMT(mode)]


def hash_file(path: str | Path, *, follow: bool = False) -> FileDigest:
    """Read a plain file once and give its digest. ``follow`` allows a symbolic link to it.

    Raises:
        FileRefused: it is missing, unreadable, a symbolic link (without ``follow``), folder,
            FIFO, device or socket, or it changed while it was read.
    """
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        raise _refuse(path, "missing", f"{path} does not exist") from None
    except OSError as error:
        # A link that is not followed, and a socket, cannot even be opened.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            with suppress(OSError):
                mode = os.stat(path, follow_symlinks=follow).st_mode
                raise _refuse(path, "not_a_file", f"{path} is {kind_of(mode)}") from None
        raise _refuse(path, "unreadable", f"{path} cannot be read: {error.strerror}") from None
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        os.close(fd)
        raise _refuse(path, "not_a_file", f"{path} is {kind_of(before.st_mode)}")
    with os.fdopen(fd, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = os.fstat(fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _refuse(path, "changed_while_read", f"{path} changed while it was read")
    return FileDigest(digest, after.st_size)


def sha256_bytes(data: bytes) -> str:
    """Give ``sha256:<hex>`` over ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


# What says that a record cannot be made without a name here: the file system has no
# O_TMPFILE (an old kernel takes it for the opening of a folder), or there is no usable /proc.
_NEEDS_A_NAME = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV}
)


def publish(path: Path, data: bytes, *, sync_folder: bool = True) -> None:
    """Write a record once: complete under its final name, read-only, or not at all.

    Without ``sync_folder`` the name may be gone after a power cut, until another record is
    published in the same folder.

    It is written into a file without a name, which is gone if this process dies, and linked
    to its name when it is on the disk (open(2), O_TMPFILE). Where that cannot be done, it is
    written beside its place first, and a process that dies may leave that file (``*.tmp``).

    Raises:
        FileExistsError: the record is already published.
        OSError: the folder cannot be written to.
    """
    with _folder_of(path, sync=sync_folder) as folder:
        try:
            _publish_unnamed(folder, path.name, data)
        except OSError as error:
            if error.errno not in _NEEDS_A_NAME:
                raise
            _publish_named(folder, path.name, data)


def replace(path: Path, data: bytes) -> None:
    """Write a file in place of an older one, at one stroke.

    Raises:
        OSError: the folder cannot be written to.
    """
    with _folder_of(path) as folder, _temporary(folder, path.name, data, 0o644) as temporary:
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _folder_of(path: Path, *, sync: bool = True) -> Iterator[int]:
    """Open the folder that ``path`` is made in; with ``sync``, what was made is on the disk at
    the end."""
    try:
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield fd
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        # What was called knows it by descriptors only.
        raise OSError(error.errno, error.strerror, str(path)) from None


def _publish_unnamed(folder: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
    fd = os.open(".", flags, 0o444, dir_fd=folder)
    try:
        _write(fd, data)
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(fd)


def _publish_named(folder: int, name: str, data: bytes) -> None:
    with _temporary(folder, name, data, 0o444) as temporary:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _temporary(folder: int, name: str, data: bytes, mode: int) -> Iterator[str]:
    """Write ``data`` beside its place, under a name of its own that is gone at the end.

    The name is random: processes with the same pid, in two containers, may share a folder.
    """
    temporary = f"{name}.{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        try:
            _write(fd, data)
        finally:
            os.close(fd)
        yield temporary
    finally:
        # It is gone already if it was renamed.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def data_dir(name: str) -> Path:
    """Find a folder that is shipped with hloop: ``schemas`` or ``workflow``.

    In a wheel it lies inside the package, in a checkout at the top of the repository.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "_data" / name, here.parents[1] / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"hloop's folder {name!r} is missing: the installation is incomplete")
