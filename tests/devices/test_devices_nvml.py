"""What NVML says, through the double: each scenario in a process of its own."""

import subprocess
import sys

import pytest

MACHINE = """
gpu GPU-late 81920 87 00000000:4C:00.0 1 NVIDIA A100-SXM4-80GB
gpu GPU-early 16384 87 00000000:0F:00.0 -1 Tesla T4
gpu GPU-other-domain 16384 87 00000001:01:00.0 0 Tesla V100
mig 0 MIG-one 13 0 9856
mig 0 MIG-two 1 2 19968
"""

ASK = """
import dataclasses, json
from hloop.devices.nvml import query_machine
print(json.dumps(dataclasses.asdict(query_machine())))
"""

EARLY = {
    "uuid": "GPU-early",
    "name": "Tesla T4",
    "memory_mib": 16384,
    "mig_enabled": False,
    "mig_devices": [],
}


def test_gpus_come_in_the_order_of_their_pci_bus_ids(with_nvml):
    uuids = [gpu["uuid"] for gpu in with_nvml(ASK, MACHINE)["gpus"]]
    assert uuids == ["GPU-early", "GPU-late", "GPU-other-domain"]


def test_a_gpu_has_its_name_and_memory_in_mib(with_nvml):
    assert with_nvml(ASK, MACHINE)["gpus"][0] == EARLY


def test_mig_devices_belong_to_their_gpu(with_nvml):
    name = "NVIDIA A100-SXM4-80GB MIG"
    keys = ("uuid", "gpu_instance", "compute_instance", "name", "memory_mib")
    expected = [("MIG-one", 13, 0, name, 9856), ("MIG-two", 1, 2, name, 19968)]
    migs = with_nvml(ASK, MACHINE)["gpus"][1]["mig_devices"]
    assert migs == [dict(zip(keys, values, strict=True)) for values in expected]


def test_mig_mode_is_seen(with_nvml):
    assert [gpu["mig_enabled"] for gpu in with_nvml(ASK, MACHINE)["gpus"]] == [False, True, False]


def test_a_machine_without_gpus_is_known(with_nvml):
    assert with_nvml(ASK, "driver 570.86.10 12080\n")["gpus"] == []


def test_the_driver_has_its_version(with_nvml):
    assert with_nvml(ASK, f"driver 570.86.10 12080\n{MACHINE}")["driver"] == "570.86.10"


def test_a_machine_is_known_without_its_drivers_version(with_nvml):
    answer = with_nvml(ASK, f"{MACHINE}fail nvmlSystemGetDriverVersion 999\n")
    assert (len(answer["gpus"]), answer["driver"]) == (3, None)


@pytest.mark.parametrize(
    ("call", "field"), [("nvmlDeviceGetName", "name"), ("nvmlDeviceGetMemoryInfo", "memory_mib")]
)
def test_what_nvml_does_not_give_is_not_known(with_nvml, call, field):
    gpus = with_nvml(ASK, f"{MACHINE}fail {call} 3\n")["gpus"]
    assert gpus[0] == EARLY | {field: None}


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        ("nvmlInit_v2", 9, "NVML cannot be started (Driver Not Loaded)"),
        (
            "nvmlInit_v2",
            18,
            "NVML cannot be started (RM has detected an NVML/RM version mismatch.)",
        ),
        ("nvmlDeviceGetCount_v2", 999, "NVML does not list the GPUs (Unknown Error)"),
        (
            "nvmlDeviceGetHandleByIndex_v2",
            4,
            "NVML does not list the GPUs (Insufficient Permissions)",
        ),
        ("nvmlDeviceGetPciInfo_v3", 15, "NVML does not list the GPUs (GPU is lost)"),
        ("nvmlDeviceGetUUID", 15, "NVML does not list the GPUs (GPU is lost)"),
        ("nvmlDeviceGetMigMode", 999, "NVML does not list the GPUs (Unknown Error)"),
        ("nvmlDeviceGetGpuInstanceId", 999, "NVML does not list the GPUs (Unknown Error)"),
    ],
)
def test_a_failing_call_leaves_the_machine_unknown_with_a_reason(with_nvml, call, code, reason):
    assert with_nvml(ASK, f"{MACHINE}fail {call} {code}\n") == {"reason": reason}


def test_no_library_is_a_reason(without_nvml):
    reason = "NVML cannot be started (NVML Shared Library Not Found)"
    assert without_nvml(ASK) == {"reason": reason}


def test_no_nvidia_ml_py_is_a_reason(without_nvml):
    answer = without_nvml(f"import sys; sys.modules['pynvml'] = None\n{ASK}")
    assert answer["reason"].startswith("nvidia-ml-py cannot be imported (")


STILL_OPEN = """
import json, pynvml
from hloop.devices.nvml import query_machine
query_machine()
try:
    pynvml.nvmlDeviceGetCount()
except pynvml.NVMLError_Uninitialized:
    print(json.dumps("shut down"))
else:
    print(json.dumps("open"))
"""


@pytest.mark.parametrize("failure", ["", "fail nvmlDeviceGetUUID 15\n"])
def test_nvml_is_shut_down_in_every_case(with_nvml, failure):
    assert with_nvml(STILL_OPEN, MACHINE + failure) == "shut down"


def test_a_failing_shutdown_does_no_harm(with_nvml):
    answer = with_nvml(ASK, f"{MACHINE}fail nvmlShutdown 999\n")
    assert len(answer["gpus"]) == 3


@pytest.mark.parametrize("module", ["visible", "nvml", "resolve", "environment", "observe"])
def test_importing_does_not_import_pynvml(module):
    code = f"import sys, hloop.devices.{module}; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


AUTO = """
import json, os
from hloop.devices.resolve import resolve_devices
print(json.dumps([device.to_dict() for device in resolve_devices("auto", os.environ).devices]))
"""


def test_auto_names_the_devices_that_nvml_finds(with_nvml):
    mask = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    state = MACHINE.replace("4C:00.0 1", "4C:00.0 0")
    assert with_nvml(AUTO, state, **mask) == [
        {
            "logical": 0,
            "token": "1",
            "uuid": "GPU-late",
            "name": "NVIDIA A100-SXM4-80GB",
            "simulated": False,
        }
    ]


def test_auto_finds_nothing_without_nvml_and_without_a_mask(without_nvml):
    assert without_nvml(AUTO) == []
