"""An oracle over a program of a few lines: what it writes is decided by its settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from hloop.files import RunPaths, hash_file
from hloop.plan.render import RenderedPlan
from hloop.run.execution import Execution
from hloop.run.report import RUN_SCHEMA

# argv: mode, workers ("0" in the slow path), checkpoint, output folder's files, seeds.
PROGRAM = """
import json, os, sys, time
mode, workers, checkpoint, rows, settings, *seeds = sys.argv[1:]
fast = workers != "0"
found = [{"seed": int(s), "v": [1.0, 2.0, 3.0], "latency_ms": time.time()} for s in seeds]
if mode == "parts" and fast:
    found[-1]["v"][1] += float(workers)
if mode == "repeats" and fast:
    found[1] = found[0]
if mode == "drifts" and fast:
    found[0]["v"][2] = time.time()
if mode == "forgets":
    found.pop()
if mode == "fails":
    sys.exit("no path here")
if mode == "hangs":
    time.sleep(60)
if mode == "patches" and fast:
    open("more.py", "w")
if mode == "unfreezes" and fast:
    frozen = os.path.dirname(os.path.dirname(rows)) + "/spec.yaml"
    os.chmod(frozen, 0o644)
    open(frozen, "a").write("# x")
open(rows, "w").write("".join(json.dumps(row) + "\\n" for row in found))
written = {"mode": "other" if mode == "lies" and fast else mode, "workers": workers}
open(settings, "w").write(json.dumps(written))
"""


def spec_document(mode: str = "agrees", **changes: Any) -> dict[str, Any]:
    def path(workers: str) -> list[str]:
        return [
            *("<python>", "{repo_root}/program.py", "<settings.mode>", workers),
            *("<files.checkpoint>", "<outputs.rows>", "<outputs.settings>", "<seeds>"),
        ]

    return {
        "schema": "hloop.oracle.v1",
        "oracle_id": "case",
        "seeds": [4, 5, 6],
        "workers": [2, 3],
        "settings": {"mode": mode},
        "files": {"checkpoint": "{repo_root}/checkpoint"},
        "code": {"root": "{repo_root}", "files": ["*.py"]},
        "resource": "cpu",
        "paths": {"slow": path("0"), "fast": path("<workers>")},
        "identity": ["seed"],
        "ignore": {"latency_ms": "wall clock"},
        "decision": {"rule": "any_fail_decides", "on_fail": "the slow path it is"},
        "budget_seconds": 300,
        **changes,
    }


def write_case(root: Path, mode: str = "agrees", **changes: Any) -> Path:
    """Write program, checkpoint and spec into a folder, and give the spec."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "program.py").write_text(PROGRAM)
    (root / "checkpoint").write_text("weights")
    spec = root / "spec.yaml"
    spec.write_text(yaml.safe_dump(spec_document(mode, **changes)))
    return spec


def execute_plainly(
    plan: Path, rendered: RenderedPlan, given: dict[str, Any], **_: Any
) -> Execution:
    """Run a plan of one job without Snakemake, in place of ``execute``: what an oracle decides
    does not depend on who runs its paths. Leaves a report and no other record."""
    (job,) = rendered.jobs.values()
    rendered.run_dir.mkdir()
    subprocess.run(job.argv, cwd=job.cwd, check=True)
    entry = {
        "job_id": job.job.job_id,
        "elapsed_seconds": 1.0,
        "inputs": [
            {"role": i.role, "path": i.path, "sha256": i.declared.sha256} for i in job.inputs
        ],
        "outputs": [
            {
                "role": output.role,
                "path": f"${{RUN_DIR}}/{Path(output.path).name}",
                "sha256": hash_file(Path(output.path)).sha256,
                "size_bytes": Path(output.path).stat().st_size,
            }
            for output in job.outputs
        ],
    }
    report = {"schema_version": RUN_SCHEMA, "status": "completed", "jobs": [entry]}
    RunPaths(rendered.run_dir).report.write_text(json.dumps(report))
    return Execution(report, ())
