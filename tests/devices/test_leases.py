"""The lease folder: where it lies, who may use it, and what a device is called in it."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hloop.devices import leases
from hloop.devices.leases import LeaseFolder, lease_key
from hloop.devices.resolve import UNRESOLVED, Device
from hloop.errors import DeviceError
from hloop.locks import Holder, Lock

GPU = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
ADA = Holder("/run", "s", "job", 7, 9, "ada", "node", "2026-03-01T08:00:00Z")
KNOWN = Device(0, "1", GPU, "A GPU", 80000, simulated=False)


@pytest.mark.parametrize(
    ("device", "key"),
    [
        (KNOWN, GPU),
        (replace(KNOWN, uuid=UNRESOLVED), "boot-1"),
        (replace(KNOWN, uuid=UNRESOLVED, token=GPU), GPU),
        (replace(KNOWN, uuid=UNRESOLVED, token="GPU-8932"), "boot-GPU-8932"),
        (replace(KNOWN, uuid=UNRESOLVED, token="MIG-GPU-1/2/3"), "boot-MIG-GPU-1%2F2%2F3"),
        (replace(KNOWN, logical=3, uuid=None, simulated=True), "simulated-3"),
    ],
)
def test_a_device_is_called_by_what_is_surest(device: Device, key: str) -> None:
    assert lease_key(device, "boot") == key


def refusal(path: Path) -> str:
    with pytest.raises(DeviceError) as caught:
        LeaseFolder.open(path)
    return str(caught.value)


def test_a_folder_is_made_so_that_all_users_can_use_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        LeaseFolder.open(tmp_path / "above/leases").close()
    finally:
        os.umask(before)
    assert (tmp_path / "above/leases").stat().st_mode & 0o7777 == 0o1777


def test_leases_and_turns_may_be_locked_by_all_users(tmp_path: Path) -> None:
    folder = LeaseFolder.open(tmp_path / "leases")
    for lock in (folder.try_turn("x"), folder.try_lease("x")):
        assert isinstance(lock, Lock)
        lock.release()
    folder.close()
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "leases").iterdir()]
    assert modes == [0o666, 0o666]


def test_a_symbolic_link_is_no_lease_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert "it is no folder" in refusal(tmp_path / "link")


def test_a_file_is_no_lease_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file")


def test_a_folder_of_another_user_where_all_can_remove_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases").chmod(0o777)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert "all may write to it, and it is not sticky" in refusal(tmp_path / "leases")


def test_a_sticky_folder_of_another_user_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LeaseFolder.open(tmp_path / "leases").close()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    LeaseFolder.open(tmp_path / "leases").close()


def test_all_users_share_the_folder_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "MACHINE_FOLDER", tmp_path / "machine")
    folder = LeaseFolder.default({"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)})
    folder.close()
    assert (folder.path, folder.remark) == (tmp_path / "machine", "")


def test_where_it_cannot_be_used_the_users_own_is_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "machine").touch()
    monkeypatch.setattr(leases, "MACHINE_FOLDER", tmp_path / "machine")
    folder = LeaseFolder.default({"XDG_RUNTIME_DIR": str(tmp_path)})
    folder.close()
    assert folder.path == tmp_path / "hloop-leases"
    assert folder.remark.startswith("runs of other users do not see its leases, since the lease")


@pytest.mark.parametrize("environ", [{}, {"XDG_RUNTIME_DIR": "relative"}])
def test_where_there_is_neither_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    (tmp_path / "machine").touch()
    monkeypatch.setattr(leases, "MACHINE_FOLDER", tmp_path / "machine")
    with pytest.raises(DeviceError, match="--hloop-lease-dir"):
        LeaseFolder.default(environ)


def test_a_lease_can_be_had_once(tmp_path: Path) -> None:
    first, second = (LeaseFolder.open(tmp_path / "leases") for _ in range(2))
    lease = first.try_lease("x")
    assert isinstance(lease, Lock)
    lease.say(ADA)
    assert second.try_lease("x") == ADA and second.holder("x") == (True, ADA)
    lease.release()
    first.close()
    second.close()


def test_a_device_that_was_never_leased_is_nobodys(tmp_path: Path) -> None:
    folder = LeaseFolder.open(tmp_path / "leases")
    assert folder.holder("x") == (False, None)
    folder.close()


# Two users. Only root can become another one; anybody else tries it with two processes.

OTHER = 65534


@contextlib.contextmanager
def another_user(device: str) -> Iterator[object]:
    """Have another user try to lease a device and keep it meanwhile; give what they got."""
    come_read, come_write = os.pipe()
    go_read, go_write = os.pipe()
    if (pid := os.fork()) == 0:
        status = 1
        try:
            os.close(go_write)
            os.umask(0o077)
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(OTHER)
                os.setuid(OTHER)
            found = LeaseFolder.open(Path("leases")).try_lease(device)
            if isinstance(found, Lock):
                found.say(ADA)
            said = found.to_dict() if isinstance(found, Holder) else isinstance(found, Lock)
            os.write(come_write, json.dumps(said).encode())
            os.read(go_read, 1)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    for fd in (come_write, go_read):
        os.close(fd)
    try:
        yield json.loads(os.read(come_read, 1 << 16) or "null")
    finally:
        for fd in (go_write, come_read):
            os.close(fd)
        assert os.waitpid(pid, 0)[1] == 0


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder in which both can make the folder of the leases."""
    tmp_path.chmod(0o777)
    # What is above it is closed to another user.
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("shared")
def test_another_user_keeps_us_off_a_device() -> None:
    with another_user("x") as found, contextlib.closing(LeaseFolder.open(Path("leases"))) as own:
        assert (found, own.try_lease("x")) == (True, ADA)


@pytest.mark.usefixtures("shared")
def test_we_keep_another_user_off_a_device() -> None:
    with contextlib.closing(LeaseFolder.open(Path("leases"))) as own:
        lease = own.try_lease("x")
        assert isinstance(lease, Lock)
        lease.say(ADA)
        with another_user("x") as found:
            assert found == ADA.to_dict()
        lease.release()


@pytest.mark.usefixtures("shared")
def test_what_another_user_made_can_be_leased() -> None:
    with another_user("x"):
        pass
    with contextlib.closing(LeaseFolder.open(Path("leases"))) as own:
        lease = own.try_lease("x")
        assert isinstance(lease, Lock)
        lease.release()
