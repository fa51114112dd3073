"""Changed copies of files and documents, the same ones at every run.

What comes out is meant to be wrong in every way that a disk, an editor or another program may
have: bytes that were lost or doubled, values of other types, keys that are missing or stand
twice.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

# Values of every type, at the ends of their ranges.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**53, -(2**63), 10**30, 0.5, -0.0, 1e308),
    *("", " ", ".", "..", "/", "a/../b", "0", "-1", "null", "true", "{run_dir}", "{", "}{x}", "~"),
    *(
        "${RUN_DIR}",
        "${RUN_DIR}/",
        "${RUN_DIR}/..",
        "${REPO_ROOT}/x",
        "/dev/null",
        "/proc/self/mem",
    ),
    *("x" * 300, "ü\u2028\n\x00", "\ud800", "sha256:" + "0" * 64, "0" * 64, "completed", "failed"),
    *("gpu", "cpu", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0001-01-01"),
    *([], [[]], [None], ["a", "a"], [1, "a"], {}, {"": ""}, {"a": {}}, [{}]),
]
# What no value of Python's is written as. Stands for itself until the document is text.
TEXTS = {
    "\x00nan": "NaN",
    "\x00infinity": "-Infinity",
    "\x00overflow": "1e999",
    "\x00digits": "9" * 5000,
    "\x00deep": "[" * 2000 + "]" * 2000,
    "\x00deeper": '{"a":' * 90_000 + "0" + "}" * 90_000,
    "\x00twice": '{"a": 1, "a": 2}',
    "\x00surrogate": '"\\udc00\\ud800"',
}
TOKENS = [
    *(b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\", b"\n", b"\r\n", b"\t", b"\x00"),
    *(b"- ", b"? ", b"&a ", b"*a", b"<<: ", b"!!python/object ", b"---\n", b"...\n", b"#", b"|\n"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"-1",
        b"1e999",
        b"0x1f",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
    ),
    *(b"${RUN_DIR}", b"{run_dir}", b"../", b"\\ud800", b"9" * 30),
]


def change_bytes(rng: Random, data: bytes) -> bytes:
    """Change a file once or a few times, as something would that knows nothing of its format."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start = rng.randrange(len(changed) + 1)
        end = min(len(changed), start + rng.choice((1, 2, 10, 100)))
        match rng.randrange(6):
            case 0:
                changed[start:end] = b""
            case 1:
                changed[start:start] = changed[start:end]
            case 2:
                changed[start:start] = rng.choice(TOKENS)
            case 3:
                changed[start:end] = rng.choice(TOKENS)
            case 4 if start < len(changed):
                changed[start] ^= 1 << rng.randrange(8)
            case _:
                if rng.random() < 0.2:
                    del changed[start:]
                else:
                    other = rng.randrange(len(changed) + 1)
                    changed[start:start] = changed[other : other + 20]
    return bytes(changed)


def change_document(rng: Random, document: Any) -> Any:
    """Change a document once or a few times, as something would that knows JSON.

    The document stays as it is; see :func:`as_json` for how the copy becomes text.
    """
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(changed)
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        match rng.randrange(7):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(["", "x", f"{key}_", "_type", "path", "sha256"])] = holder.pop(
                    key
                )
            case 1 | 2 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[rng.randrange(len(holder))]))
            case 3:
                other, name = rng.choice(places)
                # What holds it may have been taken out meanwhile; nothing holds itself.
                holder[key] = copy.deepcopy(other[name])
            case 4 if isinstance(holder[key], int):
                holder[key] += rng.choice((1, -1, 2**40))
            case 4 if isinstance(holder[key], str):
                holder[key] = change_bytes(rng, holder[key].encode(errors="replace")).decode(
                    errors="surrogateescape"
                )
            case 5:
                holder[key] = rng.choice(list(TEXTS))
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
    return changed


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Everything in a document, each as what holds it and the key or index it stands at."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Any = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def as_json(document: Any, dumps: Callable[[Any], str] = json.dumps) -> bytes:
    """Write a changed document down, with what JSON's writer would not write."""
    text = dumps(document)
    for name, written in TEXTS.items():
        text = text.replace(json.dumps(name), written)
    return text.encode(errors="surrogatepass")
