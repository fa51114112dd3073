"""Reads the files of a run directory that nobody vouches for.

A record is opened without following a link and without waiting for anybody, and the bytes that
are parsed are the bytes that are hashed. Whatever is wrong becomes a :class:`Refused`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from typing import Any

from hloop import canonical
from hloop.errors import PlanError
from hloop.files import kind_of
from hloop.plan.contract import schema_problems
from hloop.plan.lint import lint
from hloop.plan.load import plan_from_document
from hloop.plan.model import Plan
from hloop.provenance.records import (
    ATTEMPT_STATUS,
    JOURNAL,
    MANIFEST,
    PLAN,
    REPORT,
    RULES_RUN,
    RUN_RECORD,
    SCHEDULED_JOB,
)

RUN_DIR = "${RUN_DIR}"
REPO_ROOT = "${REPO_ROOT}"

_SCHEMAS = {
    MANIFEST: "manifest",
    SCHEDULED_JOB: "scheduled-job",
    RUN_RECORD: "run-record",
    ATTEMPT_STATUS: "attempt-status",
    REPORT: "hloop-run",
    RULES_RUN: "rules-run",
}
# These are JSON, but not canonical: the published formats have decimals.
_LOOSE = (PLAN, REPORT)

# Lint's rules without which a plan has no order, or its ids no folders.
_FATAL = frozenset(
    {
        *("unsafe_job_id", "duplicate_job_id", "dependency_cycle"),
        *("unknown_dependency", "self_dependency", "template_near_miss"),
    }
)

# No record of a run that fits on a machine is larger.
MAX_RECORD_BYTES = 2**30


class Refused(Exception):
    """A file that cannot be taken.

    Attributes:
        code: ``missing``, or a code of :mod:`hloop.provenance.findings`.
        found: what is wrong, a sentence without a final stop.
    """

    def __init__(self, code: str, found: str):
        self.code, self.found = code, found
        super().__init__(found)


@dataclass(frozen=True, slots=True)
class Content:
    """A record's bytes.

    Attributes:
        sha256: 64 hex digits over ``data``.
        links: how many names the file has.
    """

    data: bytes
    sha256: str
    links: int = 1

    @classmethod
    def of(cls, data: bytes, links: int = 1) -> Content:
        return cls(data, hashlib.sha256(data).hexdigest(), links)

    def is_what(self, sha256: str, size: int) -> bool:
        """Whether a reference with these two refers to this."""
        return self.sha256 == sha256 and len(self.data) == size


def is_normal(path: str) -> bool:
    """Whether a portable path begins with a root and has no ``.``, ``..`` or empty part."""
    root, slash, rest = path.partition("/")
    return (
        root in (RUN_DIR, REPO_ROOT, "")
        and bool(slash)
        and "\0" not in path
        and not {"", ".", ".."} & set(rest.split("/"))
    )


def is_inside(path: str) -> bool:
    """Whether a portable path is normal and leads into the run directory."""
    return path.startswith(f"{RUN_DIR}/") and is_normal(path)


class RunFiles:
    """The files of one run directory, and what its portable paths stand for on this machine.

    Attributes:
        root: the run directory, absolute, without symbolic links.
        repo_root: absolute; None while it is not known.
    """

    def __init__(self, root: str, repo_root: str | None = None):
        self.root = os.path.realpath(root)
        self.repo_root = repo_root
        self._folders: dict[str, Refused | None] = {self.root: None}

    def locate(self, path: str) -> str | None:
        """Give where a normal portable path lies; None where the repository root is unknown."""
        root, _, rest = path.partition("/")
        if root == RUN_DIR:
            return f"{self.root}/{rest}"
        if root == REPO_ROOT:
            return None if self.repo_root is None else os.path.join(self.repo_root, rest)
        return path

    def is_there(self, path: str) -> bool:
        """Whether something lies at a path inside the run directory."""
        return os.path.lexists(f"{self.root}{path.removeprefix(RUN_DIR)}")

    def check_parents(self, path: str) -> None:
        """Demand that a path below the run directory leads through real folders only.

        Args:
            path: absolute and normalised.

        Raises:
            Refused: a parent is missing or no folder.
        """
        parent = os.path.dirname(path)
        if parent not in self._folders:
            try:
                self.check_parents(parent)
                mode = os.lstat(parent).st_mode
                refused = None
                if not stat.S_ISDIR(mode):
                    refused = Refused("not_a_plain_file", f"its folder is {kind_of(mode)}")
            except Refused as error:
                refused = error
            except (OSError, ValueError) as error:
                refused = _refuse(error)
            self._folders[parent] = refused
        if refused := self._folders[parent]:
            raise refused

    def read(self, path: str) -> Content:
        """Read a record by its portable path inside the run directory.

        Raises:
            Refused: ``missing``, ``not_a_plain_file``, ``unreadable``, or too large to be one.
        """
        name = f"{self.root}{path.removeprefix(RUN_DIR)}"
        self.check_parents(name)
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(name, flags)
        except (OSError, ValueError) as error:
            raise _refuse(error) from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Refused("not_a_plain_file", f"it is {kind_of(found.st_mode)}")
            if found.st_size > MAX_RECORD_BYTES:
                raise Refused("not_canonical", f"it has {found.st_size} bytes")
            with open(fd, "rb", buffering=0, closefd=False) as file:
                return Content.of(file.readall(), found.st_nlink)
        except OSError as error:
            raise _refuse(error) from None
        finally:
            os.close(fd)


def _refuse(error: OSError | ValueError) -> Refused:
    if isinstance(error, FileNotFoundError):
        return Refused("missing", "it is not there")
    number = getattr(error, "errno", None)
    if number in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR):
        return Refused("not_a_plain_file", "it is not a plain file")
    return Refused("unreadable", f"it cannot be read: {getattr(error, 'strerror', error)}")


def parse(data: bytes, *, is_canonical: bool) -> Any:
    """Give the value of a record.

    Args:
        is_canonical: it must be in canonical form; else JSON without a key twice will do.

    Raises:
        Refused: ``not_canonical``.
    """
    try:
        if is_canonical:
            return canonical.loads(data)
        return json.loads(
            data.decode(), object_pairs_hook=canonical.no_duplicates, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise Refused("not_canonical", str(error)[:200] or "it is nested too deeply") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"not JSON: {name}")


def document_of(type: str, path: str, data: bytes) -> dict[str, Any] | None:
    """Give what a record holds; None for a journal, which is only hashed.

    Args:
        path: portable; it names the job that the record must tell of.

    Raises:
        Refused: ``not_canonical``, ``wrong_type``, ``schema`` or ``wrong_job``.
    """
    if type == JOURNAL:
        return None
    document = parse(data, is_canonical=type not in _LOOSE)
    if type == REPORT and isinstance(document, dict) and document.get("_type") == RULES_RUN:
        # A run without a plan has a report of its own, which is canonical.
        type, document = RULES_RUN, parse(data, is_canonical=True)
    key = "schema_version" if type in _LOOSE else "_type"
    if not isinstance(document, dict) or document.get(key) != type:
        found = document.get(key) if isinstance(document, dict) else None
        raise Refused("wrong_type", f"its {key} is {found!r}, not {type!r}")
    if name := _SCHEMAS.get(type):
        try:
            problems = schema_problems(document, name)
        except RecursionError:
            raise Refused("schema", "it is nested too deeply") from None
        if problems:
            raise Refused("schema", "; ".join(map(str, problems[:5])))
    job_id = document.get("job_id")
    if job_id is not None and path.split("/")[2] != job_id:
        raise Refused("wrong_job", f"it tells of the job {job_id!r}")
    return document


def plan_of(document: dict[str, Any], repo_root: str, run_dir: str) -> Plan:
    """Give the plan that a document holds, for the folders that the run had.

    Raises:
        Refused: ``schema``: it is none, or one without an order or without folders for its jobs.
    """
    try:
        plan = plan_from_document(document)
        problems = lint(plan, repo_root, run_dir)
        if fatal := [problem for problem in problems if problem.code in _FATAL]:
            raise PlanError(fatal)
    except (PlanError, ValueError, RecursionError) as error:
        raise Refused("schema", str(error)[:1000]) from None
    return plan
