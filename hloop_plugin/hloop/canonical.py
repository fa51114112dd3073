"""Canonical JSON: one value, one sequence of bytes.

Records are what RFC 8785 gives, and one final newline: UTF-8, keys sorted by their UTF-16 code
units, ``,`` and ``:`` without blanks. They hold no floats, integers within ±(2^53 - 1) only and
no key twice. The reader refuses everything else, so that a digest over the bytes is a digest
over the value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

MAX_INTEGER = 2**53 - 1

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode
_encode_in_given_order = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":")
).encode


class CanonicalError(ValueError):
    """A value that has no canonical form, or bytes that are not in it."""


def dumps(value: Any) -> bytes:
    """Give the canonical bytes of ``value``.

    Raises:
        CanonicalError: for a float, an integer out of range, a key that is no string, a
            string that is not valid Unicode, a type that JSON does not have, or a value
            that is nested too deeply to be read.
    """
    try:
        _check(value, None)
        text = _encode(value)
        if not text.isascii():
            # Python sorts by code points: U+FFFF before U+10000, which starts with 0xD800.
            text = _encode_in_given_order(_sorted(value))
    except RecursionError:
        raise CanonicalError("nested too deeply") from None
    return text.encode() + b"\n"


def loads(data: bytes) -> Any:
    """Read canonical bytes.

    Raises:
        CanonicalError: if ``data`` is not exactly what :func:`dumps` gives for its value.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=no_duplicates)
    except CanonicalError:
        raise
    except RecursionError:
        raise CanonicalError("nested too deeply") from None
    except ValueError as error:  # Of the decoder, the parser, or an integer of 4300 digits.
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


# Where a value stands: the way to what holds it, and a key or an index; None at the top.
_Way: TypeAlias = "tuple[_Way, str | int] | None"


def _check(value: Any, way: _Way) -> None:
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _refuse(way, "a string that is not valid Unicode") from None
    elif value is None or isinstance(value, bool):
        pass
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise _refuse(way, "an integer beyond ±(2^53 - 1)")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refuse(way, f"the key {key!r} is not a string")
            _check(key, way)
            _check(item, (way, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, (way, index))
    elif isinstance(value, float):
        raise _refuse(way, f"the float {value!r}; records hold integers only")
    else:
        raise _refuse(way, f"{type(value).__name__} has no place in JSON")


def _refuse(way: _Way, found: str) -> CanonicalError:
    where = ""
    while way is not None:
        way, step = way
        where = (f".{step}" if isinstance(step, str) else f"[{step}]") + where
    return CanonicalError(f"{where or '.'}: {found}")


def _sorted(value: Any) -> Any:
    """Give ``value`` with the keys of its objects in the order of RFC 8785, section 3.2.3."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _sorted(value[key]) for key in keys}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value
