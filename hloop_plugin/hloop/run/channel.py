"""Messages between the executor and the supervisor: JSON objects, one per line, on a socket."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]


class LineReader:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def encode(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Outbox:
    """Sends messages on a non-blocking socket and keeps what does not fit.

    The supervisor must not wait for a reader that is stopped: jobs have deadlines.
    """

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._waiting = bytearray()

    def put(self, message: Message) -> None:
        self._waiting += encode(message)
        self.flush()

    def flush(self) -> bool:
        """Send what the socket takes now. True when nothing is left."""
        try:
            while self._waiting:
                sent = self._socket.send(self._waiting)
                del self._waiting[:sent]
        except BlockingIOError:
            return False
        except OSError:
            # The reader is gone; whoever reads from this socket sees its end and acts on it.
            self._waiting.clear()
        return True
