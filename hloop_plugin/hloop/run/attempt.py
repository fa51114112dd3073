"""One attempt: what is kept of a job while it runs, and the verdict when it is over.

The supervisor moves an attempt through its phases; this module decides what each ending
means and writes the attempt's record. It starts and stops nothing.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from hloop import canonical, files
from hloop.files import FileDigest, JobPaths, Portable
from hloop.plan.render import RenderedArtifact, RenderedJob
from hloop.provenance.records import Status
from hloop.run.hashing import Hashed, Refusal

STATUS_TYPE = "hloop/attempt_status/v1"
TAIL_BYTES = 4096
TAIL_LINES = 20


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


@dataclass(slots=True)
class Attempt:
    """A job that was handed over.

    Attributes:
        name: the job id, or the name of a rule's job that no plan holds.
        job: the plan's job; None for others.
        token: marks the attempt's processes, see processes.ATTEMPT_VARIABLE.
        cause: why it was stopped, where it was: set before the first signal is sent.
        leftovers: it ended and left processes behind, which were stopped.
    """

    name: str
    job: RenderedJob | None
    token: str
    phase: Phase = Phase.CHECKING
    pid: int | None = None
    cause: tuple[Status, Failure] | None = None
    started_ns: int = 0
    gone_ns: int = 0
    wait_status: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    leftovers: bool = False

    def main_process_ended(self, wait_status: int, usage: resource.struct_rusage) -> None:
        """Take down what ``wait4`` told of the main process."""
        self.phase = Phase.STOPPING
        self.wait_status = wait_status
        self.usage = {
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_ns": round((usage.ru_utime + usage.ru_stime) * 1e9),
        }

    @property
    def returncode(self) -> int | None:
        """The exit status, or None after a signal or without a start."""
        if self.pid is None or os.WIFSIGNALED(self.wait_status):
            return None
        return os.WEXITSTATUS(self.wait_status)

    @property
    def signal_name(self) -> str | None:
        if self.pid is None or not os.WIFSIGNALED(self.wait_status):
            return None
        number = os.WTERMSIG(self.wait_status)
        try:
            return signal.Signals(number).name
        except ValueError:  # Of the real-time signals only the first and the last have a name.
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt's verdict."""

    status: Status
    failure: Failure | None = None

    @property
    def completed(self) -> bool:
        return self.status is Status.COMPLETED


def judge_exit(attempt: Attempt) -> Outcome | None:
    """Judge an attempt by how its processes ended; None means its outputs decide."""
    if attempt.cause is not None:
        return Outcome(*attempt.cause)
    if name := attempt.signal_name:
        return Outcome(Status.FAILED, Failure("signal", f"it was ended by {name}"))
    if code := attempt.returncode:
        return Outcome(Status.FAILED, Failure("exit_code", f"it exited with {code}"))
    return None


def artifact_entries(
    artifacts: Sequence[RenderedArtifact], results: Sequence[Hashed]
) -> list[dict[str, Any]]:
    """Give journal entries for those artifacts that could be read."""
    return [
        {
            "role": artifact.role,
            "path": artifact.path,
            "sha256": result.sha256,
            "size_bytes": result.size,
        }
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


def publish_status(
    paths: JobPaths, attempt: Attempt, outcome: Outcome, portable: Portable
) -> None:
    """Write the attempt's record, and the completion marker where it completed.

    Raises:
        OSError: the job's folder cannot be written to, or the record is there already.
    """
    failure = outcome.failure
    record = {
        "_type": STATUS_TYPE,
        "job_id": attempt.name,
        "status": outcome.status.value,
        "returncode": attempt.returncode,
        "signal": attempt.signal_name,
        "wall_ns": attempt.gone_ns - attempt.started_ns,
        "stopped_leftovers": attempt.leftovers,
        "outputs": [{**entry, "path": portable.path(entry["path"])} for entry in attempt.outputs],
        "failure": None
        if failure is None
        else {"reason": failure.reason, "message": portable.text(failure.message)},
    }
    data = canonical.dumps(record)
    paths.root.mkdir(parents=True, exist_ok=True)
    files.publish(paths.status, data)
    if outcome.completed:
        # No evidence, only the edge that Snakemake sees: it may touch and delete this file.
        paths.completed.write_text(files.sha256_bytes(data) + "\n")
