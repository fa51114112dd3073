"""Runs that ended, made by ``hloop run`` from plans of small shell commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop.files import hash_file


def external(path: Path) -> dict[str, Any]:
    """An input from outside the run directory, with its digest."""
    return {"role": "motion", "path": str(path), "sha256": hash_file(path).sha256}


def run_plan(folder: Path, *jobs: Mapping[str, Any], name: str = "run") -> Path:
    """Run these jobs and give the run directory, ``folder/<name>``, however the run ended."""
    plan = folder / f"{name}.json"
    plan.write_text(
        json.dumps({"schema_version": "mimicx.hloop-plan.v1", "plan_id": name, "jobs": list(jobs)})
    )
    options = ["--plan", str(plan), "--run-dir", name, "--devices", "simulated:1"]
    process = subprocess.run(
        [sys.executable, "-m", "hloop", "run", *options, "--keep-going"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, 1), process.stderr
    return folder / name
