"""The records of jobs that no plan holds, where they are asked for (``provenance: all``).

They lie in the run directory of a plan's run, or of a run of their own. What such a job reads
and makes is what its rule declares; what hloop cannot read of that is named in the report and
fails nobody's workflow.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hloop import files
from hloop.devices.observe import Observer
from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.model import Artifact, ArtifactType, Job, ResourceClass
from hloop.plan.render import RenderedArtifact, RenderedJob
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.environment import valid_text
from hloop.provenance.records import DIRECTORY, Reference, Status
from hloop.run.attempt import (
    Attempt,
    Failure,
    Outcome,
    changed_input,
    check_artifacts,
    read_artifacts,
    record_name,
    wanted_inputs,
)
from hloop.run.beginning import begin, read_facts
from hloop.run.channel import Message
from hloop.run.evidence import Evidence
from hloop.run.hashing import Hashed, Refusal, Wanted
from hloop.run.journal import Instant, Journal, mend_journal, read_journal
from hloop.run.opening import RunOpening
from hloop.run.rulesreport import (
    ENDED,
    GONE,
    REJECTED,
    SCHEDULED,
    STARTED,
    rule_entries,
    run_status,
    write_rules_run,
)
from hloop.schedule.events import EngineSettings, Slot


def new_run_dir(root: str, session_id: str) -> Path:
    """Make the run directory of a run without a plan, in Snakemake's folder below ``root``.

    Raises:
        RunDirectoryError: it cannot be made.
    """
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{session_id[:8]}"
    path = Path(root, ".snakemake", "hloop", name)
    try:
        path.mkdir(parents=True)
    except OSError as error:
        found = f"the run directory {path} cannot be made: {error.strerror}"
        raise RunDirectoryError(Problem("run_dir_unwritable", "", found)) from None
    return path


@dataclass
class RuleRun:
    """Keeps the records of a run's jobs that no plan holds.

    Attributes:
        paths: the names in the run directory.
        evidence: writes the records.
        joined: as of a plan's run; this one is never joined.
    """

    paths: RunPaths
    portable: Portable
    journal: Journal
    evidence: Evidence
    table: DeviceTable
    joined: bool = False
    # By the name of the attempt: what the journal says of what its rule declares.
    _declared: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        opening: RunOpening,
        settings: EngineSettings,
        table: DeviceTable,
        grace_seconds: float,
        observer: Observer | None = None,
    ) -> RuleRun:
        """Begin a run without a plan, or join the plan's run that was begun there.

        Raises:
            HloopError: a file of the workflow is gone.
            OSError: the run directory cannot be written to.
        """
        run_dir, repo_root = Path(opening.run_dir), Path(opening.repo_root)
        if not RunPaths(run_dir).journal.exists():
            scripts = Scripts(Portable(run_dir, repo_root))
            begin(opening, None, settings, table, grace_seconds, scripts)[0].close()
        return cls.attach(run_dir, repo_root, table, observer=observer)

    @classmethod
    def attach(
        cls,
        run_dir: Path,
        repo_root: Path,
        table: DeviceTable | None = None,
        journal: Journal | None = None,
        observer: Observer | None = None,
    ) -> RuleRun:
        """Join a run that was begun."""
        paths, portable = RunPaths(run_dir), Portable(run_dir, repo_root)
        journal = journal or Journal.attach(paths.journal)
        facts = read_facts(paths, portable)
        scripts = Scripts(portable)
        evidence = Evidence(
            paths.rules, portable, journal, facts, scripts, alone=True, observer=observer
        )
        return cls(paths, portable, journal, evidence, table or DeviceTable((), "", None))

    def declare(self, message: Message) -> RenderedJob:
        """Take what the executor says of a job, and give the job as plans have it.

        Args:
            message: of a job of no plan. Its ``record`` holds ``rule``, ``argv`` (the command
                as it may be shown), ``inputs`` and ``outputs`` ``[{role, path, directory}]``,
                ``temporary`` (paths that Snakemake removes as soon as nobody needs them) and
                ``not_covered`` (paths that cannot be read here); all paths absolute.
        """
        record = message["record"]
        name = message["name"]
        self._declared[name] = {
            "rule": record["rule"],
            "retried": message["retry"],
            "temporary": list(map(valid_text, record["temporary"])),
            "not_covered": list(map(valid_text, record["not_covered"])),
        }
        argv = tuple(map(valid_text, record["argv"]))
        resource = ResourceClass.GPU if message["gpu"] else ResourceClass.CPU
        return RenderedJob(
            Job(name, resource, argv),
            argv,
            message["cwd"],
            {},
            tuple(map(_artifact, record["inputs"])),
            tuple(map(_artifact, record["outputs"])),
        )

    # Before the start

    def check_inputs(self, attempt: Attempt, results: Sequence[Hashed]) -> Failure | None:
        """Take what was read of an attempt's inputs; say what is wrong with them.

        A folder that is no artifact, since a socket lies in it or it changes, is left out.
        """
        assert attempt.job is not None
        inputs = attempt.job.inputs
        attempt.inputs = read_artifacts(inputs, results)
        folders = [item for item in inputs if item.directory]
        read = {item.path for item in attempt.inputs}
        self._leave_out(attempt, [item.path for item in folders if item.path not in read])
        plain = [
            (item, result)
            for item, result in zip(inputs, results, strict=True)
            if not item.directory
        ]
        return check_artifacts("input", *_unzip(plain))

    def schedule(self, attempt: Attempt, slot: Slot) -> None:
        """Write down that a job is about to start, in this slot.

        Raises:
            HloopError: a script that its command names cannot be read.
            OSError: its record cannot be written.
        """
        attempt.slot = slot
        # A job with several devices has no such field; they stand in its environment.
        if len(slot.devices) == 1:
            attempt.device = self.table.devices[slot.devices[0]]
        # First, so that whoever closes the run for a supervisor that died knows of it.
        self.journal.append(
            SCHEDULED,
            job=attempt.record_name,
            **self._declared[attempt.name],
            slot=slot.name,
            devices=list(slot.devices),
        )
        self.evidence.schedule(attempt)

    # While it runs

    def started(self, attempt: Attempt) -> None:
        self.evidence.started(attempt)
        self.journal.append(STARTED, attempt.started, job=attempt.record_name, pid=attempt.pid)

    def gone(self, attempt: Attempt) -> None:
        """Every process of the attempt is gone."""
        self.evidence.gone(attempt)
        self.journal.append(
            GONE,
            attempt.gone,
            job=attempt.record_name,
            returncode=attempt.returncode,
            signal=attempt.signal_name,
            **attempt.usage,
        )

    # Afterwards

    def wanted_at_end(self, attempt: Attempt) -> list[Wanted]:
        """Give what to read when every process is gone. An output may be a symbolic link, as
        Snakemake allows."""
        assert attempt.job is not None
        wanted = wanted_inputs(attempt.job)
        if attempt.outcome is None:
            wanted += [
                Wanted(item.path, follow=True, directory=item.directory)
                for item in attempt.job.outputs
            ]
        return wanted

    def judge_files(self, attempt: Attempt, results: Sequence[Hashed]) -> Outcome:
        """Judge an attempt by what was read at its end, in the order of :meth:`wanted_at_end`.

        What is settled already stays. A temporary output may be gone: a Snakemake that ran the
        job removes what nobody needs. A folder that is an input may have changed, and is then
        left out: rules name folders that others write into.
        """
        assert attempt.job is not None
        inputs, outputs = attempt.job.inputs, attempt.job.outputs
        at_end = dict(zip((item.path for item in inputs), results, strict=False))
        folders = [item for item in attempt.inputs if item.type == DIRECTORY]
        self._leave_out(
            attempt, [item.path for item in folders if at_end[item.path] != item.digest]
        )
        if attempt.outcome is not None:
            return attempt.outcome
        plain = [item for item in attempt.inputs if item.type != DIRECTORY]
        temporary = self._declared[attempt.name]["temporary"]
        made = [
            (item, result)
            for item, result in zip(outputs, results[len(inputs) :], strict=True)
            if not (_is_missing(result) and item.path in temporary)
        ]
        attempt.outputs = read_artifacts(*_unzip(made))
        failure = changed_input(plain, [at_end[item.path] for item in plain])
        failure = failure or check_artifacts("output", *_unzip(made))
        if failure is None:
            return Outcome(Status.COMPLETED)
        return Outcome(Status.FAILED, failure)

    def ended(self, attempt: Attempt, outcome: Outcome) -> tuple[Outcome, str]:
        """Write an attempt's records. Gives the outcome, and a text for whoever watches.

        An outcome that cannot be written down does not count: the attempt has then failed.
        """
        record = None
        try:
            record = self.evidence.finish(attempt, outcome)
        except OSError as error:
            text = f"its record cannot be written: {error.filename}: {error.strerror}"
            outcome = Outcome(Status.FAILED, Failure("record_unwritable", text))
        self._note_end(attempt.record_name, outcome, record, self._declared.pop(attempt.name))
        return outcome, "" if outcome.failure is None else outcome.failure.message

    def rejected(self, name: str) -> None:
        """Snakemake did not take the outputs of a job that had completed."""
        self.journal.append(REJECTED, job=record_name(name))

    def supervisor_died(self, trouble: str, unheard: Collection[str]) -> None:
        """Write down that the jobs that were under way died with their supervisor, and that
        Snakemake takes no outputs of those in ``unheard``."""
        message = f"the supervisor died, and the job with it: {trouble}"
        self.bury(Outcome(Status.FAILED, Failure("supervisor_died", message)))
        completed = {
            event["job"]
            for event in read_journal(self.paths.journal)
            if event["event"] == ENDED and event["status"] == Status.COMPLETED
        }
        for name in unheard:
            # Ids of plan jobs hold no slash.
            if "/" in name and record_name(name) in completed:
                self.rejected(name)

    def bury(self, outcome: Outcome) -> None:
        """Write down how the attempts ended whose supervisor cannot."""
        mend_journal(self.paths.journal)
        under_way: dict[str, dict[str, Any]] = {}
        for event in read_journal(self.paths.journal):
            if event["event"] == SCHEDULED:
                under_way[event["job"]] = event
            elif event["event"] == ENDED:
                under_way.pop(event["job"], None)
        for name, event in under_way.items():
            ended, record = self.evidence.bury(name, outcome)
            keys = ("rule", "retried", "temporary", "not_covered")
            self._note_end(name, ended, record, {key: event[key] for key in keys})

    def _note_end(
        self,
        name: str,
        outcome: Outcome,
        record: Reference | None,
        declared: Mapping[str, Any],
    ) -> None:
        failure = outcome.failure
        self.journal.append(
            ENDED,
            job=name,
            status=outcome.status.value,
            failure=None
            if failure is None
            else {"reason": failure.reason, "message": failure.message},
            **declared,
            attempt_status=None if record is None else record.to_dict(),
        )

    def leave(self) -> None:
        """Write no more."""
        self.journal.close()

    def close(self, *, interrupted: bool) -> dict[str, Any]:
        """Write the report of a run without a plan. Gives what the executor prints: status,
        counts, report path, head."""
        try:
            entries = rule_entries(read_journal(self.paths.journal), self.portable)
            status = run_status(entries, interrupted=interrupted)
            self.journal.append("run_ended", Instant.now(), status=status)
            self.leave()
            events = read_journal(self.paths.journal)
            report = write_rules_run(self.paths, self.portable, events)
        except (OSError, HloopError) as error:
            return {"trouble": f"the run report cannot be written: {error}"}
        counts: dict[str, int] = {}
        for entry in report["rules"]:
            counts[entry["status"]] = counts.get(entry["status"], 0) + 1
        return {
            "status": status,
            "counts": counts,
            "elapsed_seconds": report["ended"]["offset_ns"] / 1e9,
            "report": str(self.paths.report),
            "head": files.sha256_bytes(self.paths.report.read_bytes()),
        }

    def _leave_out(self, attempt: Attempt, paths: Sequence[str]) -> None:
        left_out = self._declared[attempt.name]["not_covered"]
        left_out += [path for path in paths if path not in left_out]


def _artifact(declared: Mapping[str, Any]) -> RenderedArtifact:
    path = os.path.abspath(declared["path"])
    type = ArtifactType.DIRECTORY if declared["directory"] else ArtifactType.FILE
    return RenderedArtifact(Artifact(declared["role"], path, type=type), path)


def _is_missing(result: Hashed) -> bool:
    return isinstance(result, Refusal) and result.code == "missing"


def _unzip(
    pairs: Sequence[tuple[RenderedArtifact, Hashed]],
) -> tuple[list[RenderedArtifact], list[Hashed]]:
    return [item for item, _ in pairs], [result for _, result in pairs]
