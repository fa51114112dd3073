"""What every program here does alike: refuse bad input, read JSON, leave no half file.

Exit codes: 0 done, 2 the input is bad (a sentence on stderr says what and where), 130 Ctrl-C. A
traceback is a bug.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class InputError(Exception):
    """Something that the one who starts the program can mend; the text is a sentence."""


def run(main: Callable[[], None]) -> NoReturn:
    """Call ``main`` and exit: 0 when it returns, 2 with a sentence when its input is bad."""
    program = Path(sys.argv[0]).name
    try:
        main()
    except InputError as error:
        sys.exit(_say(f"{program}: error: {error}"))
    except OSError as error:
        sys.exit(_say(f"{program}: error: {error}"))
    except KeyboardInterrupt:
        _say(f"{program}: interrupted")
        sys.exit(130)
    except ModuleNotFoundError as error:
        sys.exit(
            _say(f"{program}: error: {error.name} is not installed. Install hloop's extra 'demo'")
        )
    sys.exit(0)


def _say(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Give a program's parser, with its docstring as the text around the options."""
    description, _, epilog = (doc or "").partition("\n\n")
    return argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def natural(text: str) -> int:
    """Read an integer ≥ 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 0 or more")
    return int(text)


def positive(text: str) -> int:
    """Read an integer ≥ 1, for argparse."""
    value = natural(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        InputError: it is missing, empty, no JSON, no object, or holds NaN or an infinity.
    """

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{path}: holds {constant}, which is not a number")

    try:
        data = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: does not exist") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    if not data.strip():
        raise InputError(f"{path}: is empty")
    try:
        value = json.loads(data, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds {type(value).__name__}; expected one JSON object")
    return value


def field(value: dict[str, Any], name: str, kinds: tuple[type, ...], path: Path) -> Any:
    """Take one field of exactly one of these types: a bool is no int.

    Raises:
        InputError: it is missing or of another type.
    """
    if name not in value:
        raise InputError(f"{path}: the field {name!r} is missing")
    if type(value[name]) not in kinds:
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise InputError(f"{path}: {name} is {value[name]!r}; expected {names}")
    return value[name]


def demand_schema(value: dict[str, Any], schema: str, path: Path) -> None:
    """Demand a ``schema_version``.

    Raises:
        InputError: it is missing or another one.
    """
    found = value.get("schema_version")
    if found != schema:
        raise InputError(f"{path}: schema_version is {found!r}; expected {schema!r}")


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write one JSON object: sorted keys, floats by ``repr``, never under half a file's name."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file at one stroke: killed at any moment, ``path`` is absent, old or complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
