"""The humanoid: gymnasium's `humanoid.xml`, read from its wheel and simulated by MuJoCo.

gymnasium itself is never imported: only the model file is wanted. The model's own timestep,
integrator and solver are replaced; everything else stays as published.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np

from humanoid.programs import InputError

STEP_SECONDS = 0.02
"""One step of the policy; also the time between two frames of a motion."""
SUBSTEPS = 4
"""Steps of the simulator in one step of the policy, where nothing else is asked for."""

_LIMBS = ("thigh", "shin", "foot", "upper_arm", "lower_arm", "hand")
BODIES = ("torso", "lwaist", "pelvis") + tuple(
    f"{side}_{limb}" for side in ("right", "left") for limb in _LIMBS
)
"""The tracked points, in the order of every array over bodies. The torso is the anchor."""
_IS_HAND = np.array([name.endswith("hand") for name in BODIES])
END_EFFECTORS = ("right_foot", "left_foot", "right_hand", "left_hand")


@dataclass(frozen=True)
class Humanoid:
    """The model and where its parts lie in MuJoCo's arrays.

    Attributes:
        model: the compiled model: nq 24, nv 23, nu 17.
        xml_sha256: of the model file, 64 hex digits.
        substeps: steps of the simulator in one step of the policy.
        joint_qpos: (17,) index in qpos of each actuator's joint.
        joint_dof: (17,) index in qvel of each actuator's joint.
        gear: (17,) joint torque in N m for a control of 1.
        control_limit: (17,) largest magnitude of a control.
        body_ids: (13,) bodies among the tracked points.
        hand_ids: (2,) geoms of the hands, which have no body of their own.
    """

    model: mujoco.MjModel
    xml_sha256: str
    substeps: int
    joint_qpos: np.ndarray
    joint_dof: np.ndarray
    gear: np.ndarray
    control_limit: np.ndarray
    body_ids: np.ndarray
    hand_ids: np.ndarray

    def points(self, data: mujoco.MjData) -> np.ndarray:
        """Give the positions of BODIES in the world, (15, 3), in m."""
        points = np.empty((len(BODIES), 3))
        points[~_IS_HAND] = data.xpos[self.body_ids]
        points[_IS_HAND] = data.geom_xpos[self.hand_ids]
        return points


def load_humanoid(substeps: int = SUBSTEPS) -> Humanoid:
    """Read the model from gymnasium's wheel.

    Args:
        substeps: of the simulator in one step of the policy; what it costs grows with them.

    Raises:
        InputError: gymnasium is not installed, or its wheel lacks the file.
    """
    package = find_spec("gymnasium")
    if package is None or package.origin is None:
        raise InputError("gymnasium is not installed. Install hloop's extra 'demo'")
    path = Path(package.origin).parent / "envs/mujoco/assets/humanoid.xml"
    if not path.is_file():
        raise InputError(f"{path}: does not exist; expected gymnasium's humanoid model")
    # Else MuJoCo would write MUJOCO_LOG.TXT into the current folder.
    mujoco.set_mju_user_warning(lambda text: print(text, file=sys.stderr))
    xml = path.read_bytes()
    model = mujoco.MjModel.from_xml_string(xml.decode())
    model.opt.timestep = STEP_SECONDS / substeps
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    joints = model.actuator_trnid[:, 0]
    return Humanoid(
        model=model,
        xml_sha256=hashlib.sha256(xml).hexdigest(),
        substeps=substeps,
        joint_qpos=model.jnt_qposadr[joints],
        joint_dof=model.jnt_dofadr[joints],
        gear=model.actuator_gear[:, 0].copy(),
        control_limit=model.actuator_ctrlrange[:, 1].copy(),
        body_ids=np.array([model.body(name).id for name in BODIES if not name.endswith("hand")]),
        hand_ids=np.array([model.geom(name).id for name in BODIES if name.endswith("hand")]),
    )
