"""One plan through hloop and through other tools, in turns, on one machine.

Four workloads: the paper's shape, pins that are uneven, many jobs that do nothing, and one job
that does nothing. Every peer runs the same job, which itself says when it ran, on which device,
and whether another job was there. The makespan is that from the first job's begin to the last
one's end, without the peer's own start and end; the command's time is with them. CPU is that of
the command and of all that it started. hloop's report page is not made, since no peer makes one.

Each run is written down when it has ended. A call that was interrupted is gone on with by the
same call; a peer that is missing, or that fails, is told of and left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import Failed, run
from peers import witness, workloads
from peers.kept import Kept
from peers.tables import Sample, further_job, markdown, summaries
from peers.tools import Missing, Peer, peers
from peers.workloads import Workload

LIMIT_SECONDS = 300.0
"""A run that takes longer has failed."""


def measure(peer: Peer, workload: Workload) -> Sample:
    """Run a workload once.

    Raises:
        Failed: the peer failed, or took too long.
        ValueError: not every job ran exactly once.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder, seen = Path(temporary, "work"), Path(temporary, "seen")
        folder.mkdir()
        seen.mkdir()
        command = peer.prepare(workload, folder, seen)
        cost = run(command, folder, Path(temporary), limit=LIMIT_SECONDS)
        jobs = witness.read(seen, workload.jobs)
    return {
        **{"makespan": jobs.makespan, "command": cost.wall, "cpu": cost.cpu},
        **{"shared": jobs.shared, "moved": jobs.moved},
    }


def in_turns(
    present: Sequence[Peer], chosen: Sequence[Workload], repetitions: int
) -> Iterator[tuple[int, Workload, Peer]]:
    """Every workload through every peer that can run it. In each repetition another peer is
    first."""
    for repetition in range(repetitions):
        turn = repetition % len(present)
        for workload in chosen:
            for peer in [*present[turn:], *present[:turn]]:
                if workload.is_flat or not peer.flat_only:
                    yield repetition, workload, peer


def measure_all(
    present: Sequence[Peer], chosen: Sequence[Workload], repetitions: int, kept: Kept
) -> None:
    """Measure what is not measured yet, and write each sample down."""
    runs = list(in_turns(present, chosen, repetitions))
    began = time.monotonic()
    for number, (repetition, workload, peer) in enumerate(runs, 1):
        about = {"repetition": repetition, "workload": workload.name, "peer": peer.name}
        if kept.has(**about):
            continue
        text = f"repetition {repetition + 1}/{repetitions}, {workload.name}: {peer.name}"
        minutes = (time.monotonic() - began) / 60
        print(f"[{number}/{len(runs)}, {minutes:.1f} min] {text}", file=sys.stderr, flush=True)
        try:
            kept.samples.append({**about, **measure(peer, workload)})
        except (Failed, ValueError) as error:
            print(f"{peer.name} failed: {error}", file=sys.stderr, flush=True)
            kept.failures.append({**about, "reason": str(error).split("\n")[0][:200]})
        kept.write()


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def main() -> None:
    known = ("start", "noop", "paper", "unbalanced")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of the no-op workload")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="how long the sleeps last, by their own length"
    )
    parser.add_argument("--workloads", nargs="+", choices=known, default=known)
    parser.add_argument(
        "--parsl", type=Path, help="parsl's environment, made if missing; default: a temporary one"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("runs/peers.json"),
        help="where every run is written down; one that is there is gone on with",
    )
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
        "unbalanced": workloads.unbalanced(options.scale),
    }
    chosen = [plans[name] for name in options.workloads]
    with tempfile.TemporaryDirectory() as temporary:
        found = peers(options.parsl or Path(temporary, "parsl"))
        present = [peer for peer in found if isinstance(peer, Peer)]
        missing = {peer.name: peer.reason for peer in found if isinstance(peer, Missing)}
        for name, reason in missing.items():
            print(f"{name} is missing: {reason}", file=sys.stderr)
        about = {
            "machine": f"{platform.machine()} with {os.cpu_count()} CPUs (Python "
            f"{platform.python_version()}, {platform.system()} {platform.release()})",
            "peers": {
                peer.name: {
                    **{"version": peer.version, "devices": peer.devices},
                    "flat_only": peer.flat_only,
                }
                for peer in present
            },
            "missing": missing,
        }
        conditions = {peer.name: peer.version for peer in present}
        conditions |= {"machine": about["machine"], "jobs": options.jobs, "scale": options.scale}
        options.results.parent.mkdir(parents=True, exist_ok=True)
        kept = Kept(options.results.absolute(), conditions)
        kept.load.append(load())
        measure_all(present, chosen, options.repetitions, kept)
    measured = summaries(present, chosen, kept.samples)
    result = {
        **about,
        "repetitions": options.repetitions,
        "load": [kept.load[0], load()],
        "workloads": measured,
        "cpu_seconds_per_further_job": further_job(measured, options.jobs),
        "failures": kept.failures,
    }
    kept.write(result=result)
    print(markdown(result, plans))


if __name__ == "__main__":
    main()
