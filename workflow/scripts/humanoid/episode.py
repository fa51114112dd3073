"""The environment of one rollout, and the one loop that every rollout goes through.

The policy is an argument of the loop and maps a batch of observations to a batch of actions,
row by row: a rollout on its own is a batch of one. Only :func:`matmul_policy` multiplies
matrices: BLAS gives a row other last bits in another batch or under another number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from humanoid.inputs import Checkpoint, Motion
from humanoid.model import BODIES, END_EFFECTORS, STEP_SECONDS, Humanoid

Policy = Callable[[np.ndarray], np.ndarray]
"""(N, 46) observations to (N, 17) changes of the joint targets in rad; rows are independent."""

TERMINATIONS = ("anchor_pos", "anchor_ori", "ee_body_pos")

_INITIAL_SPREAD = 0.02  # rad: each joint starts within ± this of the reference
_TARGET_NOISE = 0.002  # rad: standard deviation of the noise on each joint target
_PUSH_EVERY = 50  # steps: one second
_HEIGHT_LIMIT = 0.25  # m: anchor and end effectors; as mjlab's tracking task has it
_TILT_LIMIT = 0.8  # 1 - cos of the torso's tilt; as mjlab's tracking task has it
_REWARD_WIDTH = 0.3  # m: an error of this size divides its part of the reward by e

_END_EFFECTOR_ROWS = np.array([BODIES.index(name) for name in END_EFFECTORS])
_UNSTABLE = [
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
]


@dataclass(frozen=True)
class Step:
    """What one step of the policy led to.

    Attributes:
        reward: between 0 and 0.03, the reward rate times the step's 0.02 s.
        terminations: the kinds that hold after this step, of TERMINATIONS.
        position_errors: (15,) distance of each of BODIES from the reference in m, with the
            anchor's horizontal distance taken off.
        height_errors: (15,) its vertical part.
    """

    reward: float
    terminations: frozenset[str]
    position_errors: np.ndarray
    height_errors: np.ndarray

    @property
    def end_effector_errors(self) -> np.ndarray:
        """(4,) height errors of END_EFFECTORS."""
        errors: np.ndarray = self.height_errors[_END_EFFECTOR_ROWS]
        return errors


def balance_policy(checkpoint: Checkpoint) -> Policy:
    """Give the policy of a checkpoint: linear feedback on the deviation of the state."""

    def act(observations: np.ndarray) -> np.ndarray:
        action: np.ndarray = -(checkpoint.feedback * observations[:, np.newaxis]).sum(axis=2)
        return action

    return act


def matmul_policy(checkpoint: Checkpoint) -> Policy:
    """Give the same policy as a matrix product, as a GPU computes it.

    BLAS adds up in another order for another number of rows: a row's last bits depend on its
    batch.
    """

    def act(observations: np.ndarray) -> np.ndarray:
        action: np.ndarray = -(observations @ checkpoint.feedback.T)
        return action

    return act


def roll_out(environment: Environment, policy: Policy, steps: int) -> Iterator[Step]:
    """Run ``steps`` steps; after a termination reset and go on.

    Stops early only where the simulation becomes unstable: the step that broke it is not
    given, so the rollout falls short of its budget.
    """
    for _ in range(steps):
        action = policy(environment.observe()[np.newaxis])[0]
        step = environment.advance(action)
        if step is None:
            return
        yield step
        if step.terminations:
            environment.reset()


class Environment:
    """One simulated humanoid that follows a motion. All chance comes from ``seed``.

    Args:
        checkpoint: gives the stiffness and damping of the joints' PD control.
        push: as in :class:`humanoid.tasks.Task`, m/s.
    """

    def __init__(
        self, humanoid: Humanoid, motion: Motion, checkpoint: Checkpoint, push: float, seed: int
    ) -> None:
        self._humanoid = humanoid
        self._motion = motion
        self._checkpoint = checkpoint
        self._push = push
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._data = mujoco.MjData(humanoid.model)
        self.reset()

    def reset(self) -> None:
        """Go back to the first frame, with the joints a little off."""
        model, data = self._humanoid.model, self._data
        mujoco.mj_resetData(model, data)
        self._steps = 0
        data.qpos[:] = self._motion.qpos[0]
        data.qvel[:] = self._motion.qvel[0]
        data.qpos[7:] += self._random.uniform(-_INITIAL_SPREAD, _INITIAL_SPREAD, model.nq - 7)
        mujoco.mj_forward(model, data)

    def observe(self) -> np.ndarray:
        """Give the deviation from the reference, (46,): positions, then velocities."""
        model, data, frame = self._humanoid.model, self._data, self._frame(0)
        deviation = np.empty(2 * model.nv)
        mujoco.mj_differentiatePos(
            model, deviation[: model.nv], 1.0, self._motion.qpos[frame], data.qpos
        )
        deviation[model.nv :] = data.qvel - self._motion.qvel[frame]
        return deviation

    def advance(self, action: np.ndarray) -> Step | None:
        """Hold the joint targets of the next frame, changed by ``action``, for one step.

        Returns:
            what came of it, or None where the simulation became unstable.
        """
        self._simulate(action)
        self._steps += 1
        if any(self._data.warning[kind].number for kind in _UNSTABLE):
            return None
        step = self._judge()
        if self._push and self._steps % _PUSH_EVERY == 0:
            self._data.qvel[:2] += self._random.uniform(-self._push, self._push, 2)
        return step

    def _frame(self, ahead: int) -> int:
        return (self._steps + ahead) % len(self._motion.qpos)

    def _simulate(self, action: np.ndarray) -> None:
        humanoid, motion, data = self._humanoid, self._motion, self._data
        noise = self._random.normal(0.0, _TARGET_NOISE, len(action))
        target = motion.qpos[self._frame(1)][humanoid.joint_qpos] + action + noise
        target_velocity = motion.qvel[self._frame(0)][humanoid.joint_dof]
        hold = motion.torque[self._frame(1)]
        limit = humanoid.control_limit
        for _ in range(humanoid.substeps):
            torque = (
                hold
                + self._checkpoint.stiffness * (target - data.qpos[humanoid.joint_qpos])
                + self._checkpoint.damping * (target_velocity - data.qvel[humanoid.joint_dof])
            )
            data.ctrl[:] = np.clip(torque / humanoid.gear, -limit, limit)
            mujoco.mj_step(humanoid.model, data)

    def _judge(self) -> Step:
        errors = self._humanoid.points(self._data) - self._motion.points[self._frame(0)]
        drift = errors[0, :2].copy()
        errors[:, :2] -= drift
        squares = (errors**2).sum(axis=1)
        heights = np.abs(errors[:, 2])
        tilt = abs(1.0 - self._data.body("torso").xmat[8])
        holds = {
            "anchor_pos": heights[0] > _HEIGHT_LIMIT,
            "anchor_ori": tilt > _TILT_LIMIT,
            "ee_body_pos": (heights[_END_EFFECTOR_ROWS] > _HEIGHT_LIMIT).any(),
        }
        width = _REWARD_WIDTH**2
        reward = math.exp(-squares.mean() / width) + 0.5 * math.exp(-(drift**2).sum() / width)
        return Step(
            reward=STEP_SECONDS * reward,
            terminations=frozenset(kind for kind in TERMINATIONS if holds[kind]),
            position_errors=np.sqrt(squares),
            height_errors=heights,
        )
