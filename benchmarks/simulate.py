"""What the simulation of a job costs, and whether that grows with the number of jobs.

Plans in the paper's shape, with two chains to follow each rollout: rollouts on as many devices
as there are, a diagnosis after each, one selection at the end. The engine alone (no file, one
process, one core), in every mode, and the whole command for the largest plan.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from hloop.schedule.events import EngineSettings, JobNode, Mode, SlotKind
from hloop.schedule.simulate import simulate
from measuring import finish, run

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

    cost: dict[Mode, dict[int, float]] = {mode: {} for mode in Mode}
    for jobs in options.jobs:
        nodes = make_nodes(jobs)
        durations = {node.job_id: node.expected_ns or 0 for node in nodes}
        for mode in Mode:
            settings = EngineSettings(mode, tuple(range(DEVICES)), CPU_WORKERS, 2)
            measured = []
            for _ in range(options.repetitions):
                started = time.process_time()
                simulate(settings, nodes, durations)
                measured.append((time.process_time() - started) / len(nodes))
            cost[mode][jobs] = median(measured)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plan.json").write_text(json.dumps(document(make_nodes(options.jobs[-1]))))
        argv = [sys.executable, "-m", "hloop", "simulate", "plan.json", "--modes", "hloop"]
        command = run(argv, Path(folder))

    print(f"CPU microseconds per job on {DEVICES} devices; medians of {options.repetitions}")
    print(f"  {'mode':<11}" + "".join(f"{jobs:>12,} jobs" for jobs in options.jobs))
    for mode, costs in cost.items():
        print(f"  {mode:<11}" + "".join(f"{costs[jobs] * 1e6:17.1f}" for jobs in options.jobs))
    print(
        f"hloop simulate of {options.jobs[-1]:,} jobs, plan file and all: "
        f"{command.cpu:.1f} s of CPU, {command.wall:.1f} s"
    )
    first, last = options.jobs[0], options.jobs[-1]
    finish(
        {
            "us_per_job": {
                mode: {str(jobs): round(value * 1e6, 1) for jobs, value in costs.items()}
                for mode, costs in cost.items()
            },
            "last_over_first": {
                m: round(costs[last] / costs[first], 3) for m, costs in cost.items()
            },
            "command_cpu_seconds": round(command.cpu, 2),
        }
    )


if __name__ == "__main__":
    main()
