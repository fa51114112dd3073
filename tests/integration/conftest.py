"""Real Snakemake processes on small workflows and plans, and a look for what they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hloop.files import data_dir

TIMEOUT = 120
# Marks every process that a test starts, so that leftovers can be told from everything else.
MARKER = "HLOOP_TEST_MARKER"


def survivors(marker: str) -> list[str]:
    """Command lines of the processes that carry a test's marker, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{MARKER}={marker}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until ``condition`` gives something true, and give that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


@dataclass
class Workspace:
    """A folder with a workflow or a plan, and ways to run it."""

    root: Path
    marker: str
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "SNAKEMAKE_"))}
        return {**kept, MARKER: self.marker, "PYTHONUNBUFFERED": "1"}

    def start(
        self, argv: Sequence[object], env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command in the folder, in a process group of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, argv)],
            cwd=self.root,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        output, _ = process.communicate(timeout=TIMEOUT)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def run(
        self, *argv: object, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.finish(self.start(argv, env))

    def snakemake(
        self, *argv: object, executor: str = "hloop", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run this folder's Snakefile."""
        options = ("--executor", executor, "--cores", "4", "--scheduler", "greedy")
        return self.run("snakemake", *options, *argv, env=env)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def plan(self, *jobs: Mapping[str, Any], **fields: Any) -> Path:
        """Write a plan of these jobs."""
        document = {
            "schema_version": "mimicx.hloop-plan.v1",
            "plan_id": "test",
            **fields,
            "jobs": list(jobs),
        }
        return self.write("plan.json", json.dumps(document))

    def hloop_argv(self, *options: object, run: str = "run") -> list[object]:
        return [
            *("hloop", "run", "--plan", "plan.json", "--run-dir", run),
            *("--devices", "simulated:2", *options),
        ]

    def hloop_run(self, *options: object, run: str = "run") -> subprocess.CompletedProcess[str]:
        """Run plan.json with two simulated devices."""
        return self.run(*self.hloop_argv(*options, run=run))

    def snakemake_argv(self, *options: object, run: str = "run") -> list[object]:
        """The packaged workflow on plan.json, as `snakemake` itself runs it."""
        return [
            *("snakemake", "--snakefile", data_dir("workflow") / "Snakefile"),
            *("--workflow-profile", "none", "--executor", "hloop", "--cores", "1"),
            *("--hloop-devices", "simulated:2", "--latency-wait", "0", *options),
            *("--config", "plan=plan.json", f"run_dir={run}", f"repo_root={self.root}"),
        ]

    def report(self, run: str = "run") -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.root / run / "hloop_run.json").read_text())
        return report

    def jobs(self, run: str = "run") -> dict[str, dict[str, Any]]:
        return {job["job_id"]: job for job in self.report(run)["jobs"]}


def job(job_id: str, script: str = "", resource: str = "cpu", **fields: Any) -> dict[str, Any]:
    """A job of a plan that runs a piece of shell."""
    return {
        "job_id": job_id,
        "resource": resource,
        "command": ["sh", "-c", script or "true"],
        **({"cuda_visible_devices": "0"} if resource == "gpu" else {}),
        **fields,
    }


@pytest.fixture(scope="session")
def make_job() -> Callable[..., dict[str, Any]]:
    return job


@pytest.fixture
def waiting() -> Callable[..., Any]:
    return wait_for


@contextmanager
def open_workspace(root: Path) -> Iterator[Workspace]:
    """A fresh folder. At its end no process may be left that was started in it."""
    workspace = Workspace(root, f"{os.getpid()}-{root.name}")
    yield workspace
    for process in workspace.processes:
        if process.poll() is None:
            process.kill()
            process.communicate()
    left = survivors(workspace.marker)
    deadline = time.monotonic() + 5
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = survivors(workspace.marker)
    assert not left, f"left behind: {left}"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One for all tests of a module that only look at what is there."""
    with open_workspace(tmp_path_factory.mktemp("shared")) as workspace:
        yield workspace
