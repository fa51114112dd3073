"""A real supervisor process at the other end of a socket, and plans for it to run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hloop.devices.resolve import DeviceTable, resolve_devices
from hloop.files import RunPaths
from hloop.plan.load import plan_from_document
from hloop.plan.render import RenderedPlan, render_plan
from hloop.run.channel import LineReader, Message, encode
from hloop.run.claiming import claim
from hloop.run.journal import read_journal
from hloop.run.opening import (
    MAX_LOG_BYTES,
    LeaseOpening,
    Opening,
    PlanOpening,
    RunOpening,
)
from hloop.schedule.events import EngineSettings, Mode, Placement

# How long a test waits for what must come; it ends as soon as that is there.
PATIENCE = 60.0


def job(job_id: str, script: str = "true", resource: str = "cpu", **fields: Any) -> dict[str, Any]:
    """A job of a plan that runs a piece of shell."""
    device = {"cuda_visible_devices": "0"} if resource == "gpu" else {}
    command = ["sh", "-c", script]
    return {"job_id": job_id, "resource": resource, "command": command, **device, **fields}


def output(name: str) -> dict[str, Any]:
    return {"role": name, "path": f"{{run_dir}}/{name}"}


def rendered(root: Path, *jobs: Mapping[str, Any], **fields: Any) -> RenderedPlan:
    """A plan of these jobs, for the repository ``root`` and the run directory ``root/run``."""
    document = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "test", "jobs": list(jobs)}
    return render_plan(plan_from_document({**document, **fields}), root, root / "run")


def opening(
    plan: RenderedPlan | None = None,
    *,
    mode: str = "hloop",
    keep_going: bool = False,
    grace_seconds: float = 5,
    cpu_workers: int = 4,
    wanted: Sequence[str] | None = None,
    rules: Path | None = None,
    placement: str = "pinned",
    lease_dir: Path | None = None,
    table: DeviceTable | None = None,
    heartbeat_seconds: int = 0,
    max_log_bytes: int = MAX_LOG_BYTES,
) -> Message:
    """The message that opens a run on two devices, simulated if no ``table`` is given.

    A plan's run directory is claimed for it. With ``rules``, a working directory, the jobs of no
    plan get records in its ``run``.
    """
    run = None
    if plan is not None:
        claim(plan)
        run = PlanOpening(
            run_dir=str(plan.run_dir),
            repo_root=str(plan.repo_root),
            executor="hloop",
            snakemake="0",
            session_id="session",
            config_files=(),
        )
    settings = EngineSettings(
        mode=Mode(mode),
        devices=[0, 1],
        cpu_workers=cpu_workers,
        io_workers=2,
        placement=Placement(placement),
        keep_going=keep_going,
    )
    table = table or resolve_devices("simulated:2", {})
    rules_run = None
    if rules is not None:
        (rules / "run").mkdir(exist_ok=True)
        rules_run = RunOpening(str(rules / "run"), str(rules), "hloop", "0", "session", ())
    leases = None if lease_dir is None else LeaseOpening(str(lease_dir))
    return Opening(
        settings,
        table,
        grace_seconds,
        wanted,
        run,
        rules_run,
        leases,
        heartbeat_seconds,
        max_log_bytes,
    ).to_message()


def rule_job(name: str, script: str, folder: Path, **fields: Any) -> Message:
    """The message that hands over a job of no plan."""
    return {
        "do": "rule",
        "name": name,
        "argv": ["sh", "-c", script],
        "cwd": str(folder),
        "environment": {},
        "gpu": 0,
        "retry": False,
        "record": None,
        **fields,
    }


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until ``condition`` gives something true, and give that."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in (b"Z", b"X")


class Supervised:
    """A supervisor and what it has said so far.

    Args:
        root: the folder for its plan and its standard error.
        environment: what it inherits, in place of this process's own.
        preexec: called in the new process before the supervisor starts.
        patch: Python that is run there before, to break what cannot be broken from outside.
        prefix: a command that is given the supervisor's own, and becomes it.
    """

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str] | None = None,
        preexec: Callable[[], object] | None = None,
        patch: str = "",
        prefix: Sequence[str] = (),
    ):
        self.root = root
        self.paths = RunPaths(root / "run")
        self.messages: list[Message] = []
        self._reader = LineReader()
        program = ["-m", "hloop.run.supervisor"]
        if patch:
            program = ["-c", f"from hloop.run import supervisor\n{patch}\nsupervisor.main()"]
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self.stderr = root / "supervisor.stderr"
        with theirs, self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-P", *program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                preexec_fn=preexec,
            )

    # Saying

    def send(self, *messages: Message) -> None:
        self.socket.sendall(b"".join(map(encode, messages)))

    def open(self, plan: RenderedPlan | None = None, **fields: Any) -> None:
        """Open the run; see :func:`opening`."""
        self.send(opening(plan, **fields))

    def ready(self, *names: str) -> None:
        self.send({"do": "ready", "jobs": list(names)})

    def rule(self, name: str, script: str = "true", **fields: Any) -> None:
        """Hand over a job of no plan."""
        self.send(rule_job(name, script, self.root, **fields))

    def stop(self, reason: str = "SIGINT") -> None:
        self.send({"do": "stop", "reason": reason})

    # Hearing

    def hear(self) -> bool:
        """Take in what comes next. False at the end."""
        data = self.socket.recv(1 << 16)
        self.messages += self._reader.feed(data)
        return bool(data)

    def until(self, say: str, name: str | None = None) -> Message:
        """Wait for a message, which may have come already, and give it."""
        while True:
            for message in self.messages:
                if message["say"] == say and name in (None, message.get("name")):
                    return message
            if not self.hear():
                text = self.stderr.read_text()
                raise AssertionError(f"no {say} {name}: {self.messages}\n{text}")

    def ended(self, *names: str) -> list[str]:
        """Wait until these jobs have ended and give how."""
        return [self.until("ended", name)["status"] for name in names]

    def close(self) -> Message:
        """End the run and give the goodbye."""
        self.send({"do": "close"})
        goodbye = self.until("closed")
        self.process.wait(PATIENCE)
        return goodbye

    def hang_up(self) -> int:
        """Die as Snakemake dies: the socket closes. Gives the supervisor's exit status."""
        self.socket.shutdown(socket.SHUT_RDWR)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    # Looking

    def said(self, say: str) -> list[str]:
        """The names in the messages of one kind, in order."""
        return [message["name"] for message in self.messages if message["say"] == say]

    def pid(self, name: str) -> int:
        """Wait until a job has started and give its pid."""
        pid: int = self.until("started", name)["pid"]
        return pid

    def events(self, event: str) -> list[dict[str, Any]]:
        """What is written so far; nothing before the journal has its first line."""
        journal = self.paths.journal
        if not journal.exists() or b"\n" not in journal.read_bytes():
            return []
        return [entry for entry in read_journal(self.paths.journal) if entry["event"] == event]

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.paths.report.read_bytes())
        return report

    def statuses(self) -> dict[str, str]:
        return {entry["job_id"]: entry["status"] for entry in self.report()["jobs"]}

    def children(self) -> list[int]:
        """The direct children of the supervisor."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in text.split()]

    def end(self) -> None:
        """End it in any case."""
        self.socket.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise
