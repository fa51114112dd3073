"""The page on the run report names what the schema does, and its examples fit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hloop.files import data_dir
from hloop.plan.prepare import prepare

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "run-report.md").read_text(encoding="utf-8")
SCHEMA = json.loads((data_dir("schemas") / "hloop-run.schema.json").read_text())
EXAMPLE = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])


def named(text: str) -> set[str]:
    """Give the code words in the first column of the page's tables."""
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([a-z_]+)`", cell)}


def of_a_shortened_report(schema: Any) -> Any:
    """The same schema where any field may be missing, and none may be added."""
    if isinstance(schema, list):
        return [of_a_shortened_report(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shortened = {
        key: of_a_shortened_report(value) for key, value in schema.items() if key != "required"
    }
    if isinstance(schema.get("properties"), dict):
        shortened["additionalProperties"] = False
    return shortened


def test_every_field_of_the_run_report_stands_in_the_tables() -> None:
    fields = SCHEMA["properties"].keys() | SCHEMA["properties"]["jobs"]["items"]["properties"]
    assert fields - named(PAGE) == set()


def test_the_example_has_the_fields_of_the_schema() -> None:
    jsonschema.Draft202012Validator(of_a_shortened_report(SCHEMA)).validate(EXAMPLE)


def test_the_efficiency_in_the_example_is_the_bound_over_the_makespan() -> None:
    scheduling = EXAMPLE["scheduling"]
    expected = scheduling["lower_bound"]["seconds"] / scheduling["makespan_seconds"]
    assert scheduling["efficiency"] == pytest.approx(expected, abs=1e-5)


def test_the_job_in_the_example_is_one_of_the_demo() -> None:
    shown = EXAMPLE["jobs"][0]
    job = prepare(REPOSITORY / "config/demo.yaml", repo_root=REPOSITORY).by_id()[shown["job_id"]]
    assert (job.cuda_visible_devices, job.seed) == (shown["cuda_visible_devices"], shown["seed"])


def test_the_comparisons_have_the_checks_of_the_demo() -> None:
    jobs = len(prepare(REPOSITORY / "config/demo.yaml", repo_root=REPOSITORY).jobs)
    # Of the experiment, the candidates, the jobs and the selection; four of each job.
    checks = 4 + 4 * jobs
    assert re.findall(r"of (\d+) checks", PAGE) == [str(checks)] * 2
