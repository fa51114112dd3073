"""Plan and configuration files become plain values: dict, list, str, int, float, bool, None.

YAML and JSON are read here and nowhere else. A key that stands twice is found, and so is a
YAML scalar that different YAML readers read differently (``012``, ``yes``, ``1e3``, a date):
it is refused, never guessed. This module knows nothing of what a document means.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from hloop.errors import PlanError, Problem

MAX_DEPTH = 100
"""How deep lists and mappings may be nested."""
MAX_NODES = 10_000_000
"""How many values a YAML document may have once its aliases are followed."""

_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
# The numbers of YAML 1.2; those of YAML 1.1 are in PyYAML's own tables.
_NUMBER_1_2 = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)


def child(where: str, key: str | int) -> str:
    """Give the dotted path of an entry: ``jobs[3].outputs[0].path``."""
    if isinstance(key, int):
        return f"{where}[{key}]"
    if key.isidentifier() or re.fullmatch(r"[\w-]+", key):
        return f"{where}.{key}" if where else key
    return f"{where}[{json.dumps(key)}]"


def parse_document(path: str | os.PathLike[str]) -> Any:
    """Read a YAML or JSON file.

    A name that ends in ``.json`` says JSON. In any other file the content says it: what
    begins with ``{`` and is valid JSON is read as JSON, everything else as YAML.

    Raises:
        PlanError: the file cannot be read, has an error of syntax (with its line), a key
            twice, or a scalar that YAML readers do not agree on.
    """
    value, problems = read_document(path)
    if problems:
        raise PlanError(problems, file=path)
    return value


def read_document(path: str | os.PathLike[str]) -> tuple[Any, list[Problem]]:
    """Read a YAML or JSON file, and give what is wrong with it beside its value.

    Raises:
        PlanError: the file cannot be read, or has an error of syntax.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        found = f"the file cannot be read: {error.strerror}"
        raise PlanError(Problem("unreadable", "", found), file=path) from None
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is not UTF-8"
        raise PlanError(Problem("not_utf8", "", found, "text in UTF-8"), file=path) from None
    try:
        if os.fspath(path).endswith(".json"):
            return _read_json(text)
        if text.lstrip().startswith("{"):
            try:
                return _read_json(text)
            except _Broken:
                pass
        return _read_yaml(text)
    except _Broken as error:
        raise PlanError(error.problem, file=path) from None
    except RecursionError:
        raise PlanError(_too_deep(""), file=path) from None


class _Broken(Exception):
    """The text gives no value at all."""

    def __init__(self, problem: Problem):
        self.problem = problem
        super().__init__(problem)


def _too_deep(where: str) -> Problem:
    return Problem("too_deep", where, "lists and mappings are nested too deeply")


def _twice(where: str, key: str | int, line: str = "") -> Problem:
    return Problem(
        code="duplicate_key",
        where=where,
        found=f"{line}the key {key!r} stands twice in one mapping",
        action="Keep one of the two",
    )


# JSON


def _read_json(text: str) -> tuple[Any, list[Problem]]:
    twice: list[tuple[dict[str, Any], list[str]]] = []

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            keys = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
            twice.append((value, keys))
        return value

    try:
        value = json.loads(text, object_pairs_hook=make)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _Broken(Problem("syntax_error", where, f"not JSON: {error.msg}")) from None
    except ValueError as error:
        raise _Broken(Problem("syntax_error", "", f"not JSON: {error}")) from None
    if not twice:
        return value, []
    places = {id(item): where for where, item in _walk(value, "")}
    return value, [
        _twice(child(places.get(id(item), ""), key), key) for item, keys in twice for key in keys
    ]


def _walk(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield where, value
        for key, item in value.items():
            yield from _walk(item, child(where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, child(where, index))


# YAML


def _read_yaml(text: str) -> tuple[Any, list[Problem]]:
    import yaml

    try:
        reader = _YamlReader(text)
        return reader.document(), reader.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _Broken(Problem("syntax_error", where, f"not YAML: {error.problem}")) from None
    except yaml.YAMLError as error:
        found = f"not YAML: {str(error).splitlines()[0]}"
        raise _Broken(Problem("syntax_error", "", found)) from None


class _YamlReader:
    """Builds values from the parser's events: three times as fast as PyYAML's own way."""

    def __init__(self, text: str):
        import yaml

        # libyaml is there in every published wheel of PyYAML.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events = iter(yaml.parse(text, Loader=loader))
        self._kinds = yaml.events
        self._implicit = yaml.SafeLoader.yaml_implicit_resolvers
        # By anchor: the value, and how many values it holds.
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self.problems: list[Problem] = []

    def document(self) -> Any:
        next(self._events)
        if isinstance(next(self._events), self._kinds.StreamEndEvent):
            return None
        value = self._value(next(self._events), "", 0)
        next(self._events)
        if isinstance(event := next(self._events), self._kinds.DocumentStartEvent):
            found = "a second document begins here"
            raise _Broken(Problem("syntax_error", _line(event), found, "one document"))
        return value

    def _value(self, event: Any, where: str, depth: int) -> Any:
        kinds = self._kinds
        kind = type(event)
        if kind is kinds.AliasEvent:
            return self._alias(event)
        before = self._nodes
        self._nodes += 1
        if kind is kinds.ScalarEvent:
            value = self._scalar(event, where)
        elif depth == MAX_DEPTH:
            raise _Broken(_too_deep(_line(event)))
        else:
            self._check_tag(event, where)
            if kind is kinds.MappingStartEvent:
                value = self._mapping(where, depth)
            else:
                value = []
                while type(event_ := next(self._events)) is not kinds.SequenceEndEvent:
                    value.append(self._value(event_, f"{where}[{len(value)}]", depth + 1))
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before)
        return value

    def _alias(self, event: Any) -> Any:
        # An anchor is known from its end on, so a value can never hold itself.
        if event.anchor not in self._anchors:
            found = f"*{event.anchor} stands for nothing that ends above it"
            raise _Broken(Problem("syntax_error", _line(event), found))
        value, nodes = self._anchors[event.anchor]
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            found = f"with its aliases followed, the document has more than {MAX_NODES} values"
            raise _Broken(Problem("too_many_values", _line(event), found))
        return value

    def _mapping(self, where: str, depth: int) -> dict[Any, Any]:
        value: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        while type(event := next(self._events)) is not self._kinds.MappingEndEvent:
            if (
                type(event) is self._kinds.ScalarEvent
                and event.value == "<<"
                and event.implicit[0]
            ):
                merged = self._merge(where, depth)
                continue
            key = self._key(event, where, depth)
            at = child(where, key)
            item = self._value(next(self._events), at, depth + 1)
            if key in value:
                self.problems.append(_twice(at, key, f"{_line(event)}: "))
            value[key] = item
        return {**merged, **value} if merged else value

    def _key(self, event: Any, where: str, depth: int) -> str | int:
        key = self._value(event, where, depth + 1)
        if isinstance(key, str | int) and not isinstance(key, bool):
            return key
        self.problems.append(
            Problem("key_not_text", where, f"{_line(event)}: a key that is not text", "text")
        )
        return str(key)

    def _merge(self, where: str, depth: int) -> dict[Any, Any]:
        event = next(self._events)
        source = self._value(event, child(where, "<<"), depth + 1)
        sources = source if isinstance(source, list) else [source]
        if not all(isinstance(item, dict) for item in sources):
            found = "<< takes a mapping, or a list of mappings"
            raise _Broken(Problem("syntax_error", _line(event), found))
        return {key: item for source in reversed(sources) for key, item in source.items()}

    def _check_tag(self, event: Any, where: str) -> None:
        if event.tag not in (None, "!"):
            found = f"{_line(event)}: the tag {event.tag} is not supported"
            self.problems.append(Problem("tag", where, found, action="Leave the tag out"))

    def _scalar(self, event: Any, where: str) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            if event.tag != "tag:yaml.org,2002:str":
                self._check_tag(event, where)
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        tables = self._implicit.get(text[0], ())
        if any(regexp.match(text) for _, regexp in tables) or _NUMBER_1_2.fullmatch(text):
            self.problems.append(
                Problem(
                    code="ambiguous_scalar",
                    where=where,
                    found=f"{_line(event)}: YAML readers do not agree on what {text} is",
                    expected="a plain decimal number, true or false, or text in quotes",
                    action=f'If it is text, write "{text}"',
                )
            )
        return text


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"
