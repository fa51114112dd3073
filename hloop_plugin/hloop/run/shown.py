"""Which files of a run ``snakemake --report`` takes along: small ones that people can read.

Asked when Snakemake reads the packaged workflow. Before a run nothing is there, so that marks
cost a run nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath

from hloop.files import RunPaths

MAX_BYTES = 1 << 20
READABLE = frozenset(
    {
        *(".csv", ".tsv", ".json", ".txt", ".md", ".html", ".pdf"),
        *(".svg", ".png", ".jpg", ".jpeg", ".gif"),
    }
)


def shown(paths: RunPaths, outputs: Iterable[str]) -> list[str]:
    """Give those of the files that a report takes along; none before the run has its report."""
    if not paths.report.exists():
        return []
    return [path for path in outputs if _is_readable(path) and _is_small(path)]


def shown_pages(paths: RunPaths) -> dict[str, list[str]]:
    """Give hloop's own pages of the run, by category."""
    pages = {"timeline": [paths.timeline, paths.html], "summary": [paths.report]}
    return {
        category: [str(path) for path in entries if paths.report.exists() and path.exists()]
        for category, entries in pages.items()
    }


def _is_readable(path: str) -> bool:
    return PurePath(path).suffix.lower() in READABLE


def _is_small(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.path.getsize(path) <= MAX_BYTES
    except OSError:
        return False
