#!/usr/bin/env python3
"""Roll a policy out: a simulated humanoid follows a reference motion under a checkpoint.

Writes one row per step (metrics_steps.csv) and a summary (metrics.json). After a termination
the humanoid is reset and the rollout goes on, so that it always spends its whole budget; only
a simulation that becomes unstable ends it before. The same inputs and seed give the same bytes
on the same machine: the outputs hold no path, no time and no device.

With --seeds in place of --seed it runs many episodes and writes one row per episode
(rows.jsonl), what they were run with (settings.json) and, with --workers, what shared a batch
(trace.jsonl). In rows, latency_ms is wall clock.

MIMICX_DEVICE_ID says on which logical device the rollout is placed. It must be set; the
simulation itself runs on the CPU. Where HLOOP_TRANSITIONS names a file, the number of steps
that were made goes into it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
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
    parser_of,
    positive,
    run,
    write_json,
    write_text,
)
from humanoid.tasks import TASKS  # noqa: E402

if TYPE_CHECKING:
    from humanoid.episode import Step

SCHEMA = "hloop.rollout-metrics.v1"
SETTINGS_SCHEMA = "hloop.rollout-settings.v1"


def main() -> None:
    arguments = parse()
    device = logical_device()
    if arguments.seeds is not None:
        many(arguments, device)
        return
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
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--task", choices=TASKS, required=True, help="what the humanoid does")
    add("--motion-file", type=Path, required=True, help="the task's reference motion, npz")
    add("--checkpoint-file", type=Path, required=True, help="the policy, npz")
    add("--steps", type=positive, required=True, help="budget, in steps of 0.02 s")
    seeds = parser.add_mutually_exclusive_group(required=True)
    seeds.add_argument("--seed", type=natural, help="of the initial pose, the noise, the pushes")
    seeds.add_argument("--seeds", type=natural, nargs="+", help="of many episodes")
    one = parser.add_argument_group("with --seed")
    one.add_argument("--metrics-output", type=Path, help="the summary to write, JSON")
    one.add_argument("--step-metrics-output", type=Path, help="the steps to write, CSV")
    several = parser.add_argument_group("with --seeds")
    add = several.add_argument
    add("--rows-output", type=Path, help="the rows to write, JSON lines")
    add("--settings-output", type=Path, help="what they were run with, JSON")
    add("--policy", choices=["sum", "matmul"], help="sum: no row depends on its batch [sum]")
    add("--substeps", type=positive, help="of the simulator in one step; what it costs [4]")
    add("--noise", type=deviation, help="of each action, standard deviation in rad [0]")
    add("--workers", type=positive, help="processes that share one policy [none: one by one]")
    add("--trace-output", type=Path, help="with --workers: the batches to write, JSON lines")
    return parser


def deviation(text: str) -> float:
    """Read a number ≥ 0, for argparse."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


def parse() -> argparse.Namespace:
    """Read the command line, and demand what goes with one seed, or with many."""
    program = parser()
    arguments = program.parse_args()
    one = ("metrics_output", "step_metrics_output")
    many = ("rows_output", "settings_output")
    optional = ("policy", "substeps", "noise", "workers", "trace_output")
    option, needed, foreign = (
        ("--seed", one, (*many, *optional)) if arguments.seeds is None else ("--seeds", many, one)
    )
    for name in needed:
        if getattr(arguments, name) is None:
            program.error(f"{option} needs --{name.replace('_', '-')}")
    for name in foreign:
        if getattr(arguments, name) is not None:
            program.error(f"argument --{name.replace('_', '-')}: not allowed with {option}")
    if arguments.seeds is not None:
        if len(set(arguments.seeds)) < len(arguments.seeds):
            program.error("argument --seeds: a seed stands there twice")
        if (arguments.workers or 1) > len(arguments.seeds):
            program.error("argument --workers: there are more of them than seeds")
        if (arguments.workers is None) != (arguments.trace_output is None):
            program.error("--workers and --trace-output go together")
    return arguments


def many(arguments: argparse.Namespace, device: int) -> None:
    """Run the episodes of --seeds, one by one or in lockstep; write what they came to."""
    policy_name, noise = arguments.policy or "sum", arguments.noise or 0.0
    workers = arguments.workers
    print(
        f"task {arguments.task}, {len(arguments.seeds)} seeds, {arguments.steps} steps, "
        f"policy {policy_name}, workers {workers or 'none'}, logical device {device}",
        file=sys.stderr,
    )
    import mujoco
    import numpy
    from humanoid.batched import POLICIES, Episodes, answerer
    from humanoid.inputs import load_checkpoint, load_motion
    from humanoid.lockstep import SCHEDULE, run_lockstep, run_one_by_one
    from humanoid.model import SUBSTEPS, load_humanoid

    substeps = arguments.substeps or SUBSTEPS
    humanoid = load_humanoid(substeps)
    checkpoint = load_checkpoint(arguments.checkpoint_file, humanoid)
    motion = load_motion(arguments.motion_file, humanoid, TASKS[arguments.task].motion)
    episodes = Episodes(
        arguments.task, arguments.motion_file, arguments.checkpoint_file, arguments.steps, substeps
    )
    answer = answerer(arguments.task, POLICIES[policy_name](checkpoint), noise)
    if workers is None:
        rows = run_one_by_one(arguments.seeds, episodes(), answer)
    else:
        outcome = run_lockstep(arguments.seeds, workers, episodes, answer)
        rows = outcome.rows
        write_text(arguments.trace_output, json_lines(outcome.trace))
    write_text(arguments.rows_output, json_lines(rows))
    settings = {
        "schema_version": SETTINGS_SCHEMA,
        "schedule": "one-by-one" if workers is None else SCHEDULE,
        "workers": workers,
        "seeds": arguments.seeds,
        "task": arguments.task,
        "steps": arguments.steps,
        "substeps": substeps,
        "policy": policy_name,
        "noise": noise,
        "checkpoint_sha256": checkpoint.sha256,
        "motion_sha256": motion.sha256,
        "humanoid_sha256": humanoid.xml_sha256,
        "code_sha256": code_digest(),
        "mujoco_version": mujoco.__version__,
        "numpy_version": numpy.__version__,
    }
    write_json(arguments.settings_output, settings)
    if path := os.environ.get("HLOOP_TRANSITIONS"):
        write_text(Path(path), f"{sum(row['steps'] for row in rows)}\n")


def json_lines(values: Sequence[Any]) -> str:
    """Give one line per value, floats by ``repr``."""
    return "".join(json.dumps(value, sort_keys=True) + "\n" for value in values)


def code_digest() -> str:
    """Give the digest of what ``sha256sum rollout.py humanoid/*.py`` prints, 64 hex digits."""
    here = Path(HERE)
    files = sorted(["rollout.py", *(f"humanoid/{p.name}" for p in here.glob("humanoid/*.py"))])
    lines = [f"{hashlib.sha256((here / f).read_bytes()).hexdigest()}  {f}\n" for f in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
