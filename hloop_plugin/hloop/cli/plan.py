"""``hloop plan``: the dry run. What would be launched, in which order, and how long at least."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hloop.cli.options import (
    CpuWorkersOption,
    IoWorkersOption,
    JsonOption,
    ModeOption,
    PlacementOption,
    RepoRootOption,
    repo_root_or_here,
)
from hloop.cli.output import print_json


def command(
    plan: Annotated[Path, typer.Argument(help="The plan, YAML or JSON.")],
    mode: ModeOption = None,
    repo_root: RepoRootOption = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="The folder that {run_dir} stands for. [default: ./run]"),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            help="How many devices, or auto, simulated:N, or entries as in "
            "CUDA_VISIBLE_DEVICES. [default: as many as the plan pins]"
        ),
    ] = None,
    placement: PlacementOption = None,
    cpu_workers: CpuWorkersOption = None,
    io_workers: IoWorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a plan and show what a run of it would do. Runs and writes nothing."""
    from hloop.plan.external import check_external_inputs
    from hloop.plan.load import load_checked
    from hloop.run.settings import RunSettings

    rendered = load_checked(
        plan, repo_root_or_here(repo_root), (run_dir or Path("run")).absolute()
    )
    pins = [job.device for job in rendered.plan.jobs if job.device is not None]
    if devices is None:
        devices = f"simulated:{max(pins) + 1}" if pins else "auto"
    elif re.fullmatch("[1-9][0-9]*", devices):
        devices = f"simulated:{devices}"
    settings = RunSettings().override(
        {
            "mode": mode,
            "devices": devices,
            "placement": placement,
            "cpu_workers": cpu_workers,
            "io_workers": io_workers,
        },
        source="the options",
    )
    table = settings.resolve(rendered.plan, os.environ)
    preview = _preview(rendered, settings, table)
    preview["input_problems"] = [problem.to_dict() for problem in check_external_inputs(rendered)]
    if as_json:
        print_json(preview)
    else:
        _print(preview)


def _preview(rendered: Any, settings: Any, table: Any) -> dict[str, Any]:
    """Give everything that the command prints."""
    from hloop.plan import identity
    from hloop.schedule.bounds import lower_bound
    from hloop.schedule.nodes import plan_nodes
    from hloop.schedule.simulate import simulate

    plan = rendered.plan
    nodes = plan_nodes(plan)
    engine = settings.engine(plan, table, keep_going=False)
    known = {node.job_id: node.expected_ns for node in nodes if node.expected_ns is not None}
    # Without a duration, jobs count as equally long: that shows the order, and no times.
    second = 10**9
    simulation = simulate(engine, nodes, {n.job_id: known.get(n.job_id, second) for n in nodes})
    bound = lower_bound(nodes, known, engine)
    classes: dict[str, list[str]] = {}
    for job in plan.jobs:
        classes.setdefault(job.resource.value, []).append(job.job_id)
    preview: dict[str, Any] = {
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
            _launch(rendered.jobs[job_id], simulation.slots[job_id], table)
            for job_id in simulation.starts
        ],
    }
    return preview


def _launch(entry: Any, slot: Any, table: Any) -> dict[str, Any]:
    """Give what one job would be started with."""
    from hloop.devices.environment import plan_job_environment

    device = slot.devices[0] if slot.devices else None
    change = plan_job_environment(table, device)
    return {
        "job_id": entry.job.job_id,
        "argv": list(entry.argv),
        "cwd": entry.cwd,
        "environment": {**entry.environment, **change.set},
        "unset": list(change.unset),
        "device": device,
        "slot": slot.name,
    }


def _print(preview: dict[str, Any]) -> None:
    devices = preview["devices"]
    simulated = " simulated" if any(device["simulated"] for device in devices) else ""
    limits = preview["limits"]
    count = len(preview["launches"])
    print(
        f"plan {preview['plan_id']}: {count} jobs, mode {preview['mode']}, "
        f"{len(devices)}{simulated} device(s), {limits['cpu']} cpu and {limits['io']} io workers"
    )
    for name in ("plan_semantic_hash", "experiment_digest", "placement_digest"):
        print(f"  {name:<19} {preview[name]}")
    print("\njobs by class")
    for name, jobs in preview["jobs_by_class"].items():
        print(f"  {name}  {len(jobs):>4}  {', '.join(jobs)}")
    if preview["waves"]:
        print("\nwaves")
        for index, wave in enumerate(preview["waves"], start=1):
            print(f"  {index:>4}  {', '.join(wave)}")
    else:
        print(f"\norder of starts\n  {', '.join(preview['order'])}")
    unknown = preview["jobs_without_duration"]
    if preview["lower_bound_seconds"] is not None:
        print(
            f"\nlower bound: {preview['lower_bound_seconds']:.3f} s, limited by "
            f"{preview['lower_bound_limited_by']}"
        )
    if unknown:
        print(
            f"\n{len(unknown)} job(s) have no budget.expected_seconds: the order takes them as "
            "equally long, the bound as nothing"
        )
    print("\nlaunches")
    for launch in preview["launches"]:
        print(f"  {launch['job_id']} on {launch['slot']}")
        print(f"    {shlex.join(launch['argv'])}")
        print(f"    in {launch['cwd']}")
        for name, value in launch["environment"].items():
            print(f"    {name}={value}")
    for problem in preview["input_problems"]:
        print(f"warning: {problem['where']}: {problem['found']}. {problem['action']}")
