"""``hloop run``: any plan, from any folder, through the packaged workflow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hloop.cli.options import (
    CpuWorkersOption,
    DevicesOption,
    DurationsOption,
    IoWorkersOption,
    JsonOption,
    LeaseDirOption,
    ModeOption,
    PlacementOption,
    RepoRootOption,
    repo_root_or_here,
)
from hloop.cli.output import print_json
from hloop.files import PLAN_NAME

if TYPE_CHECKING:
    from hloop.files import RunPaths
    from hloop.plan.render import RenderedPlan


def command(
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The plan, YAML or JSON.")
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder for this run; it must be new or empty."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN_DIR",
            help="In place of both: the run to go on with, with its plan, mode, placement, "
            "devices, worker limits and grace period. Only what its records do not show to be "
            "done runs again.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", "-n", help="With --resume: say what becomes of each job, and run nothing."
        ),
    ] = False,
    mode: ModeOption = None,
    repo_root: RepoRootOption = None,
    devices: DevicesOption = None,
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
    heartbeat_seconds: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How often the journal takes down what jobs and devices do; 0 for never. "
            "[default: 60, and 900 in a formal run]",
        ),
    ] = None,
    max_log_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=1 << 16,
            help="How long a log may be: of a longer one the middle is cut out. "
            "[default: 1073741824]",
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
    requires_verdict: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Begin only where this verdict of hloop oracle covers the plan's fast paths.",
        ),
    ] = None,
    lease_dir: LeaseDirOption = None,
    keep_going: Annotated[
        bool | None,
        typer.Option(
            help="After a failure, carry on with what does not depend on it, or not. [default: as "
            "the run that is resumed did; else not]"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a plan into a new run directory, or resume a run. Its report is
    RUN_DIR/hloop_run.json.

    Exit 0: every job completed. 1: one did not. 2: the run could not begin.
    """
    from hloop.cli.live import follow, show
    from hloop.files import RunPaths, sha256_bytes
    from hloop.run.execution import check_may_begin, execute
    from hloop.run.page import is_wanted, make_page
    from hloop.run.resuming import report_of_completed

    if dry_run and resume is None:
        raise typer.BadParameter("--dry-run needs --resume; hloop plan shows what a plan asks for")
    plan, rendered = _what_to_run(plan, run_dir, resume, repo_root)
    paths = RunPaths(rendered.run_dir)
    given = {
        "mode": mode,
        "devices": devices,
        "placement": placement,
        "cpu_workers": cpu_workers,
        "io_workers": io_workers,
        "grace_seconds": grace_seconds,
        "heartbeat_seconds": heartbeat_seconds,
        "max_log_bytes": max_log_bytes,
        "durations": None if durations is None else str(durations.absolute()),
        "session_id": session_id,
        "formal": formal or None,
        "resume": resume is not None or None,
        "gate": None if gate is None else str(gate.absolute()),
        "lease_dir": None if lease_dir is None else str(lease_dir.absolute()),
    }
    check_may_begin(plan, rendered, given)
    if requires_verdict is not None:
        from hloop.report.oraclecheck import require_verdict

        require_verdict(requires_verdict, rendered)
    wants_page = is_wanted()
    if dry_run:
        _print_decisions(rendered, as_json=as_json)
        return
    report = None if resume is None else report_of_completed(rendered)
    if report is not None:
        wants_page = False
        print("nothing to resume: the run has completed, and its records hold", file=sys.stderr)
    else:
        start = _end_of_lines(paths)
        execution = execute(
            plan,
            rendered,
            given,
            keep_going=keep_going,
            watch=lambda alive: show(
                follow(paths.journal, alive, start=start, ready=paths.manifest.exists),
                len(rendered.jobs),
            ),
        )
        report = execution.report
        if report["status"] == "interrupted" and not execution.signals:
            # Its log goes with it.
            print(f"hloop: Snakemake printed last:\n{execution.printed}", file=sys.stderr)
    head = sha256_bytes(paths.report.read_bytes())
    if as_json:
        print_json({**report, "head": head})
    else:
        _print_summary(report, paths)
        print(f"head: {head}", flush=True)
    if wants_page and (trouble := make_page(paths.root)):
        print(f"hloop: {trouble}", file=sys.stderr)
    raise typer.Exit(0 if report["status"] == "completed" else 1)


def _what_to_run(
    plan: Path | None, run_dir: Path | None, resume: Path | None, repo_root: Path | None
) -> tuple[Path, RenderedPlan]:
    """Give the plan file, and the plan for its run directory."""
    from hloop.plan.load import load_checked
    from hloop.run.resuming import former_place

    if resume is None:
        if plan is None or run_dir is None:
            raise typer.BadParameter("give --plan and --run-dir, or --resume")
        return plan, load_checked(plan, repo_root_or_here(repo_root), run_dir.absolute())
    if run_dir is not None:
        raise typer.BadParameter("--resume names the run directory: leave --run-dir out")
    root, folder = former_place(resume.absolute(), repo_root)
    plan = plan or folder / PLAN_NAME
    return plan, load_checked(plan, root, folder)


def _print_decisions(rendered: RenderedPlan, *, as_json: bool) -> None:
    from hloop.provenance.resume import decide

    decisions = decide(rendered)
    if as_json:
        keys = ("job_id", "kept", "reason")
        print_json({"jobs": [{key: getattr(item, key) for key in keys} for item in decisions]})
        return
    for decision in decisions:
        print(decision)
    kept = sum(decision.kept for decision in decisions)
    print(f"{kept} kept, {len(decisions) - kept} to run")


def _end_of_lines(paths: RunPaths) -> int:
    """Say where the journal goes on if this run is resumed; 0 of one that begins."""
    if not paths.manifest.exists():
        return 0
    return paths.journal.read_bytes().rfind(b"\n") + 1


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
