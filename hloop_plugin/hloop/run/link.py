"""The supervisor's end of its socket to the executor: what each sentence holds, and hanging up.

It decides nothing. What does not fit into the socket is kept until it does.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from hloop.run.attempt import Attempt
from hloop.run.channel import LineReader, Message, Outbox
from hloop.run.loop import CHUNK, Loop
from hloop.schedule.events import Slot, SlotKind


class ExecutorLink:
    """Hears the executor's messages and says how jobs fare.

    Attributes:
        connected: the executor has not hung up.
    """

    def __init__(self, sock: socket.socket):
        sock.setblocking(False)
        sock.set_inheritable(False)
        self.connected = True
        self._socket = sock
        self._outbox = Outbox(sock)
        self._reader = LineReader()

    def watch(self, loop: Loop, on_readable: Callable[[], None]) -> None:
        """Have the loop call ``on_readable`` when there is something to hear."""
        if self.connected:
            loop.watch(self._socket, on_readable, write=not self._outbox.flush())

    def hear(self, loop: Loop) -> list[Message]:
        """Take in what has come. Nothing more comes once ``connected`` is false."""
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        if not data:
            self.connected = False
            loop.forget(self._socket)
        return self._reader.feed(data)

    def started(self, attempt: Attempt, slot: Slot) -> None:
        self._outbox.put(
            {
                "say": "started",
                "name": attempt.name,
                "pid": attempt.pid,
                "slot": None if slot.kind is SlotKind.RULE else slot.name,
                "devices": list(slot.devices),
            }
        )

    def waiting(self, name: str, reason: str) -> None:
        self._outbox.put({"say": "waiting", "name": name, "reason": reason})

    def ended(self, name: str, status: str, message: str) -> None:
        self._outbox.put({"say": "ended", "name": name, "status": status, "message": message})

    def skipped(self, name: str, reason: str) -> None:
        self._outbox.put({"say": "skipped", "name": name, "reason": reason})

    def goodbye(self, message: Message) -> None:
        """Say the last words, however long that takes, and hang up."""
        self._socket.setblocking(True)
        self._outbox.put({"say": "closed", **message})
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
