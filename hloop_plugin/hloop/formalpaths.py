"""The names in a folder that holds a fidelity gate with everything that it builds on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FormalPaths:
    """The names in a folder that holds a fidelity gate with everything that it builds on.

    Attributes:
        root: the folder that ``hloop gate`` made, or its copy ``RUN/formal``.
    """

    root: Path

    @property
    def gate(self) -> Path:
        return self.root / "fidelity_gate.json"

    @property
    def manifest(self) -> Path:
        return self.root / "formal_manifest.json"

    @property
    def fidelity(self) -> Path:
        return self.root / "author_fidelity.json"

    @property
    def patch(self) -> Path:
        return self.root / "reviewed.patch"
