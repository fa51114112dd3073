"""What a manifest says of the software: packages, variables by a list, a conda environment."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hloop import __version__, canonical
from hloop.portable import Portable
from hloop.provenance.environment import (
    VARIABLES,
    conda_export_digest,
    environment_facts,
    packages,
)

PORTABLE = Portable(Path("/r/run"), Path("/r"))


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    found = environment_facts(environ, None, PORTABLE)["variables"]
    assert isinstance(found, dict)
    return found


def test_versions_are_those_of_this_process() -> None:
    found = environment_facts({}, "9.27.1", PORTABLE)
    expected = (platform.python_version(), "CPython", "9.27.1", __version__)
    python = found["python"]
    assert (
        python["version"],
        python["implementation"],
        found["snakemake"],
        found["hloop"],
    ) == expected


# Variables


def test_a_variable_of_the_list_is_written_down() -> None:
    assert variables({"OMP_NUM_THREADS": "4"}) == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    "name",
    ["SECRET_TOKEN", "omp_num_threads", "OMP_NUM_THREADS_", "XOMP_NUM_THREADS", "SLURM_JWT"],
)
def test_no_other_variable_is_written_down(name: str) -> None:
    assert variables({name: "canary"}) == {}


def test_the_list_names_no_variable_that_is_there_for_secrets() -> None:
    secret = re.compile("TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|JWT|API|PROXY|URL|KEY")
    assert [name for name in VARIABLES if secret.search(name)] == []


def test_the_list_has_no_patterns_and_nothing_twice() -> None:
    assert all(re.fullmatch("[A-Z][A-Z0-9_]+", name) for name in VARIABLES)
    assert len(set(VARIABLES)) == len(VARIABLES)


def test_paths_in_variables_are_portable() -> None:
    assert variables({"VIRTUAL_ENV": "/r/.venv"}) == {"VIRTUAL_ENV": "${REPO_ROOT}/.venv"}


def test_bytes_that_are_no_text_can_be_written_down() -> None:
    found = variables({"TZ": "a\udcff"})
    assert canonical.loads(canonical.dumps(found)) == {"TZ": "a\\udcff"}


# Packages


def install(folder: Path, name: str, metadata: str) -> None:
    (folder / f"{name}.dist-info").mkdir(parents=True)
    (folder / f"{name}.dist-info/METADATA").write_bytes(metadata.encode("latin-1"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that packages are imported from."""
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def test_packages_stand_sorted_by_their_normalised_names(site: Path) -> None:
    install(site, "Zope.Interface-6.0", "Name: Zope.Interface\nVersion: 6.0\n")
    install(site, "a__b-1", "name:a__-b \nVersion:\t1\nVersion: 2\n")
    assert list(packages().items()) == [("a-b", "1"), ("zope-interface", "6.0")]


def test_of_a_package_that_is_installed_twice_the_imported_one_counts(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "a-1", "Name: a\nVersion: 1\n")
    install(tmp_path / "later", "a-2", "Name: a\nVersion: 2\n")
    monkeypatch.setattr(sys, "path", [str(site), str(tmp_path / "later")])
    assert packages() == {"a": "1"}


@pytest.mark.parametrize(
    "metadata",
    ["", "Name: b\n", "Version: 1\n", "\xff\xfe\n", "Name: \xe9", "Name: b\n\nVersion: 1\n"],
)
def test_broken_metadata_hides_no_other_package(site: Path, metadata: str) -> None:
    install(site, "a-1", "Name: a\nVersion: 1\n")
    install(site, "broken-1", metadata)
    (site / "empty-1.dist-info").mkdir()
    assert packages() == {"a": "1"}


def test_the_packages_of_this_process_are_found() -> None:
    expected = {name: version(name) for name in ("snakemake", "pytest")}
    assert packages().items() >= expected.items()


# Conda

NUMPY = {
    "name": "numpy",
    "version": "2.1.0",
    "build": "py311h_0",
    "channel": "https://conda.anaconda.org/conda-forge/linux-64",
    "url": "https://conda.anaconda.org/conda-forge/linux-64/numpy-2.1.0-py311h_0.conda",
    "sha256": "a" * 64,
    "md5": "b" * 32,
    "files": ["lib/x"],
}
LOCAL = {"name": "local", "version": "1", "build": "0", "channel": "defaults"}


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A conda environment without packages, which this Python is in."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    (tmp_path / "env/conda-meta").mkdir(parents=True)
    (tmp_path / "env/conda-meta/history").write_text("==> 2026 <==\n")
    return tmp_path / "env"


def digest(prefix: Path, *records: Mapping[str, Any]) -> str:
    for path in (prefix / "conda-meta").glob("*.json"):
        path.unlink()
    for record in records:
        path = prefix / "conda-meta" / f"{record['name']}-{record['version']}.json"
        path.write_text(json.dumps(record))
    found = conda_export_digest({"CONDA_PREFIX": str(prefix)})
    assert found is not None
    return found


def test_the_digest_of_a_known_environment(prefix: Path) -> None:
    # sha256sum over the two lines
    # {"build":"0","channel":"defaults","file":"local-1.json","md5":null,…}
    # {"build":"py311h_0","channel":"https://…","file":"numpy-2.1.0.json",…}
    assert (
        digest(prefix, NUMPY, LOCAL)
        == "sha256:461532459aa9952ed1715c2c9ce144112da4d0d1c3d4679e2a6e23b1fc3270fb"
    )


@pytest.mark.parametrize("key", ["version", "build", "channel", "url", "sha256", "md5"])
def test_every_fact_of_a_package_counts(prefix: Path, key: str) -> None:
    assert digest(prefix, NUMPY | {key: "other"}) != digest(prefix, NUMPY)


@pytest.mark.parametrize("key", ["files", "link", "extracted_package_dir"])
def test_how_a_package_was_put_there_does_not_count(prefix: Path, key: str) -> None:
    assert digest(prefix, NUMPY | {key: "other"}) == digest(prefix, NUMPY)


def test_a_record_that_cannot_be_read_counts_by_its_name(prefix: Path) -> None:
    before = digest(prefix, NUMPY)
    (prefix / "conda-meta/broken-1.json").write_text("{")
    assert conda_export_digest({"CONDA_PREFIX": str(prefix)}) not in (None, before)


@pytest.mark.parametrize(
    "address",
    [
        "https://user:canary@conda.anaconda.org/conda-forge/linux-64",
        "https://canary@conda.anaconda.org/conda-forge/linux-64",
        "https://conda.anaconda.org/t/canary/conda-forge/linux-64",
        "https://user:canary@conda.anaconda.org/t/canary/conda-forge/linux-64",
        "https://conda.anaconda.org/conda-forge/linux-64?token=canary",
        "https://conda.anaconda.org/conda-forge/linux-64/t/canary",
    ],
)
@pytest.mark.parametrize("key", ["channel", "url"])
def test_credentials_in_a_channel_do_not_count(prefix: Path, key: str, address: str) -> None:
    clean = NUMPY | {key: "https://conda.anaconda.org/conda-forge/linux-64"}
    assert digest(prefix, NUMPY | {key: address}) == digest(prefix, clean)


def test_outside_of_conda_there_is_no_digest() -> None:
    assert conda_export_digest({}) is None


def test_a_python_that_is_not_in_the_environment_has_none(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", f"{prefix}-2")
    assert conda_export_digest({"CONDA_PREFIX": str(prefix)}) is None


def test_a_virtual_environment_inside_a_conda_environment_is_in_it(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest(prefix, NUMPY)
    monkeypatch.setattr(sys, "prefix", str(prefix / "inner"))
    assert conda_export_digest({"CONDA_PREFIX": str(prefix)}) == before


def test_an_environment_without_records_has_none(tmp_path: Path) -> None:
    assert conda_export_digest({"CONDA_PREFIX": sys.prefix}) is None
    assert conda_export_digest({"CONDA_PREFIX": ""}) is None
