"""NVML asked from a process of its own, through the double: also where it never answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nvml_double
import pytest
from hloop.devices.resolve import Device, DeviceTable
from hloop.run.asking import NoAnswer, NvmlProcess, PatientObserver
from supervised import is_alive, wait_for

UUID = "GPU-11111111-1111-1111-1111-111111111111"
DEVICE = Device(0, UUID, UUID, "A GPU", 80000, simulated=False)
MACHINE = f"gpu {UUID} 80000 5 00000000:0F:00.0 0 A GPU\n"
HANGS = f"{MACHINE}fail nvmlDeviceGetMemoryInfo -1\n"
USED = 5 << 20
LONG = 1e6


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    nvml_double.build(folder)
    return folder


@pytest.fixture
def state(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What NVML says; the process that asks it inherits where that stands."""
    path = tmp_path / "state"
    path.write_text(MACHINE)
    for name, value in nvml_double.environment(library, path).items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def process() -> Iterator[NvmlProcess]:
    process = NvmlProcess()
    yield process
    process.close()


@pytest.fixture
def observer(state: Path) -> Iterator[PatientObserver]:
    observer = PatientObserver()
    observer.begin(DeviceTable((DEVICE,), "the test", None))
    wait_for(lambda: not observer.is_starting(), "the start of NVML")
    yield observer
    observer.close()


def test_a_device_is_looked_at(observer: PatientObserver) -> None:
    assert observer.observe(DEVICE)["memory_used_bytes"] == USED


def test_where_nvml_hangs_that_is_what_is_said(observer: PatientObserver, state: Path) -> None:
    state.write_text(HANGS)
    assert observer.observe(DEVICE)["problem"] == "NVML did not answer within 1 s"


def test_a_device_that_does_not_answer_is_not_lost(observer: PatientObserver, state: Path) -> None:
    state.write_text(HANGS)
    assert observer.loss(DEVICE) is None


def test_nvml_that_answers_again_is_heard_again(observer: PatientObserver, state: Path) -> None:
    state.write_text(HANGS)
    observer.look(DEVICE)
    state.write_text(MACHINE)
    wait_for(lambda: observer.look(DEVICE).memory_used_bytes == USED, "an answer")


def test_it_is_waited_for_once(process: NvmlProcess, state: Path) -> None:
    state.write_text(HANGS)
    with pytest.raises(NoAnswer):
        process.ask(0.2, "look", DEVICE)
    with pytest.raises(NoAnswer):
        process.ask(LONG, "look", DEVICE)


def test_a_process_that_died_is_said_to_have(process: NvmlProcess, state: Path) -> None:
    process.post("start")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(NoAnswer, match="the process that asks NVML died"):
        process.ask(LONG, "look", DEVICE)


def test_after_its_death_there_is_another(process: NvmlProcess, state: Path) -> None:
    process.post("start")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(NoAnswer):
        process.ask(LONG, "look", DEVICE)
    assert process.ask(LONG, "look", DEVICE).memory_used_bytes == USED


def test_a_full_process_table_is_said(
    process: NvmlProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(NoAnswer, match="no process can be started that asks NVML"):
        process.ask(LONG, "look", DEVICE)


def test_it_dies_with_its_parent_although_it_hangs(state: Path) -> None:
    state.write_text(HANGS)
    code = (
        "from hloop.devices.resolve import Device\n"
        "from hloop.run.asking import NvmlProcess\n"
        "process = NvmlProcess()\n"
        f"process.post('look', {DEVICE!r})\n"
        "print(process.pid, flush=True)\n"
        "input()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_for(lambda: not is_alive(pid), "its end")


def test_a_run_is_told_that_the_machine_does_not_answer(state: Path) -> None:
    state.write_text(f"{MACHINE}fail nvmlInit_v2 -1\n")
    code = (
        "from hloop.run import asking\n"
        "asking.START_SECONDS = 0.2\n"
        "print(asking.ask_machine().reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"NVML did not answer within 0.2 s\n"
