"""What the benchmarks share: running a command and counting what it and its children used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import TIMEOUT_MAX, Timer
from typing import Any

from hloop.run.processes import become_subreaper, children, send, with_descendants

PATIENCE = 30.0
"""Seconds that what a command left behind has to end."""


@dataclass(frozen=True)
class Cost:
    """What a command used: seconds of wall clock, and of CPU with all its descendants."""

    wall: float
    cpu: float


class Failed(SystemExit):
    """A command failed, which ends a benchmark that does not catch it; says how, and what it
    printed."""


def run(
    argv: Sequence[str], cwd: Path, logs: Path | None = None, limit: float | None = None
) -> Cost:
    """Run a command to its end. It fails as well if it takes longer than ``limit`` seconds.

    What it prints goes into ``logs``, which is ``cwd`` if it is not given. The CPU is also that of
    processes that outlive the command; those are waited for, and their time is no part of
    ``wall``.

    Raises:
        Failed: it failed, or left processes behind that do not end.
    """
    become_subreaper()
    log = (logs or cwd) / "benchmark.log"
    # An installed package is compiled; a checkout is once this variable does not forbid it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(argv, cwd=cwd, env=environment, stdout=output, stderr=output)
        timer = Timer(limit or TIMEOUT_MAX, lambda: end([process.pid]))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        end(children(os.getpid()))
        orphans_cpu(argv)
        printed = log.read_text(errors="replace").strip() or "it printed nothing"
        last = printed.splitlines()[-1]
        code = process.returncode
        raise Failed(f"{argv[0]} ended with {code}: {last}\n{printed}\n{argv}")
    return Cost(wall, usage.ru_utime + usage.ru_stime + orphans_cpu(argv))


def orphans_cpu(argv: Sequence[str]) -> float:
    """Wait for what a command left behind, and give the CPU seconds that it used."""
    cpu, deadline = 0.0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu
        cpu += usage.ru_utime + usage.ru_stime
        if pid == 0:
            time.sleep(0.05)
    end(children(os.getpid()))
    raise Failed(f"{argv[0]} left processes behind that do not end\n{argv}")


def end(pids: Iterable[int]) -> None:
    """Kill processes and all that they have started."""
    send(with_descendants(pids), signal.SIGKILL)


def middle(costs: Sequence[Cost]) -> Cost:
    return Cost(median(cost.wall for cost in costs), median(cost.cpu for cost in costs))


def finish(result: dict[str, Any]) -> None:
    """Print the machine-readable line."""
    print(json.dumps(result))
