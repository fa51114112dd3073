"""What the simulation of a job costs, in CPU and wall time, and how that grows with their number.

Plans in the paper's shape, with two chains to follow each rollout: rollouts on as many devices
as there are, a diagnosis after each, one selection at the end. The engine alone (no file, one
process, one core), in every mode, and the whole command for the largest plan.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hloop.schedule.events import EngineSettings, JobNode, Mode, SlotKind
from hloop.schedule.simulate import simulate
from measuring import Cost, finish, middle, run

DEVICES = 1000
CPU_WORKERS = 256


def make_nodes(jobs: int) -> list[JobNode]:
    """Rollouts of 30 to 60 s, diagnoses of 2 to 4 s, in all as many jobs as wanted."""
    draw = random.Random(jobs).uniform
    nodes: list[JobNode] = []
    for number in range((jobs - 1) // 2):
        rollout = f"rollout_{number}"
        device = number % DEVICES
        length = round(draw(30e9, 60e9))
        nodes.append(JobNode(rollout, SlotKind.GPU, (), device, 1, length))
        length = round(draw(2e9, 4e9))
        nodes.append(JobNode(f"diagnose_{number}", SlotKind.CPU, (rollout,), None, 0, length))
    diagnoses = tuple(node.job_id for node in nodes if node.kind is SlotKind.CPU)
    nodes.append(JobNode("select", SlotKind.IO, diagnoses, None, 0, 10**9))
    return nodes


def document(nodes: list[JobNode]) -> dict[str, Any]:
    jobs = [
        {
            "job_id": node.job_id,
            "resource": node.kind.value,
            "command": ["true"],
            "depends_on": list(node.depends_on),
            "budget": {"expected_seconds": (node.expected_ns or 0) / 1e9},
            **({} if node.device is None else {"cuda_visible_devices": str(node.device)}),
        }
        for node in nodes
    ]
    return {
        "schema_version": "mimicx.hloop-plan.v1",
        "plan_id": "simulated",
        "max_cpu_workers": CPU_WORKERS,
        "jobs": jobs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()

    cost: dict[Mode, dict[int, Cost]] = {mode: {} for mode in Mode}
    for jobs in options.jobs:
        nodes = make_nodes(jobs)
        durations = {node.job_id: node.expected_ns or 0 for node in nodes}
        for mode in Mode:
            settings = EngineSettings(mode, tuple(range(DEVICES)), CPU_WORKERS, 2)
            measured = []
            for _ in range(options.repetitions):
                wall, cpu = time.perf_counter(), time.process_time()
                simulate(settings, nodes, durations)
                measured.append(Cost(time.perf_counter() - wall, time.process_time() - cpu))
            cost[mode][jobs] = middle(measured)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plan.json").write_text(json.dumps(document(make_nodes(options.jobs[-1]))))
        argv = [sys.executable, "-m", "hloop", "simulate", "plan.json", "--modes", "hloop"]
        command = run(argv, Path(folder))

    first, last = options.jobs[0], options.jobs[-1]
    print(
        f"microseconds per job on {DEVICES} devices, CPU / wall; medians of {options.repetitions}"
    )
    heads = "".join(f"{jobs:>12,} jobs" for jobs in options.jobs)
    print(f"  {'mode':<11}{heads}   CPU, last over first")
    growth = {}
    for mode, costs in cost.items():
        cells = "".join(
            f"{costs[jobs].cpu / jobs * 1e6:9.1f} /{costs[jobs].wall / jobs * 1e6:6.1f}"
            for jobs in options.jobs
        )
        growth[mode] = (costs[last].cpu / last) / (costs[first].cpu / first)
        print(f"  {mode:<11}{cells}   {growth[mode]:.2f}")
    print(f"  growth of log(jobs), last over first: {math.log(last) / math.log(first):.2f}")
    print(
        f"hloop simulate of {options.jobs[-1]:,} jobs, plan file and all: "
        f"{command.cpu:.1f} s of CPU, {command.wall:.1f} s of wall clock"
    )
    finish(
        {
            "us_per_job": {
                mode: {
                    str(jobs): round(value.cpu / jobs * 1e6, 1) for jobs, value in costs.items()
                }
                for mode, costs in cost.items()
            },
            "last_over_first": {mode: round(value, 3) for mode, value in growth.items()},
            "command_cpu_seconds": round(command.cpu, 2),
            "command_wall_seconds": round(command.wall, 2),
        }
    )


if __name__ == "__main__":
    main()
