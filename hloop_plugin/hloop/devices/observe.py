"""Look at one device while a run goes on, for the records.

NVML is started with the first look and kept, since starting it may take a second. A device that
does not answer stops no run: what NVML said is written down instead.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from hloop.devices.resolve import UNRESOLVED, Device


@dataclass(frozen=True, slots=True)
class Look:
    """What NVML said of a device.

    Attributes:
        memory_used_bytes: in use on it, by whichever process; None where that is not known.
        utilisation_percent: the part of the last moments in which a kernel ran on it.
        problem: what NVML said instead.
        lost: the device is gone, or cannot be used until the machine is started anew.
    """

    memory_used_bytes: int | None = None
    utilisation_percent: int | None = None
    problem: str | None = None
    lost: bool = False


class Observer:
    """Looks at devices through NVML, by their UUIDs."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._trouble: str | None = None

    def observe(self, device: Device) -> dict[str, Any]:
        """Give what records say of a device, with the memory in use on it now, in bytes.

        ``memory_used_bytes`` is None where it is not known, and ``problem`` is what NVML said
        then. A device that is simulated or unresolved is not looked at: both are None.
        """
        look = self.look(device) if device.uuid not in (None, UNRESOLVED) else Look()
        used = look.memory_used_bytes
        problem = look.problem if used is None else None
        return device.to_dict() | {"memory_used_bytes": used, "problem": problem}

    def loss(self, device: Device) -> str | None:
        """Say in NVML's words that a device is lost; None where it is not, or nobody knows."""
        if device.uuid in (None, UNRESOLVED):
            return None
        look = self.look(device)
        return look.problem if look.lost else None

    def look(self, device: Device) -> Look:
        """Look at a device that has a UUID: its memory and how busy it is."""
        self.start()
        nvml = self._nvml
        if nvml is None:
            return Look(problem=self._trouble)
        used = None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
            used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
            return Look(used, int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))
        except nvml.NVMLError as error:
            return Look(used, problem=str(error), lost=error.value in _lost(nvml))

    def close(self) -> None:
        """Let go of NVML."""
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def start(self) -> None:
        """Start NVML, unless it was tried before."""
        if self._nvml is not None or self._trouble is not None:
            return
        try:
            import pynvml
        except ImportError as error:
            self._trouble = f"nvidia-ml-py cannot be imported ({error})"
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._trouble = f"NVML cannot be started ({error})"
            return
        self._nvml = pynvml


def _lost(nvml: Any) -> tuple[int, ...]:
    """Give the errors that say that no job can use a device."""
    return (
        nvml.NVML_ERROR_GPU_IS_LOST,
        nvml.NVML_ERROR_NOT_FOUND,
        nvml.NVML_ERROR_RESET_REQUIRED,
    )
