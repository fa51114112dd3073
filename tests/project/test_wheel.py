"""The sdist and the wheel: what is in them, and that an installed wheel needs no checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from source_tree import ROOT, project_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"snakemake_executor_plugin_hloop-{PROJECT['version']}"
# What tools and runs leave in a checkout.
LITTER = (
    "hloop_plugin/hloop/plan/__pycache__/model.cpython-311.pyc",
    "workflow/.snakemake/log/last.log",
    "workflow/rules/__pycache__/x.pyc",
    "schemas/.mypy_cache/3.11/cache.db",
    "tests/.pytest_cache/README.md",
    ".venv/bin/python",
    "runs/demo/hloop_run.json",
    "dist/old.whl",
)


def build(folder: Path, *options: str | Path) -> None:
    argv = (sys.executable, "-m", "build", "--no-isolation", *options)
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which somebody has worked."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in project_files():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, checkout / name)
    for name in LITTER:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("")
    return checkout


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    build(checkout, "--outdir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"))


# What is in them


def test_the_sdist_holds_the_project_and_nothing_else(built):
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    assert names == {*project_files(), "PKG-INFO"}


def test_the_wheel_holds_the_packages_the_schemas_and_the_workflow_without_the_demo(wheel):
    expected = {
        f"{NAME}.dist-info/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    for name in project_files():
        if name.startswith("hloop_plugin/"):
            expected.add(name.removeprefix("hloop_plugin/"))
        elif name.startswith(("schemas/", "workflow/")) and "/scripts/" not in name:
            expected.add(f"hloop/_data/{name}")
    with zipfile.ZipFile(wheel) as archive:
        assert set(archive.namelist()) == expected


def test_the_wheel_is_the_same_from_the_sdist_and_from_the_checkout(checkout, wheel, tmp_path):
    build(checkout, "--wheel", "--outdir", tmp_path)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_licence_is_the_projects(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{NAME}.dist-info/licenses/LICENSE")
    assert text == (ROOT / "LICENSE").read_bytes()


def test_the_metadata_names_licence_python_and_readme(metadata):
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_description_is_the_readme(metadata):
    description = metadata.get_payload(decode=True)
    assert description.strip() == (ROOT / "README.md").read_bytes().strip()


def test_the_metadata_requires_what_pyproject_names(metadata):
    required = {Requirement(line) for line in metadata.get_all("Requires-Dist", [])}
    assert {one for one in required if one.marker is None} == {
        Requirement(line) for line in PROJECT["dependencies"]
    }


def test_the_changelog_has_the_version():
    assert f"\n## {PROJECT['version']} " in (ROOT / "CHANGELOG.md").read_text()


# What an installed wheel does. The repository is nowhere on its path; the dependencies are
# those of the environment that runs the tests.


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of a fresh virtual environment with the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", wheel], check=True)
    # Folders that a .pth file adds come last, and their own .pth files, such as that of an
    # editable hloop, are not read.
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    site_packages = next(folder.glob("lib/python3*/site-packages"))
    (site_packages / "dependencies.pth").write_text("\n".join(sorted(shared)))
    return python


@pytest.fixture
def abroad(python: Path, tmp_path: Path):
    """Run a program of that environment, in a folder of its own."""

    def call(*argv: str) -> str:
        process = subprocess.run(
            argv,
            cwd=tmp_path,
            env={"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    return call


def test_the_installed_packages_are_those_of_the_wheel(abroad, python):
    code = "import hloop, snakemake_executor_plugin_hloop as p; print(hloop.__file__, p.__file__)"
    for file in abroad("python", "-c", code).split():
        assert Path(file).is_relative_to(python.parents[1])


def test_snakemake_lists_the_executor_and_its_settings(abroad):
    text = abroad("python", "-m", "snakemake", "--help")
    assert "hloop" in text.split("--executor ", 1)[1].split("]", 1)[0]
    assert "--hloop-mode" in text


def test_the_command_tells_the_version_of_the_distribution(abroad):
    assert abroad("hloop", "--version") == f"hloop {PROJECT['version']}\n"


def test_a_plan_runs_through_the_packaged_workflow_and_two_modes_agree(abroad, tmp_path):
    text = {"role": "text", "path": "{run_dir}/text"}
    jobs = [
        {
            "job_id": "write",
            "resource": "gpu",
            "cuda_visible_devices": "1",
            "command": ["sh", "-c", 'echo "device $HLOOP_DEVICE_ID" > "$0"', "{run_dir}/text"],
            "outputs": [text],
        },
        {
            "job_id": "read",
            "resource": "io",
            "depends_on": ["write"],
            "command": ["grep", "device 1", "{run_dir}/text"],
            "inputs": [text],
        },
    ]
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "two", "jobs": jobs}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    abroad("hloop", "plan", "plan.json")
    for mode in ("hloop", "sequential"):
        options = ("--devices", "simulated:2", "--run-dir", mode, "--mode", mode)
        abroad("hloop", "run", "--plan", "plan.json", *options)
    compared = abroad("hloop", "compare", "--baseline", "hloop", "--candidate", "sequential")
    assert compared.splitlines()[2].startswith("The runs agree: ")


def test_a_workflow_of_ones_own_runs_with_the_executor(abroad, tmp_path):
    (tmp_path / "Snakefile").write_text(
        "rule one:\n"
        '    output: "out"\n'
        "    resources: gpu=1\n"
        '    shell: "echo $CUDA_VISIBLE_DEVICES > {output}"\n'
    )
    options = ("--executor", "hloop", "--hloop-devices", "simulated:1", "--cores", "1")
    abroad("python", "-m", "snakemake", *options)
    assert (tmp_path / "out").read_text() == "0\n"
