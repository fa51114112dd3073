"""The plan's JSON Schema, and the quick check that is made from it."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.contract import quick_check, schema_problems
from hloop.plan.document import parse_document
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

REPOSITORY = Path(__file__).parents[2]
SCHEMA = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text())
GOOD = REPOSITORY / "tests/data/plans/good"
EVERY_FIELD = parse_document(GOOD / "every_field.yaml")
ADDITIONS = parse_document(GOOD / "additions.yaml")
CHECK = quick_check(SCHEMA)
JSONSCHEMA = Draft202012Validator(SCHEMA)


def test_the_schema_is_a_valid_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == Draft202012Validator.META_SCHEMA["$schema"]


def fields(schema: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, schema
    for keyword in ("properties", "patternProperties"):
        for key, sub in schema.get(keyword, {}).items():
            yield from fields(sub, f"{name}.{key}")
    if "items" in schema:
        yield from fields(schema["items"], f"{name}[]")


FIELDS = dict(fields(SCHEMA, "plan"))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_described(name: str) -> None:
    assert len(FIELDS[name].get("description", "")) > 5


@pytest.mark.parametrize("name", FIELDS)
def test_every_mapping_but_the_budget_is_closed(name: str) -> None:
    mapping = "object" in FIELDS[name].get("type", ())
    closed = FIELDS[name].get("additionalProperties") is False
    assert not mapping or closed != name.endswith("budget")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, item in entries:
        yield from places(item, (*path, key))


VALUES = st.sampled_from(
    [None, True, False, 0, 1, -1, 2**60, 0.5, -0.5, "", "a", "0", "12", "a\0", "f" * 64, "A=B"]
    + ["cpu", "json", "mimicx.hloop-plan.v1", [], ["a"], [1], {}, {"a": "b"}, {"a=": "b"}, [[]]]
)


PLACES = [(plan, path) for plan in (EVERY_FIELD, ADDITIONS) for path in list(places(plan))[1:]]


@given(st.sampled_from(PLACES), VALUES, st.sampled_from("srd"))
def test_the_quick_check_agrees_with_jsonschema(
    place: tuple[Any, tuple[Any, ...]], value: Any, action: str
) -> None:
    """One place of a good plan is set, dropped, or gets a key beside it."""
    plan, (*above, last) = place
    document = copy.deepcopy(plan)
    parent: Any = document
    for key in above:
        parent = parent[key]
    if action == "d":
        del parent[last]
    elif action == "r" and isinstance(parent, dict):
        parent[f"{last}_"] = value
    else:
        parent[last] = value
    assert CHECK(document) == JSONSCHEMA.is_valid(document)


def test_the_quick_check_says_no_to_a_whole_float() -> None:
    assert not quick_check({"type": "integer"})(1.0)


def test_the_quick_check_says_no_where_it_does_not_know_a_keyword() -> None:
    assert not quick_check({"type": "integer", "multipleOf": 2})(4)


def test_a_schema_that_the_quick_check_does_not_know_is_still_asked() -> None:
    codes = {problem.code for problem in schema_problems({"stages": {"1": {}}}, "workload")}
    assert {"missing_key", "bad_name"} <= codes


def test_a_misspelt_required_key_is_named_in_what_to_do() -> None:
    problems = schema_problems({**EVERY_FIELD, "jobs": [{"jobid": "a"}]}, "plan")
    assert "Rename 'jobid'" in [problem.action for problem in problems]


def test_the_nearest_allowed_value_is_named_whatever_its_case() -> None:
    document = {**EVERY_FIELD, "jobs": [{**EVERY_FIELD["jobs"][0], "resource": "GPU"}]}
    assert [p.action for p in schema_problems(document, "plan")] == ["Did you mean 'gpu'?"]
