"""The folder of a fidelity gate: the gate, with a copy of everything that it builds on.

``hloop gate`` makes one, and a formal run keeps its copy as ``RUN/formal``. What the files say
is not looked at here, but for the names that the gate gives of the others.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop import canonical, files
from hloop.errors import HloopError, Problem
from hloop.files import FORMAL_NAME
from hloop.formalpaths import FormalPaths
from hloop.plan.contract import schema_problems

PREFIX = f"${{RUN_DIR}}/{FORMAL_NAME}/"
"""How the records in such a folder begin the path of another: as in a run directory."""


def read_gate(path: Path) -> dict[str, Any]:
    """Read a gate and hold it against its format. What it says must still be derived anew.

    Raises:
        HloopError: it cannot be read, or is no gate.
    """
    try:
        gate: dict[str, Any] = canonical.loads(read_plain(path))
    except canonical.CanonicalError as error:
        problem = Problem("not_canonical", "", f"it is not as `hloop gate` writes it: {error}")
        raise HloopError(problem, file=path) from None
    if problems := schema_problems(gate, "fidelity-gate"):
        raise HloopError(problems, file=path)
    return gate


def read_files(folder: Path) -> dict[str, bytes]:
    """Read a gate with everything that it builds on, as :func:`publish_gate` takes it.

    Raises:
        HloopError: something cannot be read.
    """
    gate = FormalPaths(folder).gate
    names = [*_files_beside(read_gate(gate)), gate.name]
    return {name: read_plain(folder / name) for name in names}


def publish_gate(made: Mapping[str, bytes], folder: Path) -> None:
    """Write a gate with everything that it builds on; the gate itself is the last.

    What it builds on may lie there already: then it stays.

    Args:
        made: relative path to bytes, as :func:`approve` gives it.

    Raises:
        HloopError: a gate or a formal manifest is there already, or another file of the same
            name as one that is needed, or the folder cannot be written to.
    """
    names = FormalPaths(Path())
    kept = {name for name in made if os.path.lexists(folder / name)}
    ours = {str(names.gate), str(names.manifest)}
    problems = [
        Problem("exists", "", f"{folder / name} is there already", action="Choose another folder")
        for name, data in made.items()
        if name in kept and (name in ours or read_plain(folder / name) != data)
    ]
    if problems:
        raise HloopError(problems)
    try:
        for name, data in made.items():
            if name not in kept:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                files.publish(folder / name, data)
    except OSError as error:
        problem = Problem("unwritable", "", f"{error.filename}: {error.strerror}")
        raise HloopError(problem) from None


def _files_beside(gate: Mapping[str, Any]) -> list[str]:
    """Name the files that lie beside a gate and that it builds on, relative to its folder."""
    return [reference["path"].removeprefix(PREFIX) for reference in gate["upstream"]]


def read_plain(path: Path, *, follow: bool = False) -> bytes:
    """Read a plain file. ``follow`` allows a symbolic link to it.

    Raises:
        HloopError: it cannot be read, or is something else.
    """
    # A FIFO must not be waited for.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
        found = "it is not a plain file"
    except OSError as error:
        found = f"it cannot be read: {error.strerror}"
        if error.errno == errno.ELOOP:
            found = "it is a symbolic link"
    raise HloopError(Problem("unreadable", "", found, "a plain file"), file=path)
