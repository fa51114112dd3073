"""CUDA's rules for CUDA_VISIBLE_DEVICES, case by case, and what must hold for any value."""

import json
from pathlib import Path

import pytest
from hloop.devices.visible import Gpu, Machine, MigDevice, NvmlUnavailable, visible
from hypothesis import given
from hypothesis import strategies as st

CASES = json.loads((Path(__file__).parents[1] / "data/cuda_visible_devices.json").read_text())
EIGHT = Machine(tuple(Gpu(uuid) for uuid in CASES["machine"]["uuids_in_pci_bus_order"]))
NO_NVML = NvmlUnavailable("NVML cannot be started (Driver Not Loaded)")


def gpu(entry):
    migs = tuple(MigDevice(**mig) for mig in entry.get("mig_devices", ()))
    return Gpu(entry["uuid"], mig_enabled=entry.get("mig_enabled", False), mig_devices=migs)


MACHINES = {
    name: NO_NVML if gpus is None else Machine(tuple(gpu(entry) for entry in gpus))
    for name, gpus in CASES["machines"].items()
} | {"eight": EIGHT}


def uuids(shown):
    return [each.physical.uuid if each.physical else "unresolved" for each in shown.devices]


def tokens(shown):
    return [device.token for device in shown.devices]


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["CUDA_VISIBLE_DEVICES"])
def test_the_published_cases_hold(case):
    shown = visible(case["CUDA_VISIBLE_DEVICES"], EIGHT, "PCI_BUS_ID")
    expected = [EIGHT.gpus[index].uuid for index in case["visible_indices"]]
    assert uuids(shown) == expected


@pytest.mark.parametrize(
    "case",
    CASES["more_cases"],
    ids=lambda case: (
        f"{case['machine']}-{case['CUDA_DEVICE_ORDER']}-{case['CUDA_VISIBLE_DEVICES']}"
    ),
)
def test_each_rule_holds(case):
    machine = MACHINES[case["machine"]]
    shown = visible(case["CUDA_VISIBLE_DEVICES"], machine, case["CUDA_DEVICE_ORDER"])
    assert uuids(shown) == case["visible"], case["rule"]


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True))
def test_distinct_ordinals_in_any_order_give_exactly_these(ordinals):
    shown = visible(",".join(map(str, ordinals)), EIGHT, "PCI_BUS_ID")
    assert uuids(shown) == [EIGHT.gpus[index].uuid for index in ordinals]


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True), st.data())
def test_an_invalid_entry_hides_what_follows_it_and_nothing_else(ordinals, data):
    cut = data.draw(st.integers(0, len(ordinals)))
    bad = data.draw(st.sampled_from(["-1", "8", "x", "", "MIG-"]))
    entries = [str(index) for index in ordinals]
    shown = visible(",".join([*entries[:cut], bad, *entries[cut:]]), EIGHT, "PCI_BUS_ID")
    assert uuids(shown) == [EIGHT.gpus[index].uuid for index in ordinals[:cut]]


entries = st.one_of(
    st.sampled_from(
        ["", "-1", " 1", "GPU-", "GPU-9", "MIG-", "MIG-GPU-1c/1/0", "9" * 5000, "0" * 5000]
    ),
    st.integers(-2, 9).map(str),
    st.text(max_size=6).filter(lambda text: "," not in text),
)
machines = st.sampled_from([*MACHINES.values()])
orders = st.sampled_from([None, "FASTEST_FIRST", "PCI_BUS_ID"])


@given(st.lists(entries, min_size=1, max_size=9), machines, orders)
def test_any_value_gives_distinct_devices_and_never_more_than_it_has_entries(mask, machine, order):
    shown = visible(",".join(mask), machine, order)
    known = [device.physical or device.token for device in shown.devices]
    assert len(known) == len(set(known)) <= len(mask)


@given(st.lists(entries, min_size=1, max_size=9), machines, orders)
def test_the_tokens_shown_stand_for_the_same_list(mask, machine, order):
    first = visible(",".join(mask), machine, order)
    again = visible(",".join(tokens(first)), machine, order)
    assert again.devices == first.devices


def test_a_number_is_passed_on_as_cuda_reads_it():
    assert tokens(visible(" +1gpu,02", EIGHT, "PCI_BUS_ID")) == ["1", "2"]


def test_a_uuid_is_passed_on_as_it_was_written():
    assert tokens(visible("GPU-e4", EIGHT, None)) == ["GPU-e4"]


def test_an_unset_mask_gives_uuids_where_they_are_known():
    assert tokens(visible(None, EIGHT, "PCI_BUS_ID")) == [gpu.uuid for gpu in EIGHT.gpus]


def test_an_unset_mask_gives_numbers_where_they_are_not():
    assert tokens(visible(None, EIGHT, None)) == [str(index) for index in range(8)]


@pytest.mark.parametrize(
    ("mask", "machine", "order", "why"),
    [
        ("0,1", "eight", "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=0,1"),
        ("", "eight", None, "CUDA_VISIBLE_DEVICES is empty"),
        (None, "eight", "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES is not set: 8 GPUs in this machine"),
        (None, "one", None, "CUDA_VISIBLE_DEVICES is not set: 1 GPU in this machine"),
        (
            None,
            "no_nvml",
            None,
            "CUDA_VISIBLE_DEVICES is not set: no device is known, because NVML cannot be "
            "started (Driver Not Loaded)",
        ),
        (
            "0",
            "no_nvml",
            None,
            "CUDA_VISIBLE_DEVICES=0: unresolved, because NVML cannot be started (Driver Not "
            "Loaded)",
        ),
        (
            "0,8,1",
            "eight",
            "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=0,8,1: entry '8' is out of range (8 GPUs), the list ends "
            "before it",
        ),
        (
            "-1",
            "eight",
            "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=-1: entry '-1' is negative, the list ends before it",
        ),
        (
            "NoDevFiles",
            "eight",
            None,
            "CUDA_VISIBLE_DEVICES=NoDevFiles: entry 'NoDevFiles' is neither a number nor GPU-… "
            "nor MIG-…, the list ends before it",
        ),
        (
            "GPU-e",
            "eight",
            None,
            "CUDA_VISIBLE_DEVICES=GPU-e: entry 'GPU-e' is the beginning of 3 UUIDs, the list "
            "ends before it",
        ),
        (
            "GPU-0",
            "eight",
            None,
            "CUDA_VISIBLE_DEVICES=GPU-0: entry 'GPU-0' is the UUID of no GPU of this machine, "
            "the list ends before it",
        ),
        (
            "MIG-0",
            "mig",
            None,
            "CUDA_VISIBLE_DEVICES=MIG-0: entry 'MIG-0' names no MIG device of this machine, the "
            "list ends before it",
        ),
        (
            "GPU-e4, GPU-b",
            "eight",
            None,
            "CUDA_VISIBLE_DEVICES=GPU-e4, GPU-b: entry ' GPU-b' is not of the same kind as "
            "'GPU-e4', the list ends before it",
        ),
        (
            "1,1",
            "eight",
            "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=1,1: entry '1' names a device for the second time, so none is "
            "visible",
        ),
        (
            "0,x",
            "eight",
            None,
            "CUDA_VISIBLE_DEVICES=0,x: entry 'x' is neither a number nor GPU-… nor MIG-…, the "
            "list ends before it; unresolved: numbers follow the PCI bus only with "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        ),
        (
            "2",
            "mig",
            "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=2: unresolved: what a GPU with MIG enabled is shown as "
            "depends on the driver",
        ),
        (
            "MIG-d184f67c",
            "mig",
            None,
            "CUDA_VISIBLE_DEVICES=MIG-d184f67c: unresolved: the MIG entry is shortened",
        ),
        (
            "MIG-d184f67c,MIG-405bbda1",
            "mig",
            None,
            "CUDA_VISIBLE_DEVICES=MIG-d184f67c,MIG-405bbda1: unresolved: how many MIG entries "
            "count depends on the driver",
        ),
    ],
)
def test_the_reason_is_said(mask, machine, order, why):
    assert visible(mask, MACHINES[machine], order).why == why
