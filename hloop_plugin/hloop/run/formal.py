"""What the jobs of a formal run have in common: the gate that let it begin, caches of their own.

Whether a run may be formal is asked in approval.py, before it begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloop.files import JobPaths, RunPaths
from hloop.portable import Portable
from hloop.provenance.records import GATE, Reference, read_back


@dataclass(frozen=True)
class FormalRun:
    """What all jobs of a formal run have in common.

    Attributes:
        protocol, fidelity_class: as the gate has them.
        gate: the reference to the run's own copy of the gate.
    """

    protocol: str
    fidelity_class: str
    gate: Reference

    @classmethod
    def of(cls, paths: RunPaths, portable: Portable) -> FormalRun | None:
        """Read the gate in a claimed run directory; None where the run is not formal."""
        path = paths.formal.gate
        if not path.exists():
            return None
        gate, reference = read_back(path, portable.path(path), GATE)
        return cls(gate["protocol"], gate["fidelity_class"], reference)

    def gate_entry(self) -> dict[str, str]:
        """Give what a scheduled job says of its gate."""
        return {"path": self.gate.path, "digest": f"sha256:{self.gate.sha256}"}


def make_caches(paths: JobPaths) -> dict[str, str]:
    """Make the cache folders of a formal job, and give the variables that lead to them."""
    from hloop.provenance.formal import CACHE_FOLDERS

    variables = {}
    for name, folder in CACHE_FOLDERS.items():
        (paths.cache / folder).mkdir(parents=True)
        variables[name] = str(paths.cache / folder)
    return variables
