"""Options that several commands take, so that they read the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from hloop.schedule.events import Mode, Placement

ModeOption = Annotated[
    Mode | None,
    typer.Option(
        help="When jobs start: one at a time; each as soon as it is ready and its slot is free; "
        "or in waves with a barrier between them. [default: hloop]"
    ),
]
PlacementOption = Annotated[
    Placement | None,
    typer.Option(
        help="What a device pin means: the job waits for its device, or takes whichever is "
        "free first. [default: pinned]"
    ),
]
CpuWorkersOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="cpu jobs that run at once. [default: as in the plan]"),
]
IoWorkersOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="io jobs that run at once. [default: as in the plan]"),
]
DurationsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="A former run, whose times say which of the ready jobs has the longest path before "
        "it. [default: the plan's expected_seconds]",
    ),
]
ModesOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODES",
        help="Which modes, and in which order: sequential, hloop, bulk-sync, with commas between "
        "them. [default: all three, or those of a benchmark's configuration]",
    ),
]
DevicesOption = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICES",
        help="auto (what CUDA_VISIBLE_DEVICES and NVML show), simulated:N, or entries as in "
        "CUDA_VISIBLE_DEVICES. [default: auto]",
    ),
]
LeaseDirOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder of the locks that keep other runs off a device; with it, simulated "
        "devices are leased too. [default: /tmp/hloop-leases]",
    ),
]
RepoRootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder that {repo_root} stands for. [default: the current folder]",
    ),
]
MimicxRootOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The MimicX checkout, where the configuration needs one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


def repo_root_or_here(repo_root: Path | None) -> Path:
    """Give the repository root, absolute.

    Raises:
        HloopError: it is no folder.
    """
    from hloop.plan.paths import check_repo_root

    root = (repo_root or Path()).absolute()
    check_repo_root(root)
    return root


def modes_of(text: str | None, default: Iterable[str] = tuple(Mode)) -> tuple[Mode, ...]:
    """Give the modes that ``--modes`` names, in their order.

    Raises:
        HloopError: there is no such mode, or one is named twice.
    """
    from hloop.errors import HloopError, Problem

    names = list(default) if text is None else [name.strip() for name in text.split(",")]
    known = {mode.value: mode for mode in Mode}
    if set(names) <= known.keys() and len(set(names)) == len(names):
        return tuple(known[name] for name in names)
    expected = f"some of {', '.join(known)}, each once"
    raise HloopError(
        Problem("usage", "--modes", f"{', '.join(names)!r} is not possible", expected)
    )
