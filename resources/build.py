#!/usr/bin/env python3
"""Make the registered inputs of the embedded workload: motions and checkpoints.

Run once; the files and their digests are kept in the repository, because another processor or
another BLAS may give other last bits. Needs mujoco, gymnasium and numpy.

A motion is a cycle of static poses of the humanoid, each balanced over its feet. A checkpoint
is the solution of a linear-quadratic regulator (LQR) around the standing pose, times a gain: 1
keeps the humanoid up, 0.25 lets it fall.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import sys
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

HERE = Path(__file__).resolve().parent
# At the end: select.py beside the package must not hide the standard library's select.
sys.path.append(str(HERE.parent / "workflow" / "scripts"))

from humanoid.model import STEP_SECONDS, SUBSTEPS, Humanoid, load_humanoid  # noqa: E402

Arrays = dict[str, np.ndarray]

CHECKPOINTS = {"good": 1.0, "bad": 0.25}
"""Name of each checkpoint and its gain."""

# The home pose in rad, right side; the left side mirrors it. hip_y is solved for balance.
HOME = {"knee": -0.485, "hip_x": 0.0, "shoulder1": -0.69, "shoulder2": -0.57, "elbow": -0.22}
ARM_SWING = {"shoulder1": 0.3, "elbow": 0.2}  # rad, to each side
ARM_SWING_FRAMES = 100  # 2 s
SQUAT = {"knee": -0.35}  # rad, at the lowest point
SQUAT_FRAMES = 150  # 3 s

SOLE = 0.075  # m, the radius of the foot's sphere
FEET = ("right_foot", "left_foot")

# The joints' PD control: shares of the largest joint torque.
STIFFNESS = 0.78  # per rad
DAMPING = 0.2  # of the stiffness, per rad/s
# Weights of the LQR's cost, found by trial.
COM_WEIGHT, TILT_WEIGHT, JOINT_WEIGHT = 8.4, 11.4, 1.17
VELOCITY_WEIGHT, EFFORT_WEIGHT = 0.01, 0.144
RICCATI_STEPS = 800


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--output-dir", type=Path, default=HERE, help="folder to write into (default: this one)"
    )
    folder = parser.parse_args().output_dir
    files = {name: npz(arrays) for name, arrays in build().items()}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()]
    (folder / "SHA256SUMS").write_text("".join(sums))


def build() -> dict[str, Arrays]:
    """Make every file's arrays, by the file's path in resources/, sorted."""
    humanoid = load_humanoid()
    poses = {
        "stand": [pose(humanoid, {}, {})],
        "arm_swing": [arm_swing_pose(humanoid, k) for k in range(ARM_SWING_FRAMES)],
        "squat": [squat_pose(humanoid, k) for k in range(SQUAT_FRAMES)],
    }
    motions = {name: motion(humanoid, name, frames) for name, frames in poses.items()}
    files = {f"motions/{name}.npz": arrays for name, arrays in motions.items()}
    stand = motions["stand"]
    feedback, stiffness, damping = balance(humanoid, stand["qpos"][0], stand["torque"][0])
    for name, gain in CHECKPOINTS.items():
        files[f"checkpoints/{name}.npz"] = {
            "gain": np.array(gain),
            "feedback": gain * feedback,
            "stiffness": stiffness,
            "damping": damping,
        }
    return {name: finish(humanoid, files[name]) for name in sorted(files)}


def finish(humanoid: Humanoid, arrays: Arrays) -> Arrays:
    """Round to 6 decimals, which hides the last bits of BLAS, and add the model's digest."""
    rounded = {
        name: array if array.dtype.kind == "U" else np.round(array, 6)
        for name, array in arrays.items()
    }
    return rounded | {"xml_sha256": np.array(humanoid.xml_sha256)}


def npz(arrays: Arrays) -> bytes:
    """Give the bytes of an npz file; its zip headers differ between releases of Python."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


# Motions


def arm_swing_pose(humanoid: Humanoid, frame: int) -> tuple[np.ndarray, np.ndarray]:
    wave = math.sin(2 * math.pi * frame / ARM_SWING_FRAMES)
    right = {joint: wave * angle for joint, angle in ARM_SWING.items()}
    return pose(humanoid, right, {joint: -angle for joint, angle in right.items()})


def squat_pose(humanoid: Humanoid, frame: int) -> tuple[np.ndarray, np.ndarray]:
    depth = (1 - math.cos(2 * math.pi * frame / SQUAT_FRAMES)) / 2
    both = {joint: depth * angle for joint, angle in SQUAT.items()}
    return pose(humanoid, both, both)


def pose(
    humanoid: Humanoid, right: dict[str, float], left: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Balance the home pose, changed by ``right`` and ``left`` (rad), on the floor.

    Returns:
        qpos (24,), and the joint torques (17,) in N m that hold it still.
    """
    model, data = humanoid.model, mujoco.MjData(humanoid.model)
    qpos = model.qpos0.copy()
    for joint, angle in HOME.items():
        mirror = -1 if "shoulder" in joint else 1
        qpos[address(model, f"right_{joint}")] = angle + right.get(joint, 0.0)
        qpos[address(model, f"left_{joint}")] = mirror * (angle + left.get(joint, 0.0))
    feet = [model.geom(name).id for name in FEET]
    hips = [address(model, "right_hip_y"), address(model, "left_hip_y")]

    def lean(angle: float) -> float:
        """How far the mass centre is before the feet, m."""
        data.qpos[:] = qpos
        data.qpos[hips] = angle
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return float(data.subtree_com[1, 0] - data.geom_xpos[feet, 0].mean())

    qpos[hips] = root(lean, -1.2, 0.3)
    lean(qpos[hips[0]])
    touching = qpos[2] - data.geom_xpos[feet, 2].mean() + SOLE

    def lift(height: float) -> float:
        """Vertical force in N that rest would still need: 0 where the floor bears the weight."""
        mujoco.mj_resetData(model, data)
        data.qpos[:] = qpos
        data.qpos[2] = height
        mujoco.mj_forward(model, data)
        data.qacc[:] = 0
        mujoco.mj_inverse(model, data)
        return float(data.qfrc_inverse[2])

    qpos[2] = root(lift, touching - 0.004, touching + 0.0025)
    lift(qpos[2])
    torque = data.qfrc_inverse[humanoid.joint_dof].copy()
    # The feet are spheres that roll as the shins tilt, and the root moves with them.
    shin = data.body("right_shin").xmat.reshape(3, 3)
    qpos[0] += SOLE * math.atan2(shin[0, 2], shin[2, 2]) - data.geom_xpos[feet, 0].mean()
    return qpos, torque


def motion(humanoid: Humanoid, name: str, poses: list[tuple[np.ndarray, np.ndarray]]) -> Arrays:
    """Make a cyclic motion of poses, STEP_SECONDS apart."""
    model, data = humanoid.model, mujoco.MjData(humanoid.model)
    qpos = np.array([position for position, _ in poses])
    qvel = np.zeros((len(poses), model.nv))
    points = []
    for k, position in enumerate(qpos):
        following = qpos[(k + 1) % len(qpos)]
        mujoco.mj_differentiatePos(model, qvel[k], STEP_SECONDS, position, following)
        data.qpos[:] = position
        mujoco.mj_kinematics(model, data)
        points.append(humanoid.points(data))
    return {
        "name": np.array(name),
        "qpos": qpos,
        "qvel": qvel,
        "torque": np.array([torque for _, torque in poses]),
        "points": np.array(points),
    }


def address(model: mujoco.MjModel, joint: str) -> int:
    return int(model.joint(joint).qposadr[0])


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Find where ``function`` is 0 between ``low`` and ``high``, by bisection.

    Raises:
        ValueError: it has the same sign at both ends.
    """
    at_low = function(low)
    if at_low * function(high) > 0:
        raise ValueError(f"no balanced pose between {low} and {high}")
    for _ in range(42):
        middle = (low + high) / 2
        if function(middle) * at_low > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


# The checkpoint


def balance(
    humanoid: Humanoid, qpos: np.ndarray, torque: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve the LQR around a pose.

    Returns:
        feedback (17, 46), stiffness (17,) and damping (17,), as in humanoid.inputs.Checkpoint.
    """
    model, data = humanoid.model, mujoco.MjData(humanoid.model)
    nv, nu = model.nv, model.nu
    stiffness = STIFFNESS * humanoid.gear * humanoid.control_limit
    damping = DAMPING * stiffness

    data.qpos[:] = qpos
    data.ctrl[:] = torque / humanoid.gear
    state, control = np.zeros((2 * nv, 2 * nv)), np.zeros((2 * nv, nu))
    mujoco.mjd_transitionFD(model, data, 1e-6, True, state, control, None, None)

    # Close the PD loop: the control is now a change of the joint targets, in rad.
    pd = np.zeros((nu, 2 * nv))
    pd[range(nu), humanoid.joint_dof] = stiffness / humanoid.gear
    pd[range(nu), nv + humanoid.joint_dof] = damping / humanoid.gear
    state = state - control @ pd
    control = control * (stiffness / humanoid.gear)

    # From one step of the simulator to one step of the policy.
    step_state, step_control = np.eye(2 * nv), np.zeros_like(control)
    for _ in range(SUBSTEPS):
        step_control = state @ step_control + control
        step_state = state @ step_state

    cost = state_cost(humanoid, data)
    effort = EFFORT_WEIGHT * STIFFNESS**2 * np.eye(nu)
    value = cost.copy()
    for _ in range(RICCATI_STEPS):
        weighted = step_control.T @ value
        feedback = np.linalg.solve(effort + weighted @ step_control, weighted @ step_state)
        value = cost + step_state.T @ value @ (step_state - step_control @ feedback)
        value = (value + value.T) / 2
    return feedback, stiffness, damping


def state_cost(humanoid: Humanoid, data: mujoco.MjData) -> np.ndarray:
    """Give the LQR's cost of the state, (46, 46), at the pose in ``data``."""
    model, nv = humanoid.model, humanoid.model.nv
    mujoco.mj_forward(model, data)
    com, foot = np.zeros((3, nv)), np.zeros((3, nv))
    mujoco.mj_jacSubtreeCom(model, data, com, 1)
    for name in FEET:
        mujoco.mj_jacGeom(model, data, foot, None, model.geom(name).id)
        com -= foot / 2
    # A little of everything keeps the solution unique.
    cost = 1e-6 * np.eye(2 * nv)
    cost[:nv, :nv] += COM_WEIGHT * com.T @ com
    cost[:nv, :nv] += np.diag([0.0] * 3 + [TILT_WEIGHT] * 3 + [JOINT_WEIGHT] * (nv - 6))
    cost[nv:, nv:] += VELOCITY_WEIGHT * np.eye(nv)
    return cost


if __name__ == "__main__":
    main()
