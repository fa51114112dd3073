"""The two registered inputs of a rollout: a checkpoint and a reference motion, each one npz.

Both say which `humanoid.xml` they were made with: under another model their numbers mean
nothing, so that is refused. Pickled arrays are never loaded.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from humanoid.model import BODIES, Humanoid
from humanoid.programs import InputError


@dataclass(frozen=True)
class Checkpoint:
    """A balance policy.

    Attributes:
        gain: what the LQR solution was multiplied with; 1 is the solution itself.
        feedback: (17, 46) joint targets in rad per deviation of the state.
        stiffness: (17,) of the joint PD control, N m / rad.
        damping: (17,) of the joint PD control, N m s / rad.
        sha256: of the file's bytes.
    """

    gain: float
    feedback: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    sha256: str


@dataclass(frozen=True)
class Motion:
    """A reference motion, repeated without end; T frames, one per step of the policy.

    Attributes:
        name: the motion's name; a task asks for it.
        qpos: (T, 24) positions.
        qvel: (T, 23) velocities.
        torque: (T, 17) joint torques that hold each frame still, N m.
        points: (T, 15, 3) positions of BODIES in the world, m.
        sha256: of the file's bytes.
    """

    name: str
    qpos: np.ndarray
    qvel: np.ndarray
    torque: np.ndarray
    points: np.ndarray
    sha256: str


def load_checkpoint(path: Path, humanoid: Humanoid) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        InputError: it is missing, of another form, or made with another humanoid.xml.
    """
    arrays = _Arrays(path, humanoid)
    nv, nu = humanoid.model.nv, humanoid.model.nu
    return Checkpoint(
        gain=float(arrays.take("gain", ())),
        feedback=arrays.take("feedback", (nu, 2 * nv)),
        stiffness=arrays.take("stiffness", (nu,)),
        damping=arrays.take("damping", (nu,)),
        sha256=arrays.sha256,
    )


def load_motion(path: Path, humanoid: Humanoid, name: str) -> Motion:
    """Read a motion and demand that it is the one called ``name``.

    Raises:
        InputError: it is missing, of another form, made with another humanoid.xml, or another
            motion.
    """
    arrays = _Arrays(path, humanoid)
    found = arrays.text("name")
    if found != name:
        raise InputError(f"{path}: holds the motion {found!r}; this task follows {name!r}")
    model = humanoid.model
    qpos = arrays.take("qpos", (None, model.nq))
    frames = len(qpos)
    return Motion(
        name=name,
        qpos=qpos,
        qvel=arrays.take("qvel", (frames, model.nv)),
        torque=arrays.take("torque", (frames, model.nu)),
        points=arrays.take("points", (frames, len(BODIES), 3)),
        sha256=arrays.sha256,
    )


class _Arrays:
    """The arrays of one npz, checked as they are taken; the digest is of the bytes parsed."""

    def __init__(self, path: Path, humanoid: Humanoid) -> None:
        self.path = path
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"{path}: does not exist") from None
        self.sha256 = hashlib.sha256(data).hexdigest()
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                self._arrays: dict[str, np.ndarray] = dict(archive)
        except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile):
            raise InputError(f"{path}: not an npz file of plain arrays") from None
        made_with = self.text("xml_sha256")
        if made_with != humanoid.xml_sha256:
            raise InputError(
                f"{path}: made with the humanoid.xml of sha256 {made_with}, but the installed "
                f"gymnasium has {humanoid.xml_sha256}. Install a gymnasium that has the former, "
                "or build the resources anew with resources/build.py"
            )

    def text(self, name: str) -> str:
        array = self._get(name)
        if array.shape != () or array.dtype.kind != "U":
            raise InputError(f"{self.path}: the array {name!r} is not one string")
        return str(array)

    def take(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """Take an array of finite float64; None in ``shape`` stands for any length ≥ 1."""
        array = self._get(name)
        fits = len(array.shape) == len(shape) and all(
            found >= 1 if wanted is None else found == wanted
            for found, wanted in zip(array.shape, shape, strict=True)
        )
        if array.dtype != np.float64 or not fits:
            raise InputError(
                f"{self.path}: the array {name!r} is {array.dtype} {array.shape}; "
                f"expected float64 {shape}".replace("None", "any")
            )
        if not np.isfinite(array).all():
            raise InputError(f"{self.path}: the array {name!r} holds NaN or an infinity")
        return array

    def _get(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise InputError(f"{self.path}: the array {name!r} is missing")
        return self._arrays[name]
