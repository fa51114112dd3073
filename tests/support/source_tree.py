"""The files of the project, and not what tools and runs leave beside them."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]


def project_files() -> list[str]:
    """Give the path of every file below the root that .gitignore does not name, sorted.

    It asks no git, since the tests are also in the sdist.
    """
    ignored = [".git", *(ROOT / ".gitignore").read_text().split()]

    def is_ours(path: Path) -> bool:
        parts = path.relative_to(ROOT).parts
        return not any(fnmatch(part, name.rstrip("/")) for part in parts for name in ignored)

    return sorted(
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and is_ours(path)
    )
