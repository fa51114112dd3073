"""Whether a run that is to be formal may begin. Writes nothing.

What a gate stands for is decided by :mod:`hloop.provenance.gate`, which derives it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hloop.devices.resolve import UNRESOLVED, DeviceTable
from hloop.errors import HloopError, Problem
from hloop.files import RunPaths
from hloop.plan.render import RenderedPlan
from hloop.run.settings import RunSettings
from hloop.schedule.events import Placement

_GATE_NAME = RunPaths(Path()).formal.gate.name


def check_formal(
    rendered: RenderedPlan, settings: RunSettings, table: DeviceTable, *, executor: str = "hloop"
) -> Mapping[str, bytes]:
    """Demand of a run that is to be formal all that such a run needs. Writes nothing.

    Args:
        table: the devices of the run.
        executor: whose executor decides what starts when.

    Returns:
        What goes into ``RUN/formal``: relative path to bytes, the gate last. Empty for a run
        that is not to be formal.

    Raises:
        HloopError: it may not begin; holds every reason.
    """
    if not settings.formal:
        return {}
    from hloop.plan.lint import name_jobs
    from hloop.provenance.gate import rederive
    from hloop.provenance.gatefolder import read_files

    # Without a gate, the settings do not even give the devices.
    assert settings.gate is not None
    gate = Path(settings.gate)
    problems = list(_run_problems(gate, settings, executor))
    devices = _device_problems(rendered, table)
    problems += name_jobs(devices, [job.job_id for job in rendered.plan.jobs])
    if gate.name == _GATE_NAME:
        problems += rederive(gate.parent, rendered.plan, rendered=rendered)
    if problems:
        raise HloopError(problems, file=gate)
    return read_files(gate.parent)


def _run_problems(gate: Path, settings: RunSettings, executor: str) -> Iterator[Problem]:
    if gate.name != _GATE_NAME:
        yield Problem("gate_name", "", "it is no gate", f"the {_GATE_NAME} of `hloop gate`")
    if executor != "hloop":
        found = f"the executor {executor} decides what starts when"
        yield Problem("formal_executor", "", found, "--executor hloop")
    if settings.placement is not Placement.PINNED:
        found = "the jobs take whichever device is free"
        yield Problem("formal_placement", "", found, "the placement pinned")


def _device_problems(rendered: RenderedPlan, table: DeviceTable) -> Iterator[Problem]:
    for index, job in enumerate(rendered.plan.jobs):
        # A device that is not there has been asked for already.
        if job.device is None or job.device >= len(table.devices):
            continue
        device = table.devices[job.device]
        if device.simulated or device.uuid in (None, UNRESOLVED):
            what = "simulated" if device.simulated else "not known by its UUID"
            yield Problem(
                "device_not_real",
                f"jobs[{index}].cuda_visible_devices",
                f"device {job.device} is {what}: {table.source}",
                "a GPU with a UUID",
                "Run where NVML can name the device",
            )
