"""Options that several commands take, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.schedule.events import Mode, Placement

ModeOption = Annotated[Mode | None, typer.Option(help="How jobs are started. [default: hloop]")]
PlacementOption = Annotated[
    Placement | None,
    typer.Option(
        help="What a device pin means: the job waits for its device, or takes whichever is "
        "free first. [default: pinned]"
    ),
]
CpuWorkersOption = Annotated[
    int | None,
    typer.Option(min=1, help="cpu jobs that run at once. [default: the plan's limit]"),
]
IoWorkersOption = Annotated[
    int | None,
    typer.Option(min=1, help="io jobs that run at once. [default: the plan's limit]"),
]
RepoRootOption = Annotated[
    Path | None,
    typer.Option(help="The folder that {repo_root} stands for. [default: the current folder]"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def repo_root_or_here(repo_root: Path | None) -> Path:
    return (repo_root or Path()).absolute()
