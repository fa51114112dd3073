"""A plan's run directory: claimed once, then filled with its journal, records and report."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hloop import __version__, files
from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.files import Portable, RunPaths
from hloop.plan import identity
from hloop.plan.load import plan_from_checked_document
from hloop.plan.render import RenderedPlan, render_plan
from hloop.provenance.records import Status
from hloop.run.attempt import Attempt, Failure, Outcome, publish_status, tail
from hloop.run.journal import Journal, mend_journal, read_journal, utc_now
from hloop.run.report import write_report
from hloop.schedule.events import EngineSettings, JobNode, Slot
from hloop.schedule.nodes import plan_nodes

# The mode of a run whose jobs another executor started: hloop did not decide their order.
EXTERNAL = "external"


def claim(rendered: RenderedPlan) -> RunPaths:
    """Make the run directory this run's own, by publishing the plan in it.

    Raises:
        RunDirectoryError: it holds something already, or cannot be written to.
    """
    paths = RunPaths(rendered.run_dir)
    paths.check_new()
    document = json.dumps(rendered.plan.to_document(), indent=2, ensure_ascii=False)
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        files.publish(paths.plan, document.encode() + b"\n")
    except FileExistsError:
        paths.check_new()  # Another run was faster: it says so.
        raise
    except OSError as error:
        problem = Problem(
            "run_dir_unwritable",
            "",
            f"the run directory {paths.root} cannot be written to: {error.strerror}",
            action="Choose another run directory",
        )
        raise RunDirectoryError(problem) from None
    return paths


def load_claimed(run_dir: Path, repo_root: Path) -> RenderedPlan:
    """Read back the plan of a claimed run directory."""
    document = json.loads(RunPaths(run_dir).plan.read_bytes())
    return render_plan(plan_from_checked_document(document), repo_root, run_dir)


def host_facts() -> dict[str, Any]:
    """Give what identifies this machine and its boot."""
    return {
        "hostname": platform.node(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
    }


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


@dataclass
class PlanRun:
    """What the supervisor needs of the plan it runs.

    Attributes:
        rendered: the plan.
        nodes: its jobs as the engine sees them.
        paths: the names in the run directory.
        portable: writes paths for the records.
        completed: ids of the jobs that completed.
        joined: another process began the run, and one of its own closes it.
    """

    rendered: RenderedPlan
    nodes: tuple[JobNode, ...]
    paths: RunPaths
    portable: Portable
    journal: Journal
    completed: set[str] = field(default_factory=set)
    joined: bool = False

    @classmethod
    def open(cls, run: Mapping[str, Any], settings: EngineSettings, table: DeviceTable) -> PlanRun:
        """Open a claimed run directory: start its journal, or join in for one job.

        Args:
            run: ``run_dir`` and ``repo_root``; then ``only``, the one job that is run here
                while another executor runs the plan, or ``versions`` (mapping), ``executor``
                (its name) and, if any are known, ``durations_ns`` (mapping).
        """
        rendered = load_claimed(Path(run["run_dir"]), Path(run["repo_root"]))
        if "only" in run:
            return cls.attach(rendered, only=run["only"])
        plan, paths = rendered.plan, RunPaths(rendered.run_dir)
        journal = Journal.create(
            paths.journal,
            plan_id=plan.plan_id,
            plan_semantic_hash=identity.plan_semantic_hash(plan),
            experiment_digest=identity.experiment_digest(plan),
            placement_digest=identity.placement_digest(plan),
            mode=settings.mode.value if run["executor"] == "hloop" else EXTERNAL,
            placement=settings.placement.value,
            keep_going=settings.keep_going,
            limits={"cpu": settings.cpu_workers, "io": settings.io_workers},
            devices=[device.to_dict() for device in table.devices],
            devices_source=table.source,
            repo_root=str(rendered.repo_root),
            run_dir=str(rendered.run_dir),
            host=host_facts(),
            versions={
                "hloop": __version__,
                "python": platform.python_version(),
                **run["versions"],
            },
            executor=run["executor"],
        )
        portable = Portable(rendered.run_dir, rendered.repo_root)
        nodes = plan_nodes(plan, run.get("durations_ns"))
        return cls(rendered, nodes, paths, portable, journal)

    @classmethod
    def attach(cls, rendered: RenderedPlan, only: str | None = None) -> PlanRun:
        """Join a run that another process began, for the job ``only`` or to close it."""
        paths = RunPaths(rendered.run_dir)
        nodes = [
            replace(node, depends_on=())
            for node in plan_nodes(rendered.plan)
            if node.job_id == only
        ]
        run = cls(
            rendered,
            tuple(nodes),
            paths,
            Portable(rendered.run_dir, rendered.repo_root),
            Journal.attach(paths.journal),
            joined=True,
        )
        last = {
            event["job"]: event["status"]
            for event in read_journal(paths.journal)
            if event["event"] == "job_ended"
        }
        run.completed.update(name for name, status in last.items() if status == Status.COMPLETED)
        return run

    def place(self, name: str) -> int:
        """Where a job stands in the plan."""
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {job.job_id: place for place, job in enumerate(self.rendered.plan.jobs)}

    @staticmethod
    def now() -> str:
        return utc_now()

    def started(self, attempt: Attempt, slot: Slot, device: dict[str, Any] | None) -> None:
        self.journal.append(
            "job_started",
            job=attempt.name,
            time=utc_now(),
            pid=attempt.pid,
            # Another executor knows of no slots.
            slot=None if self.joined else slot.name,
            device=device,
        )

    def ended(self, attempt: Attempt, outcome: Outcome) -> tuple[Outcome, str]:
        """Write an attempt's record. Gives the outcome, and a text for whoever watches.

        An outcome that cannot be written down does not count: the attempt has then failed.
        """
        paths = self.paths.job(attempt.name)
        try:
            publish_status(paths, attempt, outcome, self.portable)
        except OSError as error:
            # Publishing goes through a temporary file; the record's own name comes second.
            name = error.filename2 or error.filename
            text = f"its record cannot be written: {name}: {error.strerror}"
            outcome = Outcome(Status.FAILED, Failure("record_unwritable", text))
        failure, entry, text = outcome.failure, None, ""
        if failure is not None:
            entry = {
                "reason": failure.reason,
                "message": failure.message,
                "stderr_tail": tail(paths.stderr),
            }
            text = failure.message
            if entry["stderr_tail"]:
                text += f". The end of {paths.stderr}:\n{entry['stderr_tail']}"
        self.journal.append(
            "job_ended",
            job=attempt.name,
            status=outcome.status.value,
            inputs=attempt.inputs,
            outputs=attempt.outputs,
            failure=entry,
        )
        if outcome.completed:
            self.completed.add(attempt.name)
        return outcome, text

    def supervisor_died(self, trouble: str) -> None:
        """Write down that the jobs that were under way died with their supervisor."""
        mend_journal(self.paths.journal)
        under_way: dict[str, None] = {}
        for event in read_journal(self.paths.journal):
            match event["event"]:
                case "job_started":
                    under_way[event["job"]] = None
                case "job_ended":
                    under_way.pop(event["job"], None)
        for name in under_way:
            self.journal.append(
                "job_ended",
                job=name,
                status=Status.FAILED.value,
                inputs=[],
                outputs=[],
                failure={
                    "reason": "supervisor_died",
                    "message": f"the supervisor died, and the job with it: {trouble}",
                    "stderr_tail": tail(self.paths.job(name).stderr),
                },
            )

    def rejected(self, name: str) -> None:
        """Snakemake did not take the outputs of a job that had completed."""
        self.completed.discard(name)
        self.journal.append(
            "job_ended",
            job=name,
            status=Status.FAILED.value,
            inputs=[],
            outputs=[],
            failure={
                "reason": "rejected",
                "message": "Snakemake did not take what it made; its own log says why",
                "stderr_tail": "",
            },
        )

    def close(self, *, interrupted: bool) -> dict[str, Any]:
        """Write the run report. Gives what the executor prints: status, counts, report path."""
        everything = len(self.completed) == len(self.rendered.jobs)
        status = "interrupted" if interrupted else "completed" if everything else "failed"
        try:
            self.journal.append("run_ended", time=utc_now(), status=status)
            self.journal.close()
            report = write_report(self.rendered, self.paths)
        except (OSError, HloopError) as error:
            return {"trouble": f"the run report cannot be written: {error}"}
        counts: dict[str, int] = {}
        for job in report["jobs"]:
            counts[job["status"]] = counts.get(job["status"], 0) + 1
        return {
            "status": report["status"],
            "counts": counts,
            "elapsed_seconds": report["elapsed_seconds"],
            "report": str(self.paths.report),
        }
