"""Compares two runs' versions of one file, by the mode that the plan names for it.

Equal digests settle every mode. Where they differ, ``json`` and ``csv`` need the files, and a
file counts only while it still has the digest that its report gives.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop import canonical
from hloop.errors import first_of
from hloop.plan.model import CompareMode

if TYPE_CHECKING:
    import pandas as pd

MAX_POINTERS = 10
"""So many differing JSON pointers are named."""

_ABSENT = object()


class Verdict(StrEnum):
    """What a comparison found."""

    SAME = "same"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    """It cannot be told. Does not pass."""
    NOT_COMPARED = "not_compared"
    """The plan says not to."""

    @property
    def passes(self) -> bool:
        return self in (Verdict.SAME, Verdict.NOT_COMPARED)


@dataclass(frozen=True)
class Rule:
    """How a file is compared.

    Attributes:
        ignore: JSON pointers (RFC 6901) or column names that are left out.
    """

    mode: CompareMode = CompareMode.BYTES
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """One run's version of a file.

    Attributes:
        path: where it lies; None where that cannot be known.
        sha256: 64 hex digits, from the run's report; None where the report has none.
    """

    path: Path | None
    sha256: str | None


@dataclass(frozen=True)
class Finding:
    """What the comparison of one file gave.

    Attributes:
        reason: a sentence; "" where there is nothing to explain.
        details: ``columns`` (csv) or ``pointers`` and ``differences`` (json), for the report.
    """

    verdict: Verdict
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class _Unreadable(Exception):
    pass


def compare_file(rule: Rule, baseline: Version, candidate: Version) -> Finding:
    """Compare two versions of a file."""
    if rule.mode is CompareMode.NONE:
        return Finding(Verdict.NOT_COMPARED, "the plan says not to compare it")
    match baseline.sha256, candidate.sha256:
        case None, None:
            return Finding(Verdict.UNKNOWN, "neither report has its digest")
        case None, _:
            return Finding(Verdict.DIFFERS, "only the candidate's report has its digest")
        case _, None:
            return Finding(Verdict.DIFFERS, "only the baseline's report has its digest")
        case first, second if first == second:
            return Finding(Verdict.SAME)
    if rule.mode is CompareMode.BYTES:
        return Finding(Verdict.DIFFERS, "the bytes differ")
    try:
        contents = _read("baseline", baseline), _read("candidate", candidate)
        if rule.mode is CompareMode.JSON:
            return _compare_json(*contents, rule.ignore)
        return _compare_csv(*contents, rule.ignore)
    except _Unreadable as error:
        return Finding(Verdict.UNKNOWN, str(error))


def _read(side: str, version: Version) -> bytes:
    try:
        if version.path is None or not version.path.is_file():
            raise _Unreadable(f"the {side}'s file is not there")
        data = version.path.read_bytes()
    except OSError as error:
        raise _Unreadable(f"the {side}'s file cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != version.sha256:
        raise _Unreadable(f"the {side}'s file has not the digest that its report gives")
    return data


def _compare_json(baseline: bytes, candidate: bytes, ignore: Iterable[str]) -> Finding:
    return json_finding(_json("baseline", baseline), _json("candidate", candidate), ignore)


def _json(side: str, data: bytes) -> Any:
    try:
        return json.loads(data, object_pairs_hook=canonical.no_duplicates)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"the {side}'s file is not JSON: {error}") from error


def json_finding(baseline: Any, candidate: Any, ignore: Iterable[str] = ()) -> Finding:
    """Compare two JSON values but for what the pointers in ``ignore`` name.

    Keys have no order. Numbers are compared by value, so 1 equals 1.0; NaN, which Python
    writes, equals NaN. A boolean equals no number. A list keeps its indices: what is ignored
    at one index moves nothing else.
    """
    count = 0
    pointers: list[dict[str, str]] = []
    ignored = {_tokens(pointer) for pointer in ignore if pointer[:1] in ("", "/")}
    todo: list[tuple[tuple[str, ...], Any, Any]] = [((), baseline, candidate)]
    while todo:
        tokens, first, second = todo.pop()
        if tokens in ignored:
            continue
        if isinstance(first, dict) and isinstance(second, dict):
            names = sorted(first.keys() | second.keys(), reverse=True)
            todo += [
                ((*tokens, name), first.get(name, _ABSENT), second.get(name, _ABSENT))
                for name in names
            ]
        elif isinstance(first, list) and isinstance(second, list):
            todo += [
                ((*tokens, str(index)), _item(first, index), _item(second, index))
                for index in reversed(range(max(len(first), len(second))))
            ]
        elif not _equal(first, second):
            count += 1
            if len(pointers) < MAX_POINTERS:
                pointers.append(
                    {
                        "pointer": _pointer(tokens),
                        "baseline": _short(first),
                        "candidate": _short(second),
                    }
                )
    if not count:
        return Finding(Verdict.SAME)
    where = ", ".join(entry["pointer"] or "the whole" for entry in pointers[:3])
    more = f" and {count - 3} more" if count > 3 else ""
    return Finding(
        Verdict.DIFFERS,
        f"values differ at {where}{more}",
        {"differences": count, "pointers": pointers},
    )


def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def _pointer(tokens: Iterable[str]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


def _short(value: Any) -> str:
    """Give a value as JSON, cut to fit a line."""
    text = "absent" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _compare_csv(baseline: bytes, candidate: bytes, ignore: Iterable[str]) -> Finding:
    """Compare two tables cell by cell, but for the columns in ``ignore``.

    Cells of a column that holds only numbers are compared by value; empty cells and ``nan``
    are one and the same there. Other cells are compared as text. The order of rows and of
    columns counts.
    """
    ignored = set(ignore)
    first, second = _table("baseline", baseline), _table("candidate", candidate)
    names = [[name for name in table.iloc[0] if name not in ignored] for table in (first, second)]
    if names[0] != names[1]:
        return Finding(Verdict.DIFFERS, _other_columns(*names))
    if len(first) != len(second):
        return Finding(
            Verdict.DIFFERS,
            f"the baseline has {len(first) - 1} rows, the candidate {len(second) - 1}",
        )
    kept = [
        [column for column in table if table.at[0, column] not in ignored]
        for table in (first, second)
    ]
    columns = [
        _compare_column(name, first[left].iloc[1:], second[right].iloc[1:])
        for name, left, right in zip(names[0], *kept, strict=True)
    ]
    differing = [_describe(column) for column in columns if column["differing_cells"]]
    if not differing:
        return Finding(Verdict.SAME, details={"columns": columns})
    reason = f"values differ in {first_of(differing)}"
    return Finding(Verdict.DIFFERS, reason, {"columns": columns})


def _table(side: str, data: bytes) -> pd.DataFrame:
    """Read a CSV file as text, its header as row 0, so that no cell is guessed at."""
    import pandas as pd

    try:
        table = pd.read_csv(
            io.BytesIO(data), header=None, dtype=str, na_filter=False, skip_blank_lines=False
        )
    except ValueError as error:
        raise _Unreadable(f"the {side}'s file is not a CSV table: {error}") from error
    return table.fillna("")


def _other_columns(baseline: list[str], candidate: list[str]) -> str:
    parts = []
    if missing := [name for name in baseline if name not in candidate]:
        parts.append(f"only the baseline has the columns {', '.join(missing)}")
    if added := [name for name in candidate if name not in baseline]:
        parts.append(f"only the candidate has the columns {', '.join(added)}")
    return "; ".join(parts) or "the columns stand in another order or number"


def _compare_column(name: str, first: pd.Series[str], second: pd.Series[str]) -> dict[str, Any]:
    largest = None
    numbers = _numbers(first), _numbers(second)
    if numbers[0] is not None and numbers[1] is not None:
        equal = (numbers[0] == numbers[1]) | (numbers[0].isna() & numbers[1].isna())
        distances = (numbers[0] - numbers[1]).abs()[~equal].dropna()
        largest = float(distances.max()) if len(distances) else (0.0 if equal.all() else None)
    else:
        equal = first == second
    differing = equal.index[~equal]
    return {
        "column": name,
        # A number against NaN has no distance, one against infinity no finite one.
        "max_abs_difference": largest if largest is not None and math.isfinite(largest) else None,
        "differing_cells": len(differing),
        "first_row": int(differing[0]) if len(differing) else None,
    }


def _describe(column: Mapping[str, Any]) -> str:
    distance = column["max_abs_difference"]
    return str(column["column"]) + ("" if distance is None else f" (by up to {distance:g})")


def _numbers(cells: pd.Series[str]) -> pd.Series[float] | None:
    """Give a column's cells as numbers, or None if one of them is none."""
    import pandas as pd

    text = cells.str.strip()
    empty = text.str.lower().isin(["", "nan"])
    numbers = pd.to_numeric(text.mask(empty), errors="coerce")
    return None if bool((numbers.isna() & ~empty).any()) else numbers
