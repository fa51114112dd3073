"""The peers: what each is called with, how it is told of devices, and whether it is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from hloop.schedule.events import Placement
from noop_jobs import LIMITS
from peers import formats
from peers.workloads import CPU_WORKERS, DEVICES, IO_WORKERS, SCRIPT, Workload, plan_document


@dataclass(frozen=True)
class Peer:
    """One way to run a workload.

    Attributes:
        version: of the program, as it says itself.
        devices: how devices are modelled, in a few words.
        placement: whether a job runs on the device that the plan pins it to; which lower bound
            holds for it.
        prepare: writes into a new folder what the peer needs, and gives the command that runs
            all jobs there. Its other folder is the one that jobs write what they see into.
        flat_only: it cannot run jobs that depend on others.
    """

    name: str
    version: str
    devices: str
    placement: Placement
    prepare: Callable[[Workload, Path, Path], list[str]]
    flat_only: bool = False


@dataclass(frozen=True)
class Missing:
    """A peer that is not on this machine."""

    name: str
    reason: str


def peers(parsl_folder: Path) -> list[Peer | Missing]:
    """Every peer.

    Args:
        parsl_folder: where parsl's virtual environment is, or is to be made.
    """
    return [
        *(hloop(mode) for mode in ("hloop", "bulk-sync", "sequential")),
        hloop("hloop", Placement.ANY),
        snakemake("snakemake gpu=2", formats.by_class, "gpu=2; the rule names the pinned device"),
        snakemake("snakemake gpu0, gpu1", formats.by_device, "a resource for each device"),
        make(),
        parallel(),
        parsl(parsl_folder),
    ]


def hloop(mode: str, placement: Placement = Placement.PINNED) -> Peer:
    def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
        (folder / "plan.json").write_text(json.dumps(plan_document(workload, seen)))
        argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json", "--run-dir", "run"]
        argv += ["--devices", f"simulated:{DEVICES}", "--mode", mode]
        return [*argv, "--placement", placement.value]

    free = placement is Placement.ANY
    return Peer(
        name="hloop any device" if free else "hloop" if mode == "hloop" else f"hloop {mode}",
        version=f"hloop {version('snakemake-executor-plugin-hloop')}",
        devices="whichever is free" if free else "pins",
        placement=placement,
        prepare=prepare,
    )


def snakemake(name: str, asks: Callable[..., str], devices: str) -> Peer:
    def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
        for file, text in formats.snakefiles(workload, seen, asks).items():
            (folder / file).write_text(text)
        argv = [sys.executable, "-m", "snakemake", "--executor", "local", "--scheduler", "greedy"]
        # As `hloop run` calls it. Metadata would cost a start of pandas, since rules have params.
        argv += ["--cores", str(CPU_WORKERS), *LIMITS, "--latency-wait", "0", "--drop-metadata"]
        return [*argv, "--resources", *formats.snakemake_resources(asks)]

    return Peer(name, f"Snakemake {version('snakemake')}", devices, Placement.PINNED, prepare)


def make() -> Peer | Missing:
    name = "make -j"
    said = first_line("make", "--version")
    if said is None or not said.startswith("GNU Make"):
        return Missing(name, "no GNU make on PATH")

    def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
        (folder / "Makefile").write_text(formats.makefile(workload, seen))
        # One limit for all classes.
        return ["make", "--silent", f"--jobs={DEVICES + CPU_WORKERS + IO_WORKERS}"]

    return Peer(name, said, "a chain of jobs for each device", Placement.PINNED, prepare)


def parallel() -> Peer | Missing:
    name = "parallel"
    # moreutils has another program of this name.
    said = first_line("parallel", "--version")
    if said is None or not said.startswith("GNU parallel"):
        return Missing(name, "no GNU parallel on PATH")

    def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
        (folder / "lines").write_text(formats.parallel_lines(workload))
        argv = ["parallel", "--will-cite", "--jobs", str(DEVICES), "--halt", "now,fail=1"]
        command = f"CUDA_VISIBLE_DEVICES=$(({{%}} - 1)) bash {SCRIPT} {seen} {{1}} {{2}} {{3}}"
        return [*argv, "--colsep", " ", "--arg-file", "lines", command]

    return Peer(name, said, "a device for each job slot", Placement.ANY, prepare, flat_only=True)


def parsl(folder: Path) -> Peer | Missing:
    name, python = "parsl HTEX", folder / "bin/python"
    if not python.exists():
        for argv in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "parsl"],
        ):
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                return Missing(name, f"cannot be installed into {folder}: {reason}")
    said = first_line(str(python), "-c", "import parsl; print('parsl', parsl.__version__)")
    if said is None:
        return Missing(name, f"{python} cannot import it")

    def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
        (folder / "calls.json").write_text(formats.parsl_calls(workload, seen))
        script = SCRIPT.with_name("with_parsl.py")
        # Its executor starts programs of its own by name.
        argv = ["env", f"PATH={python.parent}:{os.environ['PATH']}", str(python), str(script)]
        return [*argv, "calls.json", *map(str, (CPU_WORKERS, IO_WORKERS, DEVICES))]

    return Peer(name, said, "a device for each worker", Placement.ANY, prepare)


def first_line(*argv: str) -> str | None:
    """The first line that a program prints, or None where it is not there or fails."""
    if shutil.which(argv[0]) is None:
        return None
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None
