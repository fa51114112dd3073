"""What an output of a job holds, and where texts name the seed of the job that they are of.

An output is read again where it still is what its report says; without what the plan says not to
compare. Nothing is written.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_BYTES = 16 * 2**20
"""Of a larger output only the digest is looked at."""

_NUMBER = re.compile(r"(\d+)")


def numbers_of(text: str) -> tuple[str, list[str]]:
    """Give a text without its numbers, which is its form, and the numbers in their order."""
    parts = _NUMBER.split(text)
    return "\0".join(parts[::2]), parts[1::2]


def digests_without(
    told: Sequence[Collection[str]], texts: Sequence[Callable[[], str]]
) -> list[str]:
    """Give a digest of each text, in which it does not count that it names what it was told.

    A number is left out where every text of the same form has one that it was told, in the same
    place. So `{"seed": 0, "x": 0.5}` and `{"seed": 1, "x": 0.5}` are the same, although the
    first has another 0.

    Args:
        told: for each text the numbers that its job was told.
        texts: what reads each of them; called twice.
    """
    forms, named = [], dict[str, set[int]]()
    for own, read in zip(told, texts, strict=True):
        form, numbers = numbers_of(read())
        forms.append(hashlib.sha256(form.encode("utf-8", "surrogateescape")).hexdigest())
        places = {place for place, number in enumerate(numbers) if number in own}
        named[forms[-1]] = places & named.get(forms[-1], places)
    made = []
    for form, read in zip(forms, texts, strict=True):
        numbers = numbers_of(read())[1]
        for place in named[form]:
            numbers[place] = ""
        made.append(hashlib.sha256("\0".join((form, *numbers)).encode()).hexdigest())
    return made


def text_of(run_dir: Path, entry: Mapping[str, Any]) -> str:
    """Give what an output holds; the report's digest where the file is not as it says.

    Args:
        run_dir: the run's directory.
        entry: the output, as the run's report has it.
    """
    digest = str(entry["sha256"])
    path = Path(entry["path"].replace("${RUN_DIR}", str(run_dir)))
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return digest
        data = path.read_bytes()
    except OSError:
        return digest
    if hashlib.sha256(data).hexdigest() != digest:
        return digest
    # Latin-1 reads every byte, and gives it back.
    return _compared(data, entry).decode("latin-1")


def _compared(data: bytes, entry: Mapping[str, Any]) -> bytes:
    """Take out what the plan says not to compare; all of it where it cannot be read so."""
    ignore = entry.get("ignore") or ()
    try:
        if ignore and entry.get("compare") == "json":
            document = json.loads(data)
            for pointer in ignore:
                _remove(document, pointer)
            return json.dumps(document, sort_keys=True).encode()
        if ignore and entry.get("compare") == "csv":
            rows = list(csv.DictReader(io.StringIO(data.decode())))
            kept = [[row[name] for name in row if name not in ignore] for row in rows]
            return json.dumps(kept).encode()
    except (ValueError, RecursionError):
        pass
    return data


def _remove(document: Any, pointer: str) -> None:
    """Take out what a JSON pointer (RFC 6901) names, where it is there."""
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]
    ] or [""]
    for part in parents:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return
    if isinstance(document, dict):
        document.pop(last, None)
    elif isinstance(document, list) and last.isdigit() and int(last) < len(document):
        document[int(last)] = None
