"""``hloop attest``: verify a run, then sign its head and the digests of its outputs.

What does not hold unaltered is not signed; a run that failed may be. The private key is only
read: neither it nor where it lies is written anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop import canonical
from hloop.errors import Problem
from hloop.files import publish
from hloop.provenance.attestation import (
    KEYS,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    AttestationError,
    require_library,
    subjects,
)
from hloop.provenance.ended import EndedRun, read_ended_run
from hloop.provenance.verify import Verdict, verify

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

AskPassword = Callable[[], str | None]
"""Gives the password of a key; None where nobody can be asked."""


class AttestationRefused(AttestationError):
    """A run that does not hold unaltered."""

    exit_code = 1


@dataclass(frozen=True)
class Attested:
    """What was signed.

    Attributes:
        file: the attestation.
        head: ``sha256:<hex>``.
        keyid: of the public key, as securesystemslib derives it.
        subjects: how many digests are signed, the head's included.
    """

    file: Path
    head: str
    keyid: str
    subjects: int


def attest(
    run_dir: Path,
    key: Path,
    out: Path,
    *,
    ask_password: AskPassword = lambda: None,
    repo_root: Path | None = None,
) -> Attested:
    """Verify a run and write an attestation of it to ``out``, which must not exist.

    Args:
        key: the private key, PEM.
        repo_root: where ``${REPO_ROOT}`` lies now; None: where it lay when the run began.

    Raises:
        AttestationRefused: the run is altered.
        AttestationError: the library is missing; the key cannot be used; ``out`` cannot be
            written; whether the run is altered cannot be decided.
        RunDirectoryError, ReportError, PlanError: it is not the directory of an ended run.
    """
    require_library()
    signer = _signer(key, ask_password)
    _check_out(out, run_dir)
    verdict = verify(run_dir, repo_root=repo_root)
    run = read_ended_run(run_dir)
    _check_verdict(verdict, run)
    statement = _statement(run, verdict)

    from securesystemslib.dsse import Envelope

    envelope = Envelope(canonical.dumps(statement), PAYLOAD_TYPE, {})
    signature = envelope.sign(signer)
    try:
        publish(out, canonical.dumps(envelope.to_dict()))
    except OSError as error:
        raise _unwritable(out, str(error.strerror)) from error
    return Attested(out, run.head, signature.keyid, len(statement["subject"]))


def _statement(run: EndedRun, verdict: Verdict) -> dict[str, Any]:
    folders = frozenset(
        entry["path"]
        for job in run.report["jobs"]
        for entry in job["outputs"]
        if os.path.isdir(run.locate(entry["path"]) or "")
    )
    digests = ("plan_semantic_hash", "experiment_digest", "placement_digest")
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects(run.head, run.report, folders),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "session_id": run.report["session_id"],
            "run_kind": run.report["run_kind"],
            "status": run.report["status"],
            "plan": {"plan_id": run.report["plan_id"]}
            | {digest: run.report[digest] for digest in digests},
            "head": run.head,
            "verdict": {
                "complete": verdict.complete,
                "unaltered": verdict.unaltered,
                "eligible": verdict.eligible,
            },
        },
    }


def _signer(path: Path, ask_password: AskPassword) -> CryptoSigner:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    try:
        data = path.read_bytes()
    except OSError as error:
        found = f"the private key cannot be read: {error.strerror}"
        raise AttestationError(Problem("unreadable", "--key", found)) from error
    try:
        try:
            key = load_pem_private_key(data, None)
        except TypeError as error:
            # It is there, and protected.
            password = ask_password()
            if password is None:
                problem = Problem(
                    "key_protected",
                    "--key",
                    "the private key is protected by a password",
                    action="Run this on a terminal, where it can be asked for",
                )
                raise AttestationError(problem) from error
            key = load_pem_private_key(data, password.encode())
        return CryptoSigner(key)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        found = "it is no private key of a known kind, or the password is wrong"
        raise AttestationError(Problem("not_a_key", "--key", found, KEYS)) from error


def _check_out(out: Path, run_dir: Path) -> None:
    if out.resolve().is_relative_to(run_dir.resolve()):
        raise _unwritable(out, "it lies in the run directory, which stays as it is")
    if os.path.lexists(out):
        raise _unwritable(out, "it exists already")


def _unwritable(out: Path, why: str) -> AttestationError:
    return AttestationError(Problem("out", "--out", why, "a new file elsewhere"), file=out)


def _check_verdict(verdict: Verdict, run: EndedRun) -> None:
    if verdict.unaltered is True and verdict.head == run.head:
        return
    kind = AttestationRefused if verdict.unaltered is False else AttestationError
    codes = ", ".join(dict.fromkeys(finding.code for finding in verdict.findings))
    found = f"it does not hold unaltered: {codes}"
    action = "hloop verify says what is wrong"
    raise kind(Problem("not_unaltered", "", found, action=action), file=run.paths.root)
