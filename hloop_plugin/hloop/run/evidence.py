"""The records of a run's attempts: what was scheduled, what ran, how it ended.

Each is written once, when what it says is settled, and refers to what it builds on. Nothing
here decides anything; schemas/ has the formats.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import canonical, files
from hloop.devices.observe import Observer
from hloop.files import JobPaths
from hloop.plan.identity import command_semantic_hash
from hloop.plan.render import RenderedJob
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.records import (
    ATTEMPT_STATUS,
    RUN_RECORD,
    SCHEDULED_JOB,
    Reference,
    Status,
    read_back,
)
from hloop.run import processes
from hloop.run.attempt import Attempt, Failure, Outcome, ReadArtifact
from hloop.run.formal import FormalRun
from hloop.run.journal import Instant, Journal

# A count, and blanks around it.
MAX_TRANSITIONS_BYTES = 64


@dataclass(frozen=True)
class RunFacts:
    """What all attempts of a run have in common.

    Attributes:
        manifest: the run's manifest.json.
        manifest_reference: the reference to it.
        plan_reference: the reference to the plan; None without one.
        formal: what a formal run is; None of any other.
    """

    manifest: Mapping[str, Any]
    manifest_reference: Reference
    plan_reference: Reference | None
    formal: FormalRun | None = None


class Evidence:
    """Writes the records of one run's attempts.

    Args:
        folder: where the attempts' own folders lie: ``RUN/jobs`` or ``RUN/rules``.
        facts: of the run; None where its manifest was never written.
        scripts: keeps the digests of the scripts that commands name.
        alone: no other process starts jobs of this run.
        observer: looks at the device of each attempt; None where none is started.
    """

    def __init__(
        self,
        folder: Path,
        portable: Portable,
        journal: Journal,
        facts: RunFacts | None,
        scripts: Scripts,
        *,
        alone: bool,
        observer: Observer | None = None,
    ):
        self._folder = folder
        self._portable = portable
        self._journal = journal
        self._facts = facts
        self._observer = observer or Observer()
        self._scripts = scripts
        self._boot_id = None if facts is None else facts.manifest["host"]["boot_id"]
        self._alone = alone
        self._running: set[str] = set()
        self._together: dict[str, set[str]] = {}
        self._devices: dict[str, list[dict[str, Any] | None]] = {}
        self._start_ticks: dict[str, int | None] = {}
        self._upstream: dict[str, list[Reference]] = {}

    # Before the start

    def schedule(self, attempt: Attempt) -> None:
        """Publish ``scheduled_job.json``; the process may start only then.

        Raises:
            OSError: it cannot be written, or is there already.
        """
        assert attempt.job is not None and self._facts is not None
        job, facts = attempt.job, self._facts
        device = None if attempt.device is None else attempt.device.to_dict()
        upstream = [facts.manifest_reference]
        if facts.plan_reference is not None:
            upstream.append(facts.plan_reference)
        if facts.formal is not None:
            upstream.append(facts.formal.gate)
        record = {
            "_type": SCHEDULED_JOB,
            "job_id": attempt.record_name,
            "run_kind": facts.manifest["run_kind"],
            "protocol": None if facts.formal is None else facts.formal.protocol,
            "fidelity_class": None if facts.formal is None else facts.formal.fidelity_class,
            "method": None if job.job.formal is None else job.job.formal.method,
            "case": None if job.job.formal is None else job.job.formal.case,
            "seed": job.job.seed,
            "candidate_id": job.job.candidate_id,
            "fidelity_gate": None if facts.formal is None else facts.formal.gate_entry(),
            "command": [self._portable.text(item) for item in job.argv],
            "cwd": self._portable.path(job.cwd),
            "command_semantic_hash": command_semantic_hash(job.argv, self._portable.run_dir),
            "input_digests": [self._artifact(item) for item in attempt.inputs],
            "config_digests": self._configs(attempt),
            "code_digests": [item.to_dict() for item in self._scripts.references([job])],
            "resource": job.job.resource.value,
            "slot": None if attempt.slot is None else attempt.slot.name,
            "wave": attempt.wave,
            "device": device,
            "gpu_uuid": None if device is None else device["uuid"],
            "hard_timeout_ms": _milliseconds(job, "max_seconds"),
            "stall_limit_ms": _milliseconds(job, "stall_seconds"),
            "environment": {
                name: self._portable.text(value) for name, value in attempt.environment.items()
            },
            "conda_export_digest": facts.manifest["environment"]["conda_export_digest"],
            "output_dir": self._output_dir(job),
            "scheduled": self._journal.moment(Instant.now()),
            "upstream": [item.to_dict() for item in upstream],
        }
        path = self._paths(attempt.record_name).scheduled
        self._upstream[attempt.record_name] = [self._publish(path, SCHEDULED_JOB, record)]
        if attempt.device is not None:
            self._devices[attempt.record_name] = [self._observer.observe(attempt.device)]

    def _configs(self, attempt: Attempt) -> list[dict[str, Any]]:
        """A formal job has one configuration, its input; the others have those of the run."""
        assert attempt.job is not None and self._facts is not None
        formal = attempt.job.job.formal
        if self._facts.formal is None or formal is None:
            return list(self._facts.manifest["config_digests"])
        configs = (item for item in attempt.inputs if item.role == formal.config)
        return [self._reference(item).to_dict() for item in configs]

    def _output_dir(self, job: RenderedJob) -> str | None:
        if not job.outputs:
            return None
        folders = [os.path.dirname(item.path) for item in job.outputs]
        return self._portable.path(os.path.commonpath(folders))

    # While it runs

    def started(self, attempt: Attempt) -> None:
        """Note that an attempt's process is there, and what runs beside it."""
        assert attempt.pid is not None
        name = attempt.record_name
        self._start_ticks[name] = processes.start_ticks(attempt.pid)
        self._together[name] = set(self._running)
        for other in self._running:
            self._together[other].add(name)
        self._running.add(name)

    def gone(self, attempt: Attempt) -> None:
        """Note that every process of an attempt is gone."""
        self._running.discard(attempt.record_name)
        if attempt.device is not None:
            self._devices[attempt.record_name].append(self._observer.observe(attempt.device))

    # Afterwards

    def finish(self, attempt: Attempt, outcome: Outcome) -> Reference:
        """Publish ``run_record.json`` where it ran, and ``attempt_status.json``.

        Raises:
            OSError: a record cannot be written, or is there already.
        """
        name = attempt.record_name
        paths = self._paths(name)
        if attempt.started is not None:
            # The folder is synced with the status, which comes at once.
            record = self._publish(
                paths.record, RUN_RECORD, self._run_record(attempt), sync_folder=False
            )
            self._upstream[name].append(record)
        status = {
            "outputs": [self._artifact(item) for item in attempt.outputs]
            if outcome.completed
            else [],
            "transitions": _transitions(paths.transitions),
            "returncode": attempt.returncode,
            "signal": attempt.signal_name,
            "wall_ns": attempt.wall_ns,
        }
        return self._status(name, outcome, self._upstream.get(name), status)

    def bury(self, name: str, outcome: Outcome) -> tuple[Outcome, Reference | None]:
        """Publish the status of an attempt whose supervisor died. What that left is kept, also
        a status: then its outcome counts. No reference where none can be written."""
        paths = self._paths(name)
        upstream = []
        for path, type in ((paths.scheduled, SCHEDULED_JOB), (paths.record, RUN_RECORD)):
            if path.exists():
                data = path.read_bytes()
                upstream.append(Reference.of_bytes(self._portable.path(path), type, data))
        unknown: dict[str, Any] = {
            "outputs": [],
            "transitions": _transitions(paths.transitions),
            "returncode": None,
            "signal": None,
            "wall_ns": 0,
        }
        try:
            return outcome, self._status(name, outcome, upstream, unknown)
        except FileExistsError:
            name = self._portable.path(paths.status)
            status, reference = read_back(paths.status, name, ATTEMPT_STATUS)
            failure = status["failure"]
            return Outcome(Status(status["status"]), failure and Failure(**failure)), reference
        except OSError:
            return outcome, None

    def _paths(self, name: str) -> JobPaths:
        return JobPaths(self._folder / name)

    def _status(
        self,
        name: str,
        outcome: Outcome,
        upstream: list[Reference] | None,
        fields: Mapping[str, Any],
    ) -> Reference:
        failure = outcome.failure
        if not upstream:
            upstream = [] if self._facts is None else [self._facts.manifest_reference]
        record = {
            "_type": ATTEMPT_STATUS,
            "job_id": name,
            "status": outcome.status.value,
            "failure": None
            if failure is None
            else {"reason": failure.reason, "message": self._portable.text(failure.message)},
            "recorded": self._journal.moment(Instant.now()),
            "upstream": [item.to_dict() for item in upstream],
            **fields,
        }
        return self._publish(self._paths(name).status, ATTEMPT_STATUS, record)

    def _run_record(self, attempt: Attempt) -> dict[str, Any]:
        assert attempt.started is not None and attempt.gone is not None
        name = attempt.record_name
        at_start, at_end = self._devices.pop(name, [None, None])
        together = sorted(self._together.pop(name))
        return {
            "_type": RUN_RECORD,
            "job_id": name,
            "process": {
                "pid": attempt.pid,
                "start_ticks": self._start_ticks.pop(name),
                "boot_id": self._boot_id,
                # Each job leads a session of its own.
                "session": attempt.pid,
            },
            "started": self._journal.moment(attempt.started),
            "ended": self._journal.moment(attempt.gone),
            "returncode": attempt.returncode,
            "signal": attempt.signal_name,
            "stopped_leftovers": attempt.leftovers,
            "usage": dict(attempt.usage),
            "device_at_start": at_start,
            "device_at_end": at_end,
            "concurrent_with": together if self._alone else None,
            "last_sign_of_life": None
            if attempt.last_sign is None
            else {
                "what": attempt.last_sign.what,
                "moment": self._journal.moment(attempt.last_sign.at),
            },
            "logs": [
                {**self._artifact(item), "cut_bytes": attempt.cut_bytes.get(item.role, 0)}
                for item in attempt.logs
            ],
            "checkpoints": [
                {**self._artifact(item), "role": item.checkpoint}
                for item in attempt.outputs
                if item.checkpoint is not None
            ],
            "upstream": [item.to_dict() for item in self._upstream[name]],
        }

    def _artifact(self, item: ReadArtifact) -> dict[str, Any]:
        return {"role": item.role, **self._reference(item).to_dict()}

    def _reference(self, item: ReadArtifact) -> Reference:
        return Reference.of_digest(self._portable.path(item.path), item.type, item.digest)

    def _publish(
        self, path: Path, type: str, record: Mapping[str, Any], *, sync_folder: bool = True
    ) -> Reference:
        data = canonical.dumps(record)
        try:
            files.publish(path, data, sync_folder=sync_folder)
        except FileNotFoundError:
            # It was never started: nobody has made its folder.
            path.parent.mkdir(parents=True, exist_ok=True)
            files.publish(path, data, sync_folder=sync_folder)
        return Reference.of_bytes(self._portable.path(path), type, data)


def _milliseconds(job: RenderedJob, key: str) -> int | None:
    seconds = job.job.seconds(key)
    return None if seconds is None else math.ceil(seconds * 1000)


def _transitions(path: Path) -> int | None:
    """Read what a job counted; None where it wrote nothing that is a count."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        text = file.read(MAX_TRANSITIONS_BYTES + 1).strip()
    if len(text) > MAX_TRANSITIONS_BYTES or not text.isdigit():
        return None
    count = int(text)
    return count if count <= canonical.MAX_INTEGER else None
