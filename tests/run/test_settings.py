"""The settings of a run: which of two counts, what is refused, and what the engine gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hloop.devices.resolve import DeviceTable, resolve_devices
from hloop.errors import DeviceError, HloopError
from hloop.run.opening import LeaseOpening
from hloop.run.settings import RunSettings
from hloop.schedule.events import Mode, Placement
from supervised import job, rendered

GPU_1 = job("g", "true", "gpu", cuda_visible_devices="1")


def override(settings: RunSettings = RunSettings(), **values: Any) -> RunSettings:
    return settings.override(values, source="the test")


def refusal(**values: Any) -> str:
    with pytest.raises(HloopError) as caught:
        override(**values)
    return str(caught.value)


def test_what_is_given_counts() -> None:
    assert override(mode="bulk-sync").mode is Mode.BULK_SYNC


def test_what_is_not_given_stays() -> None:
    before = override(mode="sequential", cpu_workers=3)
    after = override(before, io_workers=2, mode=None)
    assert (after.mode, after.cpu_workers, after.io_workers) == (Mode.SEQUENTIAL, 3, 2)


def test_the_later_of_two_counts() -> None:
    assert override(override(grace_seconds=3), grace_seconds=0).grace_seconds == 0


def test_other_keys_of_a_configuration_do_not_matter() -> None:
    assert override(run_dir="x", plan="y") == RunSettings()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", "fast", "one of sequential, hloop, bulk-sync"),
        ("mode", "", "one of sequential, hloop, bulk-sync"),
        ("mode", ["hloop"], "one of sequential, hloop, bulk-sync"),
        ("mode", 1, "one of sequential, hloop, bulk-sync"),
        ("placement", "here", "one of pinned, any"),
        ("cpu_workers", 0, "an integer of at least 1"),
        ("cpu_workers", -1, "an integer of at least 1"),
        ("cpu_workers", "2", "an integer of at least 1"),
        ("cpu_workers", 1.0, "an integer of at least 1"),
        ("cpu_workers", True, "an integer of at least 1"),
        ("io_workers", 0, "an integer of at least 1"),
        ("grace_seconds", -1, "an integer of at least 0"),
        ("grace_seconds", 0.5, "an integer of at least 0"),
        ("heartbeat_seconds", -1, "an integer of at least 0"),
        ("heartbeat_seconds", True, "an integer of at least 0"),
        ("max_log_bytes", 65535, "an integer of at least 65536"),
        ("devices", 2, "a string"),
        ("devices", ["0"], "a string"),
        ("provenance", "rules", "one of plan, all"),
        ("formal", "yes", "true or false"),
        ("formal", 1, "true or false"),
        ("gate", 1, "a string"),
        ("lease_dir", 1, "a string"),
        *(
            ("session_id", value, "1 to 64 letters, digits, dots, underscores and dashes")
            for value in ("", "a b", "a/b", "é", "a\n", "x" * 65, 7)
        ),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_can(
    name: str, value: object, expected: str
) -> None:
    assert f"{name}: {value!r} is not possible; expected {expected}" in refusal(**{name: value})


def test_all_that_is_wrong_is_said_at_once_with_its_source() -> None:
    text = refusal(mode="fast", cpu_workers=0, devices=1)
    assert text.startswith("the test: 3 problems")


# Formal runs


def test_a_formal_run_needs_a_gate() -> None:
    with pytest.raises(HloopError, match="formal is set, and gate is not"):
        override(formal=True).resolve(None, {})


def test_a_gate_is_for_formal_runs_only() -> None:
    with pytest.raises(HloopError, match="gate is set, and formal is not"):
        override(gate="gate.json").resolve(None, {})


def test_one_place_may_set_formal_and_another_the_gate() -> None:
    settings = override(override(formal=True), gate="/gate.json")
    assert settings.resolve(None, {}).devices == ()


def test_another_gate_takes_the_place_of_the_first() -> None:
    before = override(formal=True, gate="/first.json")
    assert override(before, gate="/second.json").gate == "/second.json"


def test_a_gate_is_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert override(formal=True, gate="g/../gate.json").gate == str(tmp_path / "gate.json")


# Leases


def simulated() -> DeviceTable:
    return resolve_devices("simulated:2", {})


def test_simulated_devices_are_leased_only_in_a_folder_that_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path / "leases")
    assert RunSettings().leases(simulated(), {}) is None
    assert override(lease_dir=folder).leases(simulated(), {}) == LeaseOpening(folder)


def test_a_run_without_devices_needs_no_lease_folder() -> None:
    assert RunSettings().leases(DeviceTable((), "", None), {}) is None


def test_a_lease_folder_is_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert override(lease_dir="leases").lease_dir == str(tmp_path / "leases")


# The heartbeat


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, 60),
        ({"formal": True, "gate": "g"}, 900),
        ({"heartbeat_seconds": 5, "formal": True, "gate": "g"}, 5),
        ({"heartbeat_seconds": 0}, 0),
    ],
)
def test_a_formal_run_has_a_slower_heartbeat(values: dict[str, Any], seconds: int) -> None:
    assert override(**values).heartbeat == seconds


# What the engine gets


def test_worker_limits_come_from_the_plan(tmp_path: Path) -> None:
    plan = rendered(tmp_path, job("a"), max_cpu_workers=7, max_io_workers=3).plan
    table = override(devices="simulated:2").resolve(plan, {})
    engine = RunSettings().engine(plan, table, keep_going=False)
    assert (engine.cpu_workers, engine.io_workers) == (7, 3)


def test_a_given_limit_takes_the_place_of_the_plans(tmp_path: Path) -> None:
    plan = rendered(tmp_path, job("a"), max_cpu_workers=7, max_io_workers=3).plan
    settings = override(devices="simulated:2", cpu_workers=1)
    engine = settings.engine(plan, settings.resolve(plan, {}), keep_going=False)
    assert (engine.cpu_workers, engine.io_workers) == (1, 3)


def test_the_engine_gets_every_device_and_the_way_of_running() -> None:
    settings = override(devices="simulated:3", mode="sequential", placement="any")
    engine = settings.engine(None, settings.resolve(None, {}), keep_going=True)
    found = (tuple(engine.devices), engine.mode, engine.placement, engine.keep_going)
    assert found == ((0, 1, 2), Mode.SEQUENTIAL, Placement.ANY, True)


def test_a_pinned_plan_needs_the_device_of_its_pin(tmp_path: Path) -> None:
    plan = rendered(tmp_path, GPU_1).plan
    with pytest.raises(DeviceError, match="needs device 1, but 1 device is visible"):
        override(devices="simulated:1").resolve(plan, {})


def test_where_the_pin_is_a_preference_any_device_will_do(tmp_path: Path) -> None:
    plan = rendered(tmp_path, GPU_1).plan
    table = override(devices="simulated:1", placement="any").resolve(plan, {})
    assert len(table.devices) == 1


def test_without_a_plan_no_device_is_needed() -> None:
    assert override(devices="simulated:1").resolve(None, {}).devices[0].simulated
