"""The four tasks: which motion the humanoid follows, and whether it is pushed.

Imports nothing heavy: `rollout.py --help` lists the tasks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        motion: name of the reference motion that it takes.
        push: once a second the root gets a velocity change, uniform within ± this, along x
            and along y; in m/s.
    """

    motion: str
    push: float = 0.0


TASKS = {
    "stand": Task("stand"),
    "arm_swing": Task("arm_swing"),
    "squat": Task("squat"),
    "stand_push": Task("stand", push=0.06),
}
