"""Compares the rows of two paths: which are missing, and where equal ones are not equal.

Rows are a multiset, keyed by their identity; their order says nothing. Values are compared bit
for bit unless a tolerance was registered for their field. Pure: reads no file, but for
:func:`read_rows`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import Problem, ReportError

Row = Mapping[str, Any]

_ABSENT = object()


@dataclass(frozen=True)
class RowRules:
    """How rows are compared.

    Attributes:
        identity: the fields that say which row it is.
        ignore: fields that are left out, each with its reason.
        tolerances: largest absolute difference of the numbers in a field; else none.
    """

    identity: tuple[str, ...]
    ignore: Mapping[str, str]
    tolerances: Mapping[str, float]


@dataclass(frozen=True)
class Difference:
    """One field of one row that is not the same.

    Attributes:
        identity: of the row.
        where: the first place that differs, as ``rewards[3]`` or ``counts.falls``.
        reason: what stands there.
        first_step: in a list, the first entry that differs, from 1; else None.
        largest: the largest absolute difference of two finite numbers at the same place of
            both; None where there are none.
    """

    identity: dict[str, Any]
    field: str
    where: str
    reason: str
    first_step: int | None
    largest: float | None


@dataclass(frozen=True)
class Surplus:
    """An identity that one path has more often than the other."""

    identity: dict[str, Any]
    baseline: int
    candidate: int


@dataclass(frozen=True)
class RowsComparison:
    """What a comparison of rows found.

    Attributes:
        baseline, candidate: how many rows each has.
        identical: rows without a difference.
        missing: the candidate has fewer of them.
        unexpected: the baseline has none of them.
        duplicate: the baseline has some, the candidate more.
        differences: by row, then field.
    """

    baseline: int
    candidate: int
    identical: int
    missing: tuple[Surplus, ...]
    unexpected: tuple[Surplus, ...]
    duplicate: tuple[Surplus, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        return not (self.missing or self.unexpected or self.duplicate or self.differences)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_rows(path: Path, identity: Sequence[str]) -> list[Row]:
    """Read a file of rows, one JSON object per line. NaN and infinities are values.

    Raises:
        ReportError: it cannot be read, is no such file, or a row lacks its identity.
    """
    rows: list[Row] = []
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
        for number, line in enumerate(text.split("\n") if text else (), start=1):
            row = json.loads(line, object_pairs_hook=canonical.no_duplicates)
            if not isinstance(row, dict) or (lacks := [n for n in identity if n not in row]):
                what = f"lacks {', '.join(lacks)}" if isinstance(row, dict) else "is no object"
                raise ValueError(f"line {number} {what}")
            rows.append(row)
    except (OSError, ValueError, RecursionError) as error:
        expected = "one JSON object per line, each with its identity"
        raise ReportError(Problem("bad_rows", "", str(error), expected), file=path) from error
    return rows


def compare_rows(
    baseline: Sequence[Row], candidate: Sequence[Row], rules: RowRules
) -> RowsComparison:
    """Compare two multisets of rows."""
    first, second = _by_identity(baseline, rules), _by_identity(candidate, rules)
    missing, unexpected, duplicate = [], [], []
    differences: list[Difference] = []
    identical = 0
    for key in dict.fromkeys([*first, *second]):
        ours, theirs = first.get(key, []), second.get(key, [])
        shown = {name: (ours or theirs)[0][name] for name in rules.identity}
        surplus = Surplus(shown, len(ours), len(theirs))
        if len(theirs) < len(ours):
            missing.append(surplus)
        elif not ours:
            unexpected.append(surplus)
        elif len(theirs) > len(ours):
            duplicate.append(surplus)
        for row, other in _pairs(ours, theirs, rules):
            found = list(_row_differences(row, other, shown, rules))
            differences += found
            identical += not found
    return RowsComparison(
        baseline=len(baseline),
        candidate=len(candidate),
        identical=identical,
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        duplicate=tuple(duplicate),
        differences=tuple(differences),
    )


def _by_identity(rows: Sequence[Row], rules: RowRules) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        key = json.dumps([row[name] for name in rules.identity], sort_keys=True)
        found.setdefault(key, []).append(row)
    return found


def _pairs(ours: list[Row], theirs: list[Row], rules: RowRules) -> Iterator[tuple[Row, Row]]:
    """Pair the rows of one identity: those that are the same first, the others in order."""
    rest, others = [], list(theirs)
    for row in ours:
        same = next((o for o in others if not [*_row_differences(row, o, {}, rules)]), None)
        if same is None:
            rest.append(row)
        else:
            others = [other for other in others if other is not same]
            yield row, same
    yield from zip(rest, others, strict=False)


def _row_differences(
    row: Row, other: Row, identity: dict[str, Any], rules: RowRules
) -> Iterator[Difference]:
    for name in sorted(row.keys() | other.keys()):
        if name in rules.ignore or name in rules.identity:
            continue
        values = row.get(name, _ABSENT), other.get(name, _ABSENT)
        tolerance = rules.tolerances.get(name)
        places = list(_places(*values, name, tolerance))
        differing = [(where, reason) for where, reason, _ in places if reason is not None]
        if not differing:
            continue
        where, reason = differing[0]
        yield Difference(
            identity=identity,
            field=name,
            where=where,
            reason=reason,
            first_step=_first_step(*values, tolerance),
            largest=max((d for _, _, d in places if d is not None), default=None),
        )


def _first_step(ours: Any, theirs: Any, tolerance: float | None) -> int | None:
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return None
    for number, pair in enumerate(zip(ours, theirs, strict=False), start=1):
        if any(reason is not None for _, reason, _ in _places(*pair, "", tolerance)):
            return number
    return min(len(ours), len(theirs)) + 1


def _places(
    ours: Any, theirs: Any, where: str, tolerance: float | None
) -> Iterator[tuple[str, str | None, float | None]]:
    """Give every place, what differs there, and how far two finite numbers are apart.

    Without recursion: values may be nested as deep as JSON allows.
    """
    rest = [(where, ours, theirs)]
    while rest:
        where, ours, theirs = rest.pop()
        if isinstance(ours, dict) and isinstance(theirs, dict):
            for key in sorted(ours.keys() | theirs.keys(), reverse=True):
                rest.append((f"{where}.{key}", ours.get(key, _ABSENT), theirs.get(key, _ABSENT)))
        elif isinstance(ours, list) and isinstance(theirs, list):
            if len(ours) != len(theirs):
                rest.append((where, _Length(len(ours)), _Length(len(theirs))))
            for index in reversed(range(min(len(ours), len(theirs)))):
                rest.append((f"{where}[{index}]", ours[index], theirs[index]))
        elif _same(ours, theirs, tolerance):
            yield where, None, _distance(ours, theirs)
        else:
            yield where, f"{_show(ours)} against {_show(theirs)}", _distance(ours, theirs)


@dataclass(frozen=True)
class _Length:
    """Stands for the rest of two lists of unequal length."""

    values: int


def _same(ours: Any, theirs: Any, tolerance: float | None) -> bool:
    if ours is _ABSENT or theirs is _ABSENT:
        return False
    numbers = _is_number(ours) and _is_number(theirs)
    if tolerance is not None and numbers and abs(ours - theirs) <= tolerance:
        return True
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        return struct.pack(">d", ours) == struct.pack(">d", theirs)
    return bool(ours == theirs)


def _distance(ours: Any, theirs: Any) -> float | None:
    if not (_is_number(ours) and _is_number(theirs)):
        return None
    distance = float(abs(ours - theirs))
    return distance if math.isfinite(distance) else None


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        # Beyond that it is no float, and has no distance from one.
        return value.bit_length() < 1000
    return isinstance(value, float)


def _show(value: Any) -> str:
    if isinstance(value, _Length):
        return f"{value.values} values"
    text = "nothing" if value is _ABSENT else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
