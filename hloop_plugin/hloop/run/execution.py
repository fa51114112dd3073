"""One whole run in a process of its own: Snakemake, the packaged workflow, hloop's executor.

For whoever wants a plan executed from outside of Snakemake: the command line, and benchmarks.
It starts Snakemake, passes signals on, and waits until nothing of the run is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hloop.errors import HloopError, PlanError, Problem
from hloop.files import RunPaths, data_dir
from hloop.plan.external import missing_external_inputs
from hloop.plan.render import RenderedPlan
from hloop.run import page, processes
from hloop.run.approval import check_formal
from hloop.run.resuming import former_keep_going, settings_to_resume
from hloop.run.runlock import RunLock, check_idle, check_new
from hloop.run.settings import RunSettings
from hloop.run.workflow import pattern_problems

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Start = Callable[[list[str], IO[bytes]], "subprocess.Popen[bytes]"]
Watch = Callable[[Callable[[], bool]], None]
"""Shows a run. It is given what says whether Snakemake is alive, and returns after it ended."""


class NeverBegan(HloopError):
    """A run that a signal stopped before it began."""


@dataclass(frozen=True)
class Execution:
    """How a run went.

    Attributes:
        report: the run report, as it lies in the run directory.
        signals: the numbers of the signals that came meanwhile, and were passed on.
        printed: the end of what Snakemake printed.
    """

    report: dict[str, Any]
    signals: tuple[int, ...]
    printed: str = ""


def check_may_begin(plan: Path, rendered: RenderedPlan, given: Mapping[str, Any]) -> None:
    """Demand all that can be told before a run begins. Writes nothing.

    Args:
        plan: the plan file.
        given: settings by name, None where the standard holds; ``durations`` is absolute. With
            ``resume`` the run directory holds a run.

    Raises:
        HloopError: the run directory is used, an input is missing, or a setting cannot be.
    """
    settings = RunSettings()
    if given.get("resume"):
        check_idle(RunPaths(rendered.run_dir))
        settings = settings_to_resume(rendered, (given, "the options"))
    else:
        check_new(RunPaths(rendered.run_dir))
    check_demands(plan, rendered, settings.override(given, source="the options"))


def check_demands(plan: Path, rendered: RenderedPlan, settings: RunSettings) -> None:
    """Demand what a plan and its settings need of this machine. Writes nothing.

    Args:
        plan: the file that the plan is from.

    Raises:
        HloopError: Snakemake takes a path for a pattern, an input is missing, or a setting cannot
            be.
    """
    problems = pattern_problems(rendered.plan, rendered.run_dir)
    if problems := problems + missing_external_inputs(rendered):
        raise PlanError(problems, file=plan)
    table = settings.resolve(rendered.plan, os.environ)
    settings.leases(table, os.environ)
    check_formal(rendered, settings, table)
    settings.durations_ns()


def execute(
    plan: Path,
    rendered: RenderedPlan,
    given: Mapping[str, Any],
    *,
    keep_going: bool | None = None,
    watch: Watch | None = None,
) -> Execution:
    """Run a plan into its run directory; come back when it has ended and its report is there.

    Args:
        plan, given: as in :func:`check_may_begin`, which is to be asked before.
        rendered: what is run, and where.
        keep_going: after a failure; None takes what a run did that is resumed, else no.
        watch: shows it; None shows nothing.

    Raises:
        HloopError: Snakemake ended without a report; holds the end of what it printed.
    """
    paths = RunPaths(rendered.run_dir)
    config = {
        "plan": str(plan.absolute()),
        "run_dir": str(rendered.run_dir),
        "repo_root": str(rendered.repo_root),
        **{name: value for name, value in given.items() if value is not None},
    }
    resume = config.pop("resume", False)
    if keep_going is None:
        keep_going = resume and former_keep_going(rendered.run_dir)
    received: list[int] = []
    session = paths.next_session()
    # Snakemake's own folder (.snakemake) has no place in a run directory, nor in the user's.
    with tempfile.TemporaryDirectory(prefix="hloop-") as folder:
        config_file, log = Path(folder, "config.json"), Path(folder, "snakemake.log")
        config_file.write_text(json.dumps(config))
        argv = [
            *(sys.executable, "-m", "snakemake"),
            *("--snakefile", str(data_dir("workflow") / "Snakefile")),
            *("--directory", folder, "--configfile", str(config_file)),
            *("--profile", "none", "--workflow-profile", "none"),
            *("--executor", "hloop", "--scheduler", "greedy", "--cores", "all"),
            *("--max-jobs-per-timespan", "100000/1s", "--latency-wait", "0"),
            *("--drop-metadata", "--nocolor"),
            *(["--keep-going"] if keep_going else []),
            *(["--hloop-resume"] if resume else []),
        ]
        with log.open("wb") as output, _forwarding(received) as start:
            child = start(argv, output)
            try:
                if watch is not None:
                    watch(lambda: child.poll() is None)
            except Exception as error:
                # Nobody may be reading any more, or a job has spoilt the journal. The run goes on.
                with contextlib.suppress(OSError):
                    print(f"hloop: the run goes on, but is not shown: {error!r}", file=sys.stderr)
            code = child.wait()
            _await_supervisor()
            _close_for_the_dead(paths)
        printed = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    begun = paths.next_session() > session
    try:
        # One that was there before says nothing of this execution.
        report: dict[str, Any] = json.loads(paths.report.read_bytes() if begun else b"")
    except (OSError, ValueError):
        if received and not begun:
            name = signal.Signals(received[0]).name
            raise NeverBegan(Problem("stopped", "", f"{name} came before the run began")) from None
        found = f"Snakemake ended with {code} and left no report:\n{printed}"
        raise HloopError(Problem("no_report", "", found)) from None
    return Execution(report, tuple(received), printed)


@contextlib.contextmanager
def _forwarding(received: list[int]) -> Iterator[Start]:
    """Give what starts Snakemake, in a session of its own, so that a signal reaches it once.

    Signals that come within are passed on and put into ``received``, but those that are ignored
    (nohup). None is lost and none raises; afterwards they do what they did before.
    """
    children: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # The page comes last, when whoever called has said how the run ended.
            env={**os.environ, page.SWITCH: page.OFF},
            start_new_session=True,
            preexec_fn=lambda: processes.die_with_parent(parent, signal.SIGTERM),
        )
        children.append(child)
        # What came while it was being started.
        for number in received:
            pass_on(number, child)
        return child

    def pass_on(number: int, child: subprocess.Popen[bytes]) -> None:
        if child.poll() is None:
            child.send_signal(number)
            # It may be stopped, and would not hear of it.
            child.send_signal(signal.SIGCONT)

    def forward(number: int, _frame: Any) -> None:
        received.append(number)
        for child in children:
            pass_on(number, child)

    processes.become_subreaper()
    heeded = [item for item in FORWARDED if signal.getsignal(item) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heeded}
    try:
        yield start
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _await_supervisor() -> None:
    """Wait for the supervisor of a Snakemake that was killed; then end what nobody owns.

    Orphans come here, since this process adopts them. The supervisor stops all jobs and writes
    the report by itself; where it was killed too, what the jobs had started may still be here.
    """

    def is_supervisor(pid: int) -> bool:
        try:
            return b"hloop.run.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    while supervisors := [pid for pid in processes.children(os.getpid()) if is_supervisor(pid)]:
        # A job may have stopped it.
        os.kill(supervisors[0], signal.SIGCONT)
        os.waitpid(supervisors[0], 0)
    processes.end_orphans()


def _close_for_the_dead(paths: RunPaths) -> None:
    """Write the report and take away the lock, where whoever should have was killed."""
    # Where that is not possible, the report is missed next, with what Snakemake printed.
    with contextlib.suppress(OSError, HloopError):
        if paths.journal.exists() and not paths.report.exists():
            from hloop.run.recovering import recover

            recover(paths.root)
        elif paths.lock.exists():
            RunLock.take(paths).release()
