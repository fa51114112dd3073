"""The executor's end of the supervisor: start it, talk to it, notice when it dies."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence

from hloop.run import processes
from hloop.run.channel import LineReader, Message, encode

CHUNK = 1 << 16


class SupervisorClient:
    """A supervisor process and the thread that listens to it.

    Args:
        on_message: called in the listening thread for ``started``, ``ended``, ``skipped`` and
            ``trouble``.
        on_death: called in the listening thread with a sentence when the supervisor ended
            without saying goodbye, or when ``on_message`` raised. Should it raise as well, this
            process ends at once.
        keep: descriptors that the supervisor, and no job, is to hold as well: of locks.
    """

    def __init__(
        self,
        on_message: Callable[[Message], None],
        on_death: Callable[[str], None],
        keep: Sequence[int] = (),
    ) -> None:
        self._on_message = on_message
        self._on_death = on_death
        self._lock = threading.Lock()
        self._goodbye: Message | None = None
        self._stop_read, self._stop_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        processes.become_subreaper()
        self._socket, theirs = socket.socketpair()
        with theirs:
            fds = [theirs.fileno(), *keep]
            # -P: a module in the workflow's folder must not take the place of one of ours.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hloop.run.supervisor", *map(str, fds)],
                pass_fds=fds,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        self._since = processes.start_ticks(self._process.pid) or 0
        self._thread = threading.Thread(target=self._listen, name="hloop-supervisor", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Send a message; lost without a word if the supervisor is gone (on_death tells)."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(encode(message))

    def stop(self, reason: str) -> None:
        """Ask for everything to be stopped, for a reason that the records have."""
        self.send({"do": "stop", "reason": reason})
        # It may be stopped itself, by a job, and would not hear of it.
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def stop_from_signal(self, number: int) -> None:
        """Ask for everything to be stopped. Safe in a signal handler."""
        with contextlib.suppress(OSError):
            os.write(self._stop_write, bytes([number]))

    def close(self) -> Message | None:
        """End the run and wait for the supervisor. Gives its goodbye, or None if it died."""
        self.send({"do": "close"})
        self._thread.join()
        self._process.wait()
        self._socket.close()
        os.close(self._stop_read)
        # A signal may come at any moment, and another file have the number.
        stop_write, self._stop_write = self._stop_write, -1
        os.close(stop_write)
        return self._goodbye

    def _listen(self) -> None:
        try:
            try:
                trouble = self._serve()
            except Exception as error:
                trouble = f"what it said could not be used: {type(error).__name__}: {error}"
                # It takes this for our death, and stops everything.
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._goodbye is None:
                self._process.wait()
                self._end_leftovers()
                self._on_death(trouble)
        except BaseException:
            # Snakemake would wait for jobs that nobody gives back.
            with contextlib.suppress(OSError):
                traceback.print_exc()
            os._exit(1)

    def _serve(self) -> str:
        """Read until the supervisor closes its end. Gives what it said last of its trouble."""
        reader, trouble = LineReader(), ""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._stop_read, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == self._stop_read:
                        for number in os.read(self._stop_read, CHUNK):
                            self.stop(signal.Signals(number).name)
                        continue
                    data = self._receive()
                    if not data:
                        code = self._process.wait()
                        return trouble or f"the supervisor ended with {code}"
                    for message in reader.feed(data):
                        match message["say"]:
                            case "trouble":
                                trouble = message["message"]
                            case "closed":
                                self._goodbye = message
                            case _:
                                self._on_message(message)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(CHUNK)
        except ConnectionError:
            return b""

    def _end_leftovers(self) -> None:
        """End what the supervisor's jobs have started. Most of it died with the supervisor; the
        rest came to this process, which adopts the supervisor's orphans."""
        own = os.getsid(0)

        def is_orphan(pid: int) -> bool:
            # No job's process is of this session. Only what a Snakefile has started may be of
            # another one as well, and before the first job.
            started = processes.start_ticks(pid)
            is_young = started is not None and started >= self._since
            return is_young and processes.session_of(pid) != own

        processes.end_orphans(is_orphan)
