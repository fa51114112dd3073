"""Snakemake's process towards its user: the signals that stop it, and where it prints.

Neither may end a run in disorder. Nothing here knows the run.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """What the signals do that stop a run; those that are ignored (nohup) stay ignored."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}

    def take(self, handler: Any) -> None:
        """Have ``handler`` called from now on."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python lets only the main thread do this.
        for number in STOP_SIGNALS:
            if (before := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                signal.signal(number, handler)
                self._before.setdefault(number, before)

    def restore(self) -> None:
        """Let them do what they did at first."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Lasting:
    """A stream that can be written to when nobody reads it any more: then it is lost."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            self._turn_away()

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._turn_away()

    def _turn_away(self) -> None:
        # What is in the buffer, and what others print there, must not fail either.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def outlive_readers(logger: logging.Logger) -> None:
    """Let a log go on where the reader of its stream is gone: after Ctrl-C in ``snakemake …
    2>&1 | tee log``, tee ends first. Snakemake raises BrokenPipeError then, from whatever said
    something."""
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(_Lasting(handler.stream))
