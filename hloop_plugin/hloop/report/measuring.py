"""Makes the runs of a benchmark, one after another, and goes on with one that was interrupted.

A run that is there is taken over only where its own files prove it; what is not is put aside
and never deleted. What the runs come to is for :mod:`hloop.report.summary` to say.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import files
from hloop.errors import HloopError, PlanError, Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.contract import schema_problems
from hloop.plan.lint import lint
from hloop.plan.load import load_checked
from hloop.plan.model import Plan
from hloop.plan.prepare import materialize
from hloop.plan.render import render_plan
from hloop.provenance.verify import Verdict, verify
from hloop.report.benchmark import BenchmarkPaths, PlannedRun, Protocol, repetition_label
from hloop.report.decision import decision_hash
from hloop.report.load import load_report
from hloop.run.execution import NeverBegan, check_demands, check_may_begin, execute
from hloop.run.journal import read_journal
from hloop.run.page import is_wanted, make_page
from hloop.run.report import assemble
from hloop.run.settings import RunSettings
from hloop.run.surroundings import Surroundings, other_runs

# A run whose hloop benchmark was killed stops its jobs first: grace period and a little more.
PATIENCE_SECONDS = 15.0

Alive = Callable[[], bool]


@dataclass(frozen=True)
class MeasuredRun:
    """A run of a benchmark that is complete and unaltered.

    Attributes:
        report: its run report.
        manifest: its manifest.
        head: the digest over the report, ``sha256:<hex>``.
        decision: see :func:`hloop.report.decision.decision_hash`.
        surroundings: see :class:`hloop.run.surroundings.Surroundings`; None where whoever made
            the run was killed before it could write them down.
    """

    planned: PlannedRun
    report: dict[str, Any]
    manifest: dict[str, Any]
    head: str
    decision: str | None
    surroundings: dict[str, Any] | None


class Stopped(HloopError):
    """A benchmark that cannot go on: a run failed."""

    exit_code = 1


class Interrupted(HloopError):
    """A benchmark that a signal ended; the same call again continues it."""


class Benchmark:
    """The runs of one plan in one folder.

    Attributes:
        complete: how many of its runs are known to be complete by now.
    """

    def __init__(
        self,
        plan: Plan,
        protocol: Protocol,
        root: Path,
        repo_root: Path,
        lease_dir: Path | None = None,
    ):
        """
        Args:
            lease_dir: the setting of that name, for every run.
        """
        self.plan = plan
        self.protocol = protocol
        self.paths = BenchmarkPaths(root.absolute())
        self.repo_root = repo_root
        self.complete = 0
        self._settings = {
            **protocol.settings(),
            "session_id": uuid.uuid4().hex,
            "lease_dir": None if lease_dir is None else str(lease_dir.absolute()),
        }
        self._plan_bytes = b""

    def check(self, config: Path) -> None:
        """Demand all that can be told before anything is written.

        Args:
            config: the file that the plan is from.

        Raises:
            HloopError: the plan breaks a rule, an input or a device is missing, or the folder
                holds what a benchmark would write over or leave out of its count.
        """
        root = self.paths.root
        if problems := lint(self.plan, self.repo_root, root):
            raise PlanError(problems, file=config)
        settings = RunSettings().override(self._settings, source="the options")
        check_demands(config, render_plan(self.plan, self.repo_root, root), settings)
        self._check_folder()

    def _check_folder(self) -> None:
        paths, count = self.paths, self.protocol.repetitions
        if not paths.protocol.exists():
            names = (paths.summary, paths.text, paths.timings, paths.html)
            for path in (*names, RunPaths(paths.root).manifest):
                if os.path.lexists(path):
                    found, action = f"{path} is there, and no benchmark", "Choose another folder"
                    raise RunDirectoryError(Problem("foreign_file", "", found, action=action))
        elif (further := paths.root / repetition_label(count)).exists():
            raise RunDirectoryError(
                Problem(
                    "more_repetitions",
                    "",
                    f"{further} is there already",
                    f"no more than the {count} repetitions that are asked for",
                    "Ask for at least as many as there are, or move the others away",
                )
            )

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Make the folder this benchmark's own for as long as the context lasts.

        Writes the plan and the protocol, or finds the same ones there.

        Raises:
            RunDirectoryError: another benchmark is there or at work, or the folder cannot be
                written to.
        """
        materialize(self.plan, self.paths.root)
        self._plan_bytes = self.paths.plan.read_bytes()
        fd = os.open(self.paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise _in_use(f"another hloop benchmark is at work in {self.paths.root}") from None
            self._publish_protocol()
            self._await_former_run()
            yield
        finally:
            os.close(fd)

    def _publish_protocol(self) -> None:
        path = self.paths.protocol
        document = self.protocol.to_document(hashlib.sha256(self._plan_bytes).hexdigest())
        with suppress(FileExistsError):
            files.publish(path, json.dumps(document, indent=2).encode() + b"\n")
        try:
            found = json.loads(path.read_bytes())
        except ValueError:
            found = None
        known = found if isinstance(found, dict) else {}
        if differing := [name for name in document if known.get(name) != document[name]]:
            name = differing[0]
            raise RunDirectoryError(
                Problem(
                    "other_protocol",
                    name,
                    f"the benchmark in this folder has {known.get(name)!r}",
                    f"{document[name]!r}, as it is asked for now",
                    "Ask for the same, or choose another folder",
                ),
                file=path,
            )

    def _await_former_run(self) -> None:
        """Wait for a run of a benchmark that was killed: it may still be stopping its jobs."""
        prefix = f"{os.path.realpath(self.paths.root)}/"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any((other.run_dir or "").startswith(prefix) for other in other_runs()):
            if time.monotonic() > deadline:
                raise _in_use(f"a run in {self.paths.root} has not ended yet")
            time.sleep(0.2)

    def existing(self, planned: PlannedRun) -> tuple[MeasuredRun | None, str]:
        """Take over a run that is there; put aside what cannot be taken over, and say why.

        Returns:
            The run, if there is one to be taken over; and what was put aside and why, or "".

        Raises:
            RunDirectoryError: it cannot be put aside.
        """
        if not os.path.lexists(self.paths.run_dir(planned)):
            return None, ""
        measured, why = self._examine(planned)
        if measured is not None:
            return measured, ""
        return None, f"put aside as {self._put_aside(planned).name}: {why}"

    def measure(self, planned: PlannedRun, watch: Callable[[Alive], None]) -> MeasuredRun:
        """Make a run.

        Args:
            watch: shows it while it goes on, and returns after it ended.

        Raises:
            Stopped: it did not complete.
            Interrupted: a signal came.
            HloopError: it could not begin, left no report, or does not verify.
        """
        run_dir = self.paths.run_dir(planned)
        rendered = load_checked(self.paths.plan, self.repo_root, run_dir)
        given = {"mode": planned.mode.value, **self._settings}
        check_may_begin(self.paths.plan, rendered, given)
        surroundings = Surroundings()

        def alive(is_alive: Alive) -> bool:
            surroundings.look()
            return is_alive()

        try:
            execution = execute(
                self.paths.plan,
                rendered,
                given,
                watch=lambda is_alive: watch(lambda: alive(is_alive)),
            )
        except NeverBegan:
            raise self.interrupted() from None
        completed = execution.report["status"] == "completed"
        if completed:
            noticed = json.dumps(surroundings.result(), indent=2).encode() + b"\n"
            files.replace(self.paths.surroundings(planned), noticed)
        # Where that fails, hloop report makes it at any time.
        if is_wanted():
            make_page(rendered.run_dir)
        if execution.signals:
            raise self.interrupted()
        if not completed:
            raise Stopped(_failed(planned, execution.report))
        measured, why = self._examine(planned)
        if measured is None:
            action = f"hloop verify {run_dir} says more"
            raise HloopError(Problem("not_verified", planned.name, why, action=action))
        return measured

    def interrupted(self) -> Interrupted:
        """Give the error of a benchmark that a signal ends: what there is, and how to go on."""
        runs = sum(map(len, self.protocol.rounds()))
        return Interrupted(
            Problem(
                "interrupted",
                "",
                f"a signal ended the benchmark; of its {runs} runs {self.complete} are complete, "
                f"in {self.paths.root}",
                action="Call the same command again to go on",
            )
        )

    def _examine(self, planned: PlannedRun) -> tuple[MeasuredRun | None, str]:
        """Hold a run against its own files and this benchmark; if it fails, say why."""
        run_dir = self.paths.run_dir(planned)
        paths = RunPaths(run_dir)
        try:
            verdict = verify(run_dir, repo_root=self.repo_root)
            if verdict.exit_code != 0 or verdict.head is None:
                return None, f"it is not shown to be complete and unaltered: {_first(verdict)}"
            report = dict(load_report(run_dir).document)
            if paths.plan.read_bytes() != self._plan_bytes:
                return None, "it is a run of another plan"
            # Bounds and idle times are in no record: only the journal tells them.
            rendered = render_plan(self.plan, self.repo_root, run_dir)
            told = assemble(rendered, read_journal(paths.journal))
            if told["scheduling"] != report["scheduling"]:
                return None, "its report's scheduling is not what its journal comes to"
            manifest = json.loads(paths.manifest.read_bytes())
        except (HloopError, OSError, ValueError) as error:
            return None, str(error)
        if why := unfit(report, planned, self.protocol):
            return None, why
        self.complete += 1
        return (
            MeasuredRun(
                planned=planned,
                report=report,
                manifest=manifest,
                head=verdict.head,
                decision=decision_hash(report),
                surroundings=self._surroundings(planned),
            ),
            "",
        )

    def _surroundings(self, planned: PlannedRun) -> dict[str, Any] | None:
        try:
            noticed = json.loads(self.paths.surroundings(planned).read_bytes())
        except (OSError, ValueError):
            return None
        return None if schema_problems(noticed, "surroundings") else noticed

    def _put_aside(self, planned: PlannedRun) -> Path:
        number = 1
        while os.path.lexists(target := self.paths.aside(planned, number)):
            number += 1
        try:
            # What was noticed goes first: never may it stand beside another run.
            noticed = self.paths.surroundings(planned)
            if os.path.lexists(noticed):
                os.rename(noticed, f"{target}.surroundings.json")
            os.rename(self.paths.run_dir(planned), target)
        except OSError as error:
            found = f"{planned.name} cannot be put aside: {error.strerror}"
            raise RunDirectoryError(Problem("not_writable", "", found)) from None
        return target


def unfit(report: Mapping[str, Any], planned: PlannedRun, protocol: Protocol) -> str:
    """Say why a run that completed is not the run that was planned; "" where it is."""
    if report["mode"] != planned.mode:
        return f"its mode is {report['mode']}"
    scheduling = report["scheduling"]
    if scheduling["placement"] != protocol.placement:
        return f"its placement is {scheduling['placement']}"
    for kind, limit in (("cpu", protocol.cpu_workers), ("io", protocol.io_workers)):
        if limit is not None and scheduling["limits"][kind] != limit:
            return f"its limit of {kind} workers is {scheduling['limits'][kind]}"
    if report["evidence"].get("resumed"):
        return "it was resumed, so that its times are those of several sessions"
    return ""


def _in_use(found: str) -> RunDirectoryError:
    action = "Wait for it to end, or choose another folder"
    return RunDirectoryError(Problem("benchmark_in_use", "", found, action=action))


def _first(verdict: Verdict) -> str:
    if not verdict.findings:
        return "that cannot be decided"
    finding = verdict.findings[0]
    return f"{finding.code} {finding.where}: {finding.found}".strip()


def _failed(planned: PlannedRun, report: dict[str, Any]) -> Problem:
    failed = [job for job in report["jobs"] if job["failure"] and job["status"] != "skipped"]
    why = f": {failed[0]['job_id']}: {failed[0]['failure']['message']}" if failed else ""
    return Problem(
        "run_failed",
        planned.name,
        f"the run is {report['status']}{why}",
        "completed",
        "Mend what it failed of; the same call again makes this run anew",
    )
