"""Many episodes at once: each worker process has a simulator, the parent has the one policy.

The workers go in lockstep, so which observations share a batch depends on the seeds, the number
of workers and the policy's answers, and never on time. Knows no simulator and no policy: both
are given. The worker's side is :mod:`humanoid.worker`.
"""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SCHEDULE = "lockstep-v1"
"""Names the order of requests; to be changed whenever that order changes."""

_PATIENCE = 30.0  # s: a worker that said it is done has this long to end

Row = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What a simulator asks the policy.

    Attributes:
        seed: of the episode.
        step: of the episode, from 0; it goes on counting after a reset.
        observation: what the simulator and the policy agree on; it is pickled.
    """

    seed: int
    step: int
    observation: Any


Ask = Callable[[Request], Any]
"""Gives the action for one request."""
Simulate = Callable[[int, Ask], Row]
"""Runs the episode of a seed and gives its row."""
Answer = Callable[[Sequence[Request]], Sequence[Any]]
"""Gives the actions for a batch of requests, one each, in their order."""


@dataclass(frozen=True)
class Outcome:
    """What the workers came to.

    Attributes:
        rows: one per seed, in the order of the seeds.
        trace: the batches, each a list of (worker, seed, step).
    """

    rows: list[Row]
    trace: list[list[tuple[int, int, int]]]


class WorkerError(RuntimeError):
    """A worker died, raised (the text holds its traceback) or sent what nobody knows."""


def run_one_by_one(seeds: Sequence[int], simulate: Simulate, answer: Answer) -> list[Row]:
    """Run the episodes in this process, one after another: every batch has one request."""
    return [simulate(seed, lambda request: answer([request])[0]) for seed in seeds]


def run_lockstep(
    seeds: Sequence[int], workers: int, make: Callable[[], Simulate], answer: Answer
) -> Outcome:
    """Run the episodes in ``workers`` processes; worker w gets ``seeds[w::workers]``.

    In each round every worker that is not done asks once, in the order of the workers, and all
    are answered from one batch.

    Args:
        make: makes a worker's simulator, in the worker; pickled by name.

    Raises:
        WorkerError: see there. No worker is left behind, whatever is raised.
    """
    team: list[_Worker] = []
    rows: dict[int, Row] = {}
    trace = []
    try:
        for index in range(workers):
            team.append(_Worker(index))
        for worker in team:
            worker.begin(make, seeds[worker.index :: workers])
        active = team
        while active:
            asked = [(worker, worker.next_request(rows)) for worker in active]
            batch = [(worker, request) for worker, request in asked if request is not None]
            if batch:
                trace.append([(worker.index, r.seed, r.step) for worker, r in batch])
                actions = answer([request for _, request in batch])
                for (worker, _), action in zip(batch, actions, strict=True):
                    worker.send(action)
            active = [worker for worker, _ in batch]
        for worker in team:
            worker.process.wait(_PATIENCE)
    finally:
        for worker in team:
            worker.end()
    return Outcome([rows[seed] for seed in seeds], trace)


class _Worker:
    """The parent's side of one worker."""

    def __init__(self, index: int) -> None:
        self.index = index
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        try:
            # Not multiprocessing's own processes: those keep a helper that outlives them.
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    def begin(self, make: Callable[[], Simulate], seeds: Sequence[int]) -> None:
        self.send(sys.path)
        self.send((pickle.dumps(make), list(seeds)))

    def send(self, value: Any) -> None:
        try:
            self._connection.send(value)
        except OSError:
            raise self._died() from None

    def next_request(self, rows: dict[int, Row]) -> Request | None:
        """Take messages up to the next request, and collect rows; None where it is done."""
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                raise self._died() from None
            match message:
                case ("predict", Request() as request):
                    return request
                case ("row", int(seed), row):
                    rows[seed] = row
                case ("done",):
                    return None
                case ("error", str(text)):
                    raise WorkerError(f"worker {self.index} raised:\n{text}")
                case _:
                    raise WorkerError(f"worker {self.index} sent what is no message: {message!r}")

    def _died(self) -> WorkerError:
        try:
            code = f"with {self.process.wait(_PATIENCE)}"
        except subprocess.TimeoutExpired:
            code = "its connection, and goes on"
        return WorkerError(f"worker {self.index} ended before it was done, {code}")

    def end(self) -> None:
        self._connection.close()
        self.process.kill()
        self.process.wait()
