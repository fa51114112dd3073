"""The humanoid's side of many episodes: what a worker simulates, and how a batch is answered.

The episode is :func:`humanoid.episode.roll_out` in both paths, and its row is made here in both.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from humanoid.episode import (
    TERMINATIONS,
    Environment,
    Policy,
    Step,
    balance_policy,
    matmul_policy,
    roll_out,
)
from humanoid.inputs import Checkpoint, load_checkpoint, load_motion
from humanoid.lockstep import Answer, Ask, Request, Row, Simulate
from humanoid.model import load_humanoid
from humanoid.programs import InputError
from humanoid.tasks import TASKS

POLICIES: dict[str, Callable[[Checkpoint], Policy]] = {
    "sum": balance_policy,
    "matmul": matmul_policy,
}


@dataclass(frozen=True)
class Episodes:
    """Makes the simulator of one process; what a worker is given.

    Attributes:
        steps: budget of each episode.
        substeps: steps of the simulator in each of them.
    """

    task: str
    motion_file: Path
    checkpoint_file: Path
    steps: int
    substeps: int

    def __call__(self) -> Simulate:
        humanoid = load_humanoid(self.substeps)
        task = TASKS[self.task]
        checkpoint = load_checkpoint(self.checkpoint_file, humanoid)
        motion = load_motion(self.motion_file, humanoid, task.motion)

        def simulate(seed: int, ask: Ask) -> Row:
            latencies: list[float] = []

            def policy(observations: np.ndarray) -> np.ndarray:
                begun = time.perf_counter()
                # As bytes: to pickle an array costs more than all else on its way.
                request = Request(seed, len(latencies), observations[0].tobytes())
                action = np.frombuffer(ask(request))
                latencies.append(1000 * (time.perf_counter() - begun))
                return action[np.newaxis]

            environment = Environment(humanoid, motion, checkpoint, task.push, seed)
            steps = list(roll_out(environment, policy, self.steps))
            if not steps:
                raise InputError(f"seed {seed}: the simulation is unstable from its first step on")
            return {"task": self.task, "seed": seed, **episode_row(steps), "latency_ms": latencies}

        return simulate


def episode_row(steps: Sequence[Step]) -> Row:
    """Give what a row says of an episode; the lists have one value per step, errors in m."""
    done = [number for number, step in enumerate(steps, start=1) if step.terminations]
    return {
        "steps": len(steps),
        "first_done_step": done[0] if done else None,
        "done_count": len(done),
        "termination_counts": {
            kind: sum(kind in step.terminations for step in steps) for kind in TERMINATIONS
        },
        "rew_mean": sum(step.reward for step in steps) / len(steps),
        "reward": [step.reward for step in steps],
        "body_pos_error_max": [float(step.position_errors.max()) for step in steps],
        "body_z_error_max": [float(step.height_errors.max()) for step in steps],
    }


def answerer(task: str, policy: Policy, noise: float) -> Answer:
    """Answer a batch by one call of the policy, and noise that is each request's own.

    Args:
        noise: standard deviation in rad; keyed by task, seed and step, so that no batch and no
            order of requests changes it.
    """

    def answer(requests: Sequence[Request]) -> list[bytes]:
        observations = np.frombuffer(b"".join(request.observation for request in requests))
        actions = policy(observations.reshape(len(requests), -1))
        if noise:
            actions = actions + np.stack(
                [_noise(task, request, actions.shape[1]) * noise for request in requests]
            )
        return [action.tobytes() for action in actions]

    return answer


def _noise(task: str, request: Request, size: int) -> np.ndarray:
    key = [zlib.crc32(task.encode()), request.seed, request.step]
    return np.random.Generator(np.random.PCG64(key)).standard_normal(size)
