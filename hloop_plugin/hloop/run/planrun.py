"""A plan's run directory, once it is claimed: filled with journal, records and report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hloop import files
from hloop.devices.observe import Observer
from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError
from hloop.files import RunPaths
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.records import (
    Reference,
    Status,
)
from hloop.run.attempt import (
    Attempt,
    Failure,
    Outcome,
    ReadArtifact,
    check_artifacts,
    judge_files,
    read_artifacts,
    read_logs,
    tail,
    wanted_at_end,
)
from hloop.run.beginning import EXTERNAL, begin, read_facts
from hloop.run.claiming import load_claimed
from hloop.run.evidence import Evidence
from hloop.run.formal import FormalRun
from hloop.run.hashing import Hashed, Wanted
from hloop.run.journal import Instant, Journal, mend_journal, read_journal
from hloop.run.opening import PlanOpening
from hloop.run.report import write_report
from hloop.run.resuming import nodes_to_run
from hloop.run.story import read_stories, session_of, waves_of
from hloop.schedule.events import EngineSettings, JobNode, Slot
from hloop.schedule.nodes import plan_nodes


@dataclass
class PlanRun:
    """What the supervisor needs of the plan it runs.

    Attributes:
        rendered: the plan.
        nodes: its jobs as the engine sees them.
        paths: the names in the run directory.
        evidence: writes the attempts' records.
        completed: ids of the jobs that completed.
        joined: another process began the run, and one of its own closes it.
        formal: what a formal run is; None of any other.
        waves: how many waves earlier sessions had.
    """

    rendered: RenderedPlan
    nodes: tuple[JobNode, ...]
    paths: RunPaths
    journal: Journal
    evidence: Evidence
    table: DeviceTable
    completed: set[str] = field(default_factory=set)
    joined: bool = False
    formal: FormalRun | None = None
    waves: int = 0

    @classmethod
    def open(
        cls,
        opening: PlanOpening,
        settings: EngineSettings,
        table: DeviceTable,
        grace_seconds: float,
        observer: Observer | None = None,
    ) -> PlanRun:
        """Open a claimed run directory: start its journal and publish its manifest; or go on
        with a run that is resumed, or join in for one job.

        Raises:
            HloopError: a file that the plan was made from is gone.
            OSError: the run directory cannot be written to.
        """
        rendered = load_claimed(Path(opening.run_dir), Path(opening.repo_root))
        if opening.only is not None:
            return cls.attach(rendered, table, only=opening.only, observer=observer)
        paths = RunPaths(rendered.run_dir)
        portable = Portable(rendered.run_dir, rendered.repo_root)
        scripts = Scripts(portable)
        facts = read_facts(paths, portable) if opening.resumed else None
        if facts is not None:
            journal = Journal.attach(paths.journal)
        else:
            journal, facts = begin(opening, rendered, settings, table, grace_seconds, scripts)
        alone = facts.manifest["mode"] != EXTERNAL
        evidence = Evidence(
            paths.jobs, portable, journal, facts, scripts, alone=alone, observer=observer
        )
        nodes = plan_nodes(rendered.plan, opening.durations_ns)
        run = cls(rendered, nodes, paths, journal, evidence, table, formal=facts.formal)
        if opening.resumed:
            events = read_journal(paths.journal)
            run.completed.update(entry["job"] for entry in session_of(events)[0]["kept"])
            run.nodes = nodes_to_run(nodes, run.completed)
            run.waves = len(waves_of(events))
        return run

    @classmethod
    def attach(
        cls,
        rendered: RenderedPlan,
        table: DeviceTable | None = None,
        only: str | None = None,
        journal: Journal | None = None,
        observer: Observer | None = None,
    ) -> PlanRun:
        """Join a run that another process began, for the job ``only`` or to close it."""
        paths = RunPaths(rendered.run_dir)
        portable = Portable(rendered.run_dir, rendered.repo_root)
        nodes = [
            replace(node, depends_on=())
            for node in plan_nodes(rendered.plan)
            if node.job_id == only
        ]
        facts = read_facts(paths, portable)
        journal = journal or Journal.attach(paths.journal)
        run = cls(
            rendered,
            tuple(nodes),
            paths,
            journal,
            Evidence(
                paths.jobs,
                portable,
                journal,
                facts,
                Scripts(portable),
                alone=False,
                observer=observer,
            ),
            table or DeviceTable((), "", None),
            joined=True,
        )
        stories = read_stories(rendered.jobs, read_journal(paths.journal))
        run.completed.update(n for n, story in stories.items() if story.status is Status.COMPLETED)
        return run

    def leave(self) -> None:
        """Let other processes go on with the run."""
        self.journal.close()

    def place(self, name: str) -> int:
        """Where a job stands in the plan."""
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {job.job_id: place for place, job in enumerate(self.rendered.plan.jobs)}

    def check_inputs(self, attempt: Attempt, results: Sequence[Hashed]) -> Failure | None:
        """Take what was read of an attempt's inputs; say what is wrong with them."""
        assert attempt.job is not None
        attempt.inputs = read_artifacts(attempt.job.inputs, results)
        return check_artifacts("input", attempt.job.inputs, results)

    def schedule(self, attempt: Attempt, slot: Slot) -> None:
        """Write down that a job is about to start, in this slot.

        Raises:
            OSError: its record cannot be written.
        """
        # Another executor knows of no slots.
        attempt.slot = None if self.joined else slot
        attempt.device = self.table.devices[slot.devices[0]] if slot.devices else None
        self.evidence.schedule(attempt)

    def started(self, attempt: Attempt) -> None:
        self.evidence.started(attempt)
        self.journal.append(
            "job_started",
            attempt.started,
            job=attempt.name,
            pid=attempt.pid,
            slot=None if attempt.slot is None else attempt.slot.name,
            device=None if attempt.device is None else attempt.device.to_dict(),
        )

    def gone(self, attempt: Attempt) -> None:
        """Every process of the attempt is gone."""
        self.evidence.gone(attempt)
        self.journal.append(
            "job_gone",
            attempt.gone,
            job=attempt.name,
            returncode=attempt.returncode,
            signal=attempt.signal_name,
            **attempt.usage,
        )

    def wanted_at_end(self, attempt: Attempt) -> list[Wanted]:
        """See :func:`hloop.run.attempt.wanted_at_end`."""
        return wanted_at_end(attempt, self.paths.job(attempt.name), str(self.paths.root))

    def judge_files(self, attempt: Attempt, results: Sequence[Hashed]) -> Outcome:
        """See :func:`hloop.run.attempt.judge_files`."""
        return judge_files(attempt, self.paths.job(attempt.name), results)

    def ended(self, attempt: Attempt, outcome: Outcome) -> tuple[Outcome, str]:
        """Write an attempt's records. Gives the outcome, and a text for whoever watches.

        An outcome that cannot be written down does not count: the attempt has then failed.
        """
        paths = self.paths.job(attempt.name)
        record = None
        if attempt.started is not None and not attempt.logs:
            attempt.logs = read_logs(paths)
        try:
            record = self.evidence.finish(attempt, outcome)
            if outcome.completed:
                # No evidence, only the edge that Snakemake sees: it may touch and delete it.
                paths.completed.write_text(f"sha256:{record.sha256}\n")
        except OSError as error:
            text = f"its record cannot be written: {error.filename}: {error.strerror}"
            outcome = Outcome(Status.FAILED, Failure("record_unwritable", text))
        text = ""
        if outcome.failure is not None:
            text = outcome.failure.message
            if end := tail(paths.stderr):
                text += f". The end of {paths.stderr}:\n{end}"
        self._note_end(attempt.name, outcome, record, attempt.inputs, attempt.outputs)
        if outcome.completed:
            self.completed.add(attempt.name)
        return outcome, text

    def _note_end(
        self,
        name: str,
        outcome: Outcome,
        record: Reference | None,
        inputs: Sequence[ReadArtifact] = (),
        outputs: Sequence[ReadArtifact] = (),
    ) -> None:
        failure = outcome.failure
        self.journal.append(
            "job_ended",
            job=name,
            status=outcome.status.value,
            inputs=[item.journal_entry() for item in inputs],
            outputs=[item.journal_entry() for item in outputs],
            failure=None
            if failure is None
            else {
                "reason": failure.reason,
                "message": failure.message,
                "stderr_tail": tail(self.paths.job(name).stderr),
            },
            attempt_status=None if record is None else record.to_dict(),
        )

    def supervisor_died(self, trouble: str, unheard: Collection[str]) -> None:
        """Write down that the jobs that were under way died with their supervisor.

        Those in ``unheard`` had not come back to Snakemake. It takes them for failed and removes
        what they made, also of those that had completed.
        """
        mend_journal(self.paths.journal)
        message = f"the supervisor died, and the job with it: {trouble}"
        stories = read_stories(self.rendered.jobs, read_journal(self.paths.journal))
        for name, story in stories.items():
            # It may have died in the moment between a job's start and the journal's line.
            begun = story.started is not None or self.paths.job(name).scheduled.exists()
            if begun and story.ended is None:
                self.bury(name, Outcome(Status.FAILED, Failure("supervisor_died", message)))
            elif story.status is Status.COMPLETED:
                self.completed.add(name)
            if name in unheard and name in self.completed:
                self.rejected(name)

    def bury(self, name: str, outcome: Outcome) -> None:
        """Write down how an attempt ended whose supervisor cannot. What the supervisor still
        wrote stands."""
        outcome, record = self.evidence.bury(name, outcome)
        self._note_end(name, outcome, record)
        if outcome.completed:
            self.completed.add(name)

    def rejected(self, name: str) -> None:
        """Snakemake did not take the outputs of a job that had completed."""
        self.completed.discard(name)
        message = "Snakemake did not take what it made; its own log says why"
        outcome = Outcome(Status.FAILED, Failure("rejected", message))
        self._note_end(name, outcome, None)

    def close(self, *, interrupted: bool) -> dict[str, Any]:
        """Write the run report. Gives what the executor prints: status, counts, report path."""
        everything = len(self.completed) == len(self.rendered.jobs)
        status = "interrupted" if interrupted else "completed" if everything else "failed"
        try:
            self.journal.append("run_ended", Instant.now(), status=status)
            self.leave()
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
            "head": files.sha256_bytes(self.paths.report.read_bytes()),
        }
