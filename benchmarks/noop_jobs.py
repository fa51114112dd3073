"""What one job costs: pairs of no-op jobs (gpu, then cpu), CPU seconds of everything.

Two questions. The same Snakefile under hloop and under Snakemake's own local executor, each
told in its own way that there are two devices; and a plan of few and of many jobs, where the
cost per job should stay the same. The cost of a start (the same run with one pair) is taken
off, since it is no cost of a job.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import Cost, finish, middle, run

SNAKEFILE = """
rule all:
    input: expand("done/{{i}}", i=range({pairs}))

rule on_gpu:
    output: "made/{{i}}"
    threads: 0
    resources: gpu=1
    shell: "touch {{output}}"

rule on_cpu:
    input: "made/{{i}}"
    output: "done/{{i}}"
    threads: 0
    shell: "touch {{output}}"
"""

SNAKEMAKE = (sys.executable, "-m", "snakemake", "--cores", "2", "--scheduler", "greedy")
LIMITS = ("--max-jobs-per-timespan", "100000/1s", "--quiet", "rules")
EXECUTORS = {
    "hloop": ("--executor", "hloop", "--hloop-devices", "simulated:2"),
    "local": ("--executor", "local", "--resources", "gpu=2"),
}


def run_rules(executor: str, pairs: int) -> Cost:
    """The same rules under one of the two executors."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text(SNAKEFILE.format(pairs=pairs))
        return run([*SNAKEMAKE, *LIMITS, *EXECUTORS[executor]], Path(folder))


def make_plan(pairs: int) -> dict[str, Any]:
    jobs: list[dict[str, Any]] = []
    for i in range(pairs):
        jobs.append(
            {
                "job_id": f"gpu_{i}",
                "resource": "gpu",
                "command": ["true"],
                "cuda_visible_devices": str(i % 2),
            }
        )
        jobs.append(
            {
                "job_id": f"cpu_{i}",
                "resource": "cpu",
                "command": ["true"],
                "depends_on": [f"gpu_{i}"],
            }
        )
    return {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "noop", "jobs": jobs}


def run_plan(pairs: int) -> Cost:
    """A plan of as many pairs through `hloop run`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plan.json").write_text(json.dumps(make_plan(pairs)))
        argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json", "--run-dir", "run"]
        return run([*argv, "--devices", "simulated:2"], Path(folder))


def per_job(many: Cost, one: Cost, jobs: int) -> Cost:
    """The cost of one job more, in seconds: without what the start costs."""
    return Cost((many.wall - one.wall) / (jobs - 2), (many.cpu - one.cpu) / (jobs - 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--few", type=int, default=200, help="jobs of the small plan")
    parser.add_argument("--many", type=int, default=2000, help="jobs of the large plan")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()

    costs: dict[str, list[Cost]] = {"hloop": [], "local": [], "few": [], "many": []}
    for _ in range(options.repetitions):
        for name in EXECUTORS:
            one, many = run_rules(name, 1), run_rules(name, options.pairs)
            costs[name].append(per_job(many, one, 2 * options.pairs))
        one = run_plan(1)
        for name, jobs in (("few", options.few), ("many", options.many)):
            costs[name].append(per_job(run_plan(jobs // 2), one, jobs))
    cost = {name: middle(measured) for name, measured in costs.items()}

    print(f"medians of {options.repetitions} repetitions, per job, without the start")
    for name, text in (
        ("hloop", f"{options.pairs} pairs of shell rules, hloop"),
        ("local", f"{options.pairs} pairs of shell rules, local executor"),
        ("few", f"plan of {options.few} jobs"),
        ("many", f"plan of {options.many} jobs"),
    ):
        wall, cpu = cost[name].wall * 1e3, cost[name].cpu * 1e3
        print(f"  {text:<45} {cpu:8.2f} ms CPU {wall:8.2f} ms wall")
    finish(
        {
            "cpu_ms_per_job": {name: round(entry.cpu * 1e3, 3) for name, entry in cost.items()},
            "hloop_over_local": round(cost["hloop"].cpu / cost["local"].cpu, 3),
            "many_over_few": round(cost["many"].cpu / cost["few"].cpu, 3),
        }
    )


if __name__ == "__main__":
    main()
