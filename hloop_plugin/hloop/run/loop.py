"""The loop of a process with one thread: it sleeps until a descriptor, a signal or a timer."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Iterable
from typing import Any

from hloop.run.timers import Timers

CHUNK = 1 << 16


class Loop:
    """What is waited for, and what is done when it comes.

    Attributes:
        timers: what is due at a moment.
    """

    def __init__(self) -> None:
        self.timers = Timers()
        self._selector = selectors.DefaultSelector()

    def watch(self, file: Any, action: Callable[[], None], *, write: bool = False) -> None:
        """Call ``action``, and none named before, when ``file`` can be read (or written)."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)
        if file in self._selector.get_map():
            self._selector.modify(file, events, action)
        else:
            self._selector.register(file, events, action)

    def forget(self, file: Any) -> None:
        self._selector.unregister(file)

    def take_signals(self, numbers: Iterable[int], action: Callable[[bytes], None]) -> None:
        """Call ``action`` with the numbers of the signals that came, in a turn of the loop."""
        readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        wanted = bytes(numbers)
        for number in wanted:
            signal.signal(number, lambda *_: None)

        def take() -> None:
            # Python also writes the numbers of those that somebody else takes.
            action(bytes(number for number in os.read(readable, CHUNK) if number in wanted))

        self.watch(readable, take)

    def turn(self) -> None:
        """Sleep until there is something to do, and do it."""
        for key, _ in self._selector.select(self.timers.patience()):
            key.data()
        self.timers.run_due()
