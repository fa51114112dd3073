"""What breaks a JSON Schema, in hloop's words: found, expected, what to do."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from hloop.errors import Problem
from hloop.plan.document import child

_WORDS = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}

# What a pattern means: the problem's code, and what it asks for.
_PATTERNS = {
    r"^[^\u0000]*$": ("bad_text", "text without a NUL character"),
    r"^[0-9a-f]{64}$": ("bad_digest", "64 lowercase hex digits, as sha256sum prints them"),
    r"^(0|[1-9][0-9]{0,4})$": ("device_not_one_index", 'one logical device as text, e.g. "0"'),
}


def problems_of(error: Any) -> Iterator[Problem]:
    """Say what one ``jsonschema.ValidationError`` means; often it is one problem."""
    keyword, asked, value = error.validator, error.validator_value, error.instance
    where = ""
    for key in error.absolute_path:
        where = child(where, key)
    if "propertyNames" in error.absolute_schema_path:
        yield _bad_name(child(where, value), value, asked if keyword == "pattern" else "")
    elif keyword == "additionalProperties":
        yield from _unknown_keys(error, where)
    elif keyword == "required":
        for key in asked:
            if key not in value:
                action = "Add it"
                if close := difflib.get_close_matches(key, map(str, _unknown(error)), 1):
                    action = f"Rename {close[0]!r}"
                yield Problem("missing_key", where, f"the key {key!r} is missing", action=action)
    elif keyword == "type":
        yield _wrong_type(where, value, [asked] if isinstance(asked, str) else asked)
    elif keyword in ("enum", "const"):
        allowed = asked if keyword == "enum" else [asked]
        close = difflib.get_close_matches(str(value).lower(), map(str, allowed), 1)
        yield Problem(
            code="not_allowed",
            where=where,
            found=f"{show(value)} is not allowed",
            expected=" or ".join(map(str, allowed)),
            action=f"Did you mean {close[0]!r}?" if close and keyword == "enum" else "",
        )
    elif keyword == "pattern":
        code, expected = _PATTERNS.get(asked, ("bad_text", f"text that matches {asked}"))
        yield Problem(code, where, f"{show(value)} does not do", expected)
    elif keyword in ("minLength", "minItems", "minProperties") and asked == 1:
        kind = {"minLength": "text", "minItems": "list", "minProperties": "mapping"}[keyword]
        yield Problem("empty", where, f"the {kind} is empty", "one that holds something")
    elif keyword in ("minimum", "exclusiveMinimum"):
        expected = f"{asked} or more" if keyword == "minimum" else f"more than {asked}"
        yield Problem("too_small", where, f"{show(value)} is too small", expected)
    elif keyword == "maximum":
        if value != math.inf:  # That it is no number is said elsewhere.
            yield Problem("too_large", where, f"{show(value)} is too large", f"{asked} or less")
    elif keyword == "contains" and "const" in asked:
        yield Problem("lacking", where, f"the list lacks {asked['const']!r}", action="Add it")
    elif keyword == "uniqueItems":
        yield Problem("listed_twice", where, "an entry stands twice in the list", "each once")
    else:
        yield Problem("not_allowed", where, error.message)


def _bad_name(where: str, key: object, pattern: str) -> Problem:
    expected = f"a name that matches {pattern}" if pattern else ""
    return Problem("bad_name", where, f"the key {key!r} does not do as a name", expected)


def _unknown(error: Any) -> list[Any]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    return [
        key
        for key in error.instance
        if key not in known and not any(re.search(pattern, str(key)) for pattern in patterns)
    ]


def _unknown_keys(error: Any, where: str) -> Iterator[Problem]:
    known = list(error.schema.get("properties", {}))
    for key in _unknown(error):
        at = child(where, key)
        if not known:
            yield _bad_name(at, key, next(iter(error.schema.get("patternProperties", {})), ""))
            continue
        missing = [name for name in known if name not in error.instance]
        close = difflib.get_close_matches(str(key), missing, 1) or difflib.get_close_matches(
            str(key), known, 1
        )
        yield Problem(
            code="unknown_key",
            where=at,
            found=f"the key {key!r} is unknown",
            expected="" if close else f"one of {', '.join(known)}",
            action=f"Did you mean {close[0]!r}?" if close else "",
        )


def _wrong_type(where: str, value: Any, types: list[str]) -> Problem:
    number = isinstance(value, int | float)
    action = ""
    if number and "string" in types:
        action = f"Put it in quotes, e.g. {json.dumps(_plain(value))}"
    elif isinstance(value, float) and "integer" in types and value.is_integer():
        action = f"Write {int(value)}, without a decimal point"
    elif isinstance(value, str) and re.fullmatch(r"-?[0-9.]+", value):
        action = "Leave the quotes out"
    elif value is None:
        action = "Give a value, or leave the key out"
    return Problem(
        code="not_an_integer" if number and "integer" in types else "wrong_type",
        where=where,
        found=f"{show(value)} stands here",
        expected=" or ".join(_WORDS[name] for name in types),
        action=action,
    )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show(value: Any) -> str:
    """Name a value and its kind, in a few words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the truth value {_plain(value)}"
    if isinstance(value, int):
        return f"the integer {value}"
    if isinstance(value, float):
        return f"the decimal number {value!r}"
    if isinstance(value, str):
        return f"the text {value[:60] + '…' if len(value) > 60 else value!r}"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"
