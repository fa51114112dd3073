"""Registered inputs: files and folders outside the run directory, whose digests a plan holds.

Digests are made when a plan is made, each input read once, and are held against the digest
that a configuration gives. Nothing here writes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hloop.errors import Problem
from hloop.files import FileRefused, hash_file
from hloop.plan.model import ArtifactType
from hloop.plan.template import fill
from hloop.trees import hash_tree

_HEX = re.compile(r"[0-9a-f]{64}")


class RegisteredFiles:
    """Gives the digests of registered files and collects what is wrong with them."""

    def __init__(self, repo_root: Path) -> None:
        self._repo_root = str(repo_root)
        self._digests: dict[tuple[str, ArtifactType], str | FileRefused] = {}
        self.problems: list[Problem] = []

    def sha256(
        self,
        template: str,
        expected: str | None,
        where: str,
        type: ArtifactType = ArtifactType.FILE,
    ) -> str | None:
        """Give the digest of what lies at ``template``, or None where there is a problem.

        Args:
            template: a path without ``{run_dir}``; a relative one is relative to the
                repository root.
            expected: the digest that the configuration gives, if any.
            where: dotted path of the input in the configuration.
        """
        if expected is not None and not _HEX.fullmatch(expected):
            self._add(
                "bad_digest",
                where,
                f"the sha256 {expected!r} is no digest",
                "64 lowercase hex digits",
                "Take what sha256sum prints",
            )
            return None
        path = os.path.join(self._repo_root, fill(template, self._repo_root, ""))
        if (path, type) not in self._digests:
            read = hash_tree if type is ArtifactType.DIRECTORY else hash_file
            try:
                self._digests[path, type] = read(path, follow=True).sha256
            except FileRefused as refused:
                self._digests[path, type] = refused
        digest = self._digests[path, type]
        if isinstance(digest, FileRefused):
            self._add(
                f"input_{digest.code}",
                where,
                digest.problems[0].found,
                f"a {type} that is there when the plan is made",
                f"Correct the path, or put the {type} there",
            )
            return None
        if expected is not None and expected != digest:
            self._add(
                "input_changed",
                where,
                f"{path} has the sha256 {digest}",
                f"{expected}, which the configuration gives",
                "Restore it; or, if it is meant to be another, give its digest",
            )
            return None
        return digest

    def _add(self, code: str, where: str, found: str, expected: str, action: str) -> None:
        problem = Problem(code, where, found, expected, action)
        if problem not in self.problems:
            self.problems.append(problem)
