"""Runs the jobs of a file with parsl; with_parsl.py CALLS CPU_WORKERS IO_WORKERS DEVICES.

It runs in parsl's own virtual environment, and so imports nothing of this project. gpu jobs go
to the HighThroughputExecutor, one worker per accelerator; cpu and io jobs to threads of parsl's
process, which only wait for a command. No retries, no monitoring, no logs.
"""

import json
import sys
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider


def run(command, inputs=()):
    return command


def main():
    calls = json.loads(Path(sys.argv[1]).read_text())
    cpu, io, devices = map(int, sys.argv[2:])
    gpu = HighThroughputExecutor(
        label="gpu",
        address="127.0.0.1",
        available_accelerators=devices,
        max_workers_per_node=devices,
        cores_per_worker=0.1,
        encrypted=False,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),
    )
    others = [
        ThreadPoolExecutor(label="cpu", max_threads=cpu),
        ThreadPoolExecutor(label="io", max_threads=io),
    ]
    config = Config(
        executors=[gpu, *others], strategy="none", strategy_period=0.5, initialize_logging=False
    )
    with parsl.load(config):
        apps = {kind: parsl.bash_app(run, executors=[kind]) for kind in ("gpu", "cpu", "io")}
        futures = {}
        for call in calls:
            inputs = [futures[name] for name in call["after"]]
            futures[call["name"]] = apps[call["kind"]](call["command"], inputs=inputs)
        for future in futures.values():
            future.result()


if __name__ == "__main__":
    main()
