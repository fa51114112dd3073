"""Starting an attempt's process: its environment, its device and where it writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from hloop.devices.environment import (
    EnvironmentChange,
    plan_job_environment,
    rule_environment,
)
from hloop.devices.resolve import DeviceTable
from hloop.errors import HloopError
from hloop.files import JobPaths
from hloop.plan.render import RenderedJob
from hloop.run import processes
from hloop.run.attempt import Attempt
from hloop.run.channel import Message
from hloop.run.formal import make_caches
from hloop.run.planrun import PlanRun
from hloop.run.rulerun import RuleRun
from hloop.schedule.events import Slot


def added_environment(
    job: RenderedJob, paths: JobPaths, change: EnvironmentChange
) -> dict[str, str]:
    """Give what a job of a plan has in its environment beside what it inherits."""
    return {
        **job.environment,
        **change.set,
        "HLOOP_JOB_ID": job.job.job_id,
        "HLOOP_TRANSITIONS": str(paths.transitions),
    }


class Launcher:
    """Starts the jobs of one run. They die with the process that holds this."""

    def __init__(self, table: DeviceTable, run: PlanRun | None, rules: RuleRun | None):
        self._table = table
        self._run = run
        self._rules = rules
        self._lifeline = processes.Lifeline()

    def plan_job(self, attempt: Attempt, slot: Slot) -> int:
        """Write down that a job of the plan is scheduled, and start it; its output goes to its
        own files. Gives the pid.

        Raises:
            OSError: it cannot be started, or its record cannot be written.
        """
        assert self._run is not None and attempt.job is not None
        job, paths = attempt.job, self._run.paths.job(attempt.name)
        for folder in {paths.root, *(Path(output.path).parent for output in job.outputs)}:
            folder.mkdir(parents=True, exist_ok=True)
        change = plan_job_environment(self._table, slot.devices[0] if slot.devices else None)
        caches = {} if self._run.formal is None else make_caches(paths)
        attempt.environment = added_environment(job, paths, change) | caches
        self._run.schedule(attempt, slot)
        environment = change.apply({**os.environ, **attempt.environment})
        environment[processes.ATTEMPT_VARIABLE] = attempt.token
        with _new_log(paths.stdout) as stdout, _new_log(paths.stderr) as stderr:
            return processes.spawn(
                job.argv,
                cwd=job.cwd,
                environment=environment,
                lifeline=self._lifeline,
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )

    def rule_job(self, attempt: Attempt, rule: Message, slot: Slot) -> int:
        """Start a job of no plan; it writes where Snakemake does. Where such jobs get records,
        that it is scheduled is written down first. Gives the pid.

        Args:
            rule: ``argv``, ``cwd``, and ``environment``, which is what differs from this
                process's own.

        Raises:
            HloopError: a script that its command names cannot be read.
            OSError: it cannot be started, or its record cannot be written.
        """
        change = rule_environment(self._table, slot.devices)
        if self._rules is not None:
            # Not what the executor sends: that holds whatever the Snakefile put there.
            attempt.environment = change.set
            self._rules.schedule(attempt, slot)
        environment = change.apply({**os.environ, **rule["environment"]})
        environment[processes.ATTEMPT_VARIABLE] = attempt.token
        return processes.spawn(
            rule["argv"], cwd=rule["cwd"], environment=environment, lifeline=self._lifeline
        )


def _new_log(path: Path) -> BinaryIO:
    """Make a log. What several processes of a job write comes after each other in it, also
    where one of them opens it anew, as ``>> /dev/stderr`` does.

    Raises:
        OSError: it cannot be made, or is there already.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    return open(path, "ab", buffering=0, opener=lambda name, _: os.open(name, flags, 0o666))


def why_not(error: OSError | ValueError | HloopError) -> str:
    """Say why a process could not be started. A ValueError comes of a zero byte."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
