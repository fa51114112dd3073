"""The files in config/ keep their schemas, and the schemas keep their promises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.contract import schema_problems
from hloop.plan.document import parse_document
from hloop.plan.lint import lint
from hloop.plan.model import Plan
from hloop.plan.prepare import BenchmarkSettings, prepare
from hloop.run.settings import RunSettings
from hloop.schedule.events import Mode

REPOSITORY = Path(__file__).parents[2]
CONFIG = REPOSITORY / "config"
SCHEMAS = sorted(path.name.split(".")[0] for path in (REPOSITORY / "schemas").iterdir())


@pytest.fixture(scope="module")
def demo() -> Plan:
    return prepare(CONFIG / "demo.yaml", repo_root=REPOSITORY)


@pytest.mark.parametrize(
    ("file", "schema"),
    [("demo.yaml", "workload"), ("paper.yaml", "workload"), ("config.yaml", "config")],
)
def test_a_file_keeps_its_schema(file: str, schema: str) -> None:
    assert schema_problems(parse_document(CONFIG / file), schema) == []


def test_the_demo_is_eight_rollouts_eight_diagnoses_and_a_selection(demo: Plan) -> None:
    resources = [job.resource.value for job in demo.jobs]
    assert resources == ["gpu", "cpu"] * 8 + ["io"]


def test_the_demo_keeps_every_rule(demo: Plan, tmp_path: Path) -> None:
    assert lint(demo, REPOSITORY, tmp_path) == []


def test_the_demo_has_two_seeds_of_four_tasks(demo: Plan) -> None:
    tasks = ("stand", "arm_swing", "squat", "stand_push")
    assert [job.candidate_id for job in demo.jobs if job.resource == "gpu"] == [
        f"{task}_seed{seed}" for seed in (1001, 2002) for task in tasks
    ]


def test_the_demo_selects_from_all_diagnoses(demo: Plan) -> None:
    select = demo.by_id()["select_candidates"]
    assert select.depends_on == tuple(j.job_id for j in demo.jobs if j.resource == "cpu")


def test_the_demo_uses_two_devices(demo: Plan) -> None:
    assert [job.device for job in demo.jobs if job.resource == "gpu"] == [0, 1] * 4


def test_all_durations_of_the_demo_are_known(demo: Plan) -> None:
    assert all(job.seconds("expected_seconds") for job in demo.jobs)


def test_the_workflow_runs_a_workload_that_is_there() -> None:
    config = parse_document(CONFIG / "config.yaml")
    assert (REPOSITORY / config["workload"]).is_file()


def test_the_workflow_s_settings_are_possible() -> None:
    config = parse_document(CONFIG / "config.yaml")
    settings = RunSettings().override(config, source="config.yaml")
    assert (settings.mode, settings.devices) == (Mode.HLOOP, "simulated:2")


def test_the_readme_names_every_key_of_the_configuration() -> None:
    schema = json.loads((REPOSITORY / "schemas/config.schema.json").read_text())
    rows = re.findall(r"^\| `(\w+)` \|", (CONFIG / "README.md").read_text(), re.MULTILINE)
    assert rows == list(schema["properties"])


def test_the_modes_of_a_benchmark_are_the_modes_of_a_run() -> None:
    assert sorted(BenchmarkSettings().modes) == sorted(mode.value for mode in Mode)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_describes_every_field(name: str) -> None:
    schema = json.loads((REPOSITORY / f"schemas/{name}.schema.json").read_text())
    assert [where for where, field in fields(schema, name) if "description" not in field] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(
        json.loads((REPOSITORY / f"schemas/{name}.schema.json").read_text())
    )


def fields(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every sub-schema that describes a value; one that only refers is described elsewhere."""
    if "$ref" in schema:
        return
    yield where, schema
    for part in ("properties", "patternProperties", "$defs"):
        for key, value in schema.get(part, {}).items():
            yield from fields(value, f"{where}.{key}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from fields(schema[part], f"{where}.{part}")
