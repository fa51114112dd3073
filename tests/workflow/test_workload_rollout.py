"""rollout.py as a process: its outputs, their bytes, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from humanoid.episode import Step

RESOURCES = Path(__file__).parents[2] / "resources"

SIDES = ("right", "left")
LIMBS = ("thigh", "shin", "foot", "upper_arm", "lower_arm", "hand")
BODIES = ["torso", "lwaist", "pelvis"] + [f"{side}_{limb}" for side in SIDES for limb in LIMBS]
END_EFFECTORS = ["right_foot", "left_foot", "right_hand", "left_hand"]
COLUMNS = [
    *("step", "rew_mean", "done_any"),
    *("termination_anchor_pos", "termination_anchor_ori", "termination_ee_body_pos"),
    *(f"body_pos_error_{name}" for name in [*BODIES, "max"]),
    *(f"body_z_error_{name}" for name in [*BODIES, "max"]),
    *(f"ee_z_error_{name}" for name in [*END_EFFECTORS, "max"]),
]


def options_into(folder):
    """A short rollout of the good checkpoint into ``folder``."""
    return {
        "task": "stand_push",
        "motion_file": RESOURCES / "motions" / "stand.npz",
        "checkpoint_file": RESOURCES / "checkpoints" / "good.npz",
        "steps": 120,
        "seed": 7,
        "metrics_output": folder / "metrics.json",
        "step_metrics_output": folder / "metrics_steps.csv",
    }


def rows_of(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def outputs_of(options) -> bytes:
    return (
        Path(options["metrics_output"]).read_bytes()
        + Path(options["step_metrics_output"]).read_bytes()
    )


def into(options, folder):
    return options | {
        "metrics_output": folder / "metrics.json",
        "step_metrics_output": folder / "metrics_steps.csv",
    }


@pytest.fixture
def rollout_options(tmp_path):
    return options_into(tmp_path)


@pytest.fixture(scope="module")
def done(run, command, tmp_path_factory):
    """One short rollout of the good checkpoint that has ended."""
    options = options_into(tmp_path_factory.mktemp("done"))
    result = run(command("rollout", **options))
    assert result.returncode == 0, result.stderr
    return options


@pytest.fixture(scope="module")
def fallen(run, command, tmp_path_factory):
    """One rollout of the bad checkpoint that has ended; it falls at step 103."""
    options = options_into(tmp_path_factory.mktemp("fallen")) | {
        "checkpoint_file": RESOURCES / "checkpoints" / "bad.npz",
        "task": "stand",
        "seed": 1001,
        "steps": 150,
    }
    assert run(command("rollout", **options)).returncode == 0
    return options


def test_the_steps_have_the_documented_columns(done):
    header = done["step_metrics_output"].read_text().splitlines()[0]
    assert header.split(",") == COLUMNS


def test_the_steps_count_from_1_to_the_budget(done):
    rows = rows_of(done["step_metrics_output"])
    assert [row["step"] for row in rows] == [str(n) for n in range(1, 121)]


def test_every_float_is_written_to_its_last_bit(rollout_program):
    step = Step(0.1 + 0.2, frozenset(), np.full(15, 1 / 3), np.full(15, 1e-17))
    values = rollout_program.step_table([step]).splitlines()[1].split(",")
    assert {"0.30000000000000004", "0.3333333333333333", "1e-17"} < set(values)


def test_a_max_column_is_the_maximum_over_its_bodies(done):
    for row in rows_of(done["step_metrics_output"]):
        errors = [float(row[f"body_z_error_{name}"]) for name in BODIES]
        assert float(row["body_z_error_max"]) == max(errors)


def test_the_errors_are_those_of_a_body_that_moves(done):
    errors = [float(row["body_pos_error_max"]) for row in rows_of(done["step_metrics_output"])]
    assert len(set(errors)) == len(errors) and 0 < max(errors) < 1


def test_a_rollout_that_completes_says_so(done):
    metrics = json.loads(done["metrics_output"].read_text())
    found = [metrics[name] for name in ("steps", "budget_steps", "terminated", "first_done_step")]
    assert found == [120, 120, False, None]


def test_a_termination_is_in_the_summary_as_in_the_steps(fallen):
    metrics = json.loads(fallen["metrics_output"].read_text())
    rows = rows_of(fallen["step_metrics_output"])
    done = [int(row["step"]) for row in rows if row["done_any"] == "1"]
    assert done and metrics["terminated"] is True
    assert (metrics["first_done_step"], metrics["done_count"]) == (done[0], len(done))


def test_after_a_termination_the_rollout_goes_on_for_its_budget(fallen):
    assert len(rows_of(fallen["step_metrics_output"])) == 150


def test_after_a_termination_the_humanoid_is_back_on_its_feet(fallen):
    rows = rows_of(fallen["step_metrics_output"])
    first = next(i for i, row in enumerate(rows) if row["done_any"] == "1")
    error = [float(row["body_z_error_max"]) for row in rows]
    assert error[first] > 0.25 > 0.05 > error[first + 1]


def test_the_same_inputs_give_the_same_bytes_on_another_device_and_from_another_folder(
    run, command, done, tmp_path
):
    again = into(done, tmp_path / "again" / "deeper")
    assert run(command("rollout", **again), device="13", cwd=tmp_path).returncode == 0
    assert outputs_of(again) == outputs_of(done)


def test_rollouts_at_the_same_time_give_the_same_bytes(command, done, tmp_path):
    options = [into(done, tmp_path / str(n)) for n in range(4)]
    environment = os.environ | {"MIMICX_DEVICE_ID": "0"}
    processes = [
        subprocess.Popen(command("rollout", **o), env=environment, stderr=subprocess.DEVNULL)
        for o in options
    ]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert {outputs_of(o) for o in options} == {outputs_of(done)}


def test_another_number_of_blas_threads_gives_the_same_bytes(
    run, command, done, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    again = into(done, tmp_path / "again")
    assert run(command("rollout", **again)).returncode == 0
    assert outputs_of(again) == outputs_of(done)


def test_another_seed_gives_other_steps(run, command, done, tmp_path):
    other = into(done, tmp_path / "other") | {"seed": 8}
    assert run(command("rollout", **other)).returncode == 0
    steps = [o["step_metrics_output"].read_bytes() for o in (done, other)]
    assert steps[0] != steps[1]


def test_the_outputs_hold_no_path(done):
    assert b"/" not in outputs_of(done)


def test_the_number_of_steps_is_counted_where_it_is_asked_for(
    run, command, rollout_options, tmp_path, monkeypatch
):
    monkeypatch.setenv("HLOOP_TRANSITIONS", str(tmp_path / "transitions"))
    run(command("rollout", **rollout_options))
    assert (tmp_path / "transitions").read_text() == "120\n"


def test_the_device_is_told_on_stderr(run, command, rollout_options):
    result = run(command("rollout", **rollout_options | {"steps": 1}), device="3")
    assert "logical device 3" in result.stderr


def refused(result, rollout_options) -> str:
    """Demand exit 2, one sentence, no traceback and no output; give the sentence."""
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert not Path(rollout_options["metrics_output"]).exists()
    assert not Path(rollout_options["step_metrics_output"]).exists()
    return result.stderr


def test_a_missing_device_is_refused(run, command, rollout_options):
    result = run(command("rollout", **rollout_options), device=None)
    assert "MIMICX_DEVICE_ID is not set" in refused(result, rollout_options)


@pytest.mark.parametrize("device", ["", "-1", "0,1", "GPU-a", "1.0", "²"])
def test_a_device_that_is_no_index_is_refused(run, command, rollout_options, device):
    result = run(command("rollout", **rollout_options), device=device)
    assert f"MIMICX_DEVICE_ID: {device!r} is not" in refused(result, rollout_options)


@pytest.mark.parametrize(
    ("option", "value"), [("steps", "0"), ("steps", "2.5"), ("seed", "-1"), ("task", "fly")]
)
def test_a_bad_argument_is_refused(run, command, rollout_options, option, value):
    result = run(command("rollout", **rollout_options | {option: value}))
    assert f"argument --{option}" in refused(result, rollout_options)


def test_the_motion_of_another_task_is_refused(run, command, rollout_options):
    result = run(command("rollout", **rollout_options | {"task": "squat"}))
    assert "holds the motion 'stand'; this task follows 'squat'" in refused(
        result, rollout_options
    )


def test_a_checkpoint_made_with_another_humanoid_is_refused(
    run, command, rollout_options, tmp_path
):
    with np.load(rollout_options["checkpoint_file"]) as archive:
        arrays = dict(archive) | {"xml_sha256": np.array("0" * 64)}
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, **arrays)
    result = run(command("rollout", **rollout_options | {"checkpoint_file": foreign}))
    expected = f"{foreign}: made with the humanoid.xml of sha256 {'0' * 64}"
    assert expected in refused(result, rollout_options)


def test_without_its_packages_it_says_which_is_missing(run, command, rollout_options):
    argv = command("rollout", **rollout_options)
    result = run([argv[0], "-S", *argv[1:]])
    assert "is not installed" in refused(result, rollout_options)


@pytest.mark.parametrize("program", ["rollout", "diagnose", "select"])
def test_help_needs_no_package_and_no_device(run, command, program):
    argv = command(program)
    result = run([argv[0], "-S", *argv[1:], "--help"], device=None)
    assert result.returncode == 0 and result.stdout.startswith(f"usage: {program}.py")


@pytest.mark.parametrize("program", ["rollout", "diagnose", "select"])
def test_a_program_does_not_hide_the_standard_select(run, command, program):
    path = command(program)[1]
    code = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {os.path.dirname(path)!r})\n"
        f"runpy.run_path({path!r})\n"
        "import select; print(hasattr(select, 'poll'))\n"
    )
    assert run([sys.executable, "-c", code]).stdout == "True\n"
