"""How near each mode comes to the lower bound, on the shape of the paper's workload.

Sleeps in place of the real commands: 8 rollouts of horizon x 2 ms on two devices, 8 diagnoses
of 0.1 s, one selection of 0.05 s. The bound is that of the sleeps themselves, so that
everything that hloop, Snakemake and the system add counts against it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from hloop.plan.load import plan_from_checked_document
from hloop.schedule.bounds import lower_bound
from hloop.schedule.events import EngineSettings
from hloop.schedule.nodes import plan_nodes
from measuring import finish, run

HORIZONS = {"tennis": 800, "football1": 455, "dance2": 784, "kongfu1": 1062}
SEEDS = (1001, 2002)
MODES = ("sequential", "bulk-sync", "hloop")


def sleep_job(job_id: str, resource: str, seconds: float, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "resource": resource,
        "command": ["sleep", f"{seconds:.3f}"],
        "budget": {"expected_seconds": seconds},
        **fields,
    }


def make_plan() -> dict[str, Any]:
    jobs, diagnoses = [], []
    for task, horizon in HORIZONS.items():
        for seed in SEEDS:
            candidate = f"{task}_seed{seed}"
            device = str(len(diagnoses) % 2)
            rollout = f"rollout_{candidate}"
            jobs.append(sleep_job(rollout, "gpu", horizon * 0.002, cuda_visible_devices=device))
            jobs.append(sleep_job(f"diagnose_{candidate}", "cpu", 0.1, depends_on=[rollout]))
            diagnoses.append(f"diagnose_{candidate}")
    jobs.append(sleep_job("select_candidates", "io", 0.05, depends_on=diagnoses))
    return {
        "schema_version": "mimicx.hloop-plan.v1",
        "plan_id": "paper_sleeps",
        "max_cpu_workers": 8,
        "max_io_workers": 1,
        "jobs": jobs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()

    document = make_plan()
    plan = plan_from_checked_document(document)
    nodes = plan_nodes(plan)
    settings = EngineSettings(devices=(0, 1), cpu_workers=8, io_workers=1)
    bound = lower_bound(nodes, {node.job_id: node.expected_ns or 0 for node in nodes}, settings)
    bound_seconds = bound.value_ns / 1e9

    spans: dict[str, list[float]] = {mode: [] for mode in MODES}
    for repetition in range(options.repetitions):
        for mode in MODES[repetition % 3 :] + MODES[: repetition % 3]:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "plan.json").write_text(json.dumps(document))
                argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json"]
                argv += ["--run-dir", "run", "--devices", "simulated:2", "--mode", mode]
                run(argv, Path(folder))
                report = json.loads(Path(folder, "run/hloop_run.json").read_bytes())
            spans[mode].append(report["scheduling"]["makespan_seconds"])

    print(f"lower bound {bound_seconds:.3f} s, limited by {bound.limiting}")
    for mode, values in spans.items():
        over = median(values) / bound_seconds
        print(
            f"  {mode:<11} median {median(values):7.3f} s = {over:.4f} x bound "
            f"(of {len(values)}: {min(values):.3f} to {max(values):.3f})"
        )
    pairs = list(zip(spans["hloop"], spans["bulk-sync"], strict=True))
    above = sum(hloop > bulk for hloop, bulk in pairs)
    print(f"hloop above bulk-sync in {above} of {len(pairs)} repetitions")
    finish(
        {
            "bound_seconds": round(bound_seconds, 4),
            "over_bound": {m: round(median(v) / bound_seconds, 4) for m, v in spans.items()},
            "worst_hloop_over_bound": round(max(spans["hloop"]) / bound_seconds, 4),
            "hloop_above_bulk_sync": above,
        }
    )


if __name__ == "__main__":
    main()
