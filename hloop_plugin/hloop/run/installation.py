"""Whether hloop is installed so that Snakemake finds it, and with what beside it.

Snakemake is asked in a process of its own, since nothing here may import it, and since a
broken installation of it must not break who looks.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hloop
from hloop.files import data_dir
from hloop.run.health import Check

OURS = "snakemake-executor-plugin-hloop"
OPTIONAL = {
    "securesystemslib": "hloop attest needs it: install the extra attest",
    "mujoco": "the demo needs it: install the extra demo",
    "roc-validator": "validates an exported crate; the tests need it",
}
PATIENCE_SECONDS = 60.0

# As Snakemake does it: its registry imports every package of the right name.
_ASK = f"""
import json, sys, traceback
from importlib.metadata import requires, version
answer = {{"version": None, "range": None, "in_range": None, "plugin": None, "problem": None}}
try:
    answer["version"] = version("snakemake")
    from packaging.requirements import Requirement
    for line in requires("{OURS}") or []:
        wanted = Requirement(line)
        if wanted.name == "snakemake":
            answer["range"] = str(wanted.specifier)
            answer["in_range"] = wanted.specifier.contains(answer["version"], prereleases=True)
    import snakemake
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
    answer["plugin"] = ExecutorPluginRegistry().is_installed("hloop")
except Exception as error:
    answer["problem"] = traceback.format_exception_only(error)[-1].strip()
sys.__stdout__.write(json.dumps(answer) + "\\n")
"""


def installation_checks(environ: Mapping[str, str]) -> Iterator[Check]:
    """Look at the software, one thing after the other. Importing Snakemake takes a moment."""
    yield Check("python", True, f"{platform.python_version()} at {sys.executable}")
    yield _hloop()
    yield from _snakemake()
    yield _bytecode(environ)
    for name, action in OPTIONAL.items():
        try:
            yield Check(name, True, version(name))
        except PackageNotFoundError:
            yield Check(name, True, f"not installed; {action}")


def _hloop() -> Check:
    found = f"{hloop.__version__} at {Path(hloop.__file__).parent}"
    try:
        data_dir("schemas")
        data_dir("workflow")
    except FileNotFoundError as error:
        return Check("hloop", False, f"{found}; {error}", "Install it again")
    return Check("hloop", True, found)


def _snakemake() -> Iterator[Check]:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        found = f"could not be asked: {error}"
        yield Check("snakemake", None, found, "See whether snakemake --version works")
    else:
        yield from judge(answer)


def judge(answer: Mapping[str, Any]) -> Iterator[Check]:
    """Judge what Snakemake's own environment answered."""
    if answer["version"] is None:
        found = f"it is not installed beside {sys.executable}"
        yield Check("snakemake", False, found, "Install hloop with pip, which brings it")
        return
    found = answer["version"]
    if answer["in_range"] is None:
        found += f"; which versions hloop takes is not known: {answer['problem'] or OURS}"
        yield Check("snakemake", None, found, "Install hloop with pip")
    elif not answer["in_range"]:
        action = f"Install snakemake{answer['range']}"
        yield Check("snakemake", False, f"{found}, and hloop takes {answer['range']}", action)
    else:
        yield Check("snakemake", True, f"{found}; hloop takes {answer['range']}")
    if answer["plugin"]:
        yield Check("plugin", True, "Snakemake finds the executor hloop")
        return
    found = "Snakemake does not find the executor hloop"
    if answer["problem"]:
        found += f": {answer['problem']}"
    yield Check("plugin", False, found, "Install hloop into the environment that holds Snakemake")


def _bytecode(environ: Mapping[str, str]) -> Check:
    """See whether each start of Python compiles all modules anew, which takes seconds."""
    compiled = Path(importlib.util.cache_from_source(hloop.__file__)).exists()
    if compiled or not environ.get("PYTHONDONTWRITEBYTECODE"):
        return Check("bytecode", True, "kept" if compiled else "not there yet")
    found = "PYTHONDONTWRITEBYTECODE is set, and the modules are not compiled: each start is slow"
    action = "Unset it, or run python -m compileall once"
    return Check("bytecode", False, found, action)
