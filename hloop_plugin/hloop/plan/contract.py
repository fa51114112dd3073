"""The contract of a file format: its JSON Schema, and what breaks it, in hloop's words.

The schemas lie in ``schemas/``. jsonschema finds what is wrong. Because it needs seconds for
a plan of thousands of jobs, a quick check that is made from the same schema goes before it
and says yes where nothing is wrong; it never says what is. Plans and configurations of
workloads are held against their schemas here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from hloop.errors import Problem
from hloop.files import data_dir
from hloop.plan.document import child
from hloop.plan.wording import problems_of, show

Schema = Mapping[str, Any]
Check = Callable[[Any], bool]


def format_problems(document: Any, name: str) -> list[Problem]:
    """Give everything in ``document``, as it was read, that has no place in its format.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    # The schema cannot see these; where a key is no text it cannot be asked at all.
    problems = list(_value_problems(document, ""))
    if any(problem.code == "key_not_text" for problem in problems):
        return problems
    return problems + schema_problems(document, name)


def schema_problems(document: Any, name: str) -> list[Problem]:
    """Give everything in ``document`` that breaks the schema ``schemas/<name>.schema.json``.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    if _accepts(name)(document):
        return []
    problems = dict.fromkeys(
        problem
        for error in _validator(name).iter_errors(document)
        for problem in problems_of(error)
    )
    return list(problems)


def _value_problems(value: Any, where: str) -> Iterator[Problem]:
    """Find what has no place in JSON: YAML, and JSON as Python reads it, know more."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _text_problems(key, where)
                yield from _value_problems(item, child(where, key))
            else:
                action = f'Put it in quotes: "{key}"'
                yield Problem("key_not_text", where, f"the key {key!r}", "text as a key", action)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_problems(item, child(where, index))
    elif isinstance(value, str):
        yield from _text_problems(value, where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem("not_finite", where, f"the number {value}", "a finite number")
    elif value is not None and not isinstance(value, int):
        yield Problem("wrong_type", where, f"{show(value)} stands here", "a value that JSON has")


def _text_problems(text: str, where: str) -> Iterator[Problem]:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            yield Problem("bad_text", where, f"{show(text)} does not do", "valid Unicode")


@cache
def _schema(name: str) -> Schema:
    text = (data_dir("schemas") / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator, validators

    checks: dict[int, Check] = {}

    def items(validator: Any, schema: Schema, instance: Any, _: Schema) -> Iterator[Any]:
        # As jsonschema has it, but an item in which nothing is wrong costs next to nothing.
        if isinstance(instance, list):
            check = checks.get(id(schema)) or checks.setdefault(id(schema), quick_check(schema))
            for index, item in enumerate(instance):
                if not check(item):
                    yield from validator.descend(item, schema, path=index)

    # To JSON Schema 1.0 is an integer; to whoever reads the published format it is not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    extend: Any = validators.extend
    return extend(Draft202012Validator, {"items": items}, type_checker=types)(_schema(name))


# The quick check


@cache
def _accepts(name: str) -> Check:
    return quick_check(_schema(name))


class _Unsupported(Exception):
    """The schema has a keyword that the quick check does not know."""


def quick_check(schema: Schema) -> Check:
    """Make a function that says True only where jsonschema would find nothing.

    False means nothing: it is the answer to every value where the schema has a keyword that
    this check does not know.
    """
    try:
        return _compile(schema)
    except _Unsupported:
        return lambda value: False


_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_NOTES = {"$schema", "$id", "title", "description", "default"}
_KNOWN = _NOTES | {
    *("type", "const", "enum", "pattern", "minLength", "minItems", "items"),
    *("minimum", "exclusiveMinimum", "maximum"),
    *("properties", "required", "additionalProperties", "patternProperties"),
}


def _compile(schema: Schema) -> Check:
    if schema.keys() - _KNOWN or schema.get("additionalProperties", False) is not False:
        raise _Unsupported
    names = schema.get("type", list(_TYPES))
    names = [names] if isinstance(names, str) else names
    # Exact types: a boolean is no int here.
    types = {_TYPES[name] for name in names if name != "number"}
    types |= {int, float} if "number" in names or "type" not in schema else set()
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is not None:
        if not all(isinstance(value, str) for value in allowed):
            raise _Unsupported
        return lambda value: type(value) is str and value in allowed
    text, number = _compile_text(schema), _compile_number(schema)
    array, mapping = _compile_list(schema), _compile_mapping(schema)

    def check(value: Any) -> bool:
        kind = type(value)
        if kind not in types:
            return False
        if kind is str:
            return text(value)
        if kind is dict:
            return mapping(value)
        if kind is list:
            return array(value)
        return number(value) if kind is int or kind is float else True

    return check


def _compile_text(schema: Schema) -> Check:
    shortest = schema.get("minLength", 0)
    search = re.compile(schema.get("pattern", "")).search
    return lambda value: len(value) >= shortest and search(value) is not None


def _compile_number(schema: Schema) -> Check:
    lowest, highest = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above = schema.get("exclusiveMinimum")
    return lambda value: lowest <= value <= highest and (above is None or value > above)


def _compile_list(schema: Schema) -> Check:
    shortest = schema.get("minItems", 0)
    if "items" not in schema:
        return lambda value: len(value) >= shortest
    item = _compile(schema["items"])
    return lambda value: len(value) >= shortest and all(map(item, value))


def _compile_mapping(schema: Schema) -> Check:
    properties = {key: _compile(sub) for key, sub in schema.get("properties", {}).items()}
    patterns = [
        (re.compile(pattern).search, _compile(sub))
        for pattern, sub in schema.get("patternProperties", {}).items()
    ]
    required = frozenset(schema.get("required", ()))
    closed = "additionalProperties" in schema

    def check(value: dict[Any, Any]) -> bool:
        if not required <= value.keys():
            return False
        for key, item in value.items():
            subs = [properties[key]] if key in properties else []
            if patterns:
                subs += [sub for search, sub in patterns if type(key) is str and search(key)]
            if not (all(sub(item) for sub in subs) if subs else not closed):
                return False
        return True

    return check
