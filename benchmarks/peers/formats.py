"""A workload in the formats of the peers: a Makefile, a Snakefile, lines, calls.

Pure: each function gives text.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from peers.workloads import DEVICES, IO_WORKERS, Work, Workload


def pinned_command(job: Work, seen: Path) -> str:
    """The job as a shell command that says the pinned device itself."""
    command = shlex.join(job.command(seen))
    return command if job.device is None else f"CUDA_VISIBLE_DEVICES={job.device} {command}"


def makefile(workload: Workload, seen: Path) -> str:
    """A Makefile without files. Make knows no devices: each job that is pinned to one waits,
    by an order-only prerequisite, for the job before it on the same device."""
    names = " ".join(job.name for job in workload.jobs)
    lines = [f".PHONY: all {names}", f"all: {names}"]
    last: dict[int, str] = {}
    for job in workload.jobs:
        rule = f"{job.name}: {' '.join(job.after)}".rstrip()
        if job.device is not None:
            if job.device in last:
                rule += f" | {last[job.device]}"
            last[job.device] = job.name
        lines += [rule, "\t" + pinned_command(job, seen).replace("$", "$$")]
    return "\n".join(lines) + "\n"


def by_class(job: Work) -> str:
    """What a job asks for where only the number of devices is told."""
    return job.kind


def by_device(job: Work) -> str:
    """What a job asks for where every device is a resource of its own."""
    return job.kind if job.device is None else f"gpu{job.device}"


SNAKEFILE = """\
import json

COMMANDS, AFTER = json.load(open("commands.json")), json.load(open("after.json"))

rule all:
    input: list(COMMANDS)
"""

RULE = """
rule {asks}:
    output: touch("{asks}/{{job}}")
    input: lambda wildcards: AFTER["{asks}/" + wildcards.job]
    {needs}
    params: command=lambda wildcards: COMMANDS["{asks}/" + wildcards.job]
    shell: "{{params.command}}"
"""


def snakefiles(workload: Workload, seen: Path, asks: Callable[[Work], str]) -> dict[str, str]:
    """A Snakefile and its tables, by file name. A cpu job takes a core, any other one of what
    it asks for."""
    target = {job.name: f"{asks(job)}/{job.name}" for job in workload.jobs}
    rules = [
        RULE.format(
            asks=name,
            needs="threads: 1" if name == "cpu" else f"threads: 0\n    resources: {name}=1",
        )
        for name in sorted({asks(job) for job in workload.jobs})
    ]
    return {
        "Snakefile": SNAKEFILE + "".join(rules),
        "commands.json": json.dumps(
            {target[job.name]: pinned_command(job, seen) for job in workload.jobs}
        ),
        "after.json": json.dumps(
            {target[job.name]: [target[name] for name in job.after] for job in workload.jobs}
        ),
    }


def snakemake_resources(asks: Callable[[Work], str]) -> list[str]:
    """What a machine has, for ``--resources``."""
    if asks is by_class:
        return [f"gpu={DEVICES}", f"io={IO_WORKERS}"]
    return [*(f"gpu{device}=1" for device in range(DEVICES)), f"io={IO_WORKERS}"]


def parallel_lines(workload: Workload) -> str:
    """A line for each job, of what changes from job to job."""
    return "".join(f"{job.name} {job.kind} {job.seconds}\n" for job in workload.jobs)


def parsl_calls(workload: Workload, seen: Path) -> str:
    """The jobs in the order in which `with_parsl.py` calls them: after what they depend on."""
    calls = [
        {
            "name": job.name,
            "kind": job.kind,
            "command": shlex.join(job.command(seen)),
            "after": job.after,
        }
        for job in workload.jobs
    ]
    return json.dumps(calls)
