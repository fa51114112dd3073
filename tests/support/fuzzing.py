"""Running ``hloop`` in this process on thousands of files that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer
from hloop.cli import main as main_module
from hloop.cli.main import application
from hloop.provenance import chain
from hloop_command import Hloop, Outcome
from mutations import as_json, change_bytes, change_document


@pytest.fixture
def ask(hloop: Hloop, monkeypatch: pytest.MonkeyPatch) -> Hloop:
    """Run ``hloop`` with these arguments, and do once what is the same each time."""
    monkeypatch.setattr(main_module, "application", lambda *_wanted: _all_commands())
    # All records but the spoilt one are the same each time.
    monkeypatch.setattr(chain, "document_of", _read_once)
    return hloop


def is_answer(outcome: Outcome) -> bool:
    """Whether it is what a command may do: an exit code with a meaning, and why."""
    says_why = outcome.code == 0 or bool((outcome.out + outcome.err).strip())
    return outcome.code in (0, 1, 2) and says_why and "Traceback" not in outcome.err


@cache
def _all_commands() -> Any:
    """Typer makes the commands anew at every call, which takes longer than most of them."""
    return typer.main.get_command(application())


_read_once = lru_cache(maxsize=256)(chain.document_of)


@dataclass(frozen=True)
class Spoilt:
    """A folder, such as a run directory, whose files are spoilt one at a time.

    Attributes:
        root: the folder.
        files: the files that can be, with what they hold.
    """

    root: Path
    files: dict[Path, bytes]

    @classmethod
    def of(cls, root: Path) -> Spoilt:
        found = sorted(root.rglob("*.json")) + sorted(root.rglob("*.jsonl"))
        return cls(root, {path: path.read_bytes() for path in found})

    @contextmanager
    def by(self, seed: int, name: str = "") -> Iterator[Path]:
        """Spoil one file, of this name or of any, for as long as this lasts."""
        rng = Random(seed)
        path = rng.choice([path for path in self.files if name in ("", path.name)])
        try:
            _put(path, _spoil(rng, path, self.files[path]))
            yield path
        finally:
            _put(path, self.files[path])


def _spoil(rng: Random, path: Path, data: bytes) -> bytes:
    if rng.random() < 0.3:
        return change_bytes(rng, data)
    if path.suffix != ".jsonl":
        # Most are canonical; what is not is refused by the way it is written alone.
        return as_json(change_document(rng, json.loads(data)), _canonical) + b"\n"
    lines = data.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = as_json(change_document(rng, json.loads(lines[place])))
    return b"\n".join(lines) + b"\n"


def _canonical(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _put(path: Path, data: bytes) -> None:
    path.unlink()  # Records are read-only.
    path.write_bytes(data)
