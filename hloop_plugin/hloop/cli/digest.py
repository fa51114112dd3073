"""``hloop digest``: the digest of a file or a folder, as plans and records have it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files and folders.")],
    as_json: JsonOption = False,
) -> None:
    """Print the SHA-256 of files, the same that sha256sum prints, and of whole folders.

    Exit 0: all could be read. 2: one could not.
    """
    from hloop.files import hash_file
    from hloop.trees import hash_tree

    found = []
    for path in paths:
        directory = path.is_dir()
        digest = hash_tree(path, follow=True) if directory else hash_file(path, follow=True)
        found.append((path, directory, digest))
        if not as_json:
            print(f"{digest.sha256}  {path}{'/' if directory else ''}")
    if as_json:
        entries = [
            {
                "path": str(path),
                "type": "directory" if directory else "file",
                "sha256": digest.sha256,
                "size": digest.size,
            }
            for path, directory, digest in found
        ]
        print_json({"digests": entries})
