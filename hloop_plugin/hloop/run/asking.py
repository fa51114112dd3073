"""Asks NVML from a process of its own, since a driver that is dead may never answer.

Such a call cannot be ended, not even by KILL, and a process with a thread in it cannot end. So
nobody else makes one: whoever asks here waits a bounded time, and goes on with a sentence in
place of the answer. The process does nothing but ask NVML.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hloop.devices.architecture import architectures
from hloop.devices.nvml import query_machine
from hloop.devices.observe import Look, Observer
from hloop.devices.resolve import UNRESOLVED, Device, DeviceTable
from hloop.devices.visible import Machine, NvmlUnavailable
from hloop.run.processes import die_with_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LIBRARY = "libnvidia-ml.so.1"
# How long a supervisor's loop may stand still, once for each time that NVML falls silent.
ANSWER_SECONDS = 1.0
# Without persistence mode the start takes some seconds for each GPU.
START_SECONDS = 30.0


class NoAnswer(Exception):
    """NVML did not answer; says why, as half a sentence."""


class NvmlProcess:
    """The process that asks, started with the first question. It owes an answer to each."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._owed = 0
        self._is_silent = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def post(self, what: str, *arguments: Any) -> None:
        """Ask without waiting for the answer.

        Args:
            what: ``start``, ``look``, ``machine`` or ``architectures``; see :func:`main`.

        Raises:
            NoAnswer: the process cannot be started, or has died.
        """
        try:
            connection = self._connection or self._start()
            connection.send((what, arguments))
        except OSError as error:
            raise self._gone(error) from None
        self._owed += 1

    def ask(self, seconds: float, what: str, *arguments: Any) -> Any:
        """Ask and give the answer.

        Raises:
            NoAnswer: it did not come in time. Until it does nothing more is asked, nor waited
                for. Or as :meth:`post`.
        """
        if not self.owes(0 if self._is_silent else seconds):
            self.post(what, *arguments)
            if found := self._take(seconds):
                return found[0]
        self._is_silent = True
        raise NoAnswer(f"NVML did not answer within {seconds:g} s")

    def owes(self, seconds: float = 0) -> bool:
        """Say whether there are answers to come, beside those that come in time.

        Raises:
            NoAnswer: the process has died.
        """
        while self._owed and self._take(seconds):
            pass
        return self._owed > 0

    def _take(self, seconds: float) -> list[Any]:
        """Take the next answer, if it comes in time: one or none."""
        assert self._connection is not None
        try:
            if not self._connection.poll(seconds):
                return []
            found = self._connection.recv()
        except (OSError, EOFError) as error:
            raise self._gone(error) from None
        self._owed -= 1
        self._is_silent = False
        return [found]

    def _start(self) -> Connection:
        # Where all devices are simulated, nobody asks.
        from multiprocessing.connection import Connection

        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                # It may stay for good: nobody is to wait at the other end of a pipe of its.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._connection = Connection(ours.detach())
        return self._connection

    def _gone(self, error: Exception) -> NoAnswer:
        found = "the process that asks NVML died"
        if self._process is None:
            found = f"no process can be started that asks NVML ({error})"
        self.close()
        return NoAnswer(found)

    def close(self) -> None:
        """End it, as far as that can be done."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ANSWER_SECONDS)
        self._connection, self._process, self._owed, self._is_silent = None, None, 0, False


class PatientObserver(Observer):
    """Looks at devices as an :class:`Observer` does, and is not held up by NVML."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = NvmlProcess()
        self._starts_until = 0.0

    @property
    def pid(self) -> int | None:
        return self._asked.pid

    def begin(self, table: DeviceTable) -> None:
        """Have NVML started, if there is anything to look at."""
        if any(device.uuid not in (None, UNRESOLVED) for device in table.devices):
            self._starts_until = time.monotonic() + START_SECONDS
            with contextlib.suppress(NoAnswer):
                self._asked.post("start")

    def is_starting(self) -> bool:
        """Whether it is worth while to come again a little later, when NVML has started."""
        if time.monotonic() < self._starts_until:
            with contextlib.suppress(NoAnswer):
                if self._asked.owes():
                    return True
        self._starts_until = 0.0
        return False

    def look(self, device: Device) -> Look:
        try:
            found: Look = self._asked.ask(ANSWER_SECONDS, "look", device)
        except NoAnswer as error:
            return Look(problem=str(error))
        return found

    def close(self) -> None:
        self._asked.close()


def ask_machine() -> Machine | NvmlUnavailable:
    """As :func:`hloop.devices.nvml.query_machine`, within :data:`START_SECONDS`."""
    if not _has_library():
        return query_machine()
    try:
        found: Machine | NvmlUnavailable = _ask_once("machine")
    except NoAnswer as error:
        return NvmlUnavailable(str(error))
    return found


def ask_architectures(table: DeviceTable) -> dict[int, str]:
    """As :func:`hloop.devices.architecture.architectures`, within :data:`START_SECONDS`."""
    found: dict[int, str] = {}
    with contextlib.suppress(NoAnswer):
        found = _ask_once("architectures", table)
    return found


def _ask_once(what: str, *arguments: Any) -> Any:
    process = NvmlProcess()
    try:
        return process.ask(START_SECONDS, what, *arguments)
    finally:
        process.close()


def _has_library() -> bool:
    """Where there is no library, no driver can hang; that is known without a process."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def main() -> None:
    """The process: answer questions in their order, until the connection closes."""
    from multiprocessing.connection import Connection

    connection, parent = Connection(int(sys.argv[1])), int(sys.argv[2])
    die_with_parent(parent)
    observer = Observer()
    answers: dict[str, Callable[..., Any]] = {
        "start": observer.start,
        "look": observer.look,
        "machine": query_machine,
        "architectures": architectures,
    }
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            what, arguments = connection.recv()
            connection.send(answers[what](*arguments))


if __name__ == "__main__":
    main()
