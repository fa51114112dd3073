"""Runs that are killed with SIGKILL at random moments, and resumed until they are complete.

Each run is of one plan of 20 jobs. At a random moment Snakemake, the supervisor, both, `hloop
run` or all three are killed; some runs are then recovered first; each is resumed, and perhaps
killed again. At its end nothing may be left of it, no record may be half, its outputs must be
those of a run that nobody disturbed, and `hloop verify` must hold.

    .venv/bin/python benchmarks/soak.py --runs 200
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloop import __version__, canonical
from hloop.errors import HloopError
from hloop.files import RunPaths, hash_file
from hloop.plan.load import load_plan
from hloop.provenance.verify import verify
from hloop.run import processes
from hloop.run.page import OFF, SWITCH
from hloop.run.runlock import check_idle

MARKER = "HLOOP_SOAK"
TARGETS = ("snakemake", "supervisor", "both", "hloop", "all")
PATIENCE_SECONDS = 60.0
MAX_KILLS = 3


def plan(folder: Path) -> Path:
    """Write the plan: 8 rollouts on two devices, 8 diagnoses, 3 summaries and a selection."""
    jobs = [_job(f"rollout_{i}", "gpu", [], 0.05 + 0.02 * (i % 4)) for i in range(8)]
    jobs += [_job(f"diagnose_{i}", "cpu", [f"rollout_{i}"], 0.03) for i in range(8)]
    parts = ((0, 1, 2), (3, 4, 5), (6, 7))
    jobs += [
        _job(f"summary_{k}", "io", [f"diagnose_{i}" for i in part], 0.03)
        for k, part in enumerate(parts)
    ]
    jobs.append(_job("select", "io", [f"summary_{k}" for k in range(3)], 0.03))
    for index, job in enumerate(jobs[:8]):
        job["cuda_visible_devices"] = str(index % 2)
    path = folder / "plan.json"
    document = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "soak", "jobs": jobs}
    path.write_text(json.dumps(document))
    return path


def _job(name: str, resource: str, needs: list[str], seconds: float) -> dict[str, Any]:
    """A job that writes its output in two halves, and leaves a process behind that has left
    its session."""
    script = 'setsid sleep 300 & o="$0"; echo start > "$o"; '
    script += f'sleep {seconds}; cat /dev/null "$@" | sha256sum > "$o"; echo {name} >> "$o"'
    files = [f"{{run_dir}}/{need}.txt" for need in needs]
    return {
        "job_id": name,
        "resource": resource,
        "command": ["sh", "-c", script, f"{{run_dir}}/{name}.txt", *files],
        "depends_on": needs,
        "inputs": [{"role": need, "path": path} for need, path in zip(needs, files, strict=True)],
        "outputs": [{"role": name, "path": f"{{run_dir}}/{name}.txt"}],
    }


@dataclass
class Soak:
    """One run, from its beginning to its end.

    Attributes:
        kills: what was killed, in order.
        problems: what should not be.
    """

    plan: Path
    paths: RunPaths
    marker: str
    kills: list[str] = field(default_factory=list)
    executions: int = 0
    recoveries: int = 0
    kept: int = 0
    again: int = 0
    problems: list[str] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        """Begin the run, or resume it."""
        self.executions += 1
        options = ["--resume", str(self.paths.root)]
        if not self.paths.plan.exists():
            options = ["--plan", str(self.plan), "--run-dir", str(self.paths.root)]
        if not self.paths.manifest.exists():
            # Nobody knows the settings of a run that died before it had begun.
            options += ["--repo-root", str(self.plan.parent), "--devices", "simulated:2"]
        argv = [sys.executable, "-m", "hloop", "run", "--grace-seconds", "1", *options]
        with (self.plan.parent / f"{self.paths.root.name}.log").open("ab") as log:
            return subprocess.Popen(
                argv,
                env={**os.environ, MARKER: self.marker, SWITCH: OFF},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_for_a_moment(
        self, process: subprocess.Popen[bytes], rng: random.Random, seconds: float
    ) -> None:
        """Wait for a random time; or until some of the events that are to come have come, and a
        moment more, since most of an execution is the start of Snakemake."""
        if rng.random() < 0.25:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, seconds))
            return
        enough = self.events() + rng.randint(1, 80 if len(self.kills) == 0 else 40)
        while process.poll() is None and self.events() < enough:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))

    def events(self) -> int:
        try:
            return self.paths.journal.read_bytes().count(b"\n")
        except OSError:
            return 0

    def kill(self, process: subprocess.Popen[bytes], target: str) -> bool:
        """Kill a part of an execution. Whether it was there."""
        found = {
            kind: pid for pid in self.alive() if (kind := self._kind(pid, process.pid)) is not None
        }
        wanted = {"both": ("snakemake", "supervisor"), "all": ("hloop", "snakemake", "supervisor")}
        pids = [found[kind] for kind in wanted.get(target, (target,)) if kind in found]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if pids:
            self.kills.append(target)
        return bool(pids)

    def _kind(self, pid: int, front: int) -> str | None:
        if pid == front:
            return "hloop"
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"hloop.run.supervisor" in words:
                return "supervisor"
            if b"snakemake" in words[:4]:
                return "snakemake"
        return None

    def alive(self) -> Iterator[int]:
        """The processes of this run, zombies left out."""
        mark = f"{MARKER}={self.marker}".encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    yield int(name)

    def settle(self) -> None:
        """Wait until nobody executes the run any more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                check_idle(self.paths)
            except HloopError:
                time.sleep(0.02)
                continue
            kinds = {self._kind(pid, -1) for pid in self.alive()}
            if kinds <= {None}:
                return
            time.sleep(0.02)
        self.problems.append("its processes went on for a minute")

    def recover(self) -> None:
        """Have the report written first. A run that had not begun has none."""
        argv = [sys.executable, "-m", "hloop", "recover", str(self.paths.root)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        self.recoveries += done.returncode == 0
        if done.returncode != 0 and "before it had begun" not in done.stderr:
            self.problems.append(f"recover: {done.stderr.strip()}")
        if done.returncode == 0:
            self.check_unaltered("recovered")

    def check_unaltered(self, when: str) -> None:
        verdict = verify(self.paths.root)
        if verdict.unaltered is not True:
            codes = [f"{item.code} {item.where}: {item.found}" for item in verdict.findings]
            self.problems.append(f"{when}: not unaltered: {codes}")

    def check_records(self) -> None:
        """No record is half, wherever it lies."""
        for path in self.paths.root.rglob("*"):
            if path.suffix == ".tmp":
                self.problems.append(f"{path} was left")
            if path.suffix == ".json" and path.name not in ("plan.json", "hloop_run.json"):
                if path.name.startswith("hloop_run."):
                    continue
                try:
                    canonical.loads(path.read_bytes())
                except canonical.CanonicalError as error:
                    self.problems.append(f"{path}: {error}")

    def check_end(self, expected: dict[str, str]) -> None:
        """Hold a run that is complete against one that nobody disturbed."""
        self.check_records()
        verdict = verify(self.paths.root)
        if verdict.exit_code != 0:
            codes = [f"{item.code} {item.where}: {item.found}" for item in verdict.findings]
            self.problems.append(f"verify: {codes}")
        if outputs(self.paths.root) != expected:
            self.problems.append("its outputs are others than those of an undisturbed run")
        if left := list(self.alive()):
            self.problems.append(f"left behind: {left}")
        for event in map(json.loads, self.paths.journal.read_bytes().splitlines()):
            if event["event"] == "run_resumed":
                self.kept += len(event["kept"])
                self.again += len(event["again"])


def outputs(run_dir: Path) -> dict[str, str]:
    """Give the digest of every output."""
    return {path.name: hash_file(path).sha256 for path in sorted(run_dir.glob("*.txt"))}


def soak(folder: Path, path: Path, seed: int, expected: dict[str, str], seconds: float) -> Soak:
    """Make one run, kill it, resume it until it is complete, and look at it."""
    rng = random.Random(seed)
    run = Soak(path, RunPaths(folder / f"run-{seed}"), f"{os.getpid()}-{seed}")
    for _ in range(rng.randint(1, MAX_KILLS)):
        process = run.start()
        run.wait_for_a_moment(process, rng, seconds)
        run.kill(process, rng.choice(TARGETS))
        process.wait()
        run.settle()
        run.check_records()
        if run.paths.plan.exists() and rng.random() < 0.3:
            run.recover()
    process = run.start()
    if process.wait() != 0:
        run.problems.append("resumed to its end, it is not complete")
    else:
        run.check_end(expected)
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    options = parser.parse_args()
    processes.become_subreaper()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        return _soak_all(folder.absolute(), options)


def _soak_all(folder: Path, options: argparse.Namespace) -> int:
    path = plan(folder)
    jobs = len(load_plan(path).jobs)
    undisturbed = Soak(path, RunPaths(folder / "undisturbed"), f"{os.getpid()}-undisturbed")
    began = time.monotonic()
    if undisturbed.start().wait() != 0:
        raise SystemExit(f"the undisturbed run failed; see {folder}/undisturbed.log")
    seconds = time.monotonic() - began
    expected = outputs(undisturbed.paths.root)
    kills: Counter[str] = Counter()
    total: Counter[str] = Counter()
    bad = 0
    began = time.monotonic()
    for place, number in enumerate(range(options.seed, options.seed + options.runs), 1):
        run = soak(folder, path, number, expected, seconds)
        kills.update(run.kills)
        total.update(executions=run.executions, recovered=run.recoveries)
        total.update(kept=run.kept, again=run.again)
        bad += bool(run.problems)
        state = "; ".join(run.problems) or "complete, unaltered, nothing left"
        killed = ", ".join(run.kills) or "nothing"
        print(f"{place}/{options.runs} seed {number}: killed {killed}: {state}", flush=True)
    passed = round(time.monotonic() - began)
    print(f"{options.runs} runs of {jobs} jobs, {total['executions']} executions, {passed} s")
    print("killed: " + ", ".join(f"{kills[target]} x {target}" for target in TARGETS))
    print(f"recovered first: {total['recovered']}")
    print(f"jobs kept when resumed: {total['kept']}, run again: {total['again']}")
    print(f"runs with a problem: {bad}")
    summary = {"runs": options.runs, "jobs": jobs, "first_seed": options.seed, "bad": bad}
    summary |= {"killed": kills, **total, "seconds": passed, "cpu_count": os.cpu_count()}
    print(json.dumps({**summary, "hloop": __version__}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
