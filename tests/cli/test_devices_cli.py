"""hloop devices: what is visible, why, and who has what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.cli.main import application
from hloop.devices.leases import LeaseFolder
from hloop.locks import Holder, Lock
from typer.testing import CliRunner

ADA = Holder("/run", "s", "train", 7, 9, "ada", "node", "2026-03-01T08:00:00Z")


def ask(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(application(), ["devices", *options])
    return result.exit_code, result.stdout


def ask_json(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(*options, "--json")[1])
    return found


@pytest.fixture
def leases(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def held(leases: Path) -> Iterator[None]:
    """Device 1 is leased."""
    folder = LeaseFolder.open(leases)
    lease = folder.try_lease("simulated-1")
    assert isinstance(lease, Lock)
    lease.say(ADA)
    yield
    lease.release()
    folder.close()


def test_it_says_yes_where_there_are_devices(leases: Path) -> None:
    code, text = ask("--devices", "simulated:2", "--lease-dir", str(leases))
    assert code == 0
    assert text.startswith("2 devices: --hloop-devices=simulated:2\n")


def test_it_says_who_has_what(leases: Path, held: None) -> None:
    _, text = ask("--devices", "simulated:2", "--lease-dir", str(leases))
    assert text.splitlines()[1:] == [
        "device 0  simulated  free",
        f"device 1  simulated  held by {ADA}",
        f"leases: {leases}",
    ]


def test_the_document_holds_the_same(leases: Path, held: None) -> None:
    found = ask_json("--devices", "simulated:2", "--lease-dir", str(leases))
    assert [device["lease"]["held"] for device in found["devices"]] == [False, True]
    assert found["devices"][1]["lease"]["holder"] == ADA.to_dict()


def test_a_file_that_nobody_has_locked_is_nobodys(leases: Path) -> None:
    LeaseFolder.open(leases).close()
    (leases / "simulated-0.lease").write_text(json.dumps(ADA.to_dict()))
    found = ask_json("--devices", "simulated:1", "--lease-dir", str(leases))
    assert found["devices"][0]["lease"] == {
        "key": "simulated-0",
        "held": False,
        "holder": None,
        "problem": None,
    }


def test_a_lease_that_cannot_be_looked_at_is_no_answer_about_it(leases: Path) -> None:
    LeaseFolder.open(leases).close()
    (leases / "simulated-0.lease").symlink_to("elsewhere")
    (device,) = ask_json("--devices", "simulated:1", "--lease-dir", str(leases))["devices"]
    assert device["lease"]["held"] is None and "symbolic links" in device["lease"]["problem"]


def test_simulated_devices_have_no_lease_where_no_folder_is_named() -> None:
    assert "device 0  simulated  (without lease)" in ask("--devices", "simulated:1")[1]


def test_it_says_no_where_there_is_none_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert ask() == (1, "no devices: CUDA_VISIBLE_DEVICES is empty\n")


def test_entries_that_cannot_be_are_no_answer() -> None:
    result = CliRunner().invoke(application(), ["devices", "--devices", "simulated:none"])
    assert result.exception is not None and "names no devices" in str(result.exception)
