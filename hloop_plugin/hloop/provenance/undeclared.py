"""What lies in a run directory that neither the plan's outputs nor hloop's names account for.

Jobs may leave such files. A run's report lists them by their topmost names, so that one that
comes later is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hloop.files import OWN_NAMES
from hloop.plan.render import RenderedPlan


def undeclared(rendered: RenderedPlan) -> list[str]:
    """Give those names, relative to the run directory, sorted; a folder's ends with a slash.

    A folder that no output lies below is named itself, whatever it holds. What cannot be
    listed is taken for empty. Names that are not UTF-8 come with backslash escapes.
    """
    root = str(rendered.run_dir)
    outputs = {output.path for job in rendered.jobs.values() for output in job.outputs}
    folders: set[str] = set()
    for path in outputs:
        for parent in Path(path).parents:
            if str(parent) in folders:
                break
            folders.add(str(parent))
    own = {os.path.join(root, name) for name in OWN_NAMES}
    names = (
        os.path.relpath(path, root) + end for path, end in _walk(root, outputs | own, folders)
    )
    return sorted(os.fsencode(name).decode(errors="backslashreplace") for name in names)


def _walk(folder: str, known: set[str], folders: set[str]) -> Iterator[tuple[str, str]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.path in known:
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield entry.path, ""
        elif entry.path in folders:
            yield from _walk(entry.path, known, folders)
        else:
            yield entry.path, "/"
