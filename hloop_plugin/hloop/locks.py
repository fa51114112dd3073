"""Locks that end with their holder, and what they say of it.

A lock is an flock on a small file: the kernel lets go of it whatever its holder dies of. The
file says who holds it; that counts only while somebody does, and whoever may lock it may have
written anything into it. Nothing here waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import socket
import stat
from dataclasses import asdict, dataclass, fields
from typing import Any

MAX_BYTES = 4096
MAX_TEXT = 500
# How often a file may be taken away between its opening and its locking.
ATTEMPTS = 8
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock.

    Attributes:
        run_dir: of the run; "" where it has none.
        session_id: of the run; "" where it has none.
        job: what the lock is held for; "" for the run as a whole.
        pid, start_ticks: of the holding process, as seen where it runs.
        since: UTC in ISO 8601.
        pid_namespace: in which the pid counts: the inode of the namespace; 0 where not known.
    """

    run_dir: str
    session_id: str
    job: str
    pid: int
    start_ticks: int
    user: str
    host: str
    since: str
    pid_namespace: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        run = f"the run {self.run_dir}" if self.run_dir else "a run without a run directory"
        job = f", job {self.job}" if self.job else ""
        user = f"user {self.user}, on {self.host}"
        return f"{run}{job} ({self.process}, {user}), since {self.since}"

    @property
    def process(self) -> str:
        """The pid. Elsewhere than in its container it means nothing, or another process."""
        there = "" if self.pid_namespace in (0, pid_namespace()) else " in another container"
        return f"pid {self.pid}{there}"

    @classmethod
    def read(cls, fd: int) -> Holder | None:
        """Read who holds a lock, from its file; None where the file does not tell."""
        try:
            found = json.loads(os.pread(fd, MAX_BYTES, 0))
            values = {field.name: found[field.name] for field in fields(cls)}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        for field in fields(cls):
            value = values[field.name]
            if field.type == "int":
                if type(value) is not int or abs(value) >= 1 << 63:
                    return None
            elif not isinstance(value, str):
                return None
            else:
                # It comes to terminals and records.
                shown = "".join(c if c.isprintable() else "\ufffd" for c in value)
                values[field.name] = shown[:MAX_TEXT]
        return cls(**values)


def user_name() -> str:
    """Give the name of this process's user, or the number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def pid_namespace() -> int:
    """Give the inode of this process's pid namespace; 0 where that is not known."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def host_name() -> str:
    return socket.gethostname()


class Lock:
    """A lock that is held. It ends with this object's process, or when it is released."""

    def __init__(self, fd: int):
        self.fd = fd

    def say(self, holder: Holder) -> None:
        """Write down who holds it, as far as that can be written."""
        data = json.dumps(holder.to_dict()).encode()
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, data[:MAX_BYTES], 0)

    def stay(self) -> None:
        """Keep who tidies up old files (systemd-tmpfiles) from taking it away."""
        with contextlib.suppress(OSError):
            os.utime(self.fd)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)
        # Not only closed: a copy of the descriptor in another process would keep it.
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)


def open_file(folder: int, name: str, mode: int) -> int:
    """Open a lock's file in a folder that is open, and make it where it is not there.

    Raises:
        OSError: it cannot be opened, or is no plain file of one name.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            # Without O_CREAT first: the kernel may refuse that for a file of another user
            # in a sticky folder (fs.protected_regular).
            fd = os.open(name, flags, dir_fd=folder)
            break
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                fd = os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
                os.fchmod(fd, mode)  # Whatever the umask says.
                break
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise OSError(f"{name} is not a plain file of one name")
    return fd


def try_lock(folder: int, name: str, mode: int = 0o644) -> Lock | Holder | None:
    """Take a lock if it is free.

    Returns:
        The lock; or who holds it, None where that is not known.

    Raises:
        OSError: its file cannot be opened.
    """
    for _ in range(ATTEMPTS):
        fd = open_file(folder, name, mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = Holder.read(fd)
            os.close(fd)
            if not isinstance(error, BlockingIOError):
                raise
            return holder
        if _is_there(folder, name, fd):
            return Lock(fd)
        # Somebody removed it meanwhile: another file counts now.
        os.close(fd)
    return None


def _is_there(folder: int, name: str, fd: int) -> bool:
    own = os.fstat(fd)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


def read_holder(folder: int, name: str) -> Holder | None:
    """Read what a lock's file says. It means nothing unless somebody holds the lock."""
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=folder)
    except OSError:
        return None
    try:
        return Holder.read(fd)
    finally:
        os.close(fd)


def look(folder: int, name: str) -> tuple[bool, Holder | None]:
    """Say whether somebody holds a lock, and who, without taking it.

    Raises:
        OSError: its file cannot be opened.
    """
    fd = os.open(name, READ_FLAGS, dir_fd=folder)
    try:
        # For this moment a taker finds it held, and tries again.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True, Holder.read(fd)
    finally:
        os.close(fd)
    return False, None
