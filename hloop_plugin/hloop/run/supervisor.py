"""The supervisor: the one process of a run that starts, watches and stops its jobs.

It has one thread and one loop. The executor tells it over a socket which jobs are ready; the
engine says what starts when; SIGCHLD tells what ended. When the socket closes, whoever was
at the other end has died, and everything is stopped. It never imports Snakemake.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
import uuid
from collections import deque
from functools import partial
from typing import Any

from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError
from hloop.provenance.records import Status
from hloop.run import processes
from hloop.run.asking import PatientObserver
from hloop.run.attempt import Attempt, Failure, Outcome, Phase, judge_exit, wanted_inputs
from hloop.run.channel import Message, Outbox
from hloop.run.hashing import Hashed, HashService
from hloop.run.heartbeat import Heartbeat
from hloop.run.jobtrees import JobTrees
from hloop.run.journal import Instant
from hloop.run.launcher import Launcher, why_not
from hloop.run.link import ExecutorLink
from hloop.run.loop import Loop
from hloop.run.opening import Opening
from hloop.run.planrun import PlanRun
from hloop.run.rulerun import RuleRun
from hloop.run.sharing import Sharing
from hloop.run.watchdog import Watchdog
from hloop.schedule.engine import Engine
from hloop.schedule.events import (
    EngineSettings,
    Event,
    Instruction,
    JobAdded,
    JobEnded,
    JobReady,
    JobRejected,
    Launch,
    Skip,
    Slot,
    SlotFreed,
    Stop,
    Unplaceable,
    WaveStarted,
)
from hloop.schedule.nodes import rule_node


class Supervisor:
    """One run. Not to be used twice."""

    def __init__(self, sock: socket.socket):
        self._link = ExecutorLink(sock)
        self._hashes = HashService()
        self._hash_socket: socket.socket | None = None
        self._attempts: dict[str, Attempt] = {}
        self._unfinished = 0
        self._rules: dict[str, Message] = {}
        self._skipped: set[str] = set()
        self._events: list[Event] = []
        self._instructions: deque[Instruction] = deque()
        self._loop = Loop()
        # Until the executor opens the run, there is nothing to run.
        self._run: PlanRun | None = None
        self._rule_run: RuleRun | None = None
        self._table = DeviceTable((), "", None)
        self._observer = PatientObserver()
        timers = self._loop.timers
        self._sharing = Sharing(timers, self._note, self._link.waiting, self._observer)
        self._engine = Engine(EngineSettings())
        self._trees = JobTrees(timers, 0, self._own_pids, self._gone)
        self._stopping: str | None = None
        self._cut_short = False
        self._closing = False

    # The loop

    def run(self) -> None:
        """Serve until the executor closes the run or dies."""
        processes.become_subreaper()
        self._loop.take_signals(
            (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT), self._on_signals
        )
        self._link.watch(self._loop, self._on_message)
        while not (self._unfinished == 0 and (self._closing or not self._link.connected)):
            self._loop.turn()
            self._work_off()
            self._watch_sockets()
        self._finish_run()

    def _watch_sockets(self) -> None:
        self._link.watch(self._loop, self._on_message)
        if self._hashes.socket is not self._hash_socket:
            if self._hash_socket is not None:
                self._loop.forget(self._hash_socket)
            self._hash_socket = self._hashes.socket
            if self._hash_socket is not None:
                self._loop.watch(self._hash_socket, self._hashes.read)

    def _on_signals(self, numbers: bytes) -> None:
        # First what stops the run: who sends a signal to all processes ends jobs with it.
        for number in numbers:
            if number != signal.SIGCHLD:
                self._stop_run(signal.Signals(number).name)
        self._trees.reap()

    # Messages from the executor

    def _on_message(self) -> None:
        for message in self._link.hear(self._loop):
            getattr(self, f"_do_{message.pop('do')}")(**message)
        if not self._link.connected and not self._closing:
            self._stop_run("Snakemake hung up: it was killed, or it failed")

    def _do_open(self, **message: Any) -> None:
        opening = Opening.from_message(**message)
        self._table = opening.table
        self._observer.begin(self._table)
        grace = opening.grace_seconds
        begun_with = (opening.settings, opening.table, grace, self._observer)
        if opening.run is not None:
            self._run = PlanRun.open(opening.run, *begun_with)
        if opening.rules is not None:
            self._rule_run = RuleRun.open(opening.rules, *begun_with)
        self._launcher = Launcher(self._table, self._run, self._rule_run)
        timers = self._loop.timers
        self._trees = JobTrees(timers, round(grace * 1e9), self._own_pids, self._gone)
        self._events += self._sharing.open(opening)
        self._watchdog = Watchdog(timers, self._trees, self._stop, opening.max_log_bytes)
        looked_at = (self._trees, self._watchdog, self._observer)
        Heartbeat(timers, opening, *looked_at, self._note, self._lose).start()
        nodes = () if self._run is None else self._run.nodes
        self._engine = Engine(opening.settings, nodes, opening.wanted)
        self._instructions.extend(self._engine.start())
        if self._stopping is not None:
            self._halt(self._stopping)

    def _do_ready(self, jobs: list[str]) -> None:
        """Jobs of the plan whose inputs exist, in no order that means anything."""
        assert self._run is not None
        for name in sorted(jobs, key=self._run.place):
            job = self._run.rendered.jobs[name]
            attempt = self._attempts[name] = Attempt(name, job, uuid.uuid4().hex)
            self._unfinished += 1
            self._hashes.submit(wanted_inputs(job), partial(self._inputs_read, attempt))

    def _inputs_read(self, attempt: Attempt, results: list[Hashed]) -> None:
        records = self._records(attempt)
        if attempt.phase is Phase.ENDED or records is None:
            return
        rule = self._rules.get(attempt.name)
        if rule is not None:
            self._tell(JobAdded(rule_node(attempt.name, rule["gpu"])))
        if failure := records.check_inputs(attempt, results):
            self._finish(attempt, Outcome(Status.FAILED, failure))
            return
        attempt.phase = Phase.WAITING
        if rule is None:
            self._note("job_ready", job=attempt.name)
            self._tell(JobReady(attempt.name))

    def _do_rule(self, **message: Any) -> None:
        """A job of no plan: ``name``, ``argv``, ``cwd``, ``environment``, ``gpu``, ``retry``,
        and ``record`` where such jobs get records."""
        name = message["name"]
        self._rules[name] = message
        attempt = self._attempts[name] = Attempt(name, None, uuid.uuid4().hex, Phase.WAITING)
        self._unfinished += 1
        if self._rule_run is None:
            self._tell(JobAdded(rule_node(name, message["gpu"])))
            return
        attempt.phase, attempt.job = Phase.CHECKING, self._rule_run.declare(message)
        self._hashes.submit(wanted_inputs(attempt.job), partial(self._inputs_read, attempt))

    def _do_rejected(self, job: str) -> None:
        """Snakemake did not take the outputs of a job that completed."""
        rule = self._rules.get(job)
        if (records := self._records(self._attempts[job])) is not None:
            records.rejected(job)
        if not (rule and rule["retry"]):
            self._tell(JobRejected(job))

    def _do_lost(self, jobs: list[str], reason: str) -> None:
        """Jobs of the plan that will never be handed over: what no plan holds has failed."""
        for name in jobs:
            if name not in self._skipped and name not in self._attempts:
                self._skip(name, reason, handed=False)
                self._tell(JobEnded(name, completed=False))

    def _do_stop(self, reason: str) -> None:
        self._stop_run(reason)

    def _do_close(self) -> None:
        self._closing = True
        if self._unfinished:
            self._stop_run("Snakemake ended the run")

    # The engine

    def _tell(self, event: Event) -> None:
        """Note an event for the engine. What came together is told together, so that of the
        jobs that became ready at once the longest path starts first."""
        self._events.append(event)

    def _work_off(self) -> None:
        """Carry out what the engine asks for; carrying out may make for new events."""
        while self._events or self._instructions or self._settle():
            if not self._instructions:
                events, self._events = self._events, []
                self._instructions.extend(self._engine.handle(*events))
                continue
            match self._instructions.popleft():
                case Launch(job_id, slot):
                    self._launch(self._attempts[job_id], slot)
                case WaveStarted(index, job_ids):
                    index += 0 if self._run is None else self._run.waves
                    self._note("wave_started", index=index, jobs=list(job_ids))
                    for job_id in job_ids:
                        self._attempts[job_id].wave = index
                case Skip(job_id, reason, handed):
                    self._skip(job_id, reason, handed)
                case Unplaceable(job_id, reason):
                    failure = Failure("device_lost", reason)
                    self._finish(self._attempts[job_id], Outcome(Status.FAILED, failure))

    # Devices that other runs use, or that are lost

    def _settle(self) -> bool:
        """Get and give back leases. Whether the engine must hear of that."""
        self._events += self._sharing.settle(self._engine.wants)
        return bool(self._events)

    def _skip(self, name: str, reason: str, handed: bool) -> None:
        self._cut_short |= self._stopping is not None
        if name not in self._rules and name not in self._skipped:
            self._skipped.add(name)
            self._note("job_skipped", job=name, reason=reason)
        if handed:
            self._give_back(self._attempts[name], reason)

    def _give_back(self, attempt: Attempt, reason: str) -> None:
        """Return a job that was not started to Snakemake."""
        if attempt.phase is not Phase.ENDED:
            attempt.phase = Phase.ENDED
            self._unfinished -= 1
            self._link.skipped(attempt.name, reason)

    def _note(self, event: str, **fields: Any) -> None:
        if (run := self._run or self._rule_run) is not None:
            run.journal.append(event, **fields)

    def _records(self, attempt: Attempt) -> PlanRun | RuleRun | None:
        """What keeps the records of an attempt, if it gets any."""
        return self._rule_run if attempt.name in self._rules else self._run

    # Starting

    def _launch(self, attempt: Attempt, slot: Slot) -> None:
        rule = self._rules.get(attempt.name)
        attempt.slot = slot
        self._sharing.use(attempt.name, slot.devices)
        try:
            if rule is not None:
                attempt.pid = self._launcher.rule_job(attempt, rule, slot)
            else:
                attempt.pid = self._launcher.plan_job(attempt, slot)
        except (OSError, ValueError, HloopError) as error:
            failure = Failure("could_not_start", f"it could not start: {why_not(error)}")
            self._finish(attempt, Outcome(Status.FAILED, failure))
            return
        attempt.phase = Phase.RUNNING
        attempt.started = Instant.now()
        self._trees.add(attempt)
        if (records := self._records(attempt)) is not None:
            records.started(attempt)
        self._watchdog.watch(
            attempt, None if rule is not None or self._run is None else self._run.paths
        )
        self._link.started(attempt, slot)

    # Watching and stopping

    def _stop_run(self, reason: str) -> None:
        """Start nothing more, and cancel what runs."""
        if self._stopping is not None or self._closing and not self._unfinished:
            return
        self._stopping = reason
        self._cut_short = self._unfinished > 0
        self._halt(reason)
        self._work_off()
        failure = Failure("cancelled", f"the run was stopped: {reason}")
        for attempt in list(self._attempts.values()):
            if attempt.phase is Phase.CHECKING:
                # The engine skipped it, not knowing that it had been handed over.
                self._give_back(attempt, failure.message)
            elif attempt.phase is Phase.HASHING:
                self._finish(attempt, attempt.outcome or Outcome(Status.CANCELLED, failure))
            elif attempt.phase is Phase.RUNNING:
                self._stop(attempt, Status.CANCELLED, failure)

    def _halt(self, reason: str) -> None:
        self._note("stopping", reason=reason)
        self._tell(Stop(f"the run was stopped: {reason}"))

    def _stop(self, attempt: Attempt, status: Status, failure: Failure) -> None:
        """Stop a running attempt for a reason. The first reason counts."""
        if attempt.phase is not Phase.RUNNING or attempt.cause is not None:
            return
        attempt.cause = (status, failure)
        self._trees.terminate(attempt)

    # Ending

    def _lose(self, device: int, reason: str) -> None:
        """A device does not work any more: nothing is started there, and what needs it fails.
        What runs there is left alone."""
        self._events += self._sharing.lose(device, reason)

    def _own_pids(self) -> set[int]:
        return {pid for pid in (self._hashes.worker_pid, self._observer.pid) if pid is not None}

    def _gone(self, attempt: Attempt) -> None:
        """Every process of an attempt is gone: judge it, or see first what it made."""
        attempt.gone = Instant.now()
        self._events += self._sharing.gone(attempt)
        self._watchdog.gone(attempt)
        attempt.outcome = judge_exit(attempt)
        records = self._records(attempt)
        if records is None:
            self._finish(attempt, attempt.outcome or Outcome(Status.COMPLETED))
            return
        records.gone(attempt)
        # The slot's next job starts before this one's files are read and written down.
        if attempt.outcome is None:
            self._tell(SlotFreed(attempt.name))
        else:
            self._tell(JobEnded(attempt.name, self._is_retried(attempt)))
        self._work_off()
        attempt.phase = Phase.HASHING
        self._watchdog.settle(attempt, partial(self._read_files, attempt, records))

    def _read_files(self, attempt: Attempt, records: PlanRun | RuleRun) -> None:
        if attempt.phase is not Phase.ENDED:
            wanted = records.wanted_at_end(attempt)
            self._hashes.submit(wanted, partial(self._files_read, attempt))

    def _files_read(self, attempt: Attempt, results: list[Hashed]) -> None:
        records = self._records(attempt)
        if attempt.phase is not Phase.ENDED and records is not None:
            self._finish(attempt, records.judge_files(attempt, results))

    def _is_retried(self, attempt: Attempt) -> bool:
        """Whether Snakemake starts a job again that failed: then it has not failed yet."""
        rule = self._rules.get(attempt.name)
        return rule is not None and rule["retry"] and attempt.slot is not None

    def _finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """Write the verdict down, and tell the engine and the executor."""
        is_retried = self._is_retried(attempt)
        self._events += self._sharing.release(attempt.name)
        attempt.phase = Phase.ENDED
        self._unfinished -= 1
        text = ""
        records = self._records(attempt)
        if records is not None:
            outcome, text = records.ended(attempt, outcome)
        elif outcome.failure is not None:
            text = outcome.failure.message
        if records is None or attempt.outcome is None:
            self._tell(JobEnded(attempt.name, outcome.completed or is_retried))
        self._link.ended(attempt.name, outcome.status.value, text)

    def _finish_run(self) -> None:
        """Stop what no job owns any more, write the report, say goodbye."""
        self._hashes.close()
        self._observer.close()
        self._sharing.close()
        processes.send(processes.with_descendants(processes.children(os.getpid())), signal.SIGKILL)
        goodbye: Message = {"status": None}
        run = self._run or self._rule_run
        if run is not None and not run.joined:
            if self._stopping is None:
                self._tell(Stop("Snakemake ended before this job was handed over"))
                self._work_off()
            goodbye |= run.close(interrupted=self._cut_short)
        self._link.goodbye(goodbye)


def main() -> None:
    """Run a supervisor on the socket whose descriptor is the first argument. It keeps those
    that follow, and no job inherits them."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    for fd in sys.argv[2:]:
        os.set_inheritable(int(fd), False)
    supervisor = Supervisor(sock)
    try:
        supervisor.run()
    except BaseException as error:
        # The jobs die with this process (processes.Lifeline); the executor says why.
        print(f"hloop: the supervisor failed\n{traceback.format_exc()}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sock.setblocking(True)
            text = f"{type(error).__name__}: {error}"
            Outbox(sock).put({"say": "trouble", "message": text})
        sys.exit(1)


if __name__ == "__main__":
    main()
