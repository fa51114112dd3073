"""docs/formal.md: its example runs, and it names every code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

PAGE = (ROOT / "docs/formal.md").read_text()
PROVENANCE, RUN = ROOT / "hloop_plugin/hloop/provenance", ROOT / "hloop_plugin/hloop/run"
MODULES = [
    *(PROVENANCE / f"{name}.py" for name in ("fidelity", "sourcediff", "formal", "gate", "tally")),
    RUN / "approval.py",
]


def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    people = {
        f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    ended = subprocess.run(
        ["bash", "-ec", example],
        cwd=tmp_path,
        env={**os.environ, **people, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (
        0,
        "1 Success, 0 Fail of 1 jobs; 0 errors",
    ), ended.stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_code_is_named(module: Path) -> None:
    codes = set(re.findall(r'Problem\(\s*"(\w+)"', module.read_text()))
    assert codes - set(re.findall(r"`(\w+)`", PAGE)) == set()
