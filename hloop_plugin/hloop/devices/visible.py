"""CUDA's own rules: which devices CUDA_VISIBLE_DEVICES shows, in which order, and why.

Pure: it gets the variable and what NVML said of the machine, and asks nobody. Where a mapping
to a physical device cannot be known it says unresolved; it never guesses.

Where the rules come from:

* CUDA Programming Guide, "CUDA Environment Variables": unset shows all devices, an empty string
  none; numbers and GPU UUIDs, which may be shortened as long as they are unique; the order of
  the entries is the logical numbering; the first invalid entry ends the list;
  CUDA_DEVICE_ORDER is FASTEST_FIRST, "a simple heuristic", unless it is PCI_BUS_ID.
* MIG User Guide, "CUDA Device Enumeration": the two forms of a MIG entry; before driver R570 a
  process sees one compute instance and no other GPU beside it, since then one per GPU instance.
* PyTorch's parser (``torch.cuda._parse_visible_devices``) and what was measured for it (pull
  request 92315): numbers are read as strtol reads them; a device that stands twice leaves none;
  the first entry fixes the kind; blanks are skipped before numbers only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)")


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device: a GPU instance with its compute instance.

    Attributes:
        uuid: ``MIG-…``.
        gpu_instance: id of the GPU instance.
        compute_instance: id of the compute instance.
        name: product name, or None where NVML does not give it.
        memory_mib: memory in MiB, or None where NVML does not give it.
    """

    uuid: str
    gpu_instance: int
    compute_instance: int
    name: str | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU.

    Attributes:
        uuid: ``GPU-…``.
        name: product name, or None where NVML does not give it.
        memory_mib: memory in MiB, or None where NVML does not give it.
        mig_enabled: MIG mode is on, with or without MIG devices.
        mig_devices: the MIG devices on it.
    """

    uuid: str
    name: str | None = None
    memory_mib: int | None = None
    mig_enabled: bool = False
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs of this machine, in ascending order of their PCI bus id.

    ``driver`` is the version of NVIDIA's driver, or None where NVML does not give it.
    """

    gpus: tuple[Gpu, ...]
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class NvmlUnavailable:
    """NVML did not tell what GPUs there are. ``reason`` is half a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    """One entry of the list; its place in the list is its logical index.

    Attributes:
        token: what stands for it in CUDA_VISIBLE_DEVICES: a number as CUDA reads it (``+1gpu``
            is ``1``), a UUID as it was written. Where the variable is unset: the UUID if it is
            known, else the number.
        physical: what it is, or None where that is unresolved.
    """

    token: str
    physical: Gpu | MigDevice | None


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """What CUDA would show.

    Attributes:
        devices: in logical order.
        why: why the list is what it is; a sentence without a final stop.
    """

    devices: tuple[VisibleDevice, ...]
    why: str


def visible(
    mask: str | None,
    machine: Machine | NvmlUnavailable,
    device_order: str | None,
    *,
    name: str = "CUDA_VISIBLE_DEVICES",
) -> VisibleDevices:
    """Apply CUDA's rules.

    Without a machine the entries are counted and told apart by their text, nothing more.

    Args:
        mask: the value of CUDA_VISIBLE_DEVICES, or None where it is unset.
        machine: what NVML said.
        device_order: the value of CUDA_DEVICE_ORDER, or None where it is unset.
        name: what the mask is called in ``why``.
    """
    if mask == "":
        return VisibleDevices((), f"{name} is empty")
    if mask is None:
        found, remark = _all_devices(machine)
        why = f"{name} is not set"
    else:
        found, remark = _read(mask.split(","), machine)
        why = f"{name}={mask}"
    doubt = _doubt(found, machine, device_order) if found else ""
    if doubt:
        found = [VisibleDevice(device.token, None) for device in found]
    elif mask is None:
        found = [
            VisibleDevice(device.physical.uuid, device.physical)
            for device in found
            if device.physical
        ]
    remarks = "; ".join(text for text in (remark, doubt) if text)
    return VisibleDevices(tuple(found), f"{why}: {remarks}" if remarks else why)


def _all_devices(machine: Machine | NvmlUnavailable) -> tuple[list[VisibleDevice], str]:
    """Give the list of an unset variable, by numbers, and what is to be said of it."""
    if isinstance(machine, NvmlUnavailable):
        return [], f"no device is known, because {machine.reason}"
    found = [VisibleDevice(str(index), gpu) for index, gpu in enumerate(machine.gpus)]
    return found, f"{_gpus(machine)} in this machine"


def _read(
    entries: list[str], machine: Machine | NvmlUnavailable
) -> tuple[list[VisibleDevice], str]:
    """Read entries up to the one that ends the list, and say why it ended there."""
    kind = _kind(entries[0])
    found: dict[Gpu | MigDevice | str, VisibleDevice] = {}
    for entry in entries:
        if _kind(entry) == kind:
            device = _read_entry(entry, machine)
        else:
            device = f"is not of the same kind as {entries[0]!r}"
        if isinstance(device, str):
            return list(found.values()), f"entry {entry!r} {device}, the list ends before it"
        key = device.physical or device.token
        if key in found:
            return [], f"entry {entry!r} names a device for the second time, so none is visible"
        found[key] = device
    return list(found.values()), ""


def _kind(entry: str) -> str:
    """Give ``GPU-`` or ``MIG-``, or "" for everything that can only be a number."""
    return entry[:4] if entry.startswith(("GPU-", "MIG-")) else ""


def _read_entry(entry: str, machine: Machine | NvmlUnavailable) -> VisibleDevice | str:
    """Read one entry: the device that it names, or what is wrong with it."""
    if _kind(entry) == "":
        return _read_number(entry, machine)
    if isinstance(machine, NvmlUnavailable):
        return VisibleDevice(entry, None)
    if _kind(entry) == "MIG-":
        return _read_mig(entry, machine)
    candidates = [gpu for gpu in machine.gpus if gpu.uuid.startswith(entry)]
    if not candidates:
        return "is the UUID of no GPU of this machine"
    if len(candidates) > 1:
        return f"is the beginning of {len(candidates)} UUIDs"
    return VisibleDevice(entry, candidates[0])


def _read_number(entry: str, machine: Machine | NvmlUnavailable) -> VisibleDevice | str:
    """As ``_read_entry``, for a number."""
    match = _NUMBER.match(entry)
    if match is None:
        return "is neither a number nor GPU-… nor MIG-…"
    sign, digits = match.groups()
    if sign == "-" and digits != "0":
        return "is negative"
    if isinstance(machine, NvmlUnavailable):
        return VisibleDevice(digits, None)
    # More than nine digits are out of range; Python refuses to read very long ones.
    if len(digits) > 9 or int(digits) >= len(machine.gpus):
        return f"is out of range ({_gpus(machine)})"
    return VisibleDevice(digits, machine.gpus[int(digits)])


def _read_mig(entry: str, machine: Machine) -> VisibleDevice | str:
    """As ``_read_entry``, for a MIG device."""
    names = {
        name: device
        for gpu in machine.gpus
        for device in gpu.mig_devices
        for name in (
            device.uuid,
            f"MIG-{gpu.uuid}/{device.gpu_instance}/{device.compute_instance}",
        )
    }
    if entry in names:
        return VisibleDevice(entry, names[entry])
    # No document says whether the UUID in a MIG entry may be shortened: unresolved.
    uuid, _, instances = entry.partition("/")
    for name in names:
        whole, _, these = name.partition("/")
        if whole.startswith(uuid) and these == instances:
            return VisibleDevice(entry, None)
    return "names no MIG device of this machine"


def _doubt(
    found: list[VisibleDevice], machine: Machine | NvmlUnavailable, device_order: str | None
) -> str:
    """Say why the list is unresolved, or "" where every entry is known.

    A doubt is about the whole list: where one entry may vanish, those after it move up.
    """
    if isinstance(machine, NvmlUnavailable):
        return f"unresolved, because {machine.reason}"
    kind = _kind(found[0].token)
    if kind == "MIG-" and len(found) > 1:
        return "unresolved: how many MIG entries count depends on the driver"
    if kind == "MIG-" and found[0].physical is None:
        return "unresolved: the MIG entry is shortened"
    if any(isinstance(device.physical, Gpu) and device.physical.mig_enabled for device in found):
        return "unresolved: what a GPU with MIG enabled is shown as depends on the driver"
    if kind == "" and len(machine.gpus) > 1 and device_order != "PCI_BUS_ID":
        return "unresolved: numbers follow the PCI bus only with CUDA_DEVICE_ORDER=PCI_BUS_ID"
    return ""


def _gpus(machine: Machine) -> str:
    return f"{len(machine.gpus)} GPU{'' if len(machine.gpus) == 1 else 's'}"
