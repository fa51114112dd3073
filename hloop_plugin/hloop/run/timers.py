"""Things to do later, for a loop that sleeps until the first of them is due."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

# The longest that epoll can be told to wait is 24 days.
MAX_PATIENCE = 3600.0


class Timers:
    """Actions by the moment of the monotonic clock at which they are due, in nanoseconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (due_ns, next(self._sequence), action))

    def in_turns(self, steps: Iterator[object], then: Callable[[], None]) -> None:
        """Take one step now and one in each turn of the loop that comes; at the end, ``then``."""
        try:
            next(steps)
        except StopIteration:
            then()
        else:
            self.at(time.monotonic_ns(), partial(self.in_turns, steps, then))

    def patience(self) -> float | None:
        """Seconds to sleep, at most until the first action is due; None if there is none."""
        if not self._heap:
            return None
        return min(max(0.0, (self._heap[0][0] - time.monotonic_ns()) / 1e9), MAX_PATIENCE)

    def run_due(self) -> None:
        """Do what is due by now."""
        now = time.monotonic_ns()
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
