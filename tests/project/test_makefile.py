"""The Makefile: what it says before it installs anything, and when it installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Nothing of a make around this one.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_a_misspelled_mode_is_told_at_once(folder):
    process = make(folder, "demo", "MODE=hlop")
    assert process.returncode == 2
    assert "MODE is hlop; expected one of: sequential hloop bulk-sync" in process.stderr


def test_a_used_run_directory_is_told_at_once_with_what_to_do(folder):
    (folder / "runs/demo-bulk-sync/jobs").mkdir(parents=True)
    process = make(folder, "demo", "MODE=bulk-sync")
    assert process.returncode == 2
    assert "runs/demo-bulk-sync is already used" in process.stderr
    assert "\n  make demo MODE=bulk-sync RUN=runs/demo-bulk-sync-2\n" in process.stderr


def test_a_python_that_is_too_old_is_named(folder):
    old = folder / "old-python"
    code = "import sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 x'; exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$2"\n')
    old.chmod(0o755)
    process = make(folder, "check", f"PYTHON={old}")
    assert process.returncode == 2
    assert f"hloop needs python3 >= 3.11, and {old} is 3.9.2" in process.stderr
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize("target", ["demo", "test", "check", "format"])
def test_every_target_installs_first(folder, target):
    assert "pip install" in make(folder, "--dry-run", target).stdout


def test_what_is_installed_is_installed_again_after_a_change_of_pyproject(folder):
    (folder / ".venv").mkdir()
    stamp, pyproject = folder / ".venv/.installed", folder / "pyproject.toml"
    stamp.touch()
    os.utime(pyproject, (1, 1))
    before = make(folder, "--dry-run", "test").stdout
    os.utime(stamp, (0, 0))
    after = make(folder, "--dry-run", "test").stdout
    assert ("pip install" in before, "pip install" in after) == (False, True)


def test_continuous_integration_runs_check_and_test():
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == ["make check", "make test"]
