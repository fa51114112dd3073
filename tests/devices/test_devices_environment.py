"""What a job is told of its devices."""

from hloop.devices.environment import plan_job_environment, rule_environment
from hloop.devices.resolve import resolve_devices
from hloop.devices.visible import Gpu, Machine
from hypothesis import given
from hypothesis import strategies as st

TWO = Machine((Gpu("GPU-aaaa"), Gpu("GPU-bbbb")))
OUTER = {"HOME": "/", "MIMICX_DEVICE_ID": "7", "HLOOP_DEVICE_ID": "7"}


def table(spec="auto", machine=TWO, **environ):
    return resolve_devices(spec, environ, lambda: machine)


def plan_job(table, device, inherited=OUTER):
    return plan_job_environment(table, device).apply(inherited)


def rule_job(table, devices, inherited=OUTER):
    return rule_environment(table, devices).apply(inherited)


def test_a_plan_job_gets_its_logical_device():
    told = plan_job(table(CUDA_VISIBLE_DEVICES="GPU-bbbb,GPU-aaaa"), 1)
    assert (told["MIMICX_DEVICE_ID"], told["HLOOP_DEVICE_ID"]) == ("1", "1")


def test_a_plan_job_sees_the_inherited_mask_untouched():
    told = plan_job(table(CUDA_VISIBLE_DEVICES=" 1gpu, 0,x"), 1)
    assert told["CUDA_VISIBLE_DEVICES"] == " 1gpu, 0,x"


def test_a_plan_job_sees_an_unset_mask_unset():
    assert "CUDA_VISIBLE_DEVICES" not in plan_job(table(), 1)


def test_a_plan_job_sees_an_empty_mask_empty():
    assert plan_job(table(CUDA_VISIBLE_DEVICES=""), None)["CUDA_VISIBLE_DEVICES"] == ""


def test_a_plan_job_sees_the_entries_that_were_set_for_the_run():
    told = plan_job(table("GPU-b", CUDA_VISIBLE_DEVICES="GPU-a"), 0)
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-b"


def test_a_plan_job_without_a_device_is_told_of_none():
    assert plan_job(table(), None) == {"HOME": "/"}


def test_a_rule_sees_its_own_devices_only():
    told = rule_job(table(CUDA_VISIBLE_DEVICES="GPU-b,GPU-a"), [1])
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-a"


def test_a_rule_is_told_which_devices_of_the_run_it_holds():
    told = rule_job(table("simulated:4"), [1, 3])
    assert told["HLOOP_DEVICE_ID"] == "1,3"


def test_a_rule_gets_no_index_of_a_plan():
    assert "MIMICX_DEVICE_ID" not in rule_job(table(), [0])


def test_a_rule_under_an_unset_mask_gets_uuids_where_they_are_known():
    known = resolve_devices("auto", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, lambda: TWO)
    assert rule_job(known, [1])["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb"


def test_a_rule_under_an_unset_mask_gets_numbers_where_uuids_are_not_known():
    assert rule_job(table(), [1])["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_rule_without_devices_inherits_the_mask():
    assert rule_job(table(CUDA_VISIBLE_DEVICES="0,1"), []) == {
        "HOME": "/",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_a_rule_with_simulated_devices_gets_their_numbers():
    assert rule_job(table("simulated:3"), [2])["CUDA_VISIBLE_DEVICES"] == "2"


def test_a_rule_with_simulated_devices_is_shown_no_gpu_that_the_mask_hides():
    told = rule_job(table("simulated:3", CUDA_VISIBLE_DEVICES="4,5"), [2])
    assert told["CUDA_VISIBLE_DEVICES"] == "4,5"


@given(
    st.permutations(range(8)),
    st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True),
)
def test_narrowing_keeps_the_inherited_order(mask, held):
    eight = Machine(tuple(Gpu(f"GPU-{index}") for index in range(8)))
    whole = table(machine=eight, CUDA_VISIBLE_DEVICES=",".join(map(str, mask)))
    narrowed = rule_job(whole, held)["CUDA_VISIBLE_DEVICES"].split(",")
    assert narrowed == [str(mask[index]) for index in range(8) if index in held]
