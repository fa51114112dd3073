"""The journal: what happened in a run, one JSON object per line, in order.

It is append-only and written line by line, so that it is right up to the last line whenever a
run dies, and it is enough to make the run report from. The events and their fields:

``run_started``
    First line. ``time``, ``monotonic_ns``, ``mode``, ``placement``, ``keep_going``,
    ``limits`` ``{"cpu": n, "io": n}``, ``devices`` ``[{logical, token, uuid, name,
    simulated}]``, ``devices_source`` (how they were found, a sentence), ``repo_root``,
    ``run_dir``, ``host`` (mapping), ``versions`` (mapping), ``executor``, ``session_id``,
    ``run_kind``; and with a plan ``plan_id``, ``plan_semantic_hash``, ``experiment_digest``,
    ``placement_digest``.
``run_resumed``
    A further session begins, which resumes the run. The fields of ``run_started``, and
    ``session`` (its number, from 2), ``again`` ``[{job, reason}]`` and ``kept`` ``[{job,
    reason, wave, started, gone, ended, concurrent_with}]``: what the records say of the jobs
    that are done, as the events of these names would. What was told before of any job counts
    no more.
``job_restored``
    As an entry of ``kept``, without ``reason``: the run died, and its journal lacks what the
    records of this job say.
``job_ready``
    ``job``. Handed over, inputs checked.
``leases``
    ``folder``, ``remark``. The devices are leased there; ``remark`` is not empty where other
    users do not share it.
``job_waiting``
    ``job``, ``devices`` ``[{device, holder, problem}]``, with logical devices. Another run has
    what the job needs; ``holder`` (a mapping as :class:`hloop.locks.Holder` has it) is null
    where that is not known. ``problem`` is not null where its lease cannot be asked for. Again
    when it waits for another one.
``device_lost``
    ``device`` (logical), ``reason``. No job starts there any more.
``wave_started``
    ``index``, ``jobs``. Bulk-sync only.
``job_started``
    ``job``, ``time``, ``pid``, ``slot`` (its name, or null), ``device`` (a mapping as in
    ``devices``, or null).
``job_gone``
    ``job``, ``time``, ``returncode`` (null after a signal), ``signal`` (name or null),
    ``max_rss_bytes``, ``cpu_ns``. Every process of the job is gone; its slot is free.
``job_ended``
    ``job``, ``status`` (as in the run report), ``inputs`` and ``outputs`` ``[{role, path,
    sha256, size_bytes}]`` with absolute paths, ``failure`` ``{reason, message, stderr_tail}``
    or null, ``attempt_status`` (the reference to the record) or null. Comes without
    ``job_started`` where a job could not start, and a second time where Snakemake did not take
    the outputs of a job that had completed.
``rule_scheduled``
    ``job`` (the name of an attempt of a job that no plan holds), ``rule``, ``retried``,
    ``temporary``, ``not_covered`` (absolute paths; as in the report), ``slot``, ``devices``
    (logical). Only where such jobs get records, as the next four.
``rule_started``
    ``job``, ``time``, ``pid``.
``rule_gone``
    As ``job_gone``.
``rule_ended``
    ``job``, ``status``, ``failure`` ``{reason, message}`` or null, ``attempt_status``, and
    ``rule`` to ``not_covered`` once more. Comes alone where a job's inputs were not there.
``rule_rejected``
    ``job``. Snakemake did not take the outputs of a job that had completed.
``job_skipped``
    ``job``, ``reason``.
``heartbeat``
    ``time``, ``jobs`` ``[{job, alive, processes, log_bytes, log_growth_bytes, watched_mtime,
    cpu_ns, rss_bytes}]``, of those that run: ``alive`` says whether the main process is there,
    the last two count up to 1000 of all its processes that are there now, and the newest time
    of a watched file is null where there is none. ``devices`` ``[{logical, uuid,
    memory_used_bytes, utilisation_percent, problem}]``, of those with a UUID: what NVML said,
    or why it did not.
``stopping``
    ``reason``. The user or a signal stops the run.
``run_ended``
    ``time``, ``status``. Last line, unless the run died.

Every event has ``event`` and ``offset_ns``, nanoseconds of the monotonic clock since the run
started. ``time`` is UTC in ISO 8601. ``cpu_ns`` and ``max_rss_bytes`` count the job's main
process and the descendants that it waited for.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hloop.errors import Problem, ReportError

# Integers in records reach up to 2**53, as nanoseconds 104 days.
MAX_GAP_NS = 30 * 86_400 * 10**9


def utc_now() -> str:
    """Give the time of day, ISO 8601 in UTC with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment by both clocks: the one that never jumps, and the time of day."""

    monotonic_ns: int
    time: str

    @classmethod
    def now(cls) -> Instant:
        return cls(time.monotonic_ns(), utc_now())


class Journal:
    """Appends events to a run's journal.

    Several processes may append to one journal: a line is one write to a file that is open
    for appending, and offsets come from the monotonic clock, which all processes share.
    """

    def __init__(self, fd: int, started_ns: int):
        self._fd = fd
        self.started_ns = started_ns

    def moment(self, instant: Instant) -> dict[str, Any]:
        """Give a moment as records have it: the time of day, and since the run started."""
        return {"time": instant.time, "offset_ns": instant.monotonic_ns - self.started_ns}

    @classmethod
    def create(cls, path: Path, **fields: Any) -> Journal:
        """Start a run's journal with its ``run_started`` event.

        Raises:
            FileExistsError: the run directory holds a journal already.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(path, flags, 0o644)
        start = Instant.now()
        journal = cls(fd, start.monotonic_ns)
        journal.append("run_started", start, monotonic_ns=start.monotonic_ns, **fields)
        # Its records reach the disk one by one. Without this line they would tell of no run.
        os.fsync(fd)
        return journal

    @classmethod
    def attach(cls, path: Path) -> Journal:
        """Open a journal that another process of the same run started."""
        clocks = [event["monotonic_ns"] for event in read_journal(path) if "monotonic_ns" in event]
        return cls(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), int(clocks[-1]))

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """Open the journal of a run whose processes are all gone, maybe since an earlier boot.

        Offsets go on rising: from now on they tell the time since the run started by the clock
        on the wall, where that is not before the last event. A gap beyond
        :data:`MAX_GAP_NS` is left out.

        Raises:
            ReportError: there is no journal, or a line of it cannot be read.
        """
        events = read_journal(path)
        last = max(event["offset_ns"] for event in events)
        since = datetime.now(UTC) - datetime.fromisoformat(events[0]["time"])
        offset = round(since.total_seconds() * 1e9)
        if not last < offset < last + MAX_GAP_NS:
            offset = last + 1
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return cls(fd, time.monotonic_ns() - offset)

    def append(self, event: str, at: Instant | None = None, **fields: Any) -> dict[str, Any]:
        """Write one event and return it as written. With ``at``, it has a ``time``.

        Raises:
            OSError: the disk is full, or the like; the line may be there in part.
        """
        if at is None:
            moment: dict[str, Any] = {"offset_ns": time.monotonic_ns() - self.started_ns}
        else:
            moment = self.moment(at)
        entry = {"event": event, **moment, **fields}
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        # One call takes it all, unless the disk is nearly full: then the next one says so.
        while line:
            line = line[os.write(self._fd, line) :]
        return entry

    def close(self) -> None:
        os.close(self._fd)


def mend_journal(path: Path) -> None:
    """Cut off a last line that its writer died in, so that another process can go on.

    Nobody may be writing.
    """
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read a journal's events. A last line that was cut off is left out.

    Raises:
        ReportError: there is no journal, or a line of it cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ReportError(
            Problem("unreadable", "", f"the journal cannot be read: {error.strerror}"), file=path
        ) from error
    events = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            events.append(json.loads(line))
        except ValueError as error:
            problem = Problem("not_json", f"line {number}", f"not a JSON object: {error}")
            raise ReportError(problem, file=path) from error
    if not events or events[0].get("event") != "run_started":
        raise ReportError(
            Problem("no_start", "", "the journal does not begin with run_started"), file=path
        )
    return events
