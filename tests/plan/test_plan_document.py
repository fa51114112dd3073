"""Reading YAML and JSON: the same values as PyYAML and json, or a refusal."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import PlanError
from hloop.plan.document import child, parse_document
from hypothesis import given
from hypothesis import strategies as st


def parse(folder: Path, text: str, name: str = "document.yaml") -> Any:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return parse_document(path)


# Text that looks like a number to YAML 1.2 alone is written without quotes by PyYAML.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(
    lambda text: not re.fullmatch(r"[-+.\deEox]*", text)
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False)
    | TEXT
    | st.sampled_from(["yes", "012", "2024-05-01", "1:30", "=", "<<", "", "~", "0x1F"])
)
KEYS = TEXT | st.integers(0, 99)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(VALUES, st.sampled_from([None, True, False]))
def test_what_pyyaml_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: Any, flow: bool | None
) -> None:
    text = yaml.dump(value, allow_unicode=True, default_flow_style=flow)
    assert parse(tmp_path_factory.mktemp("yaml"), text) == value


@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False) | st.integers()))
def test_what_json_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    assert parse(tmp_path_factory.mktemp("json"), json.dumps(value), "a.json") == value


@pytest.mark.parametrize("text", ["1.5e+3", "-2", "+7", "0", ".5", "1.", "true", "NULL", ".inf"])
def test_a_plain_scalar_on_which_readers_agree_is_read(text: str, tmp_path: Path) -> None:
    assert parse(tmp_path, text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    ["012", "0o17", "0x1F", "0b1", "1_000", "1:30", "1e3", "1.5e3", "01.5", "yes", "No", "ON"]
    + ["2024-05-01", "2024-05-01T10:00:00Z", "="],
)
def test_a_plain_scalar_on_which_readers_differ_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        parse(tmp_path, f"a:\n  - {text}\n")
    assert [(p.code, p.where) for p in error.value.problems] == [("ambiguous_scalar", "a[0]")]


@pytest.mark.parametrize("text", ['"012"', "'yes'", "!!str 1e3", "|-\n  yes", "007-b", "1.2.3"])
def test_a_text_in_quotes_or_of_no_other_kind_is_text(text: str, tmp_path: Path) -> None:
    assert isinstance(parse(tmp_path, f"a: {text}\n")["a"], str)


def test_merge_keys_are_followed_as_pyyaml_does(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {x: 3, z: 4}\nc: {<<: [*a, *b], y: 5}\n"
    assert parse(tmp_path, text) == yaml.safe_load(text)


def test_every_duplicate_key_of_a_yaml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        parse(tmp_path, "a: {b: 1, b: 2}\nc:\n  - d: 1\n    d: 2\n")
    assert [problem.where for problem in error.value.problems] == ["a.b", "c[0].d"]


def test_every_duplicate_key_of_a_json_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        parse(tmp_path, '{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 2}]}', "a.json")
    assert [problem.where for problem in error.value.problems] == ["a.b", "c[0].d"]


def test_json_in_a_file_of_another_name_is_read_as_json(tmp_path: Path) -> None:
    assert parse(tmp_path, '{\n\t"a": 1e3}', "plan") == {"a": 1000.0}


def test_yaml_that_begins_with_a_brace_is_read_as_yaml(tmp_path: Path) -> None:
    assert parse(tmp_path, "{a: [b, c]}", "plan") == {"a": ["b", "c"]}


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert parse_document(tmp_path / "a.json") == [1]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="nowhere.yaml: the file cannot be read: No such file"):
        parse_document(tmp_path / "nowhere.yaml")


def test_an_integer_beyond_all_limits_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not JSON"):
        parse(tmp_path, "9" * 5000, "a.json")


def test_not_a_number_is_left_to_the_format(tmp_path: Path) -> None:
    assert math.isnan(parse(tmp_path, "NaN", "a.json"))


@pytest.mark.parametrize(
    ("where", "key", "expected"),
    [
        ("", "jobs", "jobs"),
        ("jobs", 3, "jobs[3]"),
        ("jobs[3]", "seed", "jobs[3].seed"),
        ("environment", "A.B", 'environment["A.B"]'),
    ],
)
def test_dotted_paths(where: str, key: str | int, expected: str) -> None:
    assert child(where, key) == expected
