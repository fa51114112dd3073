"""environment.yml, for users of conda, asks for what pyproject.toml asks for."""

from __future__ import annotations

import tomllib

import yaml
from packaging.requirements import Requirement
from source_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())


def test_it_has_the_same_pins():
    pins = {
        Requirement(line)
        for line in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["demo"])
    }
    python = Requirement(f"python{PROJECT['requires-python']}")
    assert set(map(Requirement, ENVIRONMENT["dependencies"])) == {
        *pins,
        python,
        # Installs hloop itself.
        Requirement("pip"),
    }


def test_no_package_stands_twice():
    names = [Requirement(line).name for line in ENVIRONMENT["dependencies"]]
    assert len(names) == len(set(names))


def test_no_pin_is_one_that_conda_reads_otherwise():
    # conda takes ==3.11.* for ==3.11, which 3.11.1 is not.
    assert not [line for line in ENVIRONMENT["dependencies"] if "*" in line]
