#!/usr/bin/env python3
"""Roll a policy out: a simulated humanoid follows a reference motion under a checkpoint.

Writes one row per step (metrics_steps.csv) and a summary (metrics.json). After a termination
the humanoid is reset and the rollout goes on, so that it always spends its whole budget; only
a simulation that becomes unstable ends it before. The same inputs and seed give the same bytes
on the same machine: the outputs hold no path, no time and no device.

MIMICX_DEVICE_ID says on which logical device the rollout is placed. It must be set; the
simulation itself runs on the CPU. Where HLOOP_TRANSITIONS names a file, the number of steps
that were made goes into it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# At the end: select.py beside this file must not hide the standard library's select.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [*(folder for folder in sys.path if os.path.realpath(folder) != HERE), HERE]

from humanoid.programs import (  # noqa: E402
    InputError,
    natural,
    positive,
    run,
    write_json,
    write_text,
)
from humanoid.tasks import TASKS  # noqa: E402

if TYPE_CHECKING:
    from humanoid.episode import Step

SCHEMA = "hloop.rollout-metrics.v1"


def main() -> None:
    arguments = parser().parse_args()
    device = logical_device()
    task = TASKS[arguments.task]
    print(
        f"task {arguments.task}, seed {arguments.seed}, {arguments.steps} steps, "
        f"logical device {device}",
        file=sys.stderr,
    )

    # Only now: --help and a bad argument need no simulator.
    import mujoco
    from humanoid.episode import Environment, balance_policy, roll_out
    from humanoid.inputs import load_checkpoint, load_motion
    from humanoid.model import load_humanoid

    humanoid = load_humanoid()
    checkpoint = load_checkpoint(arguments.checkpoint_file, humanoid)
    motion = load_motion(arguments.motion_file, humanoid, task.motion)
    environment = Environment(humanoid, motion, checkpoint, task.push, arguments.seed)
    steps = list(roll_out(environment, balance_policy(checkpoint), arguments.steps))
    if not steps:
        raise InputError(
            f"{arguments.motion_file}: the simulation is unstable from its first step on"
        )

    inputs = {
        "task": arguments.task,
        "seed": arguments.seed,
        "checkpoint_gain": checkpoint.gain,
        "checkpoint_sha256": checkpoint.sha256,
        "motion_sha256": motion.sha256,
        "humanoid_sha256": humanoid.xml_sha256,
        "mujoco_version": mujoco.__version__,
    }
    write_text(arguments.step_metrics_output, step_table(steps))
    write_json(arguments.metrics_output, inputs | summary(steps, arguments.steps))
    if path := os.environ.get("HLOOP_TRANSITIONS"):
        write_text(Path(path), f"{len(steps)}\n")


def parser() -> argparse.ArgumentParser:
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--task", choices=TASKS, required=True, help="what the humanoid does")
    add("--motion-file", type=Path, required=True, help="the task's reference motion, npz")
    add("--checkpoint-file", type=Path, required=True, help="the policy, npz")
    add("--steps", type=positive, required=True, help="budget, in steps of 0.02 s")
    add("--seed", type=natural, required=True, help="of the initial pose, the noise, the pushes")
    add("--metrics-output", type=Path, required=True, help="the summary to write, JSON")
    add("--step-metrics-output", type=Path, required=True, help="the steps to write, CSV")
    return parser


def logical_device() -> int:
    """Give the device that this rollout was placed on.

    Raises:
        InputError: MIMICX_DEVICE_ID is not set, or is not one index.
    """
    text = os.environ.get("MIMICX_DEVICE_ID")
    if text is None:
        raise InputError("MIMICX_DEVICE_ID is not set; expected a logical device such as 0")
    try:
        return natural(text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise InputError(f"MIMICX_DEVICE_ID: {error}") from None


def step_table(steps: Sequence[Step]) -> str:
    """Give metrics_steps.csv: a header, then one row per step, floats by ``repr``."""
    rows = [step_row(number, step) for number, step in enumerate(steps, start=1)]
    lines = [",".join(rows[0]), *(",".join(map(repr, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def step_row(number: int, step: Step) -> dict[str, int | float]:
    """Give one row by column; errors in m. A column ``*_max`` is the maximum over its bodies."""
    from humanoid.episode import TERMINATIONS
    from humanoid.model import BODIES, END_EFFECTORS

    row: dict[str, int | float] = {
        "step": number,
        "rew_mean": step.reward,
        "done_any": int(bool(step.terminations)),
    }
    row |= {f"termination_{kind}": int(kind in step.terminations) for kind in TERMINATIONS}
    for channel, names, errors in (
        ("body_pos_error", BODIES, step.position_errors),
        ("body_z_error", BODIES, step.height_errors),
        ("ee_z_error", END_EFFECTORS, step.end_effector_errors),
    ):
        values = errors.tolist()
        row |= {f"{channel}_{name}": value for name, value in zip(names, values, strict=True)}
        row[f"{channel}_max"] = max(values)
    return row


def summary(steps: Sequence[Step], budget: int) -> dict[str, Any]:
    """Give what metrics.json says about the steps; ``first_done_step`` counts from 1."""
    from humanoid.episode import TERMINATIONS

    done = [number for number, step in enumerate(steps, start=1) if step.terminations]
    position_errors = [step.position_errors for step in steps]
    return {
        "schema_version": SCHEMA,
        "budget_steps": budget,
        "steps": len(steps),
        "terminated": bool(done),
        "first_done_step": done[0] if done else None,
        "done_count": len(done),
        "termination_counts": {
            kind: sum(kind in step.terminations for step in steps) for kind in TERMINATIONS
        },
        "rew_mean": sum(step.reward for step in steps) / len(steps),
        "body_pos_error_mean": float(sum(e.mean() for e in position_errors) / len(steps)),
        "body_pos_error_max": float(max(e.max() for e in position_errors)),
    }


if __name__ == "__main__":
    run(main)
