"""A simulator and a policy of hashes: each field of a row depends on every action before it.

One answer that goes to the wrong episode changes all that follows. Imported by workers, by name.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from humanoid.lockstep import Ask, Request, Row, Simulate


def digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


def answer(requests: Sequence[Request]) -> list[str]:
    return [digest("act", r.seed, r.step, r.observation) for r in requests]


@dataclass(frozen=True)
class Fake:
    """Makes the simulator.

    Attributes:
        trouble: what happens at step 3 of seed 3: ``raise``, ``die``, ``ctrl-c``, ``hang`` (it
            prints its pid; seed 5 raises), or "". With ``late`` every step takes its time.
    """

    trouble: str = ""

    def __call__(self) -> Simulate:
        def simulate(seed: int, ask: Ask) -> Row:
            state, states = digest("start", seed), []
            # Episodes of several lengths, by what the policy answers.
            while len(states) < 4 or (len(states) < 12 and int(state[:2], 16) > 60):
                if self.trouble == "late":
                    time.sleep(random.uniform(0, 0.01))
                if len(states) == 3:
                    self._trouble(seed)
                state = digest(state, ask(Request(seed, len(states), state)))
                states.append(state)
            return {"seed": seed, "steps": len(states), "states": states, "pid": os.getpid()}

        return simulate

    def _trouble(self, seed: int) -> None:
        if (self.trouble, seed) in (("raise", 3), ("hang", 5)):
            raise ValueError("the floor gave way")
        if (self.trouble, seed) == ("die", 3):
            os.kill(os.getpid(), signal.SIGKILL)
        if (self.trouble, seed) == ("ctrl-c", 3):
            os.kill(os.getpid(), signal.SIGINT)
        if (self.trouble, seed) == ("hang", 3):
            print(os.getpid(), flush=True)
            time.sleep(600)


class Nonsense:
    """Makes a simulator that sends the parent what is no message."""

    def __call__(self) -> Simulate:
        def simulate(seed: int, ask: Ask) -> Any:
            connection: Any = ask.__closure__[-1].cell_contents  # type: ignore[attr-defined]
            connection.send(("dance", seed))
            return ask(Request(seed, 0, ""))

        return simulate
