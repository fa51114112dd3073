"""A run without processes: a plan, files that its jobs could have made, and a journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hloop.files import RunPaths, hash_file
from hloop.plan.model import Artifact, CompareMode, Job, Plan, ResourceClass
from hloop.plan.render import RenderedPlan, render_plan
from hloop.run.report import write_report

MS = 1_000_000

Mutation = Callable[[dict[str, Any]], object]

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

DEVICES = [
    {"logical": 0, "token": "GPU-a", "uuid": "GPU-a", "name": "Model A", "simulated": False},
    {"logical": 1, "token": "GPU-b", "uuid": "GPU-b", "name": "Model A", "simulated": False},
]


def rollout(name: str, device: int) -> Job:
    return Job(
        job_id=f"rollout_{name}",
        resource=ResourceClass.GPU,
        command=(
            "python",
            "{repo_root}/scripts/rollout.py",
            f"--output={{run_dir}}/{name}/metrics.json",
        ),
        outputs=(
            Artifact(
                "metrics", f"{{run_dir}}/{name}/metrics.json", None, CompareMode.JSON, ("/when",)
            ),
            Artifact("steps", f"{{run_dir}}/{name}/steps.csv", None, CompareMode.CSV, ("clock",)),
            Artifact("notes", f"{{run_dir}}/{name}/notes.txt", None, CompareMode.NONE),
        ),
        candidate_id=name,
        seed=7,
        budget={"rollouts": 1},
        cuda_visible_devices=str(device),
    )


def diagnose(name: str) -> Job:
    return Job(
        job_id=f"diagnose_{name}",
        resource=ResourceClass.CPU,
        command=("python", "{repo_root}/scripts/diagnose.py", f"{{run_dir}}/{name}/metrics.json"),
        depends_on=(f"rollout_{name}",),
        inputs=(Artifact("metrics", f"{{run_dir}}/{name}/metrics.json"),),
        outputs=(Artifact("report", f"{{run_dir}}/{name}/report.json"),),
        candidate_id=name,
    )


SELECT = Job(
    job_id="select",
    resource=ResourceClass.IO,
    command=("sh", "-c", "cat {run_dir}/*/report.json > {run_dir}/selection.json"),
    depends_on=("diagnose_a", "diagnose_b"),
    inputs=(
        Artifact("report", "{run_dir}/a/report.json"),
        Artifact("report", "{run_dir}/b/report.json"),
    ),
    outputs=(Artifact("selection", "{run_dir}/selection.json"),),
)

PLAN = Plan(
    plan_id="two_candidates",
    jobs=(SELECT, rollout("b", 1), rollout("a", 0), diagnose("a"), diagnose("b")),
    max_cpu_workers=2,
    max_io_workers=1,
    selection_artifact="{run_dir}/selection.json",
)

FILES = {
    "a/metrics.json": json.dumps({"reward": 1.5, "when": "first"}),
    "a/steps.csv": "step,error,clock\n1,0.5,10\n2,,11\n",
    "a/notes.txt": "anything",
    "b/metrics.json": json.dumps({"reward": 2.5, "when": "first"}),
    "b/steps.csv": "step,error,clock\n1,0.25,10\n2,0.75,11\n",
    "b/notes.txt": "anything",
    "a/report.json": '{"terminated": true}',
    "b/report.json": '{"terminated": false}',
    "selection.json": '{"selected": ["b"]}',
}


@dataclass
class SyntheticRun:
    """Collects a journal's events; offsets are given in milliseconds."""

    root: Path
    plan: Plan = PLAN
    name: str = "run"
    start: dict[str, Any] = field(default_factory=dict)
    start_time: datetime = STARTED
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths.root.mkdir(parents=True)
        self.rendered: RenderedPlan = render_plan(self.plan, self.root, self.paths.root)
        self.add(
            "run_started",
            0,
            **{
                "time": self.time(0),
                "monotonic_ns": 1,
                "plan_id": self.plan.plan_id,
                "plan_semantic_hash": "a" * 64,
                "experiment_digest": "sha256:" + "b" * 64,
                "placement_digest": "sha256:" + "c" * 64,
                "mode": "hloop",
                "placement": "pinned",
                "keep_going": False,
                "limits": {"cpu": self.plan.max_cpu_workers, "io": self.plan.max_io_workers},
                "devices": DEVICES,
                "devices_source": "two devices",
                "session_id": "session",
                "run_kind": "interface_sanity_only",
                "repo_root": str(self.root),
                "run_dir": str(self.paths.root),
                "host": {"hostname": "node1", "cpu_count": 8, "boot_id": "boot"},
                "versions": {"hloop": "0.1.0", "snakemake": "9.27.1"},
                "executor": "hloop",
                **self.start,
            },
        )

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.root / self.name)

    def time(self, ms: float) -> str:
        return (self.start_time + timedelta(milliseconds=ms)).isoformat().replace("+00:00", "Z")

    def add(self, event: str, ms: float, **fields: Any) -> None:
        self.events.append({"event": event, "offset_ns": round(ms * MS), **fields})

    def write_files(self, **changed: str) -> None:
        """Write what the jobs could have made, or other texts, by path in the run directory."""
        for name, text in {**FILES, **changed}.items():
            path = self.paths.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def ready(self, job_id: str, ms: float) -> None:
        self.add("job_ready", ms, job=job_id)

    def started(self, job_id: str, ms: float, slot: str | None = None) -> None:
        job = self.rendered.jobs[job_id].job
        device = None if job.device is None else self.events[0]["devices"][job.device]
        if slot is None:
            slot = f"{job.resource.value} 0" if device is None else f"device {job.device}"
        self.add(
            "job_started", ms, job=job_id, time=self.time(ms), pid=1, slot=slot, device=device
        )

    def gone(self, job_id: str, ms: float, *, returncode: int | None = 0) -> None:
        self.add(
            "job_gone",
            ms,
            job=job_id,
            time=self.time(ms),
            returncode=returncode,
            signal="SIGKILL" if returncode is None else None,
            max_rss_bytes=4096,
            cpu_ns=1_500_000,
        )

    def ended(
        self, job_id: str, ms: float, status: str = "completed", message: str = "it broke"
    ) -> None:
        job = self.rendered.jobs[job_id]
        failure = {"reason": "exit_code", "message": message, "stderr_tail": "the end"}
        self.add(
            "job_ended",
            ms,
            job=job_id,
            status=status,
            inputs=[self._entry(item) for item in job.inputs if Path(item.path).exists()],
            outputs=[self._entry(item) for item in job.outputs if Path(item.path).exists()],
            failure=None if status == "completed" else failure,
            attempt_status=None,
        )

    def _entry(self, artifact: Any) -> dict[str, Any]:
        digest = hash_file(artifact.path)
        return {
            "role": artifact.role,
            "path": artifact.path,
            "sha256": digest.sha256,
            "size_bytes": digest.size,
        }

    def run(self, job_id: str, start: float, end: float, status: str = "completed") -> None:
        """Let a job be ready 1 ms before its start, run, and be judged 1 ms after its end."""
        self.ready(job_id, start - 1)
        self.started(job_id, start)
        self.gone(job_id, end, returncode=0 if status == "completed" else 3)
        self.ended(job_id, end + 1, status)

    def end(self, ms: float, status: str = "completed") -> None:
        self.add("run_ended", ms, time=self.time(ms), status=status)

    def run_all(self, **changed: str) -> None:
        """Let every job of PLAN complete."""
        self.write_files(**changed)
        self.run("rollout_a", 10, 110)
        self.run("rollout_b", 10, 210)
        self.run("diagnose_a", 112, 142)
        self.run("diagnose_b", 212, 262)
        self.run("select", 264, 274)
        self.end(280)

    def write(self) -> dict[str, Any]:
        """Write the journal and the report; give the report."""
        lines = (json.dumps(event) + "\n" for event in self.events)
        self.paths.journal.write_text("".join(lines))
        return write_report(self.rendered, self.paths)

    def edit(self, mutate: Mutation) -> None:
        """Change the written report by hand."""
        document = json.loads(self.paths.report.read_bytes())
        mutate(document)
        self.paths.report.write_text(json.dumps(document))

    def rewrite(self, **changed: str) -> None:
        """Run again, with other files made."""
        self.events[1:] = []
        self.run_all(**changed)
        self.write()


def make_pair(root: Path, plan: Plan = PLAN) -> tuple[SyntheticRun, SyntheticRun]:
    """Give two runs of one plan in one repository, a day apart, with the same results."""
    first = SyntheticRun(root, plan, "runs/first")
    second = SyntheticRun(root, plan, "runs/second", start_time=STARTED + timedelta(days=1))
    for run in (first, second):
        run.run_all()
        run.write()
    return first, second
