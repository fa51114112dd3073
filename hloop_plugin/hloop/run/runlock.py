"""The lock of a run directory: one execution at a time, and it ends with its last process.

Snakemake's process takes it and the supervisor inherits it, so that it is held until both are
gone. It is no evidence, and reading a run directory needs no lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from hloop.errors import Problem, RunDirectoryError
from hloop.files import LOCK_NAME, RunPaths
from hloop.locks import Holder, Lock, host_name, look, pid_namespace, try_lock, user_name
from hloop.run import processes
from hloop.run.journal import utc_now

# Whoever only looks holds it for a moment.
ATTEMPTS, PAUSE_SECONDS = 5, 0.02


@dataclass(frozen=True)
class RunLock:
    """A run directory that this process executes, or finishes in place of one that died.

    Attributes:
        paths: the names in it.
    """

    paths: RunPaths
    _lock: Lock

    @classmethod
    def take(cls, paths: RunPaths, session_id: str = "") -> RunLock:
        """Take the lock of a run directory.

        Raises:
            RunDirectoryError: another execution has it, or it cannot be written to.
        """
        found: Lock | Holder | None = None
        try:
            folder = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for attempt in range(ATTEMPTS):
                    time.sleep(PAUSE_SECONDS if attempt else 0)
                    found = try_lock(folder, LOCK_NAME)
                    if isinstance(found, Lock):
                        break
            finally:
                os.close(folder)
        except OSError as error:
            text = f"the run directory {paths.root} cannot be locked: {error.strerror or error}"
            raise RunDirectoryError(Problem("run_dir_unwritable", "", text)) from None
        if not isinstance(found, Lock):
            raise _is_run(paths, found)
        found.say(holder_of_run(str(paths.root), session_id))
        return cls(paths, found)

    @property
    def fd(self) -> int:
        """The descriptor, for the supervisor to inherit."""
        return self._lock.fd

    def release(self) -> None:
        """End the execution. The file goes with it."""
        with contextlib.suppress(OSError):
            self.paths.lock.unlink()
        self._lock.release()


def holder_of_run(run_dir: str, session_id: str, job: str = "") -> Holder:
    """Give what this process writes into the locks of a run."""
    pid = os.getpid()
    ticks = processes.start_ticks(pid) or 0
    by = (user_name(), host_name(), utc_now(), pid_namespace())
    return Holder(run_dir, session_id, job, pid, ticks, *by)


def check_new(paths: RunPaths) -> None:
    """Demand that a run directory is absent or an empty folder.

    Raises:
        RunDirectoryError: it is being run just now, which says by whom; or it holds something,
            or is not a folder.
    """
    check_idle(paths)
    paths.check_new()


def check_idle(paths: RunPaths) -> None:
    """Demand that nobody executes what is in a run directory.

    Raises:
        RunDirectoryError: it is being run just now; says by whom.
    """
    is_held, holder = _look(paths)
    if is_held:
        raise _is_run(paths, holder)


def is_executed(paths: RunPaths) -> bool:
    """Say whether somebody on this machine executes what is in a run directory."""
    return _look(paths)[0]


def _look(paths: RunPaths) -> tuple[bool, Holder | None]:
    """Say whether the lock is held, and by whom. One that cannot be seen is not."""
    with contextlib.suppress(OSError):
        folder = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return look(folder, LOCK_NAME)
        finally:
            os.close(folder)
    return False, None


def _is_run(paths: RunPaths, holder: Holder | None) -> RunDirectoryError:
    who = "another execution"
    if holder is not None:
        who = f"{holder.process} (user {holder.user}, on {holder.host}), since {holder.since}"
    found = f"the run directory {paths.root} is being run by {who}"
    action = "Wait until that has ended, or choose another run directory"
    return RunDirectoryError(Problem("run_dir_running", "", found, action=action))
