"""From the setting ``--hloop-devices`` to the logical devices of a run.

The table that comes out is what a run's records say of its devices. Nothing here changes the
environment, and a device is never taken for known when it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hloop.devices.nvml import query_machine
from hloop.devices.visible import Machine, NvmlUnavailable, VisibleDevices, visible
from hloop.errors import DeviceError, Problem

UNRESOLVED = "unresolved"
OPTION = "--hloop-devices"

_SIMULATED = re.compile(r"simulated:([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Device:
    """One logical device of a run.

    Attributes:
        logical: its index in the run, from 0.
        token: its entry in CUDA_VISIBLE_DEVICES; None for a simulated device where that
            variable is set, for then no entry of it stands for this device.
        uuid: ``GPU-…`` or ``MIG-…``, ``unresolved`` where it cannot be known, None if simulated.
        name: product name, or None where that is not known.
        memory_mib: memory in MiB, or None where that is not known.
        simulated: there is no such device; it only orders the jobs.
    """

    logical: int
    token: str | None
    uuid: str | None
    name: str | None
    memory_mib: int | None
    simulated: bool

    def to_dict(self) -> dict[str, object]:
        """Give what records say of a device."""
        return {
            "logical": self.logical,
            "token": self.token,
            "uuid": self.uuid,
            "name": self.name,
            "simulated": self.simulated,
        }


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The devices of a run.

    Attributes:
        devices: in logical order; a device's place is its logical index.
        source: how they were found; a sentence without a final stop.
        mask: CUDA_VISIBLE_DEVICES as the jobs of the run inherit it, or None if it is unset.
        driver: version of NVIDIA's driver, or None where it is not known or was not asked for.
    """

    devices: tuple[Device, ...]
    source: str
    mask: str | None
    driver: str | None = None


def resolve_devices(
    spec: str,
    environ: Mapping[str, str],
    query: Callable[[], Machine | NvmlUnavailable] = query_machine,
) -> DeviceTable:
    """Find the devices of a run.

    Args:
        spec: ``auto`` (the inherited CUDA_VISIBLE_DEVICES), ``simulated:N``, or entries as in
            CUDA_VISIBLE_DEVICES, which take the place of the inherited ones.
        environ: the environment that the run inherits.
        query: asks for the machine; not called for simulated devices.

    Raises:
        DeviceError: ``spec`` is none of the three, or names a device that is not there.
    """
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    order = environ.get("CUDA_DEVICE_ORDER")
    if spec == "auto":
        machine = query()
        shown = visible(mask, machine, order)
        return DeviceTable(_devices(shown), shown.why, mask, _driver(machine))
    if match := _SIMULATED.fullmatch(spec):
        return DeviceTable(_simulated(int(match[1]), mask), f"{OPTION}={spec}", mask)
    if spec == "" or spec.startswith("simulated"):
        raise _malformed(f"{OPTION}={spec} names no devices")
    machine = query()
    shown = visible(spec, machine, order, name=OPTION)
    if len(shown.devices) < len(spec.split(",")):
        raise _malformed(shown.why)
    instead = "" if mask is None else f"; in place of CUDA_VISIBLE_DEVICES={mask}"
    tokens = ",".join(device.token for device in shown.devices)
    return DeviceTable(_devices(shown), shown.why + instead, tokens, _driver(machine))


def require(table: DeviceTable, needed: Mapping[str, int]) -> None:
    """Demand that every device is there that a plan's jobs are pinned to.

    Args:
        table: the devices of the run.
        needed: job id to logical device, for the gpu jobs. Where the pin is only a preference
            (placement ``any``), give 0 for each.

    Raises:
        DeviceError: one is not; says which, what is visible and why.
    """
    missing = {job: index for job, index in needed.items() if index >= len(table.devices)}
    if not missing:
        return
    job, index = next(iter(missing.items()))
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    needs = f"job {job}{others} needs device {index}"
    raise _too_few(table, needs, 1 + max(missing.values()))


def require_count(table: DeviceTable, job: str, count: int) -> None:
    """Demand that a job of no plan can ever get as many devices as it asks for.

    Raises:
        DeviceError: the run has fewer; says what is visible and why.
    """
    if count > len(table.devices):
        raise _too_few(table, f"{job} asks for gpu={count}", count)


def _devices(shown: VisibleDevices) -> tuple[Device, ...]:
    return tuple(
        Device(
            logical=logical,
            token=device.token,
            uuid=device.physical.uuid if device.physical else UNRESOLVED,
            name=device.physical.name if device.physical else None,
            memory_mib=device.physical.memory_mib if device.physical else None,
            simulated=False,
        )
        for logical, device in enumerate(shown.devices)
    )


def _driver(machine: Machine | NvmlUnavailable) -> str | None:
    return None if isinstance(machine, NvmlUnavailable) else machine.driver


def _simulated(count: int, mask: str | None) -> tuple[Device, ...]:
    return tuple(
        Device(
            logical=logical,
            token=str(logical) if mask is None else None,
            uuid=None,
            name=None,
            memory_mib=None,
            simulated=True,
        )
        for logical in range(count)
    )


def _malformed(found: str) -> DeviceError:
    return DeviceError(
        Problem(
            code="devices_setting",
            where="",
            found=found,
            expected="auto, simulated:N with N from 1 to 9999, or entries as in "
            "CUDA_VISIBLE_DEVICES of which each names one device of this machine",
            action=f"Correct {OPTION} (hloop run: --devices)",
        )
    )


def _too_few(table: DeviceTable, needs: str, count: int) -> DeviceError:
    number = len(table.devices)
    are = f"{number or 'no'} device{' is' if number < 2 else 's are'} visible"
    return DeviceError(
        Problem(
            code="too_few_devices",
            where="",
            found=f"{needs}, but {are}: {table.source}",
            action=f"Run where {count} {'is' if count == 1 else 'are'} visible, or ask for "
            f"simulated devices with {OPTION} simulated:{count} "
            f"(hloop run: --devices simulated:{count})",
        )
    )
