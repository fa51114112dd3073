"""``hloop doctor``: each line is ok, or says what to do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import nvml_double
import pytest
from hloop.run import health, installation


def doctor(
    *options: object, preexec: Callable[[], object] | None = None, **environ: str
) -> tuple[int, dict[str, Any]]:
    """Ask in a process of its own. Gives the exit code, and the checks by name."""
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("CUDA_")}
    done = subprocess.run(
        [sys.executable, "-m", "hloop", "doctor", "--json", *map(str, options)],
        env=inherited | environ,
        stdout=subprocess.PIPE,
        preexec_fn=preexec,
        check=False,
    )
    document = json.loads(done.stdout)
    return done.returncode, {check["name"]: check for check in document["checks"]}


def limit(which: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(which, (value, resource.getrlimit(which)[1]))


@pytest.fixture(scope="module")
def here() -> tuple[int, dict[str, Any]]:
    return doctor()


def test_it_looks_at_everything_that_a_run_needs(here):
    assert {
        *("python", "hloop", "snakemake", "plugin", "bytecode", "securesystemslib", "mujoco"),
        *("roc-validator", "devices", "lease folder", "this folder", "TMPDIR", "open files"),
        *("processes", "file size", "core dumps", "memory", "/proc", "kernel", "clock", "umask"),
        "user",
    } == set(here[1])


def test_the_exit_code_is_that_of_the_worst_line(here):
    code, checks = here
    verdicts = {check["ok"] for check in checks.values()}
    assert code == (1 if False in verdicts else 2 if None in verdicts else 0)


def test_where_nothing_must_be_done_nothing_is_asked_for(here):
    assert not [check for check in here[1].values() if check["ok"] and check["action"]]


def test_snakemake_finds_the_plugin(here):
    assert (here[1]["snakemake"]["ok"], here[1]["plugin"]["ok"]) == (True, True)


def test_people_get_one_line_for_each(hloop):
    lines = hloop("doctor").out.splitlines()
    words = {line.split()[0] for line in lines}
    assert len(lines) == 22 and words <= {"ok", "mend", "unknown"}


SPOILT = {
    "open files": limit(resource.RLIMIT_NOFILE, 200),
    "file size": limit(resource.RLIMIT_FSIZE, 2**20),
    "umask": lambda: os.umask(0o377),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_told_with_what_to_do(name):
    code, checks = doctor(preexec=SPOILT[name])
    assert code == 1
    assert checks[name]["ok"] is False and checks[name]["action"]


def test_a_folder_that_no_file_can_be_made_in_is_told():
    code, checks = doctor("--run-dir", "/proc/runs/first")
    assert code == 1
    assert "/proc cannot be written to" in checks["run directory"]["found"]


def test_a_run_directory_that_is_not_there_yet_is_no_trouble(tmp_path):
    _, checks = doctor("--run-dir", tmp_path / "runs/first")
    assert checks["run directory"]["found"].startswith(f"{tmp_path} has ")
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_a_name_is_told(monkeypatch):
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 5)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    checks = {check.name: check for check in health.machine_checks(None, {})}
    assert (checks["user"].ok, checks["user"].action) == (False, "Set USER to any name")


def test_a_tmpdir_that_is_not_there_is_told(tmp_path):
    _, checks = doctor(TMPDIR=str(tmp_path / "gone"))
    assert checks["TMPDIR"]["ok"] is False


def test_a_disk_that_is_nearly_full_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(health, "ENOUGH_DISK", 2**63)
    check = health.check_folder("here", tmp_path)
    assert check.ok is False and check.action.startswith("Make room")


def test_a_snakemake_that_cannot_be_imported_is_told(tmp_path):
    (tmp_path / "snakemake.py").write_text("raise ImportError('half an installation')")
    code, checks = doctor(PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "half an installation" in checks["plugin"]["found"]


def test_a_plugin_that_cannot_be_imported_is_told(tmp_path):
    (tmp_path / "snakemake_executor_plugin_other").mkdir()
    (tmp_path / "snakemake_executor_plugin_other/__init__.py").write_text("1 / 0")
    _, checks = doctor(PYTHONPATH=str(tmp_path))
    assert "ZeroDivisionError" in checks["plugin"]["found"]


def judged(**facts: object) -> dict[str, health.Check]:
    answer = {"version": "9.30", "range": ">=9.27,<10", "in_range": True, "plugin": True}
    checks = installation.judge({**answer, "problem": None, **facts})
    return {check.name: check for check in checks}


def test_a_snakemake_of_another_version_is_told():
    check = judged(version="8.0", in_range=False)["snakemake"]
    assert (check.ok, check.action) == (False, "Install snakemake>=9.27,<10")


def test_a_snakemake_that_is_not_there_is_told():
    assert judged(version=None)["snakemake"].ok is False


def test_where_the_range_is_not_known_neither_is_the_verdict():
    assert judged(range=None, in_range=None)["snakemake"].ok is None


def test_a_plugin_that_snakemake_does_not_see_is_told():
    assert judged(plugin=False)["plugin"].ok is False


# Devices


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    library = tmp_path_factory.mktemp("nvml")
    nvml_double.build(library)
    return nvml_double.environment(library, nvml_double.NVML / "two_gpus.txt")


def test_devices_are_told_with_the_rule_that_gave_them(nvml):
    shown = {"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"}
    check = doctor(**nvml, **shown)[1]["devices"]
    assert (check["ok"], check["found"][:27]) == (True, "1: CUDA_VISIBLE_DEVICES=GPU")


def test_devices_that_cannot_be_told_apart_are_told(nvml):
    check = doctor(**nvml, CUDA_VISIBLE_DEVICES="0,1")[1]["devices"]
    assert check["ok"] is False and "CUDA_DEVICE_ORDER=PCI_BUS_ID" in check["action"]


def test_devices_that_are_asked_for_and_are_not_there_are_told(nvml):
    _, checks = doctor(**nvml, CUDA_VISIBLE_DEVICES="7")
    assert checks["devices"]["ok"] is False


def test_a_machine_without_a_gpu_is_nothing_to_mend(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    _, checks = doctor(LD_LIBRARY_PATH=str(tmp_path))
    assert checks["devices"]["found"].startswith("none: ")
