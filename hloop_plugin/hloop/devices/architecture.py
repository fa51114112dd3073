"""Are the devices of a run of the architecture that its jobs are for?

NVML is asked for the compute capability of each device that can be told. A device that is
simulated or unresolved, and a machine without NVML, cannot be asked and pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from hloop.devices.resolve import UNRESOLVED, DeviceTable
from hloop.errors import DeviceError, Problem


def require_architecture(
    table: DeviceTable,
    wanted: Mapping[str, tuple[str, int | None]],
    find: Callable[[DeviceTable], dict[int, str]],
) -> None:
    """Demand that the devices are of the architectures that jobs are for.

    Args:
        table: the devices of the run.
        wanted: job id to architecture, such as ``sm_90``, and the logical device that the job
            runs on; None where it may be any.
        find: gives the architectures, as :func:`architectures` does.

    Raises:
        DeviceError: one is not; says which device, what it is, and what was to be there.
    """
    if not wanted:
        return
    found = find(table)
    for job, (architecture, pinned) in wanted.items():
        for logical, own in found.items():
            if own != architecture and pinned in (None, logical):
                device = table.devices[logical]
                raise DeviceError(
                    Problem(
                        "wrong_architecture",
                        "",
                        f"device {logical} ({device.name or device.uuid}) is {own}, and job {job} "
                        f"is for {architecture}",
                        f"devices of {architecture}",
                        "Run it on a machine of its pool, or prepare it for the pool of this one",
                    )
                )


def architectures(table: DeviceTable) -> dict[int, str]:
    """Give the architecture of each device that NVML tells it of, by logical index."""
    known = {
        device.logical: device.uuid
        for device in table.devices
        if device.uuid not in (None, UNRESOLVED)
    }
    if not known:
        return {}
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    found = {}
    try:
        for logical, uuid in known.items():
            with contextlib.suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                if pynvml.nvmlDeviceIsMigDeviceHandle(handle):
                    handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
                major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
                found[logical] = f"sm_{major}{minor}"
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return found
