"""The file that a comparison keeps what it has measured in, so that an end of it loses nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hloop.files import replace


class Kept:
    """The samples of one comparison, written down after each run.

    Attributes:
        conditions: what the samples were measured under, by name: options, machine, versions.
            A file is refused where one is another.
        samples: the runs, as :data:`peers.tables.Sample`.
        failures: runs that failed; a further call tries them again.
        load: the machine's load averages, at the beginning of each call.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self._path = path
        self.conditions = conditions
        self.samples: list[dict[str, Any]] = []
        self.failures: list[dict[str, Any]] = []
        self.load: list[str] = []
        if path.exists():
            before = json.loads(path.read_text())
            others = [
                f"{name} {before['conditions'][name]}, now {value}"
                for name, value in conditions.items()
                if before["conditions"].get(name, value) != value
            ]
            if others:
                sys.exit(
                    f"{path} was measured under other conditions: {'; '.join(others)}. "
                    "Name another file with --results, or move it away"
                )
            self.conditions = before["conditions"] | conditions
            self.samples, self.load = before["samples"], before["load"]

    def has(self, repetition: int, workload: str, peer: str) -> bool:
        run = (repetition, workload, peer)
        return any((s["repetition"], s["workload"], s["peer"]) == run for s in self.samples)

    def write(self, **more: Any) -> None:
        """Write everything down, with what was made of it."""
        document = {
            "conditions": self.conditions,
            "load": self.load,
            "samples": self.samples,
            "failures": self.failures,
            **more,
        }
        replace(self._path, json.dumps(document, indent=1).encode() + b"\n")
