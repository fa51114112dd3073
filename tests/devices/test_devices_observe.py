"""A look at a device while a run goes on, through the NVML double."""

import json
import subprocess
import sys

import pytest

MACHINE = """
driver 570.86.10 12080
gpu GPU-one 81920 87 00000000:07:00.0 0 NVIDIA A100-SXM4-80GB
gpu GPU-two 81920 2195 00000000:48:00.0 1 NVIDIA A100-SXM4-80GB
mig 1 MIG-one 13 0 9856
"""

LOOK = """
import json, sys
from hloop.devices.observe import Observer
from hloop.devices.resolve import Device
observer = Observer()
seen = [observer.observe(Device(0, None, uuid, None, None, uuid is None)) for uuid in {uuids!r}]
observer.close()
print(json.dumps(seen))
"""


def look(*uuids):
    return LOOK.format(uuids=uuids)


def found(seen):
    return [(entry["memory_used_bytes"], entry["problem"]) for entry in seen]


def test_the_memory_in_use_is_in_bytes(with_nvml):
    assert found(with_nvml(look("GPU-one", "GPU-two"), MACHINE)) == [
        (87 * 2**20, None),
        (2195 * 2**20, None),
    ]


def test_a_mig_device_is_found_by_its_uuid(with_nvml):
    assert found(with_nvml(look("MIG-one"), MACHINE)) == [(0, None)]


def test_what_records_say_of_a_device_stays(with_nvml):
    (seen,) = with_nvml(look("GPU-one"), MACHINE)
    device = {"logical": 0, "token": None, "uuid": "GPU-one", "name": None, "simulated": False}
    assert seen == device | {"memory_used_bytes": 87 * 2**20, "problem": None}


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        ("nvmlDeviceGetMemoryInfo 15", "GPU is lost"),
        ("nvmlDeviceGetHandleByUUID 15", "GPU is lost"),
        ("nvmlDeviceGetMemoryInfo 3", "Not Supported"),
        ("nvmlInit_v2 9", "NVML cannot be started (Driver Not Loaded)"),
        (
            "nvmlInit_v2 18",
            "NVML cannot be started (RM has detected an NVML/RM version mismatch.)",
        ),
    ],
)
def test_what_nvml_complains_of_is_the_problem(with_nvml, failure, problem):
    assert found(with_nvml(look("GPU-one"), f"{MACHINE}fail {failure}\n")) == [(None, problem)]


def test_a_uuid_that_is_not_there_is_the_problem(with_nvml):
    assert found(with_nvml(look("GPU-three"), MACHINE)) == [(None, "Not Found")]


def test_no_library_is_the_problem(without_nvml):
    problem = "NVML cannot be started (NVML Shared Library Not Found)"
    assert found(without_nvml(look("GPU-one", "GPU-one"))) == [(None, problem)] * 2


def test_no_nvidia_ml_py_is_the_problem(without_nvml):
    ((used, problem),) = found(
        without_nvml(f"import sys; sys.modules['pynvml'] = None\n{look('GPU-one')}")
    )
    assert used is None and problem.startswith("nvidia-ml-py cannot be imported (")


@pytest.mark.parametrize("uuid", [None, "unresolved"])
def test_a_device_without_a_uuid_is_not_looked_at(uuid):
    code = look(uuid) + "assert 'pynvml' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert found(json.loads(done.stdout)) == [(None, None)]


COUNTED = """
import pynvml
calls = []
for name in ("nvmlInit", "nvmlShutdown"):
    def count(name=name, call=getattr(pynvml, name)):
        calls.append(name)
        call()
    setattr(pynvml, name, count)
"""


def test_nvml_is_started_once_and_shut_down(with_nvml):
    code = COUNTED + look("GPU-one", "GPU-two").replace("dumps(seen)", "dumps(calls)")
    assert with_nvml(code, MACHINE) == ["nvmlInit", "nvmlShutdown"]


def test_a_failing_shutdown_does_no_harm(with_nvml):
    state = f"{MACHINE}fail nvmlShutdown 999\n"
    assert found(with_nvml(look("GPU-one"), state)) == [(87 * 2**20, None)]
