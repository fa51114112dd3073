"""``hloop attest``: somebody's signature under a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.")],
    key: Annotated[Path, typer.Option(metavar="PEM", help="The private key to sign with.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the attestation goes; a new file.")
    ],
    repo_root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the repository root lies now. [default: where the run had it]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a run, then sign its head and the digests of its outputs.

    `hloop verify --attestation FILE --public-key PEM` holds the run against the signature.

    Exit 0: it is signed. 1: the run is altered. 2: it could not be signed.
    """
    from hloop.provenance.attest import attest

    attested = attest(run_dir, key, out, ask_password=_ask_password, repo_root=repo_root)
    if as_json:
        print_json(
            {
                "attestation": str(attested.file),
                "head": attested.head,
                "keyid": attested.keyid,
                "subjects": attested.subjects,
            }
        )
    else:
        print(f"attestation: {attested.file} ({attested.subjects} digests)")
        print(f"key: {attested.keyid}")
        print(f"head: {attested.head}")


def _ask_password() -> str | None:
    if not sys.stdin.isatty():
        return None
    password: str = typer.prompt("Password of the key", hide_input=True, err=True)
    return password
