"""What the records cost: pairs of no-op jobs with them and without, CPU of the supervisor.

The supervisor writes every record, so its own CPU (user and system, without that of the jobs)
shows all of their cost: building and publishing them, with the syncs, reading the logs, and
what they take in the journal and at the end. This script plays Snakemake and hands over a plan.
Without records only the completion marker is written. The cost of a start is taken off.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from hloop.devices.resolve import resolve_devices
from hloop.plan.load import plan_from_checked_document
from hloop.plan.render import render_plan
from hloop.provenance.records import ATTEMPT_STATUS, Reference
from hloop.run import planrun, supervisor
from hloop.run.attempt import Attempt, Outcome
from hloop.run.channel import LineReader, encode
from hloop.run.evidence import Evidence
from hloop.run.opening import Opening, PlanOpening
from hloop.run.planrun import claim
from hloop.schedule.events import EngineSettings, Mode
from measuring import finish
from noop_jobs import make_plan

LIMIT_MS = 3.0
ARMS = ("with", "without")


class NoEvidence(Evidence):
    """Writes no record of any attempt."""

    def schedule(self, attempt: Attempt) -> None:
        pass

    def started(self, attempt: Attempt) -> None:
        pass

    def gone(self, attempt: Attempt) -> None:
        pass

    def finish(self, attempt: Attempt, outcome: Outcome) -> Reference:
        return Reference("", ATTEMPT_STATUS, "", 0)


def supervise(arm: str) -> None:
    """Be the supervisor, and print the CPU seconds that it used."""
    if arm == "without":
        planrun.Evidence = NoEvidence
        planrun.read_logs = lambda paths: []
    supervisor.main()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime)


def talk(sock: socket.socket, opening: Opening, names: list[str]) -> None:
    """Say what Snakemake says; hand over all jobs at once."""
    sock.sendall(encode(opening.to_message()) + encode({"do": "ready", "jobs": names}))
    reader, left = LineReader(), len(names)
    while data := sock.recv(1 << 16):
        for message in reader.feed(data):
            if message["say"] in ("ended", "skipped"):
                left -= 1
                if left == 0:
                    sock.sendall(encode({"do": "close"}))


def measure(arm: str, pairs: int, root: Path) -> float:
    """Run a plan of so many pairs in a new folder; give the supervisor's CPU seconds."""
    root.mkdir()
    plan = render_plan(plan_from_checked_document(make_plan(pairs)), root, root / "run")
    paths = claim(plan)
    opening = Opening(
        EngineSettings(mode=Mode.HLOOP, devices=(0, 1), cpu_workers=2, io_workers=1),
        resolve_devices("simulated:2", {}),
        grace_seconds=5,
        wanted=None,
        run=PlanOpening(
            run_dir=str(paths.root),
            repo_root=str(root),
            executor="hloop",
            snakemake="",
            session_id="benchmark",
            config_files=(),
        ),
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, "--supervise", arm, "--socket", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        theirs.close()
        talk(ours, opening, list(plan.jobs))
    printed = process.communicate()[0]
    report = json.loads(paths.report.read_bytes())
    # Everything ran, and every record is there, or none.
    written = len(list(paths.jobs.glob("*/*.json")))
    assert report["status"] == "completed"
    assert written == (3 * len(plan.jobs) if arm == "with" else 0)
    return float(printed)


def per_job(arm: str, pairs: int, folder: Path) -> float:
    """Give the supervisor's CPU milliseconds for one job more."""
    many, one = measure(arm, pairs, folder / arm), measure(arm, 1, folder / f"{arm}-one")
    return (many - one) / (2 * pairs - 2) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--supervise", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.supervise:
        sys.argv = [sys.argv[0], str(options.socket)]
        supervise(options.supervise)
        return

    costs: dict[str, list[float]] = {arm: [] for arm in ARMS}
    # Nothing is deleted before the end: ext4 looks long for an inode where some were freed.
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(options.repetitions):
            root = Path(folder, str(repetition))
            root.mkdir()
            for arm in ARMS if repetition % 2 else ARMS[::-1]:
                costs[arm].append(per_job(arm, options.pairs, root))
    added = [a - b for a, b in zip(costs["with"], costs["without"], strict=True)]

    print(f"medians of {options.repetitions} repetitions, supervisor's CPU per job")
    for arm in ARMS:
        print(f"  {arm + ' records':<16} {median(costs[arm]):7.3f} ms")
    print(
        f"the records add {median(added):.3f} ms ({min(added):.3f} to {max(added):.3f});", end=" "
    )
    print(f"the limit is {LIMIT_MS} ms")
    finish(
        {
            "cpu_ms_per_job": {arm: round(median(costs[arm]), 3) for arm in ARMS},
            "added_ms": round(median(added), 3),
            "limit_ms": LIMIT_MS,
        }
    )
    sys.exit(0 if median(added) <= LIMIT_MS else 1)


if __name__ == "__main__":
    main()
