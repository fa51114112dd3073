"""Leases: the locks that keep a second run on the same machine off a device.

One file per device lies in a folder that all users of the machine share, and beside it a
second one, which whoever waits for the device holds. It gives no device out: which one a run
wants is the engine's business.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hloop.devices.resolve import UNRESOLVED, Device
from hloop.errors import DeviceError, Problem
from hloop.locks import Holder, Lock, look, read_holder, try_lock

OPTION = "--hloop-lease-dir"
FOLDER_NAME = "hloop-leases"
# The same for all users and their environments, unlike $TMPDIR and $XDG_RUNTIME_DIR.
MACHINE_FOLDER = Path("/tmp", FOLDER_NAME)
# Any user may lock a file and say in it who does; none may remove that of another.
FOLDER_MODE = 0o1777
FILE_MODE = 0o666

_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def lease_key(device: Device, machine: str) -> str:
    """Name a device as all runs of a machine name it.

    Its UUID, where that is known or stands in its token; else its token, on this ``machine``;
    of a simulated device its logical index.
    """
    if device.simulated:
        return f"simulated-{device.logical}"
    if device.uuid not in (None, UNRESOLVED):
        return quote(str(device.uuid), safe="")
    token = str(device.token)
    return token if _UUID.fullmatch(token) else quote(f"{machine}-{token}", safe="")


def machine_id() -> str:
    """Name this machine, the same in all its containers: by its boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return os.uname().nodename


@dataclass(frozen=True)
class LeaseFolder:
    """A folder of leases, open.

    Attributes:
        path: absolute.
        fd: its descriptor; all files are opened through it.
        remark: why it is not the folder that all users share; "" where it is, or was named.
    """

    path: Path
    fd: int
    remark: str = ""

    @classmethod
    def open(cls, path: Path, remark: str = "") -> LeaseFolder:
        """Open a folder, and make it where it is not there.

        Raises:
            DeviceError: it cannot be made or written to, is a symbolic link, or is one where
                users could remove each other's leases.
        """
        try:
            _make(path)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            found = "it is no folder" if path.is_symlink() else str(error.strerror)
            raise _refused(path, found) from None
        mode, owner = os.fstat(fd).st_mode, os.fstat(fd).st_uid
        found = ""
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and owner != os.getuid():
            found = "all may write to it, and it is not sticky"
        elif not os.access(path, os.W_OK | os.X_OK):
            found = "it cannot be written to"
        if found:
            os.close(fd)
            raise _refused(path, found)
        return cls(path, fd, remark)

    @classmethod
    def default(cls, environ: Mapping[str, str]) -> LeaseFolder:
        """Open the machine's folder, or where that cannot be used the user's own.

        Raises:
            DeviceError: neither can be used.
        """
        try:
            return cls.open(MACHINE_FOLDER)
        except DeviceError as error:
            own = environ.get("XDG_RUNTIME_DIR")
            if not own or not os.path.isabs(own):
                raise
            remark = f"runs of other users do not see its leases, since {error.problems[0].found}"
            return cls.open(Path(own, FOLDER_NAME), remark)

    def close(self) -> None:
        os.close(self.fd)

    def stay(self) -> None:
        """Keep who tidies up old files (systemd-tmpfiles) from taking the folder away."""
        with contextlib.suppress(OSError):
            os.utime(self.fd)

    def try_lease(self, key: str) -> Lock | Holder | None:
        """Take the lease of a device if it is free; else give who has it, if that is known.

        Raises:
            OSError: its file cannot be opened.
        """
        return try_lock(self.fd, f"{key}.lease", FILE_MODE)

    def try_turn(self, key: str) -> Lock | None:
        """Become the next to get the lease of a device, if nobody is.

        Whoever takes a lease must have its turn first: else a run with many jobs, which gives
        a lease back and takes it again at once, would keep it from all others.

        Raises:
            OSError: its file cannot be opened.
        """
        found = try_lock(self.fd, f"{key}.turn", FILE_MODE)
        return found if isinstance(found, Lock) else None

    def said(self, key: str) -> Holder | None:
        """Give what the file of a lease that is held says of who has it."""
        return read_holder(self.fd, f"{key}.lease")

    def holder(self, key: str) -> tuple[bool, Holder | None]:
        """Say whether a device is leased, and what its file says of who has it.

        Raises:
            OSError: the file is there and cannot be opened.
        """
        try:
            return look(self.fd, f"{key}.lease")
        except FileNotFoundError:
            return False, None

    def why_not(self, key: str, error: OSError) -> str:
        """Say why the files of a lease cannot be opened or locked."""
        return f"{self.path}/{error.filename or key}: {error.strerror or error}"


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # With its mode from the first moment: another user may look just then.
    umask = os.umask(0)
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(FOLDER_MODE)
    finally:
        os.umask(umask)


def _refused(path: Path, found: str) -> DeviceError:
    return DeviceError(
        Problem(
            "lease_dir",
            "",
            f"the lease folder {path} cannot be used: {found}",
            "a folder, no symbolic link, that this user can write to, and sticky where all can",
            f"Name another one with {OPTION} (hloop run: --lease-dir)",
        )
    )
