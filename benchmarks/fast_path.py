"""Does the fast path pay, by what a step of the simulator costs?

Runs the oracle on the embedded workload (config/oracle-sum.yaml and config/oracle-matmul.yaml)
with several numbers of simulator steps in one step of the policy. A speed-up is the slow path's
time over the fast one's, of the whole job: every worker's start counts. It is given where the
verdict is GREEN, and nowhere else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from measuring import finish

ROOT = Path(__file__).resolve().parents[1]


def legs(policy: str, substeps: int, folder: Path) -> list[dict[str, Any]]:
    """Run one oracle, and give the legs of its verdict."""
    spec = yaml.safe_load((ROOT / f"config/oracle-{policy}.yaml").read_text())
    spec["settings"]["substeps"] = substeps
    folder.mkdir()
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(spec))
    argv = [sys.executable, "-m", "hloop", "oracle", "--spec", str(file), "--json"]
    argv += ["--run-dir", str(folder / "oracle"), "--devices", "simulated:1"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["legs"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--substeps", type=int, nargs="+", default=[4, 64])
    options = parser.parse_args()

    cases = [(policy, substeps) for policy in ("sum", "matmul") for substeps in options.substeps]
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for repetition in range(options.repetitions):
            for policy, substeps in cases:
                folder = Path(temporary, f"{policy}-{substeps}-{repetition}")
                for leg in legs(policy, substeps, folder):
                    found.setdefault((policy, substeps, leg["workers"]), []).append(leg)

    print(f"speed-up of the fast path on {os.cpu_count()} CPUs: median (smallest to largest)")
    result = []
    for (policy, substeps, workers), same in found.items():
        verdicts = sorted({leg["verdict"] for leg in same})
        line = f"  {policy:<7} {substeps:>3} simulator steps per step, {workers} workers: "
        values = [leg["speedup"] for leg in same] if verdicts == ["GREEN"] else []
        speedup = round(median(values), 3) if values else None
        spread = f"{speedup} ({min(values)} to {max(values)})" if values else "no figure"
        print(f"{line}{', '.join(verdicts)}, {spread}")
        result.append(
            {"policy": policy, "substeps": substeps, "workers": workers}
            | {"verdicts": verdicts, "speedup": speedup}
        )
    finish({"cpus": os.cpu_count(), "legs": result})


if __name__ == "__main__":
    main()
