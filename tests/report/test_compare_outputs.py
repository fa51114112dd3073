"""How two versions of one file are compared."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.model import CompareMode
from hloop.report.outputs import Finding, Rule, Verdict, Version, compare_file, json_finding
from hypothesis import given
from hypothesis import strategies as st


def pointers(first: Any, second: Any, *ignore: str) -> list[str]:
    details = json_finding(first, second, ignore).details
    return [entry["pointer"] for entry in details.get("pointers", [])]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1, 1.0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        ([], []),
        (None, None),
    ],
)
def test_json_values_that_are_the_same(first: Any, second: Any) -> None:
    assert json_finding(first, second).verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (True, 1),
        (False, 0),
        (False, None),
        ("1", 1),
        (math.nan, None),
        (math.nan, 1.0),
        (math.inf, -math.inf),
        ({}, []),
        (2**53, 2**53 + 1),
        (0.1, 0.1 + 1e-17 + 1e-16),
    ],
)
def test_json_values_that_differ(first: Any, second: Any) -> None:
    assert json_finding(first, second).verdict is Verdict.DIFFERS


def test_differing_values_are_named_by_their_pointers_in_order() -> None:
    first = {"a": [1, {"x/y": 1, "m~n": 1}], "b": 1}
    second = {"a": [2, {"x/y": 2, "m~n": 2}], "c": 1}
    assert pointers(first, second) == ["/a/0", "/a/1/m~0n", "/a/1/x~1y", "/b", "/c"]


def test_a_longer_list_differs_at_what_is_added() -> None:
    assert pointers([1], [1, 2, 3]) == ["/1", "/2"]


def test_what_is_absent_is_not_null() -> None:
    entry = json_finding({"a": None}, {}).details["pointers"][0]
    assert (entry["baseline"], entry["candidate"]) == ("null", "absent")


@pytest.mark.parametrize("ignore", ["/a/0", "/a", ""])
def test_what_a_pointer_names_is_left_out_with_all_below_it(ignore: str) -> None:
    assert pointers({"a": [1, 2]}, {"a": [3, 2]}, ignore) == []


@pytest.mark.parametrize("ignore", ["a/0", "/a/00", "/a/1", "/a/0/x", "/", "a"])
def test_a_pointer_that_names_something_else_leaves_nothing_out(ignore: str) -> None:
    assert pointers({"a": [1, 2]}, {"a": [3, 2]}, ignore) == ["/a/0"]


def test_escapes_in_a_pointer_are_those_of_rfc_6901() -> None:
    assert pointers({"x/y": 1, "m~n": 1, "~1": 1}, {}, "/x~1y", "/m~0n", "/~01") == []


def test_only_the_first_differences_are_listed_and_all_are_counted() -> None:
    details = json_finding(list(range(50)), []).details
    assert (details["differences"], len(details["pointers"])) == (50, 10)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@given(json_values)
def test_every_json_value_is_the_same_as_itself(value: Any) -> None:
    assert json_finding(value, value).verdict is Verdict.SAME


@given(json_values, json_values)
def test_ignoring_every_differing_pointer_leaves_no_difference(first: Any, second: Any) -> None:
    finding = json_finding(first, second)
    named = [entry["pointer"] for entry in finding.details.get("pointers", [])]
    if finding.details.get("differences", 0) == len(named):
        assert json_finding(first, second, named).verdict is Verdict.SAME


# Files


def compare_texts(
    folder: Path, mode: CompareMode, first: str | bytes, second: str | bytes, *ignore: str
) -> Finding:
    versions = []
    for name, text in (("first", first), ("second", second)):
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name).write_bytes(data)
        versions.append(Version(folder / name, hashlib.sha256(data).hexdigest()))
    return compare_file(Rule(mode, ignore), *versions)


def columns(finding: Finding) -> dict[str, tuple[float | None, int]]:
    return {
        column["column"]: (column["max_abs_difference"], column["differing_cells"])
        for column in finding.details["columns"]
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a\n1\n", "a\n1.0\n"),
        ("a\n0.1\n", "a\n1e-1\n"),
        ("a,b\n1,\n", "a,b\n1,nan\n"),
        ("a\nNaN\n", "a\nnan\n"),
        ("a\ninf\n", "a\nInf\n"),
        ("a\n1\n", "a\r\n1\r\n"),
        ('a\n"x"\n', "a\nx\n"),
        ("a\n9007199254740993\n", "a\n9007199254740993.0\n"),
    ],
)
def test_tables_that_are_the_same(tmp_path: Path, first: str, second: str) -> None:
    assert compare_texts(tmp_path, CompareMode.CSV, first, second).verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a\n1\n", "a\n2\n"),
        ("a\n1\n", "a\nnan\n"),
        ("a\n1\n", "a\nx\n"),
        ("a\nx\n", "a\n\n"),
        ("a\nx\nnan\n", "a\nx\nNaN\n"),
        ("a\nNA\n", "a\nnull\n"),
        ("a\nTrue\n", "a\n1\n"),
        ("a\ninf\n", "a\n-inf\n"),
        ("a\n9007199254740993\n", "a\n9007199254740992\n"),
        ("a\n1\n", "a\n1\n1\n"),
        ("a,b\n1,2\n", "b,a\n2,1\n"),
        ("a,b\n1,2\n", "a\n1\n"),
        ("a,a\n1,2\n", "a\n1\n"),
        ("a\n1\n2\n", "a\n2\n1\n"),
        ("a\n1\n\n2\n", "a\n1\n2\n"),
    ],
)
def test_tables_that_differ(tmp_path: Path, first: str, second: str) -> None:
    assert compare_texts(tmp_path, CompareMode.CSV, first, second).verdict is Verdict.DIFFERS


def test_ignored_columns_do_not_count_wherever_they_stand(tmp_path: Path) -> None:
    finding = compare_texts(
        tmp_path, CompareMode.CSV, "t,a,u\n9,1,x\n", "a,t\n1,8\n", "t", "u", "never"
    )
    assert (finding.verdict, columns(finding)) == (Verdict.SAME, {"a": (0, 0)})


def test_the_largest_difference_is_given_per_column(tmp_path: Path) -> None:
    finding = compare_texts(
        tmp_path, CompareMode.CSV, "a,b,c\n1,5,x\n2,5,y\n", "a,b,c\n1.5,5,x\n-1,5,z\n"
    )
    assert columns(finding) == {"a": (3, 2), "b": (0, 0), "c": (None, 1)}


def test_the_reason_names_the_columns_and_how_far_they_are_apart(tmp_path: Path) -> None:
    finding = compare_texts(tmp_path, CompareMode.CSV, "a,b\n1,x\n", "a,b\n1.5,y\n")
    assert finding.reason == "values differ in a (by up to 0.5), b"


@pytest.mark.parametrize("second", ["nan", "inf"])
def test_a_difference_that_is_no_finite_number_is_null(tmp_path: Path, second: str) -> None:
    finding = compare_texts(tmp_path, CompareMode.CSV, "a\n1\n2\n", f"a\n{second}\n2\n")
    assert columns(finding) == {"a": (None, 1)}


def test_other_columns_are_named(tmp_path: Path) -> None:
    finding = compare_texts(tmp_path, CompareMode.CSV, "a,b\n1,2\n", "a,c\n1,2\n")
    assert finding.reason == (
        "only the baseline has the columns b; only the candidate has the columns c"
    )


def test_another_number_of_rows_is_named(tmp_path: Path) -> None:
    finding = compare_texts(tmp_path, CompareMode.CSV, "a\n1\n2\n", "a\n1\n")
    assert finding.reason == "the baseline has 2 rows, the candidate 1"


@pytest.mark.parametrize("text", ["", "a\n1,2,3\n", b"\xff\xfe\n", 'a\n"x'])
def test_what_is_no_table_is_unknown(tmp_path: Path, text: str | bytes) -> None:
    assert compare_texts(tmp_path, CompareMode.CSV, "a\n1\n", text).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 1}', b'"\xff"'])
def test_what_is_no_json_is_unknown(tmp_path: Path, text: str | bytes) -> None:
    assert compare_texts(tmp_path, CompareMode.JSON, "{}", text).verdict is Verdict.UNKNOWN


def test_bytes_count_to_the_last_one(tmp_path: Path) -> None:
    assert compare_texts(tmp_path, CompareMode.BYTES, "{}", "{}\n").verdict is Verdict.DIFFERS


def test_a_file_of_which_only_one_report_has_a_digest_differs(tmp_path: Path) -> None:
    versions = Version(tmp_path, "a" * 64), Version(tmp_path, None)
    assert compare_file(Rule(CompareMode.JSON), *versions).verdict is Verdict.DIFFERS


def test_a_folder_in_place_of_a_file_is_unknown(tmp_path: Path) -> None:
    versions = Version(tmp_path, "a" * 64), Version(tmp_path, "b" * 64)
    assert compare_file(Rule(CompareMode.JSON), *versions).verdict is Verdict.UNKNOWN


# Folders


@pytest.mark.parametrize(
    ("mode", "digests", "verdict"),
    [
        (CompareMode.BYTES, "aa", Verdict.SAME),
        (CompareMode.BYTES, "ab", Verdict.DIFFERS),
        (CompareMode.NONE, "ab", Verdict.NOT_COMPARED),
        # No plan that keeps the rules asks for it, but a report may.
        (CompareMode.JSON, "ab", Verdict.UNKNOWN),
    ],
)
def test_folders_are_compared_by_their_digests_alone(
    tmp_path: Path, mode: CompareMode, digests: str, verdict: Verdict
) -> None:
    versions = [Version(tmp_path, digest * 64) for digest in digests]
    assert compare_file(Rule(mode), *versions).verdict is verdict
