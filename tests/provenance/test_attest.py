"""Attestations: what is signed, when it is refused, and what a signature is held against."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from ended_runs import run_plan
from hloop.files import hash_file
from hloop.provenance.attest import AttestationRefused, attest
from hloop.provenance.attestation import AttestationError
from hloop.provenance.verify import verify
from hloop.trees import hash_tree
from supervised import job, output
from tampering import Copy, run_small

KINDS: dict[str, Callable[[], Any]] = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
}


def write_keys(folder: Path, kind: str = "ed25519", password: bytes | None = None) -> Path:
    """Write a pair of keys; give the private one's file. The public one's is beside it, .pub."""
    key = KINDS[kind]()
    path = folder / f"{kind}.pem"
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "root"
    run_small(root)
    return root


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Copy:
    return Copy.of(source, tmp_path / "copy")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_keys(tmp_path)


@pytest.fixture
def attested(copy: Copy, key: Path, tmp_path: Path) -> Path:
    """An attestation of the run."""
    attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)
    return tmp_path / "run.dsse"


def codes(copy: Copy, attestation: Path, key: Path) -> set[str]:
    return copy.codes(attestation=(attestation, key.with_suffix(".pub")))


def payload(attestation: Path) -> dict[str, Any]:
    envelope = json.loads(attestation.read_bytes())
    statement: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return statement


def rewrite(attestation: Path, **fields: Any) -> None:
    """Change fields of an envelope and leave its signature."""
    envelope = json.loads(attestation.read_bytes()) | fields
    attestation.unlink()
    attestation.write_text(json.dumps(envelope))


@pytest.mark.parametrize("kind", KINDS)
def test_an_attested_run_holds(copy: Copy, tmp_path: Path, kind: str):
    key = write_keys(tmp_path, kind)
    attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)
    assert codes(copy, tmp_path / "run.dsse", key) == set()


def test_the_head_and_every_output_are_signed(copy: Copy, attested: Path):
    digests = {entry["name"]: entry["digest"] for entry in payload(attested)["subject"]}
    files = ("hloop_run.json", "deep/er/copy", "other", "selection.json")
    assert digests == {
        **{name: {"sha256": hash_file(copy.path(name)).sha256} for name in files},
        "folder": {"hloop_directory_v1": hash_tree(copy.path("folder")).sha256},
    }


def test_the_predicate_says_what_run_it_is(copy: Copy, attested: Path):
    report = json.loads(copy.paths.report.read_bytes())
    digests = ("plan_id", "plan_semantic_hash", "experiment_digest", "placement_digest")
    assert payload(attested)["predicate"] == {
        "session_id": "session",
        "run_kind": "interface_sanity_only",
        "status": "completed",
        "plan": {name: report[name] for name in digests},
        "head": copy.head(),
        "verdict": {"complete": True, "unaltered": True, "eligible": False},
    }


def test_a_failed_run_may_be_attested(tmp_path: Path, key: Path):
    run_dir = run_plan(tmp_path, job("break", "exit 3", outputs=[output("never")]))
    attest(run_dir, key, tmp_path / "run.dsse")
    assert payload(tmp_path / "run.dsse")["predicate"]["status"] == "failed"


def test_neither_the_key_nor_its_place_is_written(attested: Path, key: Path):
    body = b"".join(key.read_bytes().splitlines()[1:-1])
    text = attested.read_bytes() + json.dumps(payload(attested)).encode()
    assert body not in text and key.stem.encode() not in text


def test_the_run_directory_is_left_as_it_is(copy: Copy, key: Path, tmp_path: Path):
    before = hash_tree(copy.root)
    attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)
    assert hash_tree(copy.root) == before


# What is not signed


def test_an_altered_run_is_refused(copy: Copy, key: Path, tmp_path: Path):
    copy.write("other", b"tampered\n")
    with pytest.raises(AttestationRefused, match="output_changed"):
        attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)
    assert not (tmp_path / "run.dsse").exists()


def test_a_run_that_cannot_be_decided_on_is_not_signed(copy: Copy, key: Path, tmp_path: Path):
    (copy.repo_root / "in.txt").unlink()
    with pytest.raises(AttestationError, match="input_unavailable") as error:
        attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)
    assert error.value.exit_code == 2


def test_a_file_that_exists_is_kept(copy: Copy, key: Path, tmp_path: Path):
    (tmp_path / "run.dsse").write_text("mine")
    with pytest.raises(AttestationError, match="exists already"):
        attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)


def test_no_attestation_is_written_into_the_run_directory(copy: Copy, key: Path):
    with pytest.raises(AttestationError, match="lies in the run directory"):
        attest(copy.root, key, copy.root / "run.dsse", repo_root=copy.repo_root)


# Keys


def test_a_protected_key_is_opened_with_its_password(copy: Copy, tmp_path: Path):
    key = write_keys(tmp_path, password=b"open")
    out = tmp_path / "run.dsse"
    attest(copy.root, key, out, ask_password=lambda: "open", repo_root=copy.repo_root)
    assert codes(copy, out, key) == set()


def test_a_protected_key_needs_somebody_to_ask(copy: Copy, tmp_path: Path):
    key = write_keys(tmp_path, password=b"open")
    with pytest.raises(AttestationError, match="protected by a password"):
        attest(copy.root, key, tmp_path / "run.dsse", repo_root=copy.repo_root)


def test_a_wrong_password_is_refused(copy: Copy, tmp_path: Path):
    key = write_keys(tmp_path, password=b"open")
    with pytest.raises(AttestationError, match="the password is wrong"):
        attest(copy.root, key, tmp_path / "run.dsse", ask_password=lambda: "shut")


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAA==\n"])
def test_what_is_no_private_key_is_refused(copy: Copy, tmp_path: Path, content: bytes):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(AttestationError, match="no private key"):
        attest(copy.root, tmp_path / "key", tmp_path / "run.dsse")


def test_a_key_that_cannot_sign_is_refused(copy: Copy, tmp_path: Path):
    key = x25519.X25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key").write_bytes(pem)
    with pytest.raises(AttestationError, match="no private key of a known kind"):
        attest(copy.root, tmp_path / "key", tmp_path / "run.dsse")


def test_a_private_key_in_place_of_the_public_one_is_refused(
    copy: Copy, attested: Path, key: Path
):
    with pytest.raises(AttestationError, match="no public key"):
        copy.verify(attestation=(attested, key))


def test_without_the_library_it_is_said_what_to_install(
    copy: Copy, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "securesystemslib.dsse", None)
    with pytest.raises(AttestationError, match=r"pip install .*\[attest\]"):
        attest(copy.root, key, tmp_path / "run.dsse")


# What a signature is held against


def test_another_key_did_not_sign(copy: Copy, attested: Path, tmp_path: Path):
    (tmp_path / "other").mkdir()
    other = write_keys(tmp_path / "other")
    assert codes(copy, attested, other) == {"attestation_signature"}


def test_a_key_of_another_kind_did_not_sign(copy: Copy, attested: Path, tmp_path: Path):
    assert codes(copy, attested, write_keys(tmp_path, "rsa")) == {"attestation_signature"}


def test_a_key_id_is_a_hint_and_decides_nothing(copy: Copy, attested: Path, key: Path):
    [signature] = json.loads(attested.read_bytes())["signatures"]
    rewrite(attested, signatures=[signature | {"keyid": "another"}])
    assert codes(copy, attested, key) == set()


def test_an_altered_output_is_found(copy: Copy, attested: Path, key: Path):
    copy.write("other", b"tampered\n")
    assert codes(copy, attested, key) == {"output_changed"}


def test_an_output_that_was_altered_with_the_whole_chain_is_found(
    source: Path, tmp_path: Path, key: Path
):
    """A run that is whole in itself, made anew with another output, is not the one signed."""
    for name, text in (("signed", "one"), ("shown", "two")):
        (tmp_path / name).mkdir()
        run_plan(
            tmp_path / name, job("make", f"echo {text} > {{run_dir}}/x", outputs=[output("x")])
        )
    attest(tmp_path / "signed/run", key, tmp_path / "run.dsse")
    verdict = verify(
        tmp_path / "shown/run", attestation=(tmp_path / "run.dsse", key.with_suffix(".pub"))
    )
    found = {finding.code for finding in verdict.findings} - {"not_formal"}
    assert found == {"attestation_head", "attestation_subject"}


def test_a_report_that_was_written_anew_is_found(copy: Copy, attested: Path, key: Path):
    copy.write("hloop_run.json", copy.paths.report.read_bytes() + b" ")
    assert codes(copy, attested, key) == {"attestation_head"}


def test_a_missing_report_is_found(copy: Copy, attested: Path, key: Path):
    copy.paths.report.unlink()
    assert "attestation_head" in codes(copy, attested, key)


def test_another_payload_under_the_signature_is_found(copy: Copy, attested: Path, key: Path):
    statement = payload(attested)
    statement["predicate"]["status"] = "failed"
    rewrite(attested, payload=base64.b64encode(json.dumps(statement).encode()).decode())
    assert codes(copy, attested, key) == {"attestation_signature"}


def test_another_payload_type_is_refused(copy: Copy, attested: Path, key: Path):
    rewrite(attested, payloadType="text/plain")
    assert codes(copy, attested, key) == {"attestation_format"}


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": "%"},
        {"payload": None},
        {"signatures": None},
        {"signatures": [{}]},
        {"signatures": [{"keyid": "a", "sig": 1}]},
    ],
)
def test_what_is_no_envelope_is_refused(
    copy: Copy, attested: Path, key: Path, fields: dict[str, Any]
):
    rewrite(attested, **fields)
    assert codes(copy, attested, key) == {"attestation_format"}


def test_an_envelope_without_signatures_is_not_signed(copy: Copy, attested: Path, key: Path):
    rewrite(attested, signatures=[])
    assert codes(copy, attested, key) == {"attestation_signature"}


@pytest.mark.parametrize("part", [0, 0.5, 0.99])
def test_a_truncated_envelope_is_refused(copy: Copy, attested: Path, key: Path, part: float):
    data = attested.read_bytes()
    attested.unlink()
    attested.write_bytes(data[: int(len(data) * part)])
    assert codes(copy, attested, key) == {"attestation_format"}


def test_a_signed_statement_of_another_kind_is_refused(copy: Copy, key: Path, tmp_path: Path):
    """The right signer, who signed something else."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    envelope = Envelope(b'{"_type": "else"}', "application/vnd.in-toto+json", {})
    envelope.sign(CryptoSigner(load_pem_private_key(key.read_bytes(), None)))
    (tmp_path / "other.dsse").write_text(json.dumps(envelope.to_dict()))
    assert codes(copy, tmp_path / "other.dsse", key) == {"attestation_format"}


# The command line


def test_the_commands_exit_with_0_for_a_run_that_is_signed_and_holds(
    hloop: Any, copy: Copy, key: Path, tmp_path: Path
):
    root = ("--repo-root", copy.repo_root)
    out = tmp_path / "run.dsse"
    signed = hloop("attest", copy.root, "--key", key, "--out", out, *root, "--json")
    pair = ("--attestation", out, "--public-key", key.with_suffix(".pub"))
    held = hloop("verify", copy.root, *pair, *root)
    assert (signed.code, signed.document["head"], held.code) == (0, copy.head(), 0)


def test_an_altered_run_makes_attest_exit_with_1(
    hloop: Any, copy: Copy, key: Path, tmp_path: Path
):
    copy.write("other", b"tampered\n")
    out = ("--out", tmp_path / "run.dsse", "--repo-root", copy.repo_root)
    assert hloop("attest", copy.root, "--key", key, *out).code == 1


def test_an_attestation_without_a_key_is_no_question(hloop: Any, copy: Copy, attested: Path):
    outcome = hloop("verify", copy.root, "--attestation", attested)
    assert (outcome.code, "go together" in outcome.err) == (2, True)


def test_a_truncated_attestation_cannot_be_decided_on(
    hloop: Any, copy: Copy, attested: Path, key: Path
):
    data = attested.read_bytes()
    attested.unlink()
    attested.write_bytes(data[:40])
    pair = ("--attestation", attested, "--public-key", key.with_suffix(".pub"))
    assert hloop("verify", copy.root, *pair, "--repo-root", copy.repo_root).code == 2


def test_a_crate_s_run_has_the_verdict_of_the_run(copy: Copy, tmp_path: Path):
    """An export changes no verdict: its copy of the run directory holds as the run does."""
    from hloop.provenance.crate import export_crate

    export_crate(copy.root, tmp_path / "crate")
    shutil.copy(copy.repo_root / "in.txt", tmp_path / "in.txt")
    exported = verify(tmp_path / "crate/run", repo_root=copy.repo_root)
    assert exported.to_dict() == copy.verify().to_dict()
