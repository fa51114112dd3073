"""diagnose.py: the window, the ranking, the words for it, and what it refuses."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest
from humanoid.programs import InputError


def table(rows: int, **columns: dict[int, float]) -> pd.DataFrame:
    """Give steps with every flag down and every error 0.1, but for the values by step."""
    steps = pd.DataFrame(
        {
            "step": range(1, rows + 1),
            "rew_mean": 0.03,
            "done_any": 0,
            "termination_anchor_pos": 0,
            "termination_ee_body_pos": 0,
            "body_pos_error_torso": 0.1,
            "body_pos_error_left_shin": 0.1,
            "body_pos_error_max": 0.1,
            "body_z_error_left_shin": 0.1,
            "ee_z_error_right_hand": 0.1,
        }
    ).set_index("step")
    for name, values in columns.items():
        for step, value in values.items():
            steps.loc[step, name] = value
    return steps


@pytest.fixture
def diagnose(diagnose_program):
    def diagnose(steps, before=40, after=40, top=8):
        return diagnose_program.diagnose(steps, before, after, top)

    return diagnose


@pytest.fixture
def files(tmp_path):
    """Write one rollout's two files; ``metrics`` replaces fields of the summary."""

    def write(text: str, **metrics):
        done = 3 if ",1," in text else None
        summary = {
            "schema_version": "hloop.rollout-metrics.v1",
            "task": "stand",
            "seed": 1,
            "budget_steps": 3,
            "steps": 3,
            "first_done_step": done,
        } | metrics
        (tmp_path / "metrics.json").write_text(json.dumps(summary))
        (tmp_path / "steps.csv").write_text(text)
        return {
            "metrics_json": tmp_path / "metrics.json",
            "step_csv": tmp_path / "steps.csv",
            "output_json": tmp_path / "report.json",
        }

    return write


CLEAN = "step,done_any,body_pos_error_max\n1,0,0.1\n2,0,0.3\n3,0,0.2\n"
DONE_LAST = "step,done_any,body_pos_error_max\n1,0,0.1\n2,0,0.3\n3,1,0.2\n"


# What terminated, and the window


def test_nothing_terminated(diagnose):
    report = diagnose(table(100, body_pos_error_max={60: 0.5}))
    assert (report["terminated"], report["first_done_step"]) == (False, None)


def test_nothing_terminated_looks_at_the_peak(diagnose):
    report = diagnose(table(100, body_pos_error_max={60: 0.5}))
    assert (report["focus"], report["focus_step"]) == ("peak_error", 60)


def test_a_peak_of_zero_is_a_peak(diagnose):
    steps = table(100)
    steps["body_pos_error_max"] = 0.0
    assert diagnose(steps)["focus_step"] == 1


def test_the_first_of_several_terminations_counts(diagnose):
    report = diagnose(table(100, done_any={50: 1, 70: 1}, body_pos_error_max={70: 0.9}))
    assert (report["terminated"], report["first_done_step"]) == (True, 50)


def test_a_termination_flag_without_done_any_counts(diagnose):
    report = diagnose(table(100, termination_anchor_pos={30: 1}, done_any={50: 1}))
    assert report["first_done_step"] == 30


def test_a_termination_at_the_last_step_is_one(diagnose):
    report = diagnose(table(100, done_any={100: 1}))
    assert (report["terminated"], report["first_done_step"]) == (True, 100)


def test_a_termination_at_the_first_step_is_one(diagnose):
    assert diagnose(table(100, done_any={1: 1}))["first_done_step"] == 1


def test_the_kinds_of_the_first_termination_are_named(diagnose):
    flags = {"termination_ee_body_pos": {30: 1}, "termination_anchor_pos": {60: 1}}
    assert diagnose(table(100, **flags))["terminations"] == ["ee_body_pos"]


@pytest.mark.parametrize(
    ("done", "first", "last"), [(100, 60, 140), (40, 1, 80), (41, 1, 81), (180, 140, 200)]
)
def test_the_window_reaches_40_steps_each_way_within_the_rollout(diagnose, done, first, last):
    report = diagnose(table(200, done_any={done: 1}))
    assert report["window"] == {"first_step": first, "last_step": last}


def test_the_window_can_be_of_another_size(diagnose):
    report = diagnose(table(200, done_any={100: 1}), before=3, after=0)
    assert report["window"] == {"first_step": 97, "last_step": 100}


# The ranking


def top(report) -> list[str]:
    return [row["column"] for row in report["top_errors"]]


def test_errors_are_ranked_by_their_maximum(diagnose):
    often_high = dict.fromkeys(range(10, 91), 0.8)
    steps = table(
        100,
        done_any={50: 1},
        body_pos_error_torso=often_high,
        ee_z_error_right_hand={50: 0.9},
    )
    assert top(diagnose(steps))[:2] == ["ee_z_error_right_hand", "body_pos_error_torso"]


def test_equal_maxima_are_ranked_by_their_mean(diagnose):
    steps = table(
        100,
        done_any={50: 1},
        body_pos_error_left_shin={50: 0.9},
        body_pos_error_torso={50: 0.9, 51: 0.8},
    )
    assert top(diagnose(steps))[:2] == ["body_pos_error_torso", "body_pos_error_left_shin"]


def test_what_lies_outside_the_window_does_not_rank(diagnose):
    steps = table(
        200, done_any={100: 1}, body_pos_error_torso={59: 9.0}, ee_z_error_right_hand={60: 0.5}
    )
    assert top(diagnose(steps))[0] == "ee_z_error_right_hand"


def test_the_peak_of_a_column_is_that_within_the_window(diagnose):
    steps = table(200, done_any={100: 1}, body_pos_error_torso={10: 9.0, 90: 0.5})
    row = diagnose(steps)["top_errors"][0]
    assert (row["column"], row["max"], row["peak_step"]) == ("body_pos_error_torso", 0.5, 90)


def test_rewards_flags_and_ids_are_no_errors(diagnose):
    steps = table(100, done_any={50: 1})
    steps["rew_mean"], steps["env_id"], steps["rew_body_pos_error"] = 99.0, 99, 99.0
    assert sorted(top(diagnose(steps))) == sorted(c for c in steps if c.startswith(("body", "ee")))


def test_only_the_top_is_reported(diagnose):
    assert len(diagnose(table(100), top=2)["top_errors"]) == 2


def test_bodies_channels_and_families_are_named_worst_first(diagnose):
    steps = table(
        100,
        done_any={50: 1},
        ee_z_error_right_hand={50: 0.9},
        body_z_error_left_shin={50: 0.8},
        body_pos_error_max={50: 0.7},
        body_pos_error_torso={50: 0.6},
    )
    report = diagnose(steps)
    assert report["bodies"] == ["right_hand", "left_shin", "torso"]
    assert report["channels"] == ["ee_z_error", "body_z_error", "body_pos_error"]
    assert report["families"] == [
        "arm_wrist_precision",
        "lower_body_contact_z",
        "root_core_guard",
        "general_body_tracking",
    ]


# The files


def refusal(diagnose_program, path) -> str:
    with pytest.raises(InputError) as refused:
        diagnose_program.read_steps(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("step,done_any,body_pos_error_max\n", "holds no step"),
        ("step,done_any,body_pos_error_max\n1,0,nan\n", "body_pos_error_max is 'nan' in step 1"),
        ("step,done_any,body_pos_error_max\n1,0,1\n2,0,\n", "body_pos_error_max is '' in step 2"),
        ("step,done_any,body_pos_error_max\n1,0,inf\n", "body_pos_error_max is 'inf' in step 1"),
        ("step,done_any,body_pos_error_max\n1,0,high\n", "body_pos_error_max is 'high'"),
        ("step,done_any,body_pos_error_max\n1,2,0.1\n", "'done_any' holds something other"),
        ("step,done_any,body_pos_error_max\n0,0,0.1\n", "'step' does not count 1, 2, 3"),
        ("step,done_any,body_pos_error_max\n1,0,0.1\n3,0,0.1\n", "'step' does not count 1, 2, 3"),
        ("step,done_any,body_pos_error_max\n1,0,0.1\n2,0,0.1,7\n", "not a CSV file"),
        ("step,done_any\n1,0\n", "'body_pos_error_max' is missing"),
        ("done_any,body_pos_error_max\n0,0.1\n", "'step' is missing"),
        ("step,body_pos_error_max\n1,0.1\n", "'done_any' is missing"),
    ],
)
def test_a_csv_that_cannot_be_judged_is_refused_by_name(diagnose_program, tmp_path, text, message):
    path = tmp_path / "steps.csv"
    path.write_text(text)
    refused = refusal(diagnose_program, path)
    assert refused.startswith(f"{path}: ") and message in refused


def test_a_missing_csv_is_refused_by_name(diagnose_program, tmp_path):
    path = tmp_path / "steps.csv"
    assert refusal(diagnose_program, path) == f"{path}: does not exist"


def test_a_csv_that_is_not_text_is_refused_by_name(diagnose_program, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not a CSV file" in refusal(diagnose_program, path)


def test_numbers_are_read_to_the_last_bit(diagnose_program, tmp_path):
    values = [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, 0.30000000000000004]
    rows = [f"{step},0,{value!r}\n" for step, value in enumerate(values, start=1)]
    path = tmp_path / "steps.csv"
    path.write_text("step,done_any,body_pos_error_max\n" + "".join(rows))
    assert diagnose_program.read_steps(path)["body_pos_error_max"].to_list() == values


def test_a_report_is_written(run, command, files):
    options = files(DONE_LAST)
    assert run(command("diagnose", **options)).returncode == 0
    report = json.loads(options["output_json"].read_text())
    found = [report[name] for name in ("schema_version", "budget_steps", "first_done_step")]
    assert found == ["hloop.failure-report.v1", 3, 3]


def test_the_report_has_the_same_bytes_elsewhere_and_holds_no_path(run, command, files, tmp_path):
    options = files(CLEAN)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    others = {name: moved / path.name for name, path in options.items()}
    for name in ("metrics_json", "step_csv"):
        others[name].write_bytes(options[name].read_bytes())
    for each in (options, others):
        assert run(command("diagnose", **each)).returncode == 0
    report = options["output_json"].read_bytes()
    assert report == others["output_json"].read_bytes() and b"/" not in report


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"steps": 4}, "steps.csv: holds 3 steps, but"),
        ({"first_done_step": 2}, "steps.csv: the first termination is None, but"),
        ({"steps": True}, "metrics.json: steps is True; expected int"),
        ({"schema_version": "x"}, "metrics.json: schema_version is 'x'"),
        ({"seed": float("nan")}, "metrics.json: holds NaN"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(
    diagnose_program, command, files, monkeypatch, metrics, message
):
    options = files(CLEAN, **metrics)
    monkeypatch.setattr(sys, "argv", command("diagnose", **options)[1:])
    with pytest.raises(InputError, match=message):
        diagnose_program.main()
    assert not options["output_json"].exists()


def test_an_empty_metrics_file_is_refused_by_name(run, command, files):
    options = files(CLEAN)
    options["metrics_json"].write_text("")
    result = run(command("diagnose", **options))
    assert result.returncode == 2
    assert result.stderr == f"diagnose.py: error: {options['metrics_json']}: is empty\n"
