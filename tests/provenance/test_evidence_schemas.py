"""The records keep their schemas, the schemas are closed, and the page tells all codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.files import data_dir
from hloop.provenance.findings import CATALOGUE, COMPLETE, ELIGIBLE, UNALTERED, Finding, Rule
from hloop.provenance.records import (
    ATTEMPT_STATUS,
    LAYERS,
    MANIFEST,
    REPORT,
    RUN_RECORD,
    SCHEDULED_JOB,
)
from jsonschema import Draft202012Validator
from tampering import PER_JOB, run_small

PAGE = (Path(__file__).parents[2] / "docs/evidence.md").read_text()
SCHEMAS = {
    "manifest": MANIFEST,
    "scheduled-job": SCHEDULED_JOB,
    "run-record": RUN_RECORD,
    "attempt-status": ATTEMPT_STATUS,
}


def schema_of(name: str) -> Any:
    return json.loads((data_dir("schemas") / f"{name}.schema.json").read_text())


def objects(schema: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every mapping that a schema describes."""
    if "object" in schema.get("type", ""):
        yield where, schema
    for part in ("properties", "patternProperties"):
        for key, value in schema.get(part, {}).items():
            yield from objects(value, f"{where}.{key}")
    if "items" in schema:
        yield from objects(schema["items"], f"{where}[]")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("schemas") / "repository"
    run_small(root, "bulk-sync")
    return root / "run"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("manifest.json", "manifest"),
        ("hloop_run.json", "hloop-run"),
        *((f"jobs/make/{name}", name[:-5].replace("_", "-")) for name in PER_JOB),
        *((f"jobs/last/{name}", name[:-5].replace("_", "-")) for name in PER_JOB),
    ],
)
def test_a_record_keeps_its_schema(run: Path, file: str, name: str) -> None:
    document = json.loads((run / file).read_bytes())
    assert [
        error.message for error in Draft202012Validator(schema_of(name)).iter_errors(document)
    ] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_record_has_no_field_that_its_schema_does_not_name(name: str) -> None:
    open_ones = [
        where
        for where, schema in objects(schema_of(name), name)
        if schema.get("additionalProperties") is not False
    ]
    assert open_ones == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_of_a_record_is_there_in_every_record(name: str) -> None:
    assert [
        where
        for where, schema in objects(schema_of(name), name)
        if "properties" in schema and set(schema["required"]) != set(schema["properties"])
    ] == []


@pytest.mark.parametrize(("name", "type"), SCHEMAS.items())
def test_a_schema_names_the_type_of_its_record(name: str, type: str) -> None:
    assert schema_of(name)["properties"]["_type"]["const"] == type


def test_a_scheduled_job_cannot_say_that_it_is_eligible() -> None:
    names = [
        key
        for _, schema in objects(schema_of("scheduled-job"), "")
        for key in schema.get("properties", ())
    ]
    assert not [name for name in names if name.startswith("eligib")]


def test_the_quick_check_knows_the_schemas_of_the_records(run: Path) -> None:
    from hloop.plan.contract import quick_check

    for name in PER_JOB:
        document = json.loads((run / "jobs/make" / name).read_bytes())
        assert quick_check(schema_of(name[:-5].replace("_", "-")))(document)


def test_the_report_is_the_last_layer() -> None:
    assert max(LAYERS, key=LAYERS.__getitem__) == REPORT


# The page


def costs(rule: Rule) -> str:
    parts = [f"`{part}` no" for part in (COMPLETE, UNALTERED, ELIGIBLE) if part in rule.denies]
    parts += [
        f"`{part}` undecided" for part in (COMPLETE, UNALTERED, ELIGIBLE) if part in rule.clouds
    ]
    return ", ".join(parts) or "nothing"


def test_the_page_has_every_code_with_what_it_costs_and_what_to_do() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (code, costs(rule), rule.meaning, rule.action) for code, rule in CATALOGUE.items()
    ]


def test_every_code_is_used() -> None:
    folder = Path(__file__).parents[2] / "hloop_plugin/hloop/provenance"
    text = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "findings.py")
    assert [code for code in CATALOGUE if f'"{code}"' not in text] == []


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m", "\udcff", "\ud800"])
def test_what_is_shown_can_be_printed(text: str) -> None:
    from hloop.provenance.findings import shown

    assert shown(text).isprintable()


def test_a_finding_says_what_to_do() -> None:
    finding = Finding("output_changed", "make", "it differs", "the same")
    assert finding.to_dict() == {
        "code": "output_changed",
        "where": "make",
        "found": "it differs",
        "expected": "the same",
        "action": CATALOGUE["output_changed"].action,
    }
