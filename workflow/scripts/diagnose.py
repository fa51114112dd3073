#!/usr/bin/env python3
"""Say where a rollout failed, or came nearest to failing, and in which bodies.

Reads metrics.json and metrics_steps.csv of rollout.py. Looks at the steps around the first
termination, or around the peak of body_pos_error_max where nothing terminated, and ranks the
error columns there by their maximum, then their mean. Writes failure_report.json, which holds
no path and says outright whether the rollout terminated.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# At the end: select.py beside this file must not hide the standard library's select.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [*(folder for folder in sys.path if os.path.realpath(folder) != HERE), HERE]

from humanoid.programs import (  # noqa: E402
    InputError,
    demand_schema,
    field,
    natural,
    parser_of,
    positive,
    read_json,
    run,
    write_json,
)

if TYPE_CHECKING:
    import pandas as pd

METRICS_SCHEMA = "hloop.rollout-metrics.v1"
SCHEMA = "hloop.failure-report.v1"
PEAK_COLUMN = "body_pos_error_max"

CHANNELS = ("body_pos_error", "body_z_error", "ee_z_error")
CORE = ("torso", "lwaist", "pelvis")
LEG_LIMBS = ("thigh", "shin", "foot")
ARM_LIMBS = ("upper_arm", "lower_arm", "hand")


def main() -> None:
    arguments = parser().parse_args()
    metrics = read_json(arguments.metrics_json)
    demand_schema(metrics, METRICS_SCHEMA, arguments.metrics_json)
    steps = read_steps(arguments.step_csv)
    demand_same_rollout(metrics, arguments.metrics_json, steps, arguments.step_csv)
    report = {
        "schema_version": SCHEMA,
        "task": field(metrics, "task", (str,), arguments.metrics_json),
        "seed": field(metrics, "seed", (int,), arguments.metrics_json),
        "budget_steps": field(metrics, "budget_steps", (int,), arguments.metrics_json),
    }
    report |= diagnose(steps, arguments.pre_window, arguments.post_window, arguments.top_k)
    write_json(arguments.output_json, report)


def parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--metrics-json", type=Path, required=True, help="the rollout's summary")
    add("--step-csv", type=Path, required=True, help="the rollout's steps")
    add("--output-json", type=Path, required=True, help="the report to write")
    add("--pre-window", type=natural, default=40, help="steps before (default: %(default)s)")
    add("--post-window", type=natural, default=40, help="steps after (default: %(default)s)")
    add("--top-k", type=positive, default=8, help="columns to report (default: %(default)s)")
    return parser


def read_steps(path: Path) -> pd.DataFrame:
    """Read metrics_steps.csv.

    Raises:
        InputError: it is missing, empty or no CSV; a value is no finite number; the steps do
            not count from 1; a flag is neither 0 nor 1; a needed column is missing.
    """
    import pandas as pd

    try:
        text = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
    except FileNotFoundError:
        raise InputError(f"{path}: does not exist") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: is empty") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV file: {error}") from None
    if text.empty:
        raise InputError(f"{path}: holds no step")
    for name in ("step", "done_any", PEAK_COLUMN):
        if name not in text:
            raise InputError(f"{path}: the column {name!r} is missing")
    steps = text.map(finite)
    for name in steps.columns:
        if steps[name].isna().any():
            row = int(steps[name].isna().argmax())
            raise InputError(
                f"{path}: {name} is {text[name].iloc[row]!r} in step {row + 1}; "
                "expected a finite number"
            )
    if steps["step"].to_list() != list(range(1, len(steps) + 1)):
        raise InputError(f"{path}: the column 'step' does not count 1, 2, 3, ...")
    for name in flag_columns(steps):
        if not steps[name].isin((0, 1)).all():
            raise InputError(f"{path}: the column {name!r} holds something other than 0 and 1")
    return steps.set_index("step")


def finite(text: str) -> float:
    """Read a number exactly, which pandas' own parser may not; NaN if it is none or infinite."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def demand_same_rollout(
    metrics: dict[str, Any], metrics_path: Path, steps: pd.DataFrame, steps_path: Path
) -> None:
    """Demand that both files tell of one rollout.

    Raises:
        InputError: they disagree on the number of steps or on the first termination.
    """
    rows = field(metrics, "steps", (int,), metrics_path)
    if rows != len(steps):
        raise InputError(
            f"{steps_path}: holds {len(steps)} steps, but {metrics_path} says that {rows} ran"
        )
    done = field(metrics, "first_done_step", (int, type(None)), metrics_path)
    if done != first_done_step(steps):
        raise InputError(
            f"{steps_path}: the first termination is {first_done_step(steps)}, but "
            f"{metrics_path} says {done}"
        )


def diagnose(steps: pd.DataFrame, before: int, after: int, top: int) -> dict[str, Any]:
    """Diagnose one rollout.

    Args:
        steps: metrics_steps.csv, indexed by step.
        before, after: the window's reach in steps; it ends where the rollout does.
        top: how many columns to report.
    """
    done = first_done_step(steps)
    focus = done if done is not None else peak_step(steps, PEAK_COLUMN)
    window = steps.loc[focus - before : focus + after]
    ranked = rank_errors(window)[:top]
    return {
        "steps": len(steps),
        "terminated": done is not None,
        "first_done_step": done,
        "terminations": [] if done is None else terminations_at(steps, done),
        "focus": "peak_error" if done is None else "first_termination",
        "focus_step": focus,
        "window": {"first_step": int(window.index[0]), "last_step": int(window.index[-1])},
        "top_errors": ranked,
        "bodies": in_order(row["body"] for row in ranked),
        "channels": in_order(row["channel"] for row in ranked),
        "families": in_order(row["family"] for row in ranked),
    }


def flag_columns(steps: pd.DataFrame) -> list[str]:
    return ["done_any", *(name for name in steps.columns if name.startswith("termination_"))]


def first_done_step(steps: pd.DataFrame) -> int | None:
    """Give the first step with any flag up, or None where nothing terminated."""
    done = steps[flag_columns(steps)].any(axis=1)
    return int(steps.index[int(done.argmax())]) if done.any() else None


def peak_step(steps: pd.DataFrame, column: str) -> int:
    """Give the first step at which a column has its maximum; a peak of 0.0 is a peak."""
    return int(steps.index[int(steps[column].argmax())])


def terminations_at(steps: pd.DataFrame, step: int) -> list[str]:
    """Give the kinds of termination that hold at a step, sorted."""
    kinds = (name for name in flag_columns(steps) if name != "done_any")
    return sorted(name.removeprefix("termination_") for name in kinds if steps.at[step, name])


def rank_errors(window: pd.DataFrame) -> list[dict[str, Any]]:
    """Rank the error columns, worst first: by maximum, then mean, then name. Values in m."""
    rows = []
    for name in window.columns:
        channel = next((c for c in CHANNELS if name.startswith(f"{c}_")), None)
        if channel is None:
            continue  # a reward, a flag, an id: not an error
        part = name.removeprefix(f"{channel}_")
        body = None if part == "max" else part
        rows.append(
            {
                "column": name,
                "max": float(window[name].max()),
                "mean": float(window[name].mean()),
                "peak_step": peak_step(window, name),
                "channel": channel,
                "body": body,
                "family": None if body is None else family(channel, body),
            }
        )
    return sorted(rows, key=lambda row: (-row["max"], -row["mean"], row["column"]))


def family(channel: str, body: str) -> str:
    """Name what a remedy would have to work on, in the words of MimicX."""
    if body in CORE:
        return "root_core_guard"
    if body.endswith(ARM_LIMBS):
        return "arm_wrist_precision"
    if body.endswith(LEG_LIMBS) and channel != "body_pos_error":
        return "lower_body_contact_z"
    return "general_body_tracking"


def in_order(names: Iterable[str | None]) -> list[str]:
    """Drop None and repetitions; keep the order, worst first."""
    return [name for name in dict.fromkeys(names) if name is not None]


if __name__ == "__main__":
    run(main)
