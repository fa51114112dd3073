"""``hloop gate``: may a plan be run formally? The one command that writes a passed gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption, RepoRootOption, repo_root_or_here
from hloop.cli.output import print_json
from hloop.errors import HloopError, Problem


def command(
    plan: Annotated[Path, typer.Option(metavar="FILE", help="The plan, YAML or JSON.")],
    fidelity: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The author-fidelity manifest, JSON; its evidence lies in evidence/ beside it.",
        ),
    ],
    patch: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The reviewed patch on the authors' commit, as `git diff --binary` prints it; "
            "may be empty.",
        ),
    ],
    source: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="The source tree: the top of a Git work tree."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Where the gate goes: FOLDER/fidelity_gate.json. Everything that it builds on "
            "goes beside it.",
        ),
    ],
    repo_root: RepoRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check all that a formal run builds on, and write the gate that lets it begin.

    Exit 0: the gate is written. 1: it cannot be passed, for the reasons that are told, and
    nothing is written. 2: there is no answer.
    """
    from hloop.files import sha256_bytes
    from hloop.formalpaths import FormalPaths
    from hloop.plan.load import load_checked
    from hloop.plan.paths import inside
    from hloop.provenance.gate import approve
    from hloop.provenance.gatefolder import publish_gate

    folder, name = out.absolute().parent, FormalPaths(Path()).gate.name
    if out.name != name:
        raise HloopError(Problem("usage", "--out", f"{out} is no name of a gate", f"…/{name}"))
    if inside(str(folder.resolve() / name), str(source.resolve())):
        found = f"{out} lies in the source tree, which would then hold what no patch explains"
        raise HloopError(Problem("usage", "--out", found, "a folder elsewhere"))
    rendered = load_checked(plan, repo_root_or_here(repo_root), Path("run").absolute())
    made = approve(rendered, fidelity=fidelity, patch=patch, source=source)
    publish_gate(made, folder)
    digest = sha256_bytes(made[name])
    if as_json:
        print_json({"gate": str(folder / name), "digest": digest, "files": list(made)})
    else:
        print(f"passed: {folder / name}\n{digest}")
