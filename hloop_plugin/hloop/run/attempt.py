"""One attempt: what is kept of a job while it runs, and the verdict when it is over.

The supervisor moves an attempt through its phases; this module decides what each ending
means. It starts and stops nothing, and writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from hloop.devices.resolve import Device
from hloop.files import FileDigest, FileRefused, JobPaths, hash_file
from hloop.plan.render import RenderedArtifact, RenderedJob
from hloop.provenance.records import DIRECTORY, FILE, Status
from hloop.run.hashing import Hashed, Refusal, Wanted
from hloop.run.journal import Instant
from hloop.run.signs import Sign
from hloop.schedule.events import Slot

TAIL_BYTES = 4096
TAIL_LINES = 20
# The exit status of a shell whose command was ended by SIGKILL.
SHELL_KILLED = 128 + signal.SIGKILL


class Phase(Enum):
    """Where an attempt is. It only moves forward."""

    CHECKING = 1
    """Its inputs are being read."""
    WAITING = 2
    """Handed to the engine; no slot yet."""
    RUNNING = 3
    """Its main process is alive."""
    STOPPING = 4
    """Its main process is gone, something that it started is not."""
    HASHING = 5
    """No process is left; its outputs are being read."""
    ENDED = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt did not complete: a stable code and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReadArtifact:
    """A file or directory that was read.

    Attributes:
        path: absolute.
        checkpoint: the role that an output has as a checkpoint, if any.
    """

    role: str
    path: str
    type: str
    digest: FileDigest
    checkpoint: str | None = None

    def journal_entry(self) -> dict[str, Any]:
        """Give what the journal says of it."""
        return {
            "role": self.role,
            "path": self.path,
            "sha256": self.digest.sha256,
            "size_bytes": self.digest.size,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt's verdict."""

    status: Status
    failure: Failure | None = None

    @property
    def completed(self) -> bool:
        return self.status is Status.COMPLETED


@dataclass(slots=True)
class Attempt:
    """A job that was handed over.

    Attributes:
        name: the job id, or the name of a rule's job that no plan holds.
        job: the plan's job, or what a rule's job that gets records declares; else None.
        token: marks the attempt's processes, see processes.ATTEMPT_VARIABLE.
        cause: why it was stopped, where it was: set before the first signal is sent.
        environment: what it has beside what this process inherited.
        inputs: as they were read before it started.
        outcome: what is settled before its outputs are read: None while it may complete.
        leftovers: it ended and left processes behind, which were stopped.
        unkillable: pids that were still there long after KILL; nobody waits for them any more.
        last_sign: of life, where it has limits.
        oom_evidence: what shows that the kernel killed it for lack of memory.
        late_failure: what was found in its logs when its processes were gone.
        cut_bytes: of each log, what was cut out of its middle.
    """

    name: str
    job: RenderedJob | None
    token: str
    phase: Phase = Phase.CHECKING
    pid: int | None = None
    cause: tuple[Status, Failure] | None = None
    slot: Slot | None = None
    wave: int | None = None
    device: Device | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    started: Instant | None = None
    gone: Instant | None = None
    wait_status: int | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    inputs: list[ReadArtifact] = field(default_factory=list)
    outputs: list[ReadArtifact] = field(default_factory=list)
    logs: list[ReadArtifact] = field(default_factory=list)
    outcome: Outcome | None = None
    leftovers: bool = False
    unkillable: tuple[int, ...] = ()
    last_sign: Sign | None = None
    oom_evidence: str | None = None
    late_failure: Failure | None = None
    cut_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def record_name(self) -> str:
        return record_name(self.name)

    @property
    def wall_ns(self) -> int:
        if self.started is None or self.gone is None:
            return 0
        return self.gone.monotonic_ns - self.started.monotonic_ns

    def main_process_ended(self, wait_status: int, usage: resource.struct_rusage) -> None:
        """Take down what ``wait4`` told of the main process."""
        self.phase = Phase.STOPPING
        self.wait_status = wait_status
        self.usage = {
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_ns": round((usage.ru_utime + usage.ru_stime) * 1e9),
        }

    def main_process_stays(self, cpu_ticks: int) -> None:
        """Take down that the main process does not end; how much memory it used is not told."""
        self.phase = Phase.STOPPING
        cpu_ns = cpu_ticks * 10**9 // os.sysconf("SC_CLK_TCK")
        self.usage = {"max_rss_bytes": 0, "cpu_ns": cpu_ns}

    @property
    def returncode(self) -> int | None:
        """The exit status, or None after a signal, without a start or without an end."""
        if self.wait_status is None or os.WIFSIGNALED(self.wait_status):
            return None
        return os.WEXITSTATUS(self.wait_status)

    @property
    def signal_name(self) -> str | None:
        if self.wait_status is None or not os.WIFSIGNALED(self.wait_status):
            return None
        number = os.WTERMSIG(self.wait_status)
        try:
            return signal.Signals(number).name
        except ValueError:  # Of the real-time signals only the first and the last have a name.
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def judge_exit(attempt: Attempt) -> Outcome | None:
    """Judge an attempt by how its processes ended; None means its outputs decide."""
    if attempt.unkillable:
        pids = ", ".join(map(str, attempt.unkillable))
        text = f"KILL did not end its processes, which are left behind: pid {pids}"
        if attempt.cause is None:
            return Outcome(Status.FAILED, Failure("unkillable", text))
        status, failure = attempt.cause
        return Outcome(status, Failure(failure.reason, f"{failure.message}. {text}"))
    if attempt.cause is not None:
        return Outcome(*attempt.cause)
    name, code = attempt.signal_name, attempt.returncode
    if name is None and not code:
        return None
    reason, text = "signal", f"it was ended by {name}"
    if name is None:
        reason, text = "exit_code", f"it exited with {code}"
    if code == SHELL_KILLED:
        text += ", as shells do after SIGKILL to what they ran"
    if attempt.oom_evidence is not None:
        reason = "oom_killed"
        text += f": the kernel ran out of memory, {attempt.oom_evidence}"
    elif name == "SIGKILL" or code == SHELL_KILLED:
        text += "; who sent it is unknown"
    return Outcome(Status.FAILED, Failure(reason, text))


def wanted_inputs(job: RenderedJob) -> list[Wanted]:
    """Give what to read before a job starts. Inputs may be symbolic links."""
    return [Wanted(item.path, follow=True, directory=item.directory) for item in job.inputs]


def wanted_at_end(attempt: Attempt, paths: JobPaths, run_dir: str) -> list[Wanted]:
    """Give what to read when every process is gone: its inputs, its logs and, where it may
    have completed, its outputs."""
    assert attempt.job is not None
    wanted = wanted_inputs(attempt.job)
    wanted += [Wanted(str(path), follow=False) for path in (paths.stdout, paths.stderr)]
    if attempt.outcome is None:
        wanted += [
            Wanted(item.path, follow=False, directory=item.directory, inside=run_dir)
            for item in attempt.job.outputs
        ]
    return wanted


def judge_files(attempt: Attempt, paths: JobPaths, results: Sequence[Hashed]) -> Outcome:
    """Judge an attempt by what was read at its end, in the order of :func:`wanted_at_end`.

    What is settled already stays.
    """
    assert attempt.job is not None
    inputs, outputs = attempt.job.inputs, attempt.job.outputs
    logs = (paths.stdout, paths.stderr)
    before, rest = results[: len(inputs)], results[len(inputs) :]
    attempt.logs = [
        ReadArtifact(path.stem, str(path), FILE, result)
        for path, result in zip(logs, rest, strict=False)
        if isinstance(result, FileDigest)
    ]
    if attempt.outcome is not None:
        return attempt.outcome
    made = rest[len(logs) :]
    attempt.outputs = read_artifacts(outputs, made)
    failure = (
        attempt.late_failure
        or changed_input(attempt.inputs, before)
        or check_artifacts("output", outputs, made)
        or _check_logs(logs, rest)
    )
    if failure is None:
        return Outcome(Status.COMPLETED)
    return Outcome(Status.FAILED, failure)


def _check_logs(logs: Sequence[Path], results: Sequence[Hashed]) -> Failure | None:
    """A log that cannot be read is evidence that is missing."""
    for path, result in zip(logs, results, strict=False):
        if isinstance(result, Refusal):
            return Failure(f"log_{result.code}", f"its log {path.stem!r}: {result.message}")
    return None


def read_logs(paths: JobPaths) -> list[ReadArtifact]:
    """Read the logs here and now: for an attempt whose end is cut short."""
    found = []
    for path in (paths.stdout, paths.stderr):
        with contextlib.suppress(FileRefused):
            found.append(ReadArtifact(path.stem, str(path), FILE, hash_file(path)))
    return found


def changed_input(inputs: Sequence[ReadArtifact], results: Sequence[Hashed]) -> Failure | None:
    """Compare what inputs were at the start with what they are now."""
    for item, result in zip(inputs, results, strict=True):
        if isinstance(result, Refusal):
            found = result.message
        elif result != item.digest:
            found = f"{item.path} had sha256 {item.digest.sha256} and now has {result.sha256}"
        else:
            continue
        return Failure(
            "input_changed", f"its input {item.role!r} is not what it was at the start: {found}"
        )
    return None


def read_artifacts(
    artifacts: Sequence[RenderedArtifact], results: Sequence[Hashed]
) -> list[ReadArtifact]:
    """Give those artifacts that could be read."""
    return [
        ReadArtifact(
            artifact.role,
            artifact.path,
            DIRECTORY if artifact.directory else FILE,
            result,
            artifact.declared.checkpoint,
        )
        for artifact, result in zip(artifacts, results, strict=True)
        if isinstance(result, FileDigest)
    ]


def check_artifacts(
    kind: str, artifacts: Sequence[RenderedArtifact], results: Sequence[Hashed]
) -> Failure | None:
    """Compare what was read with what the plan demands.

    Args:
        kind: ``input`` or ``output``; reasons are ``<kind>_missing``, ``<kind>_digest`` and
            ``<kind>_<refusal code>``.
    """
    for artifact, result in zip(artifacts, results, strict=True):
        what = f"its {kind} {artifact.role!r}"
        if isinstance(result, Refusal):
            return Failure(f"{kind}_{result.code}", f"{what}: {result.message}")
        if artifact.sha256 is not None and artifact.sha256 != result.sha256:
            return Failure(
                f"{kind}_digest",
                f"{what}: {artifact.path} has sha256 {result.sha256}, but the plan says "
                f"{artifact.sha256}",
            )
    return None


def record_name(name: str) -> str:
    """Give an attempt's name in records: that of its folder, among the plan's jobs or the
    rules'."""
    return name.rpartition("/")[2]


def tail(path: Path) -> str:
    """Give the last lines of a log, at most 20 and 4 KiB."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])


def _open_at_once(path: str, flags: int) -> int:
    """Open a log. A FIFO that the job put in its place must not hold up the run."""
    return os.open(path, flags | os.O_NONBLOCK)
