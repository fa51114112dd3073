"""Placeholders of workloads: ``<name>`` is filled in when a plan is made.

They leave the plan's own templates, ``{repo_root}`` and ``{run_dir}``, alone. ``<<name>>``
gives a literal ``<name>``; any other ``<`` stays as it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hloop.errors import Problem

Scalar = str | int | float | bool

_PLACEHOLDER = re.compile(r"<<(?P<literal>[A-Za-z_][\w.-]*)>>|<(?P<name>[A-Za-z_][\w.-]*)>", re.A)


@dataclass(frozen=True)
class Scope:
    """The names that are known at one place of a workload.

    Attributes:
        values: what each dotted name stands for.
        reasons: names that are known, but not here, with what to do about it.
    """

    values: Mapping[str, Scalar]
    reasons: Mapping[str, str] = field(default_factory=dict)

    def extended(
        self, values: Mapping[str, Scalar], reasons: Mapping[str, str] | None = None
    ) -> Scope:
        """Give a scope that knows more. What is known now is no longer refused."""
        refused = {**self.reasons, **(reasons or {})}
        known = {**self.values, **values}
        return Scope(known, {name: why for name, why in refused.items() if name not in known})


class PlaceholderFiller:
    """Fills in placeholders and collects what is wrong.

    One place of a workload is filled in for many jobs; what is wrong there is told once, for
    the first of them.
    """

    def __init__(self) -> None:
        self._problems: dict[tuple[str, ...], Problem] = {}

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def add(self, problem: Problem, *key: str) -> None:
        """Add a problem, unless there is one of its code, place and ``key``."""
        self._problems.setdefault((problem.code, problem.where, *key), problem)

    def value(self, template: Scalar, scope: Scope, where: str) -> Scalar:
        """Fill in one value. A text that is one placeholder takes the type of its value."""
        if not isinstance(template, str):
            return template
        whole = _PLACEHOLDER.fullmatch(template)
        if whole and whole["name"]:
            return self._look_up(whole["name"], scope, where)
        return _PLACEHOLDER.sub(
            lambda match: (
                f"<{match['literal']}>"
                if match["literal"]
                else as_text(self._look_up(match["name"], scope, where))
            ),
            template,
        )

    def text(self, template: Scalar, scope: Scope, where: str) -> str:
        """Fill in one value and give it as text."""
        return as_text(self.value(template, scope, where))

    def _look_up(self, name: str, scope: Scope, where: str) -> Scalar:
        if name in scope.values:
            return scope.values[name]
        found = f"the placeholder <{name}> is not known here"
        if name in scope.reasons:
            action = scope.reasons[name]
        elif close := difflib.get_close_matches(name, [*scope.values, *scope.reasons], 1):
            action = f"Did you mean <{close[0]}>? A literal text is written <<{name}>>"
        else:
            known = ", ".join(f"<{known}>" for known in sorted(scope.values)) or "none"
            action = f"Known here: {known}. A literal text is written <<{name}>>"
        self.add(Problem("unknown_placeholder", where, found, action=action), name)
        return ""


def as_text(value: Scalar) -> str:
    """Give a value as YAML would read it back: ``true`` and not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
