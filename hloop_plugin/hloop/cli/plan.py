"""``hloop plan``: the dry run. What would be launched, in which order, and how long at least."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from dataclasses import replace
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

if TYPE_CHECKING:
    from hloop.devices.resolve import DeviceTable
    from hloop.files import RunPaths
    from hloop.plan.render import RenderedJob, RenderedPlan
    from hloop.run.settings import RunSettings
    from hloop.schedule.events import Slot

WIDTH = 99


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, YAML or JSON.")],
    mode: ModeOption = None,
    repo_root: RepoRootOption = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The folder that {run_dir} stands for. [default: ./run]"
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="How many devices; or auto, simulated:N, or entries as in "
            "CUDA_VISIBLE_DEVICES, as for hloop run. [default: as many as the plan pins]",
        ),
    ] = None,
    placement: PlacementOption = None,
    cpu_workers: CpuWorkersOption = None,
    io_workers: IoWorkersOption = None,
    durations: DurationsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a plan and show what a run of it would do. Runs and writes nothing.

    Exit 0: the plan is right. 2: it is not, or the devices are not there.
    """
    from hloop.plan.external import check_external_inputs
    from hloop.plan.load import load_checked
    from hloop.run.settings import RunSettings

    rendered = load_checked(
        plan, repo_root_or_here(repo_root), (run_dir or Path("run")).absolute()
    )
    pins = [job.device for job in rendered.plan.jobs if job.device is not None]
    as_pinned = devices is None and bool(pins)
    if as_pinned:
        devices = f"simulated:{max(pins) + 1}"
    elif devices is not None and re.fullmatch("[1-9][0-9]*", devices):
        devices = f"simulated:{devices}"
    given = {
        "mode": mode,
        "devices": devices,
        "placement": placement,
        "cpu_workers": cpu_workers,
        "io_workers": io_workers,
        "durations": None if durations is None else str(durations),
    }
    settings = RunSettings().override(given, source="the options")
    table = settings.resolve(rendered.plan, os.environ)
    if as_pinned:
        table = replace(table, source="as many as the plan pins")
    preview = _preview(rendered, settings, table)
    problems = check_external_inputs(rendered)
    if as_json:
        print_json(preview | {"input_problems": [problem.to_dict() for problem in problems]})
    else:
        _print(preview)
        if problems:
            print("\nbefore a run can begin")
            for problem in problems:
                print(f"  {problem}")


def _preview(rendered: RenderedPlan, settings: RunSettings, table: DeviceTable) -> dict[str, Any]:
    """Give everything that the command prints, but for the inputs that are not there."""
    from hloop.files import RunPaths
    from hloop.plan import identity
    from hloop.schedule.bounds import lower_bound
    from hloop.schedule.nodes import plan_nodes
    from hloop.schedule.simulate import simulate

    plan = rendered.plan
    nodes = plan_nodes(plan, settings.durations_ns())
    engine = settings.engine(plan, table, keep_going=False)
    known = {node.job_id: node.expected_ns for node in nodes if node.expected_ns is not None}
    # Without a duration, jobs count as equally long: that shows the order, and no times.
    second = 10**9
    simulation = simulate(engine, nodes, {n.job_id: known.get(n.job_id, second) for n in nodes})
    bound = lower_bound(nodes, known, engine)
    paths = RunPaths(rendered.run_dir)
    classes: dict[str, list[str]] = {}
    for job in plan.jobs:
        classes.setdefault(job.resource.value, []).append(job.job_id)
    return {
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "placement_digest": identity.placement_digest(plan),
        "mode": settings.mode.value,
        "placement": settings.placement.value,
        "devices": [device.to_dict() for device in table.devices],
        "devices_source": table.source,
        "limits": {"cpu": engine.cpu_workers, "io": engine.io_workers},
        "jobs_by_class": classes,
        "order": list(simulation.starts),
        "waves": [list(wave) for wave in simulation.waves],
        "jobs_without_duration": [n.job_id for n in nodes if n.job_id not in known],
        "lower_bound_seconds": bound.value_ns / 1e9 if known else None,
        "lower_bound_limited_by": bound.limiting if known else None,
        "launches": [
            _launch(rendered.jobs[job_id], simulation.slots[job_id], table, paths)
            for job_id in simulation.starts
        ],
    }


def _launch(entry: RenderedJob, slot: Slot, table: DeviceTable, paths: RunPaths) -> dict[str, Any]:
    """Give what one job would be started with; the environment as it differs from ours."""
    from hloop.devices.environment import plan_job_environment
    from hloop.run.launcher import added_environment

    device = slot.devices[0] if slot.devices else None
    change = plan_job_environment(table, device)
    return {
        "job_id": entry.job.job_id,
        "slot": slot.name,
        "device": device,
        "argv": list(entry.argv),
        "cwd": entry.cwd,
        "environment": added_environment(entry, paths.job(entry.job.job_id), change),
        "unset": [name for name in change.unset if name in os.environ],
    }


def _print(preview: dict[str, Any]) -> None:
    launches = preview["launches"]
    print(f"plan {preview['plan_id']}: {len(launches)} jobs")
    for name in ("plan_semantic_hash", "experiment_digest", "placement_digest"):
        print(f"  {name:<18}  {preview[name]}")

    print("\na run would have")
    for name, value in _means(preview):
        print(f"  {name:<9}  {value}")

    print("\njobs by class")
    for name, jobs in preview["jobs_by_class"].items():
        _print_list(f"  {name:<3}  {len(jobs):>4}  ", jobs)

    if preview["waves"]:
        print("\nwaves")
        for number, wave in enumerate(preview["waves"], start=1):
            _print_list(f"  {number:>4}  ", wave)
    else:
        print("\norder of starts")
        for number, launch in enumerate(launches, start=1):
            print(f"  {number:>4}  {launch['job_id']} on {launch['slot']}")
    print(f"\n{_bound(preview)}")

    print("\nwhat would be launched, and where")
    for launch in launches:
        print(f"  {launch['job_id']} on {launch['slot']}, in {launch['cwd']}")
        for name in launch["unset"]:
            print(f"    without {name}")
        for name, value in launch["environment"].items():
            print(f"    {name}={shlex.quote(value)}")
        print(f"    {shlex.join(launch['argv'])}")


def _means(preview: dict[str, Any]) -> list[tuple[str, str]]:
    devices = preview["devices"]
    simulated = " simulated" if any(device["simulated"] for device in devices) else ""
    return [
        ("mode", preview["mode"]),
        ("placement", preview["placement"]),
        ("devices", f"{len(devices)}{simulated}: {preview['devices_source']}"),
        ("workers", "{cpu} cpu, {io} io".format_map(preview["limits"])),
    ]


def _bound(preview: dict[str, Any]) -> str:
    """Say how long a run lasts at least, and how far that is known."""
    if preview["lower_bound_seconds"] is None:
        return "lower bound: not known, as no job has a budget.expected_seconds"
    text = (
        f"lower bound: {preview['lower_bound_seconds']:.3f} s, set by "
        f"{preview['lower_bound_limited_by']}"
    )
    if unknown := len(preview["jobs_without_duration"]):
        text += (
            f"; {unknown} of {len(preview['order'])} jobs counted as 0 s, "
            "for want of a budget.expected_seconds"
        )
    return text


def _print_list(head: str, names: list[str]) -> None:
    """Print names behind a head, broken between names and never within one."""
    lines = textwrap.wrap(
        ", ".join(names),
        width=WIDTH - len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    print(head + f"\n{' ' * len(head)}".join(lines))
