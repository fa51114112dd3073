"""Rows of two paths: multisets by identity, every value bit for bit."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import ReportError
from hloop.report.oraclerows import (
    Difference,
    RowRules,
    RowsComparison,
    compare_rows,
    read_rows,
)

OTHER_NAN = struct.unpack(">d", bytes.fromhex("7ff800000000beef"))[0]
RULES = RowRules(("task", "seed"), {"latency_ms": "wall clock"}, {})


def row(seed: int = 1, **fields: Any) -> dict[str, Any]:
    return {"task": "stand", "seed": seed, **fields}


def compare(ours: Any, theirs: Any, **tolerances: float) -> RowsComparison:
    rules = RowRules(RULES.identity, RULES.ignore, tolerances)
    return compare_rows([row(value=ours)], [row(value=theirs)], rules)


def difference(ours: Any, theirs: Any, **tolerances: float) -> Difference:
    return compare(ours, theirs, **tolerances).differences[0]


def test_the_order_of_rows_says_nothing() -> None:
    assert compare_rows([row(1), row(2)], [row(2), row(1)], RULES).equal


def test_a_row_that_the_candidate_lacks_is_missing() -> None:
    found = compare_rows([row(1), row(2)], [row(1)], RULES)
    assert [s.identity for s in found.missing] == [{"task": "stand", "seed": 2}]
    assert (found.unexpected, found.duplicate, found.equal) == ((), (), False)


def test_a_row_that_the_baseline_lacks_is_unexpected() -> None:
    found = compare_rows([row(1)], [row(1), row(2)], RULES)
    assert [s.identity["seed"] for s in found.unexpected] == [2]
    assert (found.missing, found.duplicate, found.equal) == ((), (), False)


def test_a_row_that_stands_there_once_more_is_a_duplicate() -> None:
    found = compare_rows([row(1)], [row(1), row(1)], RULES)
    assert [(s.baseline, s.candidate) for s in found.duplicate] == [(1, 2)]
    assert (found.missing, found.unexpected, found.equal) == ((), (), False)


def test_one_row_twice_in_place_of_two_is_missing_and_duplicate() -> None:
    found = compare_rows([row(1), row(2)], [row(1), row(1)], RULES)
    assert (len(found.missing), len(found.duplicate)) == (1, 1)


def test_rows_of_one_identity_are_paired_with_those_that_are_the_same() -> None:
    ours, theirs = [row(v=1), row(v=2), row(v=3)], [row(v=4), row(v=3), row(v=1)]
    found = compare_rows(ours, theirs, RULES)
    assert (found.identical, [d.reason for d in found.differences]) == (2, ["2 against 4"])


def test_seeds_as_text_and_as_number_are_two_identities() -> None:
    found = compare_rows([row(1)], [{"task": "stand", "seed": "1"}], RULES)
    assert (len(found.missing), len(found.unexpected)) == (1, 1)


def test_a_field_that_is_left_out_decides_nothing() -> None:
    assert compare_rows([row(latency_ms=[1.0])], [row(latency_ms=[2.0, 3.0])], RULES).equal


def test_a_field_that_one_path_lacks_differs() -> None:
    found = compare_rows([row(falls=0)], [row()], RULES).differences
    assert [(d.field, d.reason) for d in found] == [("falls", "0 against nothing")]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (None, False),
        (math.nan, 1.0),
        (math.nan, None),
        pytest.param(math.nan, OTHER_NAN, id="another NaN"),
        (math.inf, -math.inf),
        (0.1 + 0.2, 0.3),
        ([1.0], [1.0, 1.0]),
        ([], None),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": [{"b": 0.0}]}, {"a": [{"b": -0.0}]}),
        ("1", 1),
        pytest.param(10**400, 1.0, id="too large for a float"),
    ],
)
def test_what_is_not_the_same_bit_for_bit_differs(ours: Any, theirs: Any) -> None:
    assert not compare(ours, theirs).equal and not compare(theirs, ours).equal


@pytest.mark.parametrize("value", [math.nan, -0.0, math.inf, [math.nan, {"a": -0.0}], None, "é"])
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert compare(value, value).equal


def test_the_first_step_at_which_series_part_counts_from_1() -> None:
    assert difference([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.5, 5.0]).first_step == 3


def test_the_largest_absolute_difference_is_over_the_whole_series() -> None:
    assert difference([1.0, 2.0, 3.0], [1.5, 2.0, -1.0]).largest == 4.0


def test_lists_of_unequal_length_part_after_the_shorter_one() -> None:
    found = difference([1.0, 2.0], [1.0, 2.0, 3.0])
    assert (found.first_step, found.reason) == (3, "2 values against 3 values")


def test_lists_of_unequal_length_that_part_earlier_say_where() -> None:
    assert difference([1.0, 2.0], [1.0, 2.5, 3.0]).first_step == 2


def test_values_that_are_nested_deeply_are_compared_to_the_last(tmp_path: Path) -> None:
    depth = 900
    for name, value in (("a", "1.0"), ("b", "1.5")):
        text = f'{{"task": "a", "seed": 1, "v": {"[" * depth}{value}{"]" * depth}}}\n'
        (tmp_path / name).write_text(text)
    rows = [read_rows(tmp_path / name, RULES.identity) for name in ("a", "b")]
    assert compare_rows(*rows, RULES).differences[0].largest == 0.5


def test_the_first_place_is_named_with_what_stands_there() -> None:
    found = difference({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]})
    assert (found.where, found.reason) == ("value.a[1].b", "1 against 2")


def test_nan_against_a_number_has_no_distance_and_differs() -> None:
    found = difference([math.nan, 1.0], [2.0, 1.25])
    assert (found.first_step, found.largest) == (1, 0.25)


def test_a_tolerance_that_was_registered_covers_its_field() -> None:
    assert compare([1.0, 2.0], [1.0, 2.001], value=0.01).equal


def test_a_tolerance_covers_no_other_field() -> None:
    assert not compare(1.0, 1.001, other=0.01).equal


def test_beyond_the_tolerance_differs_and_the_steps_within_it_do_not() -> None:
    assert difference([1.0, 2.0, 3.0], [1.001, 2.5, 3.0], value=0.01).first_step == 2


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (True, 1), ([1.0], [1.0, 1.0])])
def test_no_tolerance_covers_nan_a_truth_value_or_a_length(pair: tuple[Any, Any]) -> None:
    assert not compare(*pair, value=10.0).equal


def test_what_rows_python_writes_are_read_with_nan_and_minus_zero(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"task": "a", "seed": 1, "v": [NaN, -0.0]}\n')
    values = read_rows(path, RULES.identity)[0]["v"]
    assert math.isnan(values[0]) and math.copysign(1, values[1]) == -1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "Expecting"),
        (f'{{"v": {"[" * 100_000}', "recursion"),
        ("[]\n", "line 1 is no object"),
        ('{"task": "a"}\n', "line 1 lacks seed"),
        ('{"task": "a", "seed": 1, "seed": 2}\n', "seed"),
    ],
)
def test_rows_that_cannot_be_read_are_no_answer(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ReportError, match=found):
        read_rows(path, RULES.identity)
