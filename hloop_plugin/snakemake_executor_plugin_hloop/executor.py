"""The executor: what Snakemake hands over goes to the supervisor, what ends comes back.

With the other modules beside it, this is all that knows Snakemake's
internals; tests/integration/test_contract.py names each of them. It decides nothing: what
starts when is the engine's business, in the supervisor. It is imported at every start of
Snakemake, so hloop's modules are imported where they are needed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.settings import ExecMode

from snakemake_executor_plugin_hloop.front import StopSignals, outlive_readers
from snakemake_executor_plugin_hloop.goodbye import say_goodbye
from snakemake_executor_plugin_hloop.refusals import (
    refuse_debugging,
    refuse_limits,
    refuse_unforced,
    refuse_without_plan,
)
from snakemake_executor_plugin_hloop.rulejobs import (
    RuleJobs,
    safe,
    snakemake_version,
    will_be_retried,
)
from snakemake_executor_plugin_hloop.rulerecords import RuleRecords

if TYPE_CHECKING:
    from hloop.devices.resolve import DeviceTable
    from hloop.run.client import SupervisorClient
    from hloop.run.opening import RunOpening
    from hloop.run.runlock import RunLock
    from hloop.run.workflow import WorkflowRun

# The kernel takes 128 KiB as one argument; Snakemake writes longer commands to a script.
MAX_ARGUMENT = 1 << 17


class Executor(RealExecutor):
    """Runs every job of a workflow through one supervisor process."""

    def __post_init__(self) -> None:
        self._client: SupervisorClient | None = None
        self._rules = RuleJobs(self.workflow)
        self._records = RuleRecords(self.workflow)
        # The run that jobs of no plan have their records in, where they get any.
        self._rule_run: RunOpening | None = None
        self._signals = StopSignals()
        # Jobs that were handed over and have not come back, by the name they have here.
        self._jobs: dict[str, Any] = {}
        self._completed: set[str] = set()
        # Jobs of a run that is resumed which are done.
        self._kept: frozenset[str] = frozenset()
        self._environment: dict[str, str] = {}
        self._table: DeviceTable
        self._claimed = False
        self._switch: dict[str, str] = {}
        self._run_lock: RunLock | None = None
        self._ended = False
        self._trouble = ""
        # Jobs that had not come back when the supervisor died.
        self._unheard: set[str] = set()

    # What Snakemake calls

    def run_jobs(self, jobs: list[Any]) -> None:
        client = self._client or self._start()
        self._prepare(jobs)
        planned = []
        for job in jobs:
            name = self._name(job)
            self._jobs[name] = job
            # What is printed when a job starts; an error in it belongs into this thread.
            for member in job if job.is_group() else [job]:
                _ = member.message, member.shellcmd
            if name in self._kept or self._is_bodiless(job) or self._rules.is_fetched(job):
                # There is nothing to run.
                if name not in self._kept:
                    self.printjob(job)
                self.report_job_submission(SubmittedJobInfo(job))
                self._succeed(name)
                continue
            if self._plan_job(job) is not None:
                planned.append(name)
            else:
                message = self._rule_message(name, job)
                if message is None:
                    continue
                client.send(message)
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=name))
        if planned:
            client.send({"do": "ready", "jobs": planned})
        if self._trouble:
            self._fail_all()

    def run_job(self, job: Any) -> None:
        self.run_jobs([job])

    def handle_job_error(self, job: Any) -> None:
        # Called also where Snakemake itself finds fault with what a job made.
        if self._client is None:
            return
        name = self._name(job)
        if name in self._completed:
            self._completed.discard(name)
            self._client.send({"do": "rejected", "job": name})
        if self._plan_job(job) is not None or will_be_retried(job):
            return
        if lost := self._plan_jobs_below(job):
            reason = f"depends on {name}, which failed"
            self._client.send({"do": "lost", "jobs": lost, "reason": reason})

    def shutdown(self) -> None:
        if self._ended:
            return
        self._ended = True
        goodbye = None
        if self._client is not None:
            goodbye = self._client.close() or self._close_for_supervisor()
        if self._run_lock is not None:
            self._run_lock.release()
        os.environ.update(self._switch)
        # A signal that comes now ends the wait for the page, and no more.
        self._signals.take(signal.default_int_handler)
        try:
            if goodbye is not None:
                say_goodbye(goodbye, self.logger.info, claimed=self._claimed)
        finally:
            self._signals.restore()

    def cancel(self) -> None:
        # Snakemake cannot go on.
        if self._client is not None:
            self._client.stop("an error in Snakemake, of which its own log tells")
        self.shutdown()

    @property
    def cores(self) -> Any:
        return self.workflow.resource_settings.cores

    # What RealExecutor asks for the command line of a spawned Snakemake: the same answers as
    # those of Snakemake's own local executor.

    def get_exec_mode(self) -> ExecMode:
        return ExecMode.SUBPROCESS

    def get_python_executable(self) -> str:
        return sys.executable

    def get_job_exec_prefix(self, job: Any) -> str:
        return f"cd {shlex.quote(self.workflow.workdir_init)}"

    def additional_general_args(self) -> str:
        return "--quiet progress rules host"

    @property
    def job_specific_local_groupid(self) -> bool:
        return False

    # Starting

    def _start(self) -> SupervisorClient:
        """Resolve the settings and the devices, claim the run directory, start the supervisor.

        Raises:
            WorkflowError: what is asked for cannot be; no job has been started.
        """
        from hloop.errors import HloopError
        from hloop.run.client import SupervisorClient
        from hloop.run.page import take_switch
        from snakemake.exceptions import WorkflowError

        if self._needs_pandas():
            with contextlib.suppress(RuntimeError):  # There may be no room for a thread.
                threading.Thread(target=_import_pandas, daemon=True).start()
        outlive_readers(self.logger)
        # Before there is a supervisor, all are as Ctrl-C: Snakemake ends and unlocks.
        self._signals.take(signal.default_int_handler)
        try:
            refuse_debugging(self.workflow)
            opening = self._opening()
        except HloopError as error:
            raise WorkflowError(str(error)) from None
        self._switch = take_switch()
        self._environment = dict(os.environ)
        keep = [] if self._run_lock is None else [self._run_lock.fd]
        try:
            client = SupervisorClient(self._on_message, self._on_death, keep)
        except (OSError, RuntimeError) as error:
            raise WorkflowError(f"hloop: the supervisor cannot be started: {error}") from None
        self._client = client
        self._signals.take(self._on_signal)
        client.send(opening)
        return client

    def _opening(self) -> dict[str, Any]:
        from pathlib import Path

        from hloop.files import RunPaths
        from hloop.run.opening import Opening
        from hloop.run.runlock import RunLock
        from hloop.run.settings import OPTIONS, Provenance, RunSettings

        run = self._workflow_run
        given = {} if self.executor_settings is None else asdict(self.executor_settings)
        if run is None:
            settings = RunSettings().override(given, source=OPTIONS)
            refuse_without_plan(settings)
        else:
            settings = run.settings_with(given)
        jobs = [job for job in self.dag.needrun_jobs() if not self._is_bodiless(job)]
        wanted = [name for job in jobs if (name := self._plan_job(job)) is not None]
        plan = run.rendered.plan if run is not None and wanted else None
        if plan is not None:
            refuse_limits(self.workflow)
        self._table = settings.resolve(plan, os.environ)
        leases = settings.leases(self._table, os.environ)
        keep_going = self.workflow.execution_settings.keep_going
        engine = settings.engine(plan, self._table, keep_going=keep_going)
        part = None
        if run is not None and wanted:
            if settings.resume:
                refuse_unforced(self.workflow)
            started = run.start(settings, engine, self._table, snakemake_version())
            part, self._run_lock, self._kept = started.opening, started.lock, started.kept
            self._claimed = True
            wanted = [name for name in wanted if name not in self._kept]
            for decision in started.decisions:
                self.logger.info(f"hloop: {decision}")
        if settings.provenance is Provenance.ALL and len(wanted) < len(jobs):
            session = settings.session_id
            self._rule_run = self._records.opening(session, snakemake_version(), part)
            if part is None:
                paths = RunPaths(Path(self._rule_run.run_dir))
                self._run_lock = RunLock.take(paths, self._rule_run.session_id)
        return Opening(
            engine,
            self._table,
            settings.grace_seconds,
            wanted,
            part,
            self._rule_run,
            leases,
            settings.heartbeat,
            settings.max_log_bytes,
        ).to_message()

    @property
    def _workflow_run(self) -> WorkflowRun | None:
        """The plan that workflow/rules/common.smk compiled into rules, if there is one."""
        run: WorkflowRun | None = self.workflow.globals.get("hloop_run")
        return run

    def _plan_job(self, job: Any) -> str | None:
        """The id of the plan's job behind a rule, or None."""
        if job.is_group() or self._workflow_run is None:
            return None
        name: str | None = job.params.get("hloop_job")
        return name

    def _plan_jobs_below(self, job: Any) -> list[str]:
        """The plan's jobs that need what this job would have made, directly or not."""
        jobs = list(job) if job.is_group() else [job]
        below = (self._plan_job(other) for other in self.dag.bfs(self.dag.depending, *jobs))
        return [name for name in below if name is not None]

    def _name(self, job: Any) -> str:
        """A name that is unique in this run; ids of plan jobs hold no slashes."""
        return self._plan_job(job) or f"rules/{safe(job.name)}-{job.jobid}-{job.attempt}"

    @staticmethod
    def _is_bodiless(job: Any) -> bool:
        """Whether a rule has nothing to run, such as ``all``."""
        return bool(not job.is_group() and job.is_norun)

    def _prepare(self, jobs: list[Any]) -> None:
        """Let Snakemake make folders and remove old outputs, for what does not run in a
        Snakemake of its own, which does so itself."""

        async def prepare() -> None:
            for job in jobs:
                if self._name(job) in self._kept:
                    continue  # Nothing of it may be removed.
                if self._is_bodiless(job) or self._plan_job(job) or self._rules.is_native(job):
                    await job.prepare()
                elif self._rules.uses_cache(job):
                    await job.remove_existing_output()
                    for output in job.output:
                        output.prepare()

        self.workflow.async_run(prepare())

    # Jobs that no plan holds

    def _rule_message(self, name: str, job: Any) -> dict[str, Any] | None:
        """What the supervisor needs to run such a job; None where the job has failed already,
        or needs not run."""
        from hloop.devices.resolve import require_count
        from hloop.errors import HloopError

        try:
            count = self._rules.device_count(job)
            require_count(self._table, f"rule {job.name}", count)
        except HloopError as error:
            self._fail(name, str(error))
            return None
        environment = {k: v for k, v in os.environ.items() if self._environment.get(k) != v}
        argv = None
        if self._rules.is_native(job):
            argv, variables = self._rules.shell_command(job)
            environment |= variables
        if argv is None or len(argv[-1].encode()) >= MAX_ARGUMENT:
            argv = ["/bin/sh", "-c", self.format_job_exec(job)]
        record = None
        if self._rule_run is not None:
            # The values of environment variables are nobody's business.
            declarations = f"{self.get_envvar_declarations()} "
            shown = [*argv[:-1], argv[-1].replace(declarations, "", 1).lstrip()]
            record = self._records.declared(job, shown)
        return {
            "do": "rule",
            "name": name,
            "argv": argv,
            "cwd": os.getcwd(),
            "environment": environment,
            "gpu": count,
            "retry": will_be_retried(job),
            "record": record,
        }

    # What the supervisor says; called in the thread that listens to it

    def _on_message(self, message: dict[str, Any]) -> None:
        name = message["name"]
        job = self._jobs[name]
        match message["say"]:
            case "started":
                self.printjob(job)
                if self._plan_job(job) is not None:
                    self.logger.info(f"{name} started on {message['slot']}")
                elif message["devices"]:
                    devices = ", ".join(str(device) for device in message["devices"])
                    self.logger.info(f"{job.name} (jobid {job.jobid}) started on device {devices}")
            case "waiting":
                self.logger.info(f"{name} waits: {message['reason']}")
            case "ended" if message["status"] == "completed":
                self._completed.add(name)
                if self._rules.uses_cache(job) and (trouble := self._rules.store(job)):
                    self._fail(name, trouble)
                else:
                    self._succeed(name)
            case "ended":
                self._fail(name, f"{message['status']}: {message['message']}")
            case "skipped":
                # Given back without a word: it is not the one that failed.
                self.logger.debug(f"hloop: {name} is not run: {message['reason']}")
                self._jobs.pop(name)
                self.workflow.scheduler.error_callback(job)

    # Each job comes back once, from whichever thread takes it out first.

    def _succeed(self, name: str) -> None:
        if job := self._jobs.pop(name, None):
            self.report_job_success(SubmittedJobInfo(job, external_jobid=name))

    def _fail(self, name: str, text: str) -> None:
        if job := self._jobs.pop(name, None):
            self.report_job_error(SubmittedJobInfo(job, external_jobid=name), msg=text)

    def _on_death(self, trouble: str) -> None:
        """The supervisor died: every job that it had has failed."""
        self._trouble = trouble
        self._fail_all()

    def _fail_all(self) -> None:
        """Report every job that is out as failed."""
        self._unheard.update(self._jobs)
        for name in list(self._jobs):
            self._fail(name, f"failed: the supervisor died: {self._trouble}")

    def _on_signal(self, number: int, _frame: Any) -> None:
        # Nothing is raised here: Snakemake ends by itself once all jobs have come back.
        if self._client is not None:
            self._client.stop_from_signal(number)

    def _needs_pandas(self) -> bool:
        """Whether Snakemake will import pandas when a job ends, to write down its ``params``.
        That takes 0.25 s, which better pass while the first jobs run."""
        keeps = self.workflow.execution_settings.keep_metadata
        return keeps and any(rule.params for rule in self.workflow.dag.rules)

    def _close_for_supervisor(self) -> dict[str, Any] | None:
        """Write the run report in place of the supervisor, which died."""
        from hloop.run.aftermath import close_run

        run = self._workflow_run if self._claimed else None
        plan = None if run is None else run.rendered
        return close_run(self._trouble, self._unheard, plan, self._rule_run)


def _import_pandas() -> None:
    # Whoever needs it says what is wrong with it.
    with contextlib.suppress(Exception):
        import pandas  # noqa: F401
