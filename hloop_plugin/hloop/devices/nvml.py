"""Ask NVML what GPUs this machine has.

NVML is asked through nvidia-ml-py, whose module is called ``pynvml``; it is imported only when
it is needed. A machine without a driver is nothing unusual: there is a reason then, no error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hloop.devices.visible import Gpu, Machine, MigDevice, NvmlUnavailable


def query_machine() -> Machine | NvmlUnavailable:
    """List the GPUs by PCI bus id, with their MIG devices.

    A name, a memory size or a driver version that NVML does not give is None. Without anything
    else (count, UUID, PCI address, MIG mode) the machine is not known, and the answer is the
    reason.
    """
    try:
        import pynvml
    except ImportError as error:
        return NvmlUnavailable(f"nvidia-ml-py cannot be imported ({error})")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NvmlUnavailable(f"NVML cannot be started ({error})")
    try:
        return _machine(pynvml)
    except pynvml.NVMLError as error:
        return NvmlUnavailable(f"NVML does not list the GPUs ({error})")
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _machine(nvml: Any) -> Machine:
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]

    def address(handle: Any) -> tuple[int, int, int]:
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        return pci.domain, pci.bus, pci.device

    gpus = tuple(_gpu(nvml, handle) for handle in sorted(handles, key=address))
    return Machine(gpus, _optional(nvml, nvml.nvmlSystemGetDriverVersion))


def _gpu(nvml: Any, handle: Any) -> Gpu:
    mig_enabled = _mig_enabled(nvml, handle)
    return Gpu(
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=_optional(nvml, nvml.nvmlDeviceGetName, handle),
        memory_mib=_memory_mib(nvml, handle),
        mig_enabled=mig_enabled,
        mig_devices=_mig_devices(nvml, handle) if mig_enabled else (),
    )


def _mig_enabled(nvml: Any, handle: Any) -> bool:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _mig_devices(nvml: Any, handle: Any) -> tuple[MigDevice, ...]:
    devices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError_NotFound:
            continue
        devices.append(
            MigDevice(
                uuid=nvml.nvmlDeviceGetUUID(mig),
                gpu_instance=nvml.nvmlDeviceGetGpuInstanceId(mig),
                compute_instance=nvml.nvmlDeviceGetComputeInstanceId(mig),
                name=_optional(nvml, nvml.nvmlDeviceGetName, mig),
                memory_mib=_memory_mib(nvml, mig),
            )
        )
    return tuple(devices)


def _memory_mib(nvml: Any, handle: Any) -> int | None:
    memory = _optional(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else memory.total // 2**20


def _optional(nvml: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None
