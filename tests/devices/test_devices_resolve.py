"""The setting, the table that comes of it, and the demands of jobs on that table."""

import pytest
from hloop.devices.resolve import require, require_count, resolve_devices
from hloop.devices.visible import Gpu, Machine, NvmlUnavailable
from hloop.errors import DeviceError

TWO = Machine((Gpu("GPU-aaaa", "A100", 81920), Gpu("GPU-bbbb", "T4", 15360)))
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def no_driver():
    return NvmlUnavailable("NVML cannot be started (Driver Not Loaded)")


def resolve(spec, query=lambda: TWO, **environ):
    return resolve_devices(spec, PCI | environ, query)


def column(table, field):
    return [getattr(device, field) for device in table.devices]


def test_auto_takes_the_inherited_devices():
    table = resolve("auto", CUDA_VISIBLE_DEVICES="1,0")
    assert column(table, "uuid") == ["GPU-bbbb", "GPU-aaaa"]


def test_auto_takes_all_devices_where_the_mask_is_unset():
    assert column(resolve("auto"), "uuid") == ["GPU-aaaa", "GPU-bbbb"]


def test_auto_leaves_the_mask_as_it_is():
    assert resolve("auto", CUDA_VISIBLE_DEVICES=" 1gpu, 0").mask == " 1gpu, 0"


def test_auto_leaves_an_unset_mask_unset():
    assert resolve("auto").mask is None


def test_auto_gives_name_and_memory():
    device = resolve("auto", CUDA_VISIBLE_DEVICES="1").devices[0]
    assert (device.name, device.memory_mib) == ("T4", 15360)


def test_without_nvml_devices_are_counted_and_unresolved():
    table = resolve("auto", no_driver, CUDA_VISIBLE_DEVICES="0,1")
    assert column(table, "uuid") == ["unresolved", "unresolved"]


def test_numbers_in_cudas_own_order_are_unresolved():
    table = resolve("auto", CUDA_VISIBLE_DEVICES="0,1", CUDA_DEVICE_ORDER="FASTEST_FIRST")
    assert column(table, "uuid") == ["unresolved", "unresolved"]


def test_logical_indices_count_from_zero():
    assert column(resolve("auto", CUDA_VISIBLE_DEVICES="1,0"), "logical") == [0, 1]


def test_no_device_is_an_empty_table():
    assert resolve("auto", no_driver).devices == ()


def test_the_record_of_a_device():
    assert resolve("auto", CUDA_VISIBLE_DEVICES="GPU-b").devices[0].to_dict() == {
        "logical": 0,
        "token": "GPU-b",
        "uuid": "GPU-bbbb",
        "name": "T4",
        "simulated": False,
    }


def test_simulated_devices_say_so():
    assert column(resolve("simulated:3"), "simulated") == [True, True, True]


def test_real_devices_are_not_called_simulated():
    assert column(resolve("auto"), "simulated") == [False, False]


def test_simulated_devices_have_no_uuid():
    assert column(resolve("simulated:2"), "uuid") == [None, None]


def test_simulated_devices_have_numbers_for_tokens():
    assert column(resolve("simulated:2"), "token") == ["0", "1"]


def test_simulated_devices_have_no_token_where_a_mask_is_inherited():
    assert column(resolve("simulated:2", CUDA_VISIBLE_DEVICES=""), "token") == [None, None]


def test_simulated_devices_leave_the_mask_as_it_is():
    assert resolve("simulated:2", CUDA_VISIBLE_DEVICES="4,5").mask == "4,5"


def test_simulated_devices_do_not_ask_nvml():
    def query():
        raise AssertionError("NVML was asked")

    assert len(resolve("simulated:2", query).devices) == 2


def test_entries_take_the_place_of_the_inherited_mask():
    assert resolve("1", CUDA_VISIBLE_DEVICES="0").mask == "1"


def test_entries_are_resolved_as_those_of_the_mask_are():
    assert column(resolve("GPU-b,GPU-a"), "uuid") == ["GPU-bbbb", "GPU-aaaa"]


@pytest.mark.parametrize(
    ("spec", "environ", "source"),
    [
        ("auto", {"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES=0"),
        ("simulated:2", {}, "--hloop-devices=simulated:2"),
        ("1", {}, "--hloop-devices=1"),
        (
            "1",
            {"CUDA_VISIBLE_DEVICES": "0"},
            "--hloop-devices=1; in place of CUDA_VISIBLE_DEVICES=0",
        ),
    ],
)
def test_the_source_is_said(spec, environ, source):
    assert resolve(spec, **environ).source == source


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("", "--hloop-devices= names no devices"),
        ("simulated", "--hloop-devices=simulated names no devices"),
        ("simulated:0", "--hloop-devices=simulated:0 names no devices"),
        ("simulated:-1", "--hloop-devices=simulated:-1 names no devices"),
        ("simulated:2x", "--hloop-devices=simulated:2x names no devices"),
        ("simulated:10000", "--hloop-devices=simulated:10000 names no devices"),
        ("Auto", "entry 'Auto' is neither a number nor GPU-… nor MIG-…"),
        ("0,2", "entry '2' is out of range (2 GPUs)"),
        ("0,", "entry '' is neither a number nor GPU-… nor MIG-…"),
        ("0,0", "entry '0' names a device for the second time"),
        ("GPU-c", "entry 'GPU-c' is the UUID of no GPU of this machine"),
    ],
)
def test_a_malformed_setting_is_refused_with_what_was_found(spec, found):
    with pytest.raises(DeviceError) as error:
        resolve(spec)
    assert found in str(error.value)


def test_a_refusal_says_what_was_expected():
    with pytest.raises(DeviceError, match=r"expected auto, simulated:N .* or entries"):
        resolve("all")


def test_a_plan_whose_devices_are_there_is_let_through():
    assert require(resolve("auto"), {"a": 0, "b": 1}) is None


def test_a_plan_without_gpu_jobs_needs_no_device():
    assert require(resolve("auto", no_driver), {}) is None


def refusal(table, needed):
    with pytest.raises(DeviceError) as error:
        require(table, needed)
    return str(error.value)


def test_a_missing_device_is_named_with_what_is_visible_and_why():
    table = resolve("auto", CUDA_VISIBLE_DEVICES="0")
    assert refusal(table, {"rollout_a": 0, "rollout_b": 1}) == (
        "job rollout_b needs device 1, but 1 device is visible: CUDA_VISIBLE_DEVICES=0. Run "
        "where 2 are visible, or ask for simulated devices with --hloop-devices simulated:2 "
        "(hloop run: --devices simulated:2)"
    )


def test_several_jobs_are_counted_and_the_highest_device_is_asked_for():
    text = refusal(resolve("simulated:2"), {"a": 3, "b": 4, "c": 0})
    assert text.startswith("job a (and 1 more) needs device 3, but 2 devices are visible: ")
    assert "Run where 5 are visible" in text


def test_no_visible_device_is_said_with_the_reason():
    assert "but no device is visible: CUDA_VISIBLE_DEVICES is not set: no device is known" in (
        refusal(resolve("auto", no_driver), {"a": 0})
    )


def test_a_rule_may_ask_for_all_devices():
    assert require_count(resolve("auto"), "rule train", 2) is None


def test_a_rule_that_asks_for_more_devices_than_there_are_is_refused():
    with pytest.raises(DeviceError, match="^rule train asks for gpu=5, but 2 devices are visible"):
        require_count(resolve("auto"), "rule train", 5)


DRIVEN = Machine((Gpu("GPU-aaaa"),), "570.86.10")


@pytest.mark.parametrize(
    ("spec", "query", "driver"),
    [
        ("auto", lambda: DRIVEN, "570.86.10"),
        ("0", lambda: DRIVEN, "570.86.10"),
        ("auto", no_driver, None),
        ("simulated:1", lambda: DRIVEN, None),
    ],
)
def test_the_table_has_the_drivers_version_where_nvml_was_asked(spec, query, driver):
    assert resolve(spec, query).driver == driver
