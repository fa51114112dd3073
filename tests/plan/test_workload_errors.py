"""What a wrong workload is answered with: the place, what was found, what helps."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError, PlanError, Problem
from hloop.plan.prepare import prepare

GOOD: dict[str, Any] = {
    "schema": "hloop.workload.v1",
    "plan_id": "p",
    "axes": {
        "task": {"walk": {"horizon": 10}, "run": {"horizon": 20, "extra": 1}},
        "seed": [3, 5],
    },
    "devices": [0, 1],
    "stages": {
        "roll": {
            "over": ["task", "seed"],
            "resource": "gpu",
            "inputs": {"weights": {"path": "weights.bin"}},
            "outputs": {"log": "{run_dir}/<task>_<seed>.csv"},
            "command": ["roll", "<inputs.weights>", "<task.horizon>", "<outputs.log>"],
        },
        "choose": {
            "needs": ["roll"],
            "resource": "io",
            "command": ["choose", {"each": "roll", "items": ["<roll.outputs.log>"]}],
        },
    },
}


def problems(folder: Path, path: str = "", value: Any = None, *, text: str = "") -> list[Problem]:
    """Set the entry at the dotted ``path`` (delete it: ``value=...``), or take ``text``."""
    (folder / "weights.bin").write_text("w")
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    entry = document
    for key in parents:
        entry = entry[key]
    if value is ...:
        del entry[last]
    elif path:
        entry[last] = value
    config = folder / "workload.yaml"
    config.write_text(text or yaml.safe_dump(document, sort_keys=False))
    try:
        prepare(config, repo_root=folder)
    except HloopError as error:
        assert error.file == str(config)
        return list(error.problems)
    return []


def test_the_workload_of_these_tests_is_right(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


CASES = [
    # path, value, where the problem is, words that must be in its text
    ("schema", "hloop.workload.v2", "", "'hloop.workload.v2' is unknown; expected schema: hloop"),
    ("schema", ..., "", "the file names no format; expected schema: hloop.workload.v1"),
    ("plan_id", ..., "", "'plan_id' is missing"),
    ("plan_id", "", "plan_id", "is empty"),
    ("max_cpu_worker", 3, "max_cpu_worker", "Did you mean 'max_cpu_workers'?"),
    ("max_cpu_workers", 0, "max_cpu_workers", "1 or more"),
    ("max_io_workers", 2.0, "max_io_workers", "Write 2, without a decimal point"),
    ("max_io_workers", True, "max_io_workers", "an integer"),
    ("devices", [0, 0], "devices", "stands twice"),
    ("devices", [-1], "devices[0]", "0 or more"),
    ("devices", ..., "stages.roll", "Add devices, e.g. devices: [0, 1]"),
    ("axes.seed", [], "axes.seed", "is empty"),
    ("axes.seed", [3, "3"], "axes.seed", "the value 3 stands there as a number and as text"),
    ("axes.roll", [1], "stages.roll", "'roll' is already the name of a placeholder of an axis"),
    ("axes.outputs", [1], "axes.outputs", "placeholder of hloop's own"),
    ("axes.no-dash", [1], "axes.no-dash", "does not do as a name"),
    ("stages", {}, "stages", "is empty"),
    ("stages.roll.resource", "gpus", "stages.roll.resource", "Did you mean 'gpu'?"),
    ("stages.roll.output", {}, "stages.roll.output", "Did you mean 'outputs'?"),
    ("stages.roll.command", [], "stages.roll.command", "is empty"),
    ("stages.roll.command", ["a", 1.5], "stages.roll.command[1]", "text or an integer"),
    ("stages.roll.over", ["tasks"], "stages.roll.over[0]", "Did you mean 'task'?"),
    ("stages.choose.needs", ["rol"], "stages.choose.needs[0]", "Did you mean 'roll'?"),
    ("stages.roll.needs", ["choose"], "stages.roll.needs[0]", "does not stand above 'roll'"),
    ("stages.roll.needs", ["roll"], "stages.roll.needs[0]", "does not stand above 'roll'"),
    (
        "stages.choose.needs",
        [],
        "stages.choose.command[1].each",
        "there is no needed stage 'roll'. There are: none",
    ),
    (
        "stages.roll.command",
        ["<task.horizont>"],
        "stages.roll.command[0]",
        "the placeholder <task.horizont> is not known here. Did you mean <task.horizon>?",
    ),
    (
        "stages.roll.command",
        ["<in>"],
        "stages.roll.command[0]",
        "Known here: <inputs.weights>, <job_id>,",
    ),
    ("stages.roll.command", ["<task.extra>"], "stages.roll.command[0]", "task 'walk' has no"),
    ("stages.roll.command", ["<candidate>"], "stages.roll.command[0]", "Give stage 'roll' a"),
    ("stages.roll.command", ["<mimicx_root>"], "stages.roll.command[0]", "Pass --mimicx-root"),
    (
        "stages.choose.command",
        ["<seed>"],
        "stages.choose.command[0]",
        "Stage 'choose' does not run over 'seed'",
    ),
    (
        "stages.choose.command",
        ["<roll.outputs.log>"],
        "stages.choose.command[0]",
        "gathers 4 jobs of 'roll': use it in an entry with each: roll",
    ),
    (
        "stages.last",
        {
            "resource": "cpu",
            "needs": ["roll"],
            "inputs": {"log": {"each": "roll", "path": "<roll.outputs.log>"}},
            "command": ["<inputs.log>"],
        },
        "stages.last.command[0]",
        "'log' is repeated with each: repeat this",
    ),
    (
        "stages.last",
        {"resource": "cpu", "needs": ["choose"], "command": ["<roll.job_id>"]},
        "stages.last.command[0]",
        "Add 'roll' to the needs of this stage",
    ),
    (
        "stages.roll.job_id",
        "roll_<task>",
        "stages.roll.job_id",
        "two jobs have the id 'roll_walk'; expected an id for each job. "
        "Put into it: the name of the stage, <task>, <seed>",
    ),
    ("stages.roll.seed", "<task>", "stages.roll.seed", "'walk'; expected an integer"),
    ("stages.roll.seed", 2**53, "stages.roll.seed", "at most 9007199254740991"),
    (
        "stages.roll.inputs.weights.path",
        "gone.bin",
        "stages.roll.inputs.weights",
        "gone.bin does not exist",
    ),
    (
        "stages.roll.inputs.weights.sha256",
        "0" * 64,
        "stages.roll.inputs.weights",
        f"b0fddc326; expected {'0' * 64}, which the configuration gives",
    ),
    (
        "stages.roll.inputs.weights.sha256",
        "A" * 64,
        "stages.roll.inputs.weights",
        "64 lowercase hex digits",
    ),
    (
        "stages.roll.inputs.weights.type",
        "directory",
        "stages.roll.inputs.weights",
        "is a plain file; expected a directory that is there when the plan is made",
    ),
    ("stages.roll.inputs.weights.type", "dir", "stages.roll.inputs.weights.type", "'dir'"),
    (
        "stages.roll.formal",
        {"method": "ppo", "case": "<tsk>", "config": "weights"},
        "stages.roll.formal.case",
        "Did you mean <task>?",
    ),
    (
        "stages.roll.formal",
        {"method": "ppo", "config": "weights"},
        "stages.roll.formal",
        "'case' is missing",
    ),
    ("benchmark", {"modes": ["bulk_sync"]}, "benchmark.modes[0]", "Did you mean 'bulk-sync'?"),
    ("benchmark", {"repetition": 5}, "benchmark.repetition", "Did you mean 'repetitions'?"),
    ("benchmark", {"repetitions": 0}, "benchmark.repetitions", "1 or more"),
    ("benchmark", {"warmup": 1}, "benchmark.warmup", "true or false"),
]


@pytest.mark.parametrize(("path", "value", "where", "words"), CASES)
def test_a_problem_says_where_it_is_and_what_helps(
    tmp_path: Path, path: str, value: Any, where: str, words: str
) -> None:
    found = problems(tmp_path, path, value)
    assert [problem.where for problem in found] == [where]
    assert words in str(found[0])


def test_problems_of_form_are_told_at_once(tmp_path: Path) -> None:
    text = (
        "schema: hloop.workload.v1\nplan_id: p\nplan_id: q\naxis: {}\nstages: {a: {resource: x}}\n"
    )
    assert {problem.where for problem in problems(tmp_path, text=text)} == {
        *("plan_id", "axis", "stages.a", "stages.a.resource"),
    }


def test_problems_of_placeholders_and_files_are_told_at_once(tmp_path: Path) -> None:
    stage = GOOD["stages"]["roll"] | {
        "command": ["<a>", "<b>"],
        "inputs": {"one": "one.bin", "two": "two.bin"},
    }
    assert [problem.where for problem in problems(tmp_path, "stages.roll", stage)] == [
        *("stages.roll.command[0]", "stages.roll.command[1]"),
        *("stages.roll.inputs.one", "stages.roll.inputs.two"),
    ]


def test_a_file_without_a_mapping_is_refused(tmp_path: Path) -> None:
    assert "the file names no format" in str(problems(tmp_path, text="- a\n")[0])


def test_a_key_that_is_no_text_is_refused(tmp_path: Path) -> None:
    text = yaml.safe_dump(GOOD).replace("walk:", "1:")
    assert 'Put it in quotes: "1"' in str(problems(tmp_path, text=text)[0])


def test_a_configuration_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HloopError, match=r"gone\.yaml: the file cannot be read"):
        prepare(tmp_path / "gone.yaml", repo_root=tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("jobs: []", "jobs: the list is empty"), ("jobs: []\njobs: []", "'jobs' stands twice")],
)
def test_a_plan_that_breaks_its_format_is_refused(tmp_path: Path, text: str, words: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"schema_version: mimicx.hloop-plan.v1\nplan_id: p\n{text}\n")
    with pytest.raises(PlanError, match=words):
        prepare(plan, repo_root=tmp_path)
