"""What the environment of a job says of its devices.

Pure. CUDA_VISIBLE_DEVICES is only ever narrowed, so that no job is shown a GPU that was not
visible to the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloop.devices.resolve import DeviceTable

MASK = "CUDA_VISIBLE_DEVICES"
RUN_DEVICE = "HLOOP_DEVICE_ID"
PLAN_DEVICE = "MIMICX_DEVICE_ID"


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """How a job's environment differs from the inherited one, as far as devices go.

    Attributes:
        set: variables and their values.
        unset: variables that must not be there, left over from a run outside this one.
    """

    set: Mapping[str, str]
    unset: tuple[str, ...]

    def apply(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Give the changed copy of an environment."""
        kept = {name: value for name, value in environ.items() if name not in self.unset}
        return kept | dict(self.set)


def plan_job_environment(table: DeviceTable, device: int | None) -> EnvironmentChange:
    """Tell a job of a plan its logical device, or, with None, that it has none.

    The job sees the whole CUDA_VISIBLE_DEVICES of the run, and its device is an index into
    that: the promise of ``mimicx.hloop-plan.v1``.
    """
    if device is None:
        return EnvironmentChange(_mask(table), (RUN_DEVICE, PLAN_DEVICE))
    index = str(device)
    return EnvironmentChange(_mask(table) | {RUN_DEVICE: index, PLAN_DEVICE: index}, ())


def rule_environment(table: DeviceTable, devices: Sequence[int]) -> EnvironmentChange:
    """Show a job of no plan its devices and no other.

    A job that asked for none inherits CUDA_VISIBLE_DEVICES as it is.

    Args:
        table: the devices of the run.
        devices: the logical devices that the job holds; their order does not matter.
    """
    if not devices:
        return EnvironmentChange(_mask(table), (RUN_DEVICE, PLAN_DEVICE))
    held = [table.devices[index] for index in sorted(devices)]
    tokens = [device.token for device in held if device.token is not None]
    mask = {MASK: ",".join(tokens)} if tokens else _mask(table)
    ids = ",".join(str(device.logical) for device in held)
    return EnvironmentChange(mask | {RUN_DEVICE: ids}, (PLAN_DEVICE,))


def _mask(table: DeviceTable) -> dict[str, str]:
    return {} if table.mask is None else {MASK: table.mask}
