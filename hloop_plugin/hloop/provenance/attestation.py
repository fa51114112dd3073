"""An attestation: somebody's signature under a run's head and the digests of its outputs.

The form is DSSE around an in-toto Statement v1, signed and checked by securesystemslib, without
network. An attestation is held against the run's report here; whether the files are what the
report says is for the rest of verification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop import canonical
from hloop.errors import HloopError, Problem
from hloop.files import REPORT_NAME
from hloop.provenance.findings import Finding

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
    from securesystemslib.dsse import Envelope

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:x-hloop:attestation:v1"

# A digest over a folder is none over bytes, so it does not go by the name sha256.
_FOLDER_DIGEST = "hloop_directory_v1"

KEYS = "a PEM key without OpenSSH's own armour: Ed25519, ECDSA (P-256, P-384, P-521) or RSA"


class AttestationError(HloopError):
    """An attestation that cannot be made or looked at: no library, no such file, no such key."""


def require_library() -> None:
    """Demand what signs.

    Raises:
        AttestationError: it is not installed.
    """
    try:
        import cryptography  # noqa: F401
        import securesystemslib.dsse  # noqa: F401
    except ImportError as error:
        raise AttestationError(
            Problem(
                "library_missing",
                "",
                f"{error.name} is not installed",
                action="Install it: pip install 'snakemake-executor-plugin-hloop[attest]'",
            )
        ) from error


def subjects(
    head: str, report: Mapping[str, Any], folders: frozenset[str]
) -> list[dict[str, Any]]:
    """Give what an attestation is about: the report, whose digest is the head, and the outputs.

    Args:
        head: ``sha256:<hex>``.
        folders: the portable paths of the outputs that are folders.
    """
    found = [{"name": REPORT_NAME, "digest": {"sha256": head.removeprefix("sha256:")}}]
    for job in report["jobs"]:
        for entry in job["outputs"]:
            if entry["sha256"] is not None:
                kind = _FOLDER_DIGEST if entry["path"] in folders else "sha256"
                name = entry["path"].removeprefix("${RUN_DIR}/")
                found.append({"name": name, "digest": {kind: entry["sha256"]}})
    return found


def check_attestation(
    file: Path, public_key: Path, head: str | None, report: Mapping[str, Any] | None
) -> list[Finding]:
    """Hold an attestation against a run's head and report.

    Args:
        file: the attestation.
        public_key: PEM.
        head: ``sha256:<hex>``; None where there is no report.
        report: None where it cannot be used.

    Raises:
        AttestationError: the library is missing, or a file cannot be read or holds no key.
    """
    require_library()
    key = _public_key(public_key)
    data = _read(file, "the attestation")
    try:
        envelope = _envelope(data)
    except ValueError as error:
        return [Finding("attestation_format", str(file), str(error), "a DSSE envelope")]
    if not _is_signed(envelope, key):
        found = "no signature in it is one of this key"
        return [Finding("attestation_signature", str(file), found)]
    # Only what is signed is looked into.
    try:
        statement = _statement(envelope)
    except ValueError as error:
        expected = f"an in-toto Statement v1 with the predicate {PREDICATE_TYPE}"
        return [Finding("attestation_format", str(file), str(error), expected)]
    return list(_differences(statement, head, report))


def _differences(
    statement: Mapping[str, Mapping[str, str]], head: str | None, report: Mapping[str, Any] | None
) -> list[Finding]:
    signed = dict(statement)
    attested = signed.pop(REPORT_NAME, {}).get("sha256")
    findings = []
    if head != f"sha256:{attested}":
        found = "there is no report" if head is None else f"the head is {head}"
        path = f"${{RUN_DIR}}/{REPORT_NAME}"
        findings.append(Finding("attestation_head", path, found, f"sha256:{attested}"))
    if report is None:
        return findings
    there = {
        entry["path"].removeprefix("${RUN_DIR}/"): entry["sha256"]
        for job in report["jobs"]
        for entry in job["outputs"]
        if entry["sha256"] is not None
    }
    for name in sorted(there.keys() | signed.keys()):
        expected = next(iter(signed.get(name, {}).values()), None)
        if there.get(name) != expected:
            findings.append(
                Finding(
                    "attestation_subject",
                    f"${{RUN_DIR}}/{name}",
                    f"the report has {there[name]}" if name in there else "the report has none",
                    expected or "no such output",
                )
            )
    return findings


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        found = f"{what} cannot be read: {error.strerror}"
        raise AttestationError(Problem("unreadable", "", found), file=path) from error


def _public_key(path: Path) -> PublicKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    data = _read(path, "the public key")
    try:
        key = load_pem_public_key(data)
        SSlibKey.from_crypto(key)
    except (ValueError, UnsupportedAlgorithm) as error:
        problem = Problem("not_a_key", "", "it holds no public key of a known kind", KEYS)
        raise AttestationError(problem, file=path) from error
    return key


def _envelope(data: bytes) -> Envelope:
    """Read an envelope.

    Raises:
        ValueError: it is none, or is not about an in-toto Statement.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error

    try:
        document = json.loads(data, object_pairs_hook=canonical.no_duplicates)
        envelope = Envelope.from_dict(document)
        is_right = envelope.payload_type == PAYLOAD_TYPE
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, Error) as error:
        raise ValueError("it is no envelope") from error
    if not is_right:
        raise ValueError(f"it is about {envelope.payload_type!r}, not {PAYLOAD_TYPE!r}")
    return envelope


def _is_signed(envelope: Envelope, key: PublicKeyTypes) -> bool:
    from securesystemslib.exceptions import UnverifiedSignatureError
    from securesystemslib.signer import SSlibKey

    data = envelope.pae()
    for keyid, signature in envelope.signatures.items():
        try:
            # DSSE: a signature's key id is a hint, and decides nothing.
            SSlibKey.from_crypto(key, keyid).verify_signature(signature, data)
        except (UnverifiedSignatureError, ValueError):
            continue
        return True
    return False


def _statement(envelope: Envelope) -> dict[str, Mapping[str, str]]:
    """Give the digests of a statement's subjects, by name.

    Raises:
        ValueError: it is no statement of this kind.
    """
    try:
        statement = json.loads(envelope.payload, object_pairs_hook=canonical.no_duplicates)
        kind = statement["_type"], statement["predicateType"]
        if kind != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise ValueError(f"it states {kind}")
        return {entry["name"]: dict(entry["digest"]) for entry in statement["subject"]}
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("its statement has not the form of one") from error
