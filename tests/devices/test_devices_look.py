"""A look at a device for the heartbeat: memory, how busy it is, and whether it is lost."""

from __future__ import annotations

import pytest

MACHINE = "gpu GPU-one 81920 87 00000000:07:00.0 0 NVIDIA A100-SXM4-80GB\n"
LOOK = """
import json, types, pynvml
from dataclasses import asdict
from hloop.devices.observe import Observer
from hloop.devices.resolve import Device
{prepare}
observer = Observer()
look = observer.look(Device(0, None, "GPU-one", None, None, False))
observer.close()
print(json.dumps(asdict(look)))
"""
# The double does not know of utilisation.
BUSY = "pynvml.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=73)"


def test_memory_and_utilisation_are_told(with_nvml):
    assert with_nvml(LOOK.format(prepare=BUSY), MACHINE) == {
        "memory_used_bytes": 87 * 2**20,
        "utilisation_percent": 73,
        "problem": None,
        "lost": False,
    }


def test_the_memory_is_told_where_the_utilisation_is_not_known(with_nvml):
    found = with_nvml(LOOK.format(prepare=""), MACHINE)
    assert (found["memory_used_bytes"], found["utilisation_percent"]) == (87 * 2**20, None)
    assert found["problem"] == "Function Not Found" and not found["lost"]


@pytest.mark.parametrize(
    ("state", "problem", "lost"),
    [
        (f"{MACHINE}fail nvmlDeviceGetMemoryInfo 15\n", "GPU is lost", True),
        ("driver 570.86.10 12080\n", "Not Found", True),
        (f"{MACHINE}fail nvmlDeviceGetMemoryInfo 999\n", "Unknown Error", False),
        (f"{MACHINE}fail nvmlInit_v2 9\n", "NVML cannot be started (Driver Not Loaded)", False),
    ],
)
def test_what_nvml_complains_of_says_whether_it_is_lost(with_nvml, state, problem, lost):
    found = with_nvml(LOOK.format(prepare=BUSY), state)
    assert (found["problem"], found["lost"]) == (problem, lost)


def test_no_library_is_no_loss(without_nvml):
    found = without_nvml(LOOK.format(prepare=""))
    assert found["problem"].startswith("NVML cannot be started") and not found["lost"]
