"""Where a plan's files really lie. It follows symbolic links and opens nothing."""

from __future__ import annotations

import os
from pathlib import Path

from hloop.errors import HloopError, Problem


class Resolver:
    """Resolves many paths that share folders, looking at each folder once."""

    def __init__(self) -> None:
        self._known = {"/": "/"}

    def resolve(self, path: str) -> str:
        """Follow the symbolic links of an absolute, normalised path as far as it exists."""
        known = self._known
        unknown = []
        while path not in known:
            unknown.append(path)
            path = os.path.dirname(path)
        real = known[path]
        for path in reversed(unknown):
            real = os.path.join(real, os.path.basename(path))
            if os.path.islink(real):
                real = os.path.realpath(real)
            known[path] = real
        return real


def inside(path: str, folder: str) -> bool:
    """Say whether ``path`` lies in ``folder``, by components. A folder is not in itself."""
    return path.startswith(folder.rstrip("/") + "/") and path != folder


def check_repo_root(path: Path) -> None:
    """Demand that a repository root is there.

    Raises:
        HloopError: it is no folder.
    """
    if not path.is_dir():
        raise HloopError(
            Problem(
                "repo_root",
                "repo_root",
                f"{path} is no folder",
                "the folder that {repo_root} stands for",
                "Correct the path",
            )
        )
