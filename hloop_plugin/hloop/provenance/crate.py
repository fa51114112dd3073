"""A run as a Provenance Run Crate: one folder that holds the run and says what it was.

The crate is made beside its place and moved there at one stroke, so there is a whole one or
none. The run directory is only read; nothing here decides whether it holds.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import HloopError, Problem
from hloop.files import FileDigest, FileRefused, RunPaths, hash_file
from hloop.provenance.crate_files import Contents, Key, Outside
from hloop.provenance.crate_graph import build, input_key
from hloop.provenance.crate_terms import INPUTS_FOLDER, METADATA_NAME, NO_LICENSE, RUN_FOLDER
from hloop.provenance.ended import EndedRun, read_ended_run, read_if_sound
from hloop.trees import hash_tree


class ExportError(HloopError):
    """A crate that cannot be made."""


@dataclass(frozen=True)
class Exported:
    """What an export made.

    Attributes:
        crate: the folder.
        head: of the run, ``sha256:<hex>``.
        files: how many files it holds, its metadata included.
        size: their bytes.
        left_out: what the run names and the crate does not hold, each with the reason.
    """

    crate: Path
    head: str
    files: int
    size: int
    left_out: Mapping[str, str]


def export_crate(
    run_dir: Path, crate: Path, *, inputs: bool = True, license: str = NO_LICENSE
) -> Exported:
    """Write a run as a Provenance Run Crate into ``crate``, a new or empty folder.

    Args:
        inputs: copy what the run read from outside its directory.

    Raises:
        ExportError: the crate's place is used or lies in the run directory, or a file cannot be
            copied.
        RunDirectoryError, ReportError, PlanError: it is not the directory of an ended run.
    """
    run = read_ended_run(run_dir)
    crate = crate.absolute()
    _check_place(crate, run.paths.root)
    crate.parent.mkdir(parents=True, exist_ok=True)
    temporary = crate.with_name(f".{crate.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir()
        exported = _Export(run, temporary).write(inputs, license)
        os.rename(temporary, crate)
    except shutil.Error as error:
        problems = [Problem("copy_failed", "", str(reason)) for _, _, reason in error.args[0]]
        raise ExportError(problems, file=crate) from error
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _used(crate) from error
        raise ExportError(Problem("copy_failed", "", str(error)), file=crate) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    files, size, left_out = exported
    return Exported(crate, run.head, files, size, left_out)


def _check_place(crate: Path, run_dir: Path) -> None:
    if crate.resolve().is_relative_to(run_dir.resolve()):
        found = "it lies in the run directory, which an export never changes"
        raise ExportError(Problem("crate_place", "", found, "a folder elsewhere"), file=crate)
    if os.path.lexists(crate) and (not crate.is_dir() or any(crate.iterdir())):
        raise _used(crate)


def _used(crate: Path) -> ExportError:
    return ExportError(
        Problem(
            "crate_used",
            "",
            "it exists and is not an empty folder",
            "a folder that is new or empty",
            "Choose another, or move this one away",
        ),
        file=crate,
    )


class _Export:
    """One export: copies, and what it has learnt about them."""

    def __init__(self, run: EndedRun, root: Path) -> None:
        self.run, self.root = run, root
        self.outside: dict[Key, Outside] = {}
        self.left_out: dict[str, str] = {}

    def write(self, inputs: bool, license: str) -> tuple[int, int, dict[str, str]]:
        self._copy_run()
        configs = self._sources(self.run.manifest, "config_digests")
        scheduled = {job["job_id"]: self._scheduled(job["job_id"]) for job in self._jobs}
        scripts = {id: self._sources(record, "code_digests") for id, record in scheduled.items()}
        for job in self._jobs:
            for index in range(len(job["inputs"])):
                self._take(input_key(self.run, job, index), wanted=inputs)
        files = dict(self._files())
        contents = Contents(
            files=files,
            folders=dict(self._folders()),
            outside=self.outside,
            configs=configs,
            scripts=scripts,
            environment={id: record.get("environment", {}) for id, record in scheduled.items()},
        )
        document = build(self.run, contents, license)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        # Half a surrogate pair has no UTF-8, but JSON's own escape for it.
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        (self.root / METADATA_NAME).write_bytes(data)
        size = len(data) + sum(digest.size for digest in files.values())
        return len(files) + 1, size, self.left_out

    @property
    def _jobs(self) -> Sequence[Mapping[str, Any]]:
        jobs: Sequence[Mapping[str, Any]] = self.run.report["jobs"]
        return jobs

    def _copy_run(self) -> None:
        paths = self.run.paths
        caches = {str(paths.job(job["job_id"]).cache) for job in self._jobs}

        def ignore(folder: str, names: list[str]) -> list[str]:
            ignored = []
            for name in names:
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                if path in caches:
                    reason = "a cache of a job, which is no evidence"
                elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                    reason = "neither a file, a folder nor a symbolic link"
                else:
                    continue
                ignored.append(name)
                inside = os.path.relpath(path, paths.root)
                self.left_out["${RUN_DIR}/" + inside] = reason
            return ignored

        shutil.copytree(paths.root, self.root / RUN_FOLDER, symlinks=True, ignore=ignore)

    def _scheduled(self, job_id: str) -> Mapping[str, Any]:
        paths = RunPaths(self.root / RUN_FOLDER).job(job_id)
        return read_if_sound(paths.scheduled, "scheduled-job")

    def _sources(self, record: Mapping[str, Any], field: str) -> list[Key]:
        """Take the files that a record names as what something was made from."""
        keys = [(entry["path"], entry["sha256"]) for entry in record.get(field, ())]
        for key in keys:
            self._take(key, wanted=True)
        return keys

    def _take(self, key: Key, *, wanted: bool) -> None:
        """Copy a file or folder from outside the run directory, once, if it is still the same."""
        portable, sha256 = key
        if key in self.outside or portable.startswith("${RUN_DIR}/"):
            return
        path = None
        if not wanted:
            reason = "inputs were not asked for"
        elif sha256 is None:
            reason = "its digest was not recorded"
        else:
            path = f"{INPUTS_FOLDER}/{sha256[:16]}/{os.path.basename(portable)}"
            reason = self._copy(self.run.locate(portable), self.root / path, sha256)
        if reason:
            path = None
            self.left_out[portable] = reason
        self.outside[key] = Outside(path, reason)

    def _copy(self, source: Path | None, target: Path, sha256: str) -> str:
        """Copy one; give the reason why not, or ""."""
        if source is None:
            return "the repository root is not known"
        if os.path.lexists(target):
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
                found = hash_tree(target)
            else:
                hash_file(source, follow=True)
                shutil.copyfile(source, target)
                found = hash_file(target)
        except (OSError, FileRefused) as error:
            reason = error.problems[0].found if isinstance(error, FileRefused) else str(error)
        else:
            reason = "" if found.sha256 == sha256 else "it is not what the run read any more"
        if reason:
            shutil.rmtree(target.parent)
        return reason

    def _files(self) -> Iterator[tuple[str, FileDigest]]:
        """Give the plain files in the crate, in the order of their paths."""
        for folder, folders, names in os.walk(self.root):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    yield os.path.relpath(path, self.root), hash_file(path)

    def _folders(self) -> Iterator[tuple[str, FileDigest | None]]:
        """Give the folders in the crate that are artifacts."""
        declared = [entry["path"] for job in self._jobs for entry in job["outputs"]]
        paths = [portable.replace("${RUN_DIR}", RUN_FOLDER, 1) for portable in declared]
        paths += [entry.path for entry in self.outside.values() if entry.path is not None]
        for path in dict.fromkeys(paths):
            if (self.root / path).is_dir() and not (self.root / path).is_symlink():
                try:
                    yield path, hash_tree(self.root / path)
                except FileRefused:
                    yield path, None
