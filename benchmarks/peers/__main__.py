"""One plan through hloop and through other tools, in turns, on one machine.

Four workloads: the paper's shape, pins that are uneven, many jobs that do nothing, and one job
that does nothing. Every peer runs the same job, which itself says when it ran, on which device,
and whether another job was there. The makespan is that from the first job's begin to the last
one's end, without the peer's own start and end; the command's time is with them. CPU is that of
the command and of all that it started. hloop's report page is not made, since no peer makes one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hloop.schedule.events import Placement
from measuring import run
from peers import witness, workloads
from peers.tools import Missing, Peer, peers
from peers.workloads import Workload


@dataclass(frozen=True)
class Sample:
    """One run of one peer; times in seconds."""

    makespan: float
    command: float
    cpu: float
    shared: int
    moved: int


def measure(peer: Peer, workload: Workload) -> Sample:
    with tempfile.TemporaryDirectory() as temporary:
        folder, seen = Path(temporary, "work"), Path(temporary, "seen")
        folder.mkdir()
        seen.mkdir()
        cost = run(peer.prepare(workload, folder, seen), folder, Path(temporary))
        jobs = witness.read(seen, workload.jobs)
    return Sample(jobs.makespan, cost.wall, cost.cpu, jobs.shared, jobs.moved)


def summary(peer: Peer, workload: Workload, samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians; of sharing and of moving, the most that was seen."""
    jobs, bound = len(workload.jobs), workload.bound(peer.placement)
    makespan = median(sample.makespan for sample in samples)
    cpu = median(sample.cpu for sample in samples)
    return {
        "makespan_seconds": round(makespan, 4),
        "bound_seconds": round(bound, 4),
        "over_bound": round(makespan / bound, 4) if bound else None,
        "command_seconds": round(median(sample.command for sample in samples), 4),
        "cpu_seconds": round(cpu, 4),
        "cpu_seconds_per_job": round(cpu / jobs, 5),
        "jobs_per_second": round(jobs / makespan, 2),
        "shared_jobs": max(sample.shared for sample in samples),
        "moved_jobs": max(sample.moved for sample in samples),
        "samples": [asdict(sample) for sample in samples],
    }


def measure_all(
    present: Sequence[Peer], chosen: Sequence[Workload], repetitions: int
) -> dict[str, dict[str, dict[str, Any]]]:
    """Every workload through every peer that can run it, by their names. In each repetition
    another peer is first."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    for repetition in range(repetitions):
        turn = repetition % len(present)
        for workload in chosen:
            for peer in [*present[turn:], *present[:turn]]:
                if workload.is_flat or not peer.flat_only:
                    progress = f"{repetition + 1}/{repetitions} {workload.name}: {peer.name}"
                    print(progress, file=sys.stderr, flush=True)
                    sample = measure(peer, workload)
                    samples.setdefault((workload.name, peer.name), []).append(sample)
    return {
        workload.name: {
            peer.name: summary(peer, workload, samples[workload.name, peer.name])
            for peer in present
            if (workload.name, peer.name) in samples
        }
        for workload in chosen
    }


def further_job(workloads: dict[str, dict[str, dict[str, Any]]], jobs: int) -> dict[str, float]:
    """CPU seconds of one no-op job more, by peer: what all cost, without what one costs."""
    one, many = workloads.get("start", {}), workloads.get("noop", {})
    return {
        peer: round((many[peer]["cpu_seconds"] - one[peer]["cpu_seconds"]) / (jobs - 1), 5)
        for peer in many
        if peer in one and jobs > 1
    }


def table(result: dict[str, Any], chosen: Sequence[Workload]) -> str:
    """The result for people."""
    lines = [f"medians of {result['repetitions']} repetitions, in turns", result["machine"]]
    lines += [f"load average before {result['load'][0]}, after {result['load'][1]}", ""]
    for name, about in result["peers"].items():
        lines.append(f"  {name:<24} {about['version']}; devices: {about['devices']}")
    lines += [f"  {name:<24} missing: {reason}" for name, reason in result["missing"].items()]
    for workload in chosen:
        pinned, free = workload.bound(Placement.PINNED), workload.bound(Placement.ANY)
        lines += ["", f"{workload.name}: {workload.text}"]
        if pinned:
            lines.append(f"lower bound {pinned:.3f} s with its pins, {free:.3f} s without")
        heads = ("makespan s", "x bound", "command s", "CPU ms/job", "jobs/s", "shared", "moved")
        lines.append(f"  {'':<24}" + "".join(f"{head:>12}" for head in heads))
        for name in result["peers"]:
            if (row := result["workloads"][workload.name].get(name)) is None:
                lines.append(f"  {name:<24}   cannot: the jobs depend on each other")
                continue
            over = "-" if row["over_bound"] is None else f"{row['over_bound']:.3f}"
            cells = (
                f"{row['makespan_seconds']:.3f}",
                over,
                f"{row['command_seconds']:.3f}",
                f"{row['cpu_seconds_per_job'] * 1e3:.1f}",
                f"{row['jobs_per_second']:.1f}",
                str(row["shared_jobs"]),
                str(row["moved_jobs"]),
            )
            lines.append(f"  {name:<24}" + "".join(f"{cell:>12}" for cell in cells))
    if result["cpu_seconds_per_further_job"]:
        lines += ["", "CPU of one no-op job more, without the start:"]
        for name, seconds in result["cpu_seconds_per_further_job"].items():
            lines.append(f"  {name:<24}{seconds * 1e3:>9.1f} ms")
    lines += ["", "shared: gpu jobs that found another job on their device, the most of any run"]
    lines.append("moved: gpu jobs on another device than the plan's, the most of any run")
    return "\n".join(lines)


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def main() -> None:
    known = ("start", "noop", "paper", "unbalanced")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of the no-op workload")
    parser.add_argument(
        "--scale", type=float, default=0.001, help="seconds that a step of the paper's shape lasts"
    )
    parser.add_argument("--workloads", nargs="+", choices=known, default=known)
    parser.add_argument(
        "--parsl", type=Path, help="parsl's environment, made if missing; default: a temporary one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    options = parser.parse_args()
    if shutil.which("flock") is None:
        sys.exit("no flock on PATH: the jobs lock their devices with it (package util-linux)")

    # What each job is told of devices, and how a make is called, comes from the peer alone.
    for name in ("CUDA_VISIBLE_DEVICES", "HLOOP_DEVICE_ID", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        os.environ.pop(name, None)
    os.environ["HLOOP_HTML"] = "no"

    plans = {
        "start": workloads.start(),
        "noop": workloads.noop(options.jobs),
        "paper": workloads.paper(options.scale),
        "unbalanced": workloads.unbalanced(),
    }
    chosen = [plans[name] for name in options.workloads]
    with tempfile.TemporaryDirectory() as temporary:
        found = peers(options.parsl or Path(temporary, "parsl"))
        present = [peer for peer in found if isinstance(peer, Peer)]
        before = load()
        measured = measure_all(present, chosen, options.repetitions)
    result = {
        "repetitions": options.repetitions,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, {platform.system()} {platform.release()}",
        "load": [before, load()],
        "peers": {
            peer.name: {"version": peer.version, "devices": peer.devices} for peer in present
        },
        "missing": {peer.name: peer.reason for peer in found if isinstance(peer, Missing)},
        "workloads": measured,
        "cpu_seconds_per_further_job": further_job(measured, options.jobs),
    }
    print(json.dumps(result) if options.json else table(result, chosen))


if __name__ == "__main__":
    main()
