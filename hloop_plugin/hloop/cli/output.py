"""How every command prints: tables for people, JSON for programs, errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from hloop.errors import HloopError


def print_json(value: Any) -> None:
    """Print one JSON document to stdout."""
    # JSON has escapes of its own for what another encoding lacks.
    escape = (sys.stdout.encoding or "").lower() != "utf-8"
    print(json.dumps(value, indent=2, ensure_ascii=escape))


def print_warnings(warnings: Iterable[str]) -> None:
    """Print what may not be meant to stderr."""
    for warning in warnings:
        print(f"hloop: {warning}", file=sys.stderr)


def print_error(error: HloopError, *, as_json: bool) -> None:
    """Print an error: to stderr for people, and as a JSON document to stdout for programs."""
    if as_json:
        print_json(error.to_dict())
    print(f"hloop: {error}", file=sys.stderr)
