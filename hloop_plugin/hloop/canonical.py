"""Canonical JSON: one value, one sequence of bytes.

Records are UTF-8, with sorted keys, ``,`` and ``:`` without blanks, one final newline, no
floats, integers within ±(2^53 - 1) and no key twice. The reader refuses everything else, so
that a digest over the bytes is a digest over the value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAX_INTEGER = 2**53 - 1


class CanonicalError(ValueError):
    """A value that has no canonical form, or bytes that are not in it."""


def dumps(value: Any) -> bytes:
    """Give the canonical bytes of ``value``.

    Raises:
        CanonicalError: for a float, an integer out of range, a key that is no string, a
            string that is not valid Unicode, or a type that JSON does not have.
    """
    _check(value, "")
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode() + b"\n"


def loads(data: bytes) -> Any:
    """Read canonical bytes.

    Raises:
        CanonicalError: if ``data`` is not exactly what :func:`dumps` gives for its value.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=no_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CanonicalError(f"not JSON in UTF-8: {error}") from error
    if dumps(value) != data:
        raise CanonicalError("JSON, but not in canonical form")
    return value


def digest(value: Any) -> str:
    """Give ``sha256:<hex>`` over the canonical bytes of ``value``."""
    return "sha256:" + hashlib.sha256(dumps(value)).hexdigest()


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of JSON pairs; for ``json.loads(object_pairs_hook=...)``.

    Raises:
        CanonicalError: if a key stands twice.
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise CanonicalError(f"the key {twice!r} stands twice in one object")
    return value


def _check(value: Any, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise CanonicalError(f"{where or '.'}: a string that is not valid Unicode") from error
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise CanonicalError(f"{where or '.'}: the integer {value} is beyond ±(2^53 - 1)")
    elif isinstance(value, float):
        raise CanonicalError(f"{where or '.'}: the float {value!r}; records hold integers only")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CanonicalError(f"{where or '.'}: the key {key!r} is not a string")
            _check(key, where)
            _check(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]")
    else:
        raise CanonicalError(f"{where or '.'}: {type(value).__name__} has no place in JSON")
