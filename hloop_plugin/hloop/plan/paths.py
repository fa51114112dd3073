"""Where a plan's files really lie. It follows symbolic links and opens nothing."""

from __future__ import annotations

import os


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
