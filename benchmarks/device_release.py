"""How soon a device is free again while what its job wrote is hashed.

Two gpu jobs on one simulated device, neither of which waits for the other. The first writes one
large output. The time is that between the first job's last act and the second one's first, by
the jobs' own clock, so it also holds the start of a shell and of `date`; what the records say
stands beside it. It counts only if the second job ran before the output's digest was there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measuring import finish, run

LIMIT_MS = 50
NOW = "date +%s%N"


@dataclass(frozen=True)
class Release:
    """Milliseconds from the end of the first job.

    Attributes:
        seen: to the second job's first act, by the jobs' own clock.
        recorded: to the second job's start, by the report.
        hashed: to the record of the first job, for which its output had been hashed.
    """

    seen: float
    recorded: float
    hashed: float


def measure(size: int) -> Release:
    write = f"head -c {size} /dev/zero > large; {NOW} > last"
    jobs = [
        {
            "job_id": "first",
            "resource": "gpu",
            "command": ["sh", "-c", write],
            "cwd": "{run_dir}",
            "cuda_visible_devices": "0",
            "outputs": [
                {"role": role, "path": f"{{run_dir}}/{role}"} for role in ("large", "last")
            ],
        },
        {
            "job_id": "second",
            "resource": "gpu",
            "command": ["sh", "-c", f"{NOW} > next"],
            "cwd": "{run_dir}",
            "cuda_visible_devices": "0",
            "outputs": [{"role": "next", "path": "{run_dir}/next"}],
        },
    ]
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "release", "jobs": jobs}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plan.json").write_text(json.dumps(plan))
        argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json", "--run-dir", "run"]
        run([*argv, "--devices", "simulated:1"], Path(folder))
        root = Path(folder, "run")
        first, second = json.loads((root / "hloop_run.json").read_bytes())["jobs"]
        status = json.loads((root / "jobs/first/attempt_status.json").read_bytes())
        last, following = (int((root / name).read_text()) for name in ("last", "next"))
    return Release(
        (following - last) / 1e6,
        (second["start_offset_ns"] - first["end_offset_ns"]) / 1e6,
        (status["recorded"]["offset_ns"] - first["end_offset_ns"]) / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of the output")
    options = parser.parse_args()

    measured = [measure(options.mib << 20) for _ in range(options.repetitions)]
    print(f"a device is given on, its job's output of {options.mib} MiB is hashed meanwhile")
    for one in measured:
        print(
            f"  after {one.seen:7.2f} ms by the jobs' clock, {one.recorded:7.2f} ms by the report;"
            f" hashed after {one.hashed:7.0f} ms"
        )
    worst = max(one.seen for one in measured)
    holds = worst <= LIMIT_MS and all(one.hashed > one.seen for one in measured)
    print(f"at most {worst:.2f} ms; the limit is {LIMIT_MS} ms")
    finish(
        {
            "release_ms": [round(one.seen, 2) for one in measured],
            "recorded_ms": [round(one.recorded, 2) for one in measured],
            "hashed_ms": [round(median(one.hashed for one in measured), 1)],
            "worst_ms": round(worst, 2),
            "limit_ms": LIMIT_MS,
        }
    )
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
