"""``hloop run``: any plan, from any folder, through the packaged workflow."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hloop.cli.options import (
    CpuWorkersOption,
    DurationsOption,
    IoWorkersOption,
    JsonOption,
    ModeOption,
    PlacementOption,
    RepoRootOption,
    repo_root_or_here,
)
from hloop.cli.output import print_json
from hloop.errors import HloopError, PlanError, Problem

if TYPE_CHECKING:
    from hloop.files import RunPaths
    from hloop.plan.render import RenderedPlan

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def command(
    plan: Annotated[Path, typer.Option(metavar="FILE", help="The plan, YAML or JSON.")],
    run_dir: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="The folder for this run; it must be new or empty."),
    ],
    mode: ModeOption = None,
    repo_root: RepoRootOption = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="auto (what CUDA_VISIBLE_DEVICES and NVML show), simulated:N, or entries as in "
            "CUDA_VISIBLE_DEVICES. [default: auto]",
        ),
    ] = None,
    placement: PlacementOption = None,
    cpu_workers: CpuWorkersOption = None,
    io_workers: IoWorkersOption = None,
    grace_seconds: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long a job that is stopped has between TERM and KILL. [default: 10]",
        ),
    ] = None,
    durations: DurationsOption = None,
    session_id: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What the records call the session that the run belongs to: up to 64 letters, "
            "digits, dots, underscores and dashes. [default: made for each run]",
        ),
    ] = None,
    formal: Annotated[
        bool, typer.Option("--formal", help="Run the plan formally, by the gate of --gate.")
    ] = False,
    gate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The fidelity gate of a formal run, as hloop gate wrote it."
        ),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going", help="After a failure, carry on with what does not depend on it."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a plan into a new run directory. Its report is RUN_DIR/hloop_run.json.

    Exit 0: every job completed. 1: one did not. 2: the run could not begin.
    """
    from hloop.files import RunPaths, sha256_bytes
    from hloop.plan.external import missing_external_inputs
    from hloop.plan.load import load_checked
    from hloop.run.approval import check_formal
    from hloop.run.settings import RunSettings

    rendered = load_checked(plan, repo_root_or_here(repo_root), run_dir.absolute())
    paths = RunPaths(rendered.run_dir)
    paths.check_new()
    if problems := missing_external_inputs(rendered):
        raise PlanError(problems, file=plan)
    given = {
        "mode": mode,
        "devices": devices,
        "placement": placement,
        "cpu_workers": cpu_workers,
        "io_workers": io_workers,
        "grace_seconds": grace_seconds,
        "durations": None if durations is None else str(durations.absolute()),
        "session_id": session_id,
        "formal": formal or None,
        "gate": None if gate is None else str(gate.absolute()),
    }
    settings = RunSettings().override(given, source="the options")
    check_formal(rendered, settings, settings.resolve(rendered.plan, os.environ))
    settings.durations_ns()
    config = {
        "plan": str(plan.absolute()),
        "run_dir": str(rendered.run_dir),
        "repo_root": str(rendered.repo_root),
        **{name: value for name, value in given.items() if value is not None},
    }
    report = _run_snakemake(config, rendered, keep_going=keep_going)
    head = sha256_bytes(paths.report.read_bytes())
    if as_json:
        print_json({**report, "head": head})
    else:
        _print_summary(report, paths)
        print(f"head: {head}")
    raise typer.Exit(0 if report["status"] == "completed" else 1)


def _run_snakemake(
    config: dict[str, Any], rendered: RenderedPlan, *, keep_going: bool
) -> dict[str, Any]:
    """Run the packaged workflow and show it. Gives the run report.

    Raises:
        HloopError: Snakemake ended without a report; holds the end of what it printed.
    """
    from hloop.cli.live import follow, show
    from hloop.files import RunPaths, data_dir

    paths = RunPaths(rendered.run_dir)
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
        ]
        received: list[int] = []
        with log.open("wb") as output:
            child = _start(argv, output, received)
        try:
            show(follow(paths.journal, lambda: child.poll() is None), len(rendered.jobs))
        except Exception as error:
            # Nobody may be reading any more, or a job has spoilt the journal. The run goes on.
            with contextlib.suppress(OSError):
                print(f"hloop: the run goes on, but is not shown: {error!r}", file=sys.stderr)
        code = child.wait()
        _await_supervisor()
        printed = log.read_text(errors="replace")
    _close_for_the_dead(paths, rendered.repo_root)
    try:
        report: dict[str, Any] = json.loads(paths.report.read_bytes())
    except (OSError, ValueError):
        if received and not paths.journal.exists():
            name = signal.Signals(received[0]).name
            raise HloopError(Problem("stopped", "", f"{name} came before the run began")) from None
        end = "\n".join(printed.splitlines()[-40:])
        raise HloopError(
            Problem("no_report", "", f"Snakemake ended with {code} and left no report:\n{end}")
        ) from None
    return report


def _start(argv: list[str], output: Any, received: list[int]) -> subprocess.Popen[bytes]:
    """Start Snakemake in a session of its own, so that a signal reaches it once: from here.

    The numbers of the signals that come are put into ``received``.
    """
    from hloop.run.processes import become_subreaper, die_with_parent

    become_subreaper()
    parent = os.getpid()
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),
    )

    def forward(number: int, _frame: Any) -> None:
        received.append(number)
        if child.poll() is None:
            child.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, forward)
    return child


def _await_supervisor() -> None:
    """Wait for the supervisor of a Snakemake that was killed; then end what nobody owns.

    Orphans come here, since this process adopts them. The supervisor stops all jobs and writes
    the report by itself; where it was killed too, what the jobs had started may still be here.
    """
    from hloop.run import processes

    def is_supervisor(pid: int) -> bool:
        try:
            return b"hloop.run.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    while supervisors := [pid for pid in processes.children(os.getpid()) if is_supervisor(pid)]:
        os.waitpid(supervisors[0], 0)
    processes.end_orphans()


def _close_for_the_dead(paths: RunPaths, repo_root: Path) -> None:
    """Write the report of a run whose Snakemake and supervisor were both killed."""
    from hloop.run.planrun import PlanRun, load_claimed

    if paths.journal.exists() and not paths.report.exists():
        # Where that is not possible, the report is missed next, with what Snakemake printed.
        with contextlib.suppress(OSError, HloopError):
            run = PlanRun.attach(load_claimed(paths.root, repo_root))
            run.supervisor_died("Snakemake and the supervisor were killed")
            run.close(interrupted=True)


def _print_summary(report: dict[str, Any], paths: RunPaths) -> None:
    """Group the jobs by their fate, the failed ones first and with their reasons."""
    fates: dict[str, list[dict[str, Any]]] = {}
    for job in report["jobs"]:
        fates.setdefault(job["status"], []).append(job)
    for status in ("failed", "timed_out", "stalled", "cancelled", "skipped"):
        for job in fates.get(status, []):
            print(f"{status}: {job['job_id']}: {job['failure']['message']}")
            if status not in ("skipped", "cancelled") and job["failure"]["stderr_tail"]:
                tail = _printable(job["failure"]["stderr_tail"])
                print("    " + tail.replace("\n", "\n    "))
    counts = ", ".join(f"{len(jobs)} {status}" for status, jobs in fates.items())
    simulated = any(device["simulated"] for device in report["devices"])
    print(
        f"{report['status']}: {counts} in {report['elapsed_seconds']:.2f} s"
        f" (mode {report['mode']}{', simulated devices' if simulated else ''})"
    )
    print(f"report: {paths.report}")


def _printable(text: str) -> str:
    """Put a mark in place of what could change how the terminal works."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
