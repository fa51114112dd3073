"""The environment, the loop and the policy; the inputs they refuse; how files are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from humanoid.episode import Environment, balance_policy, roll_out
from humanoid.inputs import load_checkpoint, load_motion
from humanoid.model import load_humanoid
from humanoid.programs import InputError, write_text
from humanoid.tasks import TASKS


@pytest.fixture(scope="module")
def humanoid():
    return load_humanoid()


@pytest.fixture
def resources(pytestconfig):
    return pytestconfig.rootpath / "resources"


@pytest.fixture
def checkpoint(humanoid, resources):
    return load_checkpoint(resources / "checkpoints" / "good.npz", humanoid)


@pytest.fixture
def motion(humanoid, resources):
    return load_motion(resources / "motions" / "stand.npz", humanoid, "stand")


def first_termination(humanoid, resources, task, checkpoint, seed, steps):
    policy = load_checkpoint(resources / "checkpoints" / f"{checkpoint}.npz", humanoid)
    name = TASKS[task].motion
    motion = load_motion(resources / "motions" / f"{name}.npz", humanoid, name)
    environment = Environment(humanoid, motion, policy, TASKS[task].push, seed)
    rollout = enumerate(roll_out(environment, balance_policy(policy), steps), start=1)
    return next((number for number, step in rollout if step.terminations), None)


@pytest.mark.parametrize("task", TASKS)
def test_the_good_checkpoint_completes(humanoid, resources, task):
    assert first_termination(humanoid, resources, task, "good", 1001, 300) is None


@pytest.mark.parametrize("task", TASKS)
def test_the_bad_checkpoint_terminates(humanoid, resources, task):
    assert first_termination(humanoid, resources, task, "bad", 1001, 300) is not None


def test_within_a_short_horizon_the_seed_decides(humanoid, resources):
    found = [
        first_termination(humanoid, resources, "arm_swing", "bad", seed, 250)
        for seed in (1001, 2002)
    ]
    assert [step is None for step in found] == [False, True]


def test_a_row_of_a_batch_has_the_bits_of_a_batch_of_one(checkpoint):
    observations = np.random.default_rng(3).normal(size=(8, 46))
    policy = balance_policy(checkpoint)
    alone = np.concatenate([policy(row[np.newaxis]) for row in observations])
    assert policy(observations).tobytes() == alone.tobytes()


def test_the_policy_counteracts_the_deviation(checkpoint):
    observation = np.zeros((1, 46))
    observation[0, 4] = 0.1
    expected = -checkpoint.feedback[:, 4] * 0.1
    assert np.allclose(balance_policy(checkpoint)(observation)[0], expected)


def test_the_loop_asks_the_policy_once_per_step_with_a_batch_of_one(humanoid, motion, checkpoint):
    shapes = []

    def policy(observations):
        shapes.append(observations.shape)
        return np.zeros((1, 17))

    environment = Environment(humanoid, motion, checkpoint, 0.0, 1)
    assert len(list(roll_out(environment, policy, 5))) == 5
    assert shapes == [(1, 46)] * 5


def test_pushes_change_the_course_from_the_second_second_on(humanoid, motion, checkpoint):
    def errors(push):
        environment = Environment(humanoid, motion, checkpoint, push, 1)
        steps = roll_out(environment, balance_policy(checkpoint), 60)
        return [float(step.position_errors[0]) for step in steps]

    calm, pushed = errors(0.0), errors(0.06)
    first_difference = next(i for i in range(60) if calm[i] != pushed[i])
    assert first_difference == 50


def test_an_unstable_simulation_ends_the_rollout_and_leaves_no_log(
    humanoid, motion, checkpoint, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    environment = Environment(humanoid, motion, checkpoint, 1e11, 1)
    steps = list(roll_out(environment, balance_policy(checkpoint), 120))
    assert (len(steps), os.listdir(tmp_path)) == (50, [])


# Inputs


@pytest.fixture
def altered(resources, tmp_path):
    """Write the good checkpoint with other arrays; None leaves one out."""

    def write(**arrays):
        with np.load(resources / "checkpoints" / "good.npz") as archive:
            merged = dict(archive) | arrays
        path = tmp_path / "altered.npz"
        np.savez(path, **{name: array for name, array in merged.items() if array is not None})
        return path

    return write


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"stiffness": None}, "the array 'stiffness' is missing"),
        ({"stiffness": np.zeros(3)}, "the array 'stiffness' is float64 \\(3,\\)"),
        ({"stiffness": np.zeros(17, "f4")}, "the array 'stiffness' is float32"),
        ({"stiffness": np.full(17, np.nan)}, "the array 'stiffness' holds NaN"),
        ({"xml_sha256": np.array(1.0)}, "the array 'xml_sha256' is not one string"),
        ({"xml_sha256": None}, "the array 'xml_sha256' is missing"),
    ],
)
def test_a_checkpoint_of_another_form_is_refused(humanoid, altered, arrays, message):
    with pytest.raises(InputError, match=message):
        load_checkpoint(altered(**arrays), humanoid)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 half a zip"])
def test_a_file_that_is_no_npz_is_refused(humanoid, tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not an npz file"):
        load_checkpoint(path, humanoid)


def test_a_single_array_is_refused(humanoid, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(InputError, match="not an npz file"):
        load_checkpoint(tmp_path / "x.npy", humanoid)


def test_a_pickle_is_never_loaded(humanoid, altered):
    with pytest.raises(InputError, match="not an npz file"):
        load_checkpoint(altered(gain=np.array({"a": 1})), humanoid)


def test_a_missing_file_is_refused(humanoid, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_checkpoint(tmp_path / "none.npz", humanoid)


def test_a_motion_without_frames_is_refused(humanoid, resources, tmp_path):
    with np.load(resources / "motions" / "stand.npz") as archive:
        arrays = dict(archive) | {"qpos": np.zeros((0, 24))}
    np.savez(tmp_path / "motion.npz", **arrays)
    with pytest.raises(InputError, match="expected float64 \\(any, 24\\)"):
        load_motion(tmp_path / "motion.npz", humanoid, "stand")


# Writing


def test_a_program_killed_while_it_writes_leaves_no_file_under_the_final_name(
    pytestconfig, tmp_path
):
    code = (
        "import os, signal, sys\n"
        f"sys.path.append({str(pytestconfig.rootpath / 'workflow' / 'scripts')!r})\n"
        "from pathlib import Path\n"
        "from humanoid.programs import write_text\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_text(Path({str(tmp_path / 'out.csv')!r}), 'half')\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert not (tmp_path / "out.csv").exists()


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail(fd):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError):
        write_text(path, "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["out.csv"])
