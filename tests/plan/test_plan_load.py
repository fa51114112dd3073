"""From a file to a checked plan, and how errors are told."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import PlanError
from hloop.plan.load import load_checked, load_plan, plan_from_document
from hloop.plan.model import (
    Artifact,
    ArtifactType,
    CompareMode,
    Formal,
    Job,
    Plan,
    ResourceClass,
)

GOOD = Path(__file__).parents[1] / "data" / "plans" / "good"

HEAD = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "p"}
MANY_PROBLEMS = """
schema_version: mimicx.hloop-plan.v1
plan_id: many
max_cpu_workers: 0
jobs:
  - job_id: a
    resource: cpu
    command: [sleep, 5]
    depends_on: [b]
    seed: true
    sed: 1
  - job_id: b
    resource: gpu
    command: [cat, "{runs_dir}/x"]
    depends_on: [a]
    seed: 1
    seed: 2
"""


def problems_of(folder: Path, text: str) -> list[tuple[str, str]]:
    path = folder / "plan.yaml"
    path.write_text(text)
    with pytest.raises(PlanError) as error:
        load_checked(path, folder, folder / "run")
    return [(problem.code, problem.where) for problem in error.value.problems]


def test_problems_of_file_format_and_rules_are_told_at_once(tmp_path: Path) -> None:
    assert sorted(problems_of(tmp_path, MANY_PROBLEMS)) == [
        ("dependency_cycle", "jobs"),
        ("device_missing", "jobs[1].cuda_visible_devices"),
        ("duplicate_key", "jobs[1].seed"),
        ("not_an_integer", "jobs[0].seed"),
        ("template_near_miss", "jobs[1].command[1]"),
        ("too_small", "max_cpu_workers"),
        ("unknown_key", "jobs[0].sed"),
        ("wrong_type", "jobs[0].command[1]"),
    ]


def test_rules_are_not_asked_where_an_id_is_broken(tmp_path: Path) -> None:
    text = MANY_PROBLEMS.replace("job_id: b", "job_id: 7")
    assert "dependency_cycle" not in dict(problems_of(tmp_path, text))


def test_rules_are_not_asked_where_dependencies_are_broken(tmp_path: Path) -> None:
    text = """
schema_version: mimicx.hloop-plan.v1
plan_id: p
jobs:
  - {job_id: a, resource: cpu, command: [x], outputs: [{role: r, path: "{run_dir}/x"}]}
  - job_id: b
    resource: cpu
    command: [x]
    depends_on: a
    inputs: [{role: r, path: "{run_dir}/x"}]
"""
    assert problems_of(tmp_path, text) == [("wrong_type", "jobs[1].depends_on")]


def test_an_error_names_file_place_and_job(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(MANY_PROBLEMS)
    with pytest.raises(PlanError) as error:
        load_checked(path, tmp_path, tmp_path / "run")
    assert f"{path}: 8 problems" in str(error.value)
    assert "jobs[0].sed: job 'a': the key 'sed' is unknown. Did you mean 'seed'?" in str(
        error.value
    )


def test_load_plan_does_not_ask_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("schema_version: mimicx.hloop-plan.v1\nplan_id: p\njobs:\n"
                    "  - {job_id: a, resource: gpu, command: [x], depends_on: [b]}\n")  # fmt: skip
    assert load_plan(path).jobs[0].depends_on == ("b",)


def test_absent_values_are_their_defaults() -> None:
    document = {**HEAD, "jobs": [{"job_id": "a", "resource": "cpu", "command": ["true"]}]}
    job = Job(job_id="a", resource=ResourceClass.CPU, command=("true",))
    assert plan_from_document(document) == Plan(plan_id="p", jobs=(job,))


def test_every_field_is_read() -> None:
    job = load_plan(GOOD / "every_field.yaml").jobs[0]
    assert job.outputs[1] == Artifact(
        role="steps",
        path="{run_dir}/walk/steps.csv",
        compare=CompareMode.CSV,
        ignore=("wall_ms",),
    )
    assert job.budget["stall_seconds"] == 10.5


def test_the_additions_are_read() -> None:
    job = load_plan(GOOD / "additions.yaml").jobs[0]
    assert (job.formal, job.inputs[0].type, job.outputs[0].type, job.outputs[1].checkpoint) == (
        Formal("ppo", "walk_1.2-b", "config"),
        ArtifactType.DIRECTORY,
        ArtifactType.FILE,
        "forward",
    )


def test_additions_are_written_only_where_they_are_used() -> None:
    text = json.dumps(load_plan(GOOD / "every_field.yaml").to_document())
    assert not re.search('"(type|checkpoint|formal)":', text)


@pytest.mark.parametrize(
    "name", ["every_field.yaml", "minimal.json", "waves.yaml", "additions.yaml", "watching.yaml"]
)
def test_a_plan_written_and_read_again_is_equal(name: str) -> None:
    plan = load_plan(GOOD / name)
    assert plan_from_document(plan.to_document()) == plan


@pytest.mark.parametrize("document", [None, [], "plan", 1, {}, {"jobs": 1}, {"jobs": [1]}])
def test_what_is_no_plan_at_all_is_refused_in_words(document: Any) -> None:
    with pytest.raises(PlanError):
        plan_from_document(document, file="plan.json")


def test_a_checked_plan_comes_rendered(tmp_path: Path) -> None:
    rendered = load_checked(GOOD / "every_field.yaml", tmp_path, tmp_path / "run")
    assert rendered.jobs["rollout_walk_1001"].argv == (
        "python",
        f"{tmp_path}/rollout.py",
        "--config",
        '{"steps": 800}',
        "--out",
        f"{tmp_path}/run/walk",
    )


def test_a_good_plan_is_read_without_jsonschema(tmp_path: Path) -> None:
    code = (
        "import sys; from hloop.plan.load import load_checked;"
        f"load_checked({str(GOOD / 'every_field.yaml')!r}, {str(tmp_path)!r}, '/nowhere/run');"
        "print('jsonschema' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "False\n"
