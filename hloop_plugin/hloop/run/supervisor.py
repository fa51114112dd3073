"""The supervisor: the one process of a run that starts, watches and stops its jobs.

It has one thread and one loop. The executor tells it over a socket which jobs are ready; the
engine says what starts when; SIGCHLD tells what ended. When the socket closes, whoever was
at the other end has died, and everything is stopped. It never imports Snakemake.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import socket
import sys
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hloop.devices.environment import plan_job_environment, rule_environment
from hloop.devices.resolve import Device, DeviceTable
from hloop.plan.render import RenderedArtifact
from hloop.run import processes
from hloop.run.attempt import (
    Attempt,
    Failure,
    Outcome,
    Phase,
    Status,
    artifact_entries,
    check_artifacts,
    judge_exit,
)
from hloop.run.channel import LineReader, Message, Outbox
from hloop.run.hashing import Hashed, HashService, Wanted
from hloop.run.planrun import PlanRun
from hloop.run.stall import StallWatch
from hloop.schedule.engine import Engine
from hloop.schedule.events import (
    EngineSettings,
    Event,
    Instruction,
    JobAdded,
    JobEnded,
    JobNode,
    JobReady,
    JobRejected,
    Launch,
    Mode,
    Placement,
    Skip,
    Slot,
    SlotFreed,
    SlotKind,
    Stop,
    WaveStarted,
)

# How often processes that were told to end are looked for again.
SCAN_NS = 20_000_000
CHUNK = 1 << 16


class Supervisor:
    """One run. Not to be used twice."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        sock.setblocking(False)
        sock.set_inheritable(False)
        self._lifeline = processes.Lifeline()
        self._outbox = Outbox(sock)
        self._reader = LineReader()
        self._selector = selectors.DefaultSelector()
        self._hashes = HashService()
        self._hash_socket: socket.socket | None = None
        self._attempts: dict[str, Attempt] = {}
        self._unfinished = 0
        self._by_pid: dict[int, Attempt] = {}
        self._ending: dict[str, Attempt] = {}
        self._rules: dict[str, Message] = {}
        self._instructions: deque[Instruction] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._stopping: str | None = None
        self._closing = False
        self._connected = True

    # The loop

    def run(self) -> None:
        """Serve until the executor closes the run or dies."""
        processes.become_subreaper()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._selector.register(wake_read, selectors.EVENT_READ, self._on_signal)
        self._selector.register(self._socket, selectors.EVENT_READ, self._on_message)
        while not (self._unfinished == 0 and (self._closing or not self._connected)):
            for key, _ in self._selector.select(self._patience()):
                key.data(key.fileobj)
            self._run_timers()
            self._work_off()
            self._register()
        self._finish_run()

    def _patience(self) -> float | None:
        """Seconds until the next timer."""
        if not self._timers:
            return None
        return max(0.0, (self._timers[0][0] - time.monotonic_ns()) / 1e9)

    def _at(self, deadline_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (deadline_ns, next(self._sequence), action))

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic_ns():
            heapq.heappop(self._timers)[2]()

    def _register(self) -> None:
        """Watch the sockets for what there is to do on them now."""
        if self._connected:
            wanted = selectors.EVENT_READ
            if not self._outbox.flush():
                wanted |= selectors.EVENT_WRITE
            self._selector.modify(self._socket, wanted, self._on_message)
        if self._hashes.socket is not self._hash_socket:
            if self._hash_socket is not None:
                self._selector.unregister(self._hash_socket)
            self._hash_socket = self._hashes.socket
            if self._hash_socket is not None:
                self._selector.register(
                    self._hash_socket, selectors.EVENT_READ, lambda _: self._hashes.read()
                )

    def _on_signal(self, fd: Any) -> None:
        numbers = os.read(fd, CHUNK)
        self._reap()
        for number in numbers:
            if number != signal.SIGCHLD:
                self._stop_run(signal.Signals(number).name)

    # Messages from the executor

    def _on_message(self, _: Any) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._connected = False
            self._selector.unregister(self._socket)
            if not self._closing:
                self._stop_run("the Snakemake process died")
            return
        for message in self._reader.feed(data):
            getattr(self, f"_do_{message.pop('do')}")(**message)

    def _do_open(
        self,
        *,
        mode: str,
        placement: str,
        keep_going: bool,
        grace_seconds: float,
        cpu_workers: int,
        io_workers: int,
        devices: Message,
        run: Message | None,
        wanted: list[str] | None,
    ) -> None:
        self._grace_ns = round(grace_seconds * 1e9)
        self._table = DeviceTable(
            tuple(Device(**device) for device in devices["devices"]),
            devices["source"],
            devices["mask"],
        )
        settings = EngineSettings(
            mode=Mode(mode),
            devices=tuple(device.logical for device in self._table.devices),
            cpu_workers=cpu_workers,
            io_workers=io_workers,
            placement=Placement(placement),
            keep_going=keep_going,
        )
        self._run = None if run is None else PlanRun.open(run, settings, self._table)
        nodes = () if self._run is None else self._run.nodes
        self._engine = Engine(settings, nodes, wanted)
        self._instructions.extend(self._engine.start())

    def _do_ready(self, jobs: list[str]) -> None:
        """Jobs of the plan whose inputs exist."""
        assert self._run is not None
        for name in jobs:
            job = self._run.rendered.jobs[name]
            attempt = self._attempts[name] = Attempt(name, job, uuid.uuid4().hex)
            self._unfinished += 1
            self._hashes.submit(
                [Wanted(item.path, follow=True) for item in job.inputs],
                partial(self._inputs_read, attempt),
            )

    def _inputs_read(self, attempt: Attempt, results: list[Hashed]) -> None:
        assert attempt.job is not None
        if attempt.phase is Phase.ENDED:
            return
        attempt.inputs = artifact_entries(attempt.job.inputs, results)
        if failure := check_artifacts("input", attempt.job.inputs, results):
            self._finish(attempt, Outcome(Status.FAILED, failure))
            return
        attempt.phase = Phase.WAITING
        self._note("job_ready", job=attempt.name)
        self._tell(JobReady(attempt.name))

    def _do_rule(self, **message: Any) -> None:
        """A job of no plan: ``name``, ``argv``, ``cwd``, ``environment``, ``gpu``, ``retry``."""
        name = message["name"]
        self._rules[name] = message
        attempt = Attempt(name, None, uuid.uuid4().hex, Phase.WAITING)
        self._attempts[name] = attempt
        self._unfinished += 1
        count = message["gpu"]
        kind = SlotKind.GPU if count else SlotKind.RULE
        self._tell(JobAdded(JobNode(name, kind, device_count=count)))

    def _do_rejected(self, job: str) -> None:
        """Snakemake did not take the outputs of a job that completed."""
        if self._run is not None and job not in self._rules:
            self._run.rejected(job)
        self._tell(JobRejected(job))

    def _do_stop(self, reason: str) -> None:
        self._stop_run(reason)

    def _do_close(self) -> None:
        self._closing = True
        if self._unfinished:
            self._stop_run("Snakemake ended the run")

    # The engine

    def _tell(self, event: Event) -> None:
        self._instructions.extend(self._engine.handle(event))

    def _work_off(self) -> None:
        """Carry out what the engine asked for; carrying out may make it ask for more."""
        while self._instructions:
            match self._instructions.popleft():
                case Launch(job_id, slot):
                    self._launch(self._attempts[job_id], slot)
                case WaveStarted(index, job_ids):
                    self._note("wave_started", index=index, jobs=list(job_ids))
                case Skip(job_id, reason, handed):
                    self._skip(job_id, reason, handed)

    def _skip(self, name: str, reason: str, handed: bool) -> None:
        if name not in self._rules:
            self._note("job_skipped", job=name, reason=reason)
        if not handed:
            return
        attempt = self._attempts[name]
        if attempt.phase is not Phase.ENDED:
            attempt.phase = Phase.ENDED
            self._unfinished -= 1
            self._outbox.put({"say": "skipped", "name": name, "reason": reason})

    def _note(self, event: str, **fields: Any) -> None:
        if self._run is not None:
            self._run.journal.append(event, **fields)

    # Starting

    def _launch(self, attempt: Attempt, slot: Slot) -> None:
        rule = self._rules.get(attempt.name)
        try:
            if rule is not None:
                attempt.pid = self._spawn_rule(attempt, rule, slot)
            else:
                attempt.pid = self._spawn_plan_job(attempt, slot)
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            failure = Failure("could_not_start", f"it could not start: {name}{error.strerror}")
            self._finish(attempt, Outcome(Status.FAILED, failure))
            return
        attempt.phase = Phase.RUNNING
        attempt.started_ns = time.monotonic_ns()
        self._by_pid[attempt.pid] = attempt
        if rule is None:
            assert self._run is not None
            devices = [self._table.devices[index].to_dict() for index in slot.devices]
            self._run.started(attempt, slot, devices[0] if devices else None)
            self._watch(attempt)
        self._outbox.put(
            {
                "say": "started",
                "name": attempt.name,
                "pid": attempt.pid,
                "token": attempt.token,
                "slot": None if slot.kind is SlotKind.RULE else slot.name,
                "devices": list(slot.devices),
            }
        )

    def _spawn_plan_job(self, attempt: Attempt, slot: Slot) -> int:
        assert self._run is not None and attempt.job is not None
        job, paths = attempt.job, self._run.paths.job(attempt.name)
        paths.root.mkdir(parents=True, exist_ok=True)
        device = slot.devices[0] if slot.devices else None
        environment = plan_job_environment(self._table, device).apply(
            {**os.environ, **job.environment}
        )
        environment["HLOOP_JOB_ID"] = attempt.name
        environment[processes.ATTEMPT_VARIABLE] = attempt.token
        with open(paths.stdout, "xb") as stdout, open(paths.stderr, "xb") as stderr:
            return processes.spawn(
                job.argv,
                cwd=job.cwd,
                environment=environment,
                lifeline=self._lifeline,
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )

    def _spawn_rule(self, attempt: Attempt, rule: Message, slot: Slot) -> int:
        environment = rule_environment(self._table, slot.devices).apply(
            {**os.environ, **rule["environment"]}
        )
        environment[processes.ATTEMPT_VARIABLE] = attempt.token
        return processes.spawn(
            rule["argv"], cwd=rule["cwd"], environment=environment, lifeline=self._lifeline
        )

    # Watching and stopping

    def _watch(self, attempt: Attempt) -> None:
        """Set the attempt's timeout and its watch for stalls, where its budget has them."""
        assert attempt.job is not None and self._run is not None
        limit = attempt.job.job.seconds("max_seconds")
        if limit is not None:
            failure = Failure("timeout", f"it ran longer than max_seconds = {limit:g}")
            self._at(
                attempt.started_ns + round(limit * 1e9),
                lambda: self._stop(attempt, Status.TIMED_OUT, failure),
            )
        patience = attempt.job.job.seconds("stall_seconds")
        if patience is not None:
            paths = self._run.paths.job(attempt.name)
            watched = [paths.stdout, paths.stderr]
            watched += [Path(output.path) for output in attempt.job.outputs]
            self._check_stall(attempt, StallWatch(patience, watched))

    def _check_stall(self, attempt: Attempt, watch: StallWatch) -> None:
        if attempt.phase is not Phase.RUNNING or attempt.cause is not None:
            return
        now = time.monotonic_ns()
        if watch.is_stalled(now, processes.cpu_ticks(self._members(attempt))):
            failure = Failure(
                "stalled",
                f"for stall_seconds = {watch.seconds:g} its logs and outputs did not grow and "
                "it used no CPU time",
            )
            self._stop(attempt, Status.STALLED, failure)
        else:
            self._at(now + watch.interval_ns, lambda: self._check_stall(attempt, watch))

    def _stop_run(self, reason: str) -> None:
        """Start nothing more, and cancel what runs."""
        if self._stopping is not None or self._closing and not self._unfinished:
            return
        self._stopping = reason
        self._note("stopping", reason=reason)
        self._tell(Stop(f"the run was stopped: {reason}"))
        self._work_off()
        failure = Failure("cancelled", f"the run was stopped: {reason}")
        for attempt in list(self._attempts.values()):
            if attempt.phase is Phase.CHECKING:
                # Not known to the engine as handed over yet, so it was not given back.
                self._skip(attempt.name, failure.message, handed=True)
            elif attempt.phase is Phase.HASHING:
                self._finish(attempt, Outcome(Status.CANCELLED, failure))
            elif attempt.phase is Phase.RUNNING:
                self._stop(attempt, Status.CANCELLED, failure)

    def _stop(self, attempt: Attempt, status: Status, failure: Failure) -> None:
        """Stop a running attempt for a reason. The first reason counts."""
        if attempt.phase is not Phase.RUNNING or attempt.cause is not None:
            return
        attempt.cause = (status, failure)
        self._terminate(attempt)

    def _terminate(self, attempt: Attempt) -> None:
        """TERM now, KILL after the grace period, for the whole tree."""
        self._ending[attempt.name] = attempt
        attempt.kill_ns = time.monotonic_ns() + self._grace_ns
        if self._grace_ns:
            processes.send(self._members(attempt), signal.SIGTERM)
        self._scan(attempt)

    def _scan(self, attempt: Attempt) -> None:
        """Look whether an attempt that was told to end is gone; KILL what is late."""
        if attempt.name not in self._ending:
            return
        assert attempt.kill_ns is not None
        now = time.monotonic_ns()
        if now >= attempt.kill_ns:
            processes.send(self._members(attempt), signal.SIGKILL)
        if not self._is_gone(attempt):
            self._at(
                min(now + SCAN_NS, max(attempt.kill_ns, now + 1_000_000)),
                lambda: self._scan(attempt),
            )

    def _members(self, attempt: Attempt) -> list[int]:
        """Every process of an attempt that can be found, its main process first."""
        roots = [attempt.pid] if attempt.phase is Phase.RUNNING and attempt.pid else []
        known = self._by_pid.keys() | {self._hashes.worker_pid}
        for pid in processes.children(os.getpid()):
            if pid not in known and self._owns(attempt, pid):
                roots.append(pid)
        return processes.with_descendants(roots)

    def _owns(self, attempt: Attempt, orphan: int) -> bool:
        """Whether an orphan that came to this process was started by this attempt."""
        if processes.session_of(orphan) == attempt.pid:
            return True
        token = processes.attempt_of(orphan)
        if token is not None:
            return token == attempt.token
        # It left the session and cleared its environment: only being alone tells.
        return not (self._by_pid.keys() - {attempt.pid}) and len(self._ending) <= 1

    # Ending

    def _reap(self) -> None:
        """Collect every child that ended, jobs and what they left behind alike."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if attempt := self._by_pid.pop(pid, None):
                attempt.wait_status = status
                attempt.usage = {
                    "max_rss_bytes": usage.ru_maxrss * 1024,
                    "cpu_ns": round((usage.ru_utime + usage.ru_stime) * 1e9),
                }
                attempt.phase = Phase.STOPPING
                if attempt.name not in self._ending and self._members(attempt):
                    attempt.leftovers = True
                    self._terminate(attempt)
                else:
                    self._ending[attempt.name] = attempt
        for attempt in list(self._ending.values()):
            self._is_gone(attempt)

    def _is_gone(self, attempt: Attempt) -> bool:
        if attempt.phase is not Phase.STOPPING or self._members(attempt):
            return False
        self._ending.pop(attempt.name, None)
        attempt.gone_ns = time.monotonic_ns()
        if attempt.job is not None:
            self._note(
                "job_gone",
                job=attempt.name,
                time=self._run.now() if self._run else None,
                returncode=attempt.returncode,
                signal=attempt.signal_name,
                **attempt.usage,
            )
        # The slot's next job starts before this one's outputs are read and written down.
        self._tell(SlotFreed(attempt.name))
        self._work_off()
        outcome = judge_exit(attempt)
        if outcome is None and attempt.job is None:
            outcome = Outcome(Status.COMPLETED)
        if outcome is not None:
            self._finish(attempt, outcome)
            return True
        assert attempt.job is not None
        attempt.phase = Phase.HASHING
        self._hashes.submit(
            [Wanted(item.path, follow=False) for item in attempt.job.outputs],
            partial(self._outputs_read, attempt),
        )
        return True

    def _outputs_read(self, attempt: Attempt, results: list[Hashed]) -> None:
        if attempt.phase is Phase.ENDED:
            return
        assert attempt.job is not None
        outputs: tuple[RenderedArtifact, ...] = attempt.job.outputs
        attempt.outputs = artifact_entries(outputs, results)
        failure = check_artifacts("output", outputs, results)
        status = Status.COMPLETED if failure is None else Status.FAILED
        self._finish(attempt, Outcome(status, failure))

    def _finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """Write the verdict down, and tell the engine and the executor."""
        attempt.phase = Phase.ENDED
        self._unfinished -= 1
        text = ""
        if self._run is not None and attempt.job is not None:
            outcome, text = self._run.ended(attempt, outcome)
        elif outcome.failure is not None:
            text = outcome.failure.message
        rule = self._rules.get(attempt.name)
        # A job that Snakemake starts again has not failed yet.
        completed = outcome.completed or bool(rule and rule["retry"])
        self._tell(JobEnded(attempt.name, completed))
        self._outbox.put(
            {
                "say": "ended",
                "name": attempt.name,
                "status": outcome.status.value,
                "message": text,
            }
        )

    def _finish_run(self) -> None:
        """Stop what no job owns any more, write the report, say goodbye."""
        self._hashes.close()
        processes.send(processes.with_descendants(processes.children(os.getpid())), signal.SIGKILL)
        goodbye: Message = {"say": "closed", "status": None}
        if self._run is not None and not self._run.joined:
            if self._stopping is None:
                self._tell(Stop("Snakemake ended before this job was handed over"))
                self._work_off()
            goodbye |= self._run.close(interrupted=self._stopping is not None)
        self._socket.setblocking(True)
        self._outbox.put(goodbye)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Run a supervisor on the socket whose descriptor is the first argument."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    supervisor = Supervisor(sock)
    try:
        supervisor.run()
    except BaseException:
        # Jobs die with this process, by their parent-death signal; the executor says why.
        text = traceback.format_exc()
        print(f"hloop: the supervisor failed\n{text}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sock.setblocking(True)
            Outbox(sock).put({"say": "trouble", "message": text})
        sys.exit(1)


if __name__ == "__main__":
    main()
