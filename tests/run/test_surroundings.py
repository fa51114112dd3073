"""What else goes on on the machine while a run does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hloop.run import surroundings
from hloop.run.surroundings import Surroundings, other_runs

LOOK = """
import json
from hloop.run.surroundings import other_runs
print(json.dumps([[other.pid, other.run_dir] for other in other_runs()]))
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[int]:
    """What looks like the supervisor of a run in tmp_path; a child of this process."""
    opened = f"kept = open({str(tmp_path / 'journal.jsonl')!r}, 'w')"
    script = f"{opened}; print(flush=True); import time; time.sleep(60)"
    argv = [sys.executable, "-c", script, "hloop.run.supervisor"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_run_that_somebody_else_started_is_found_with_its_run_directory(
    supervisor: int, tmp_path: Path
):
    printed = subprocess.run([sys.executable, "-c", LOOK], stdout=subprocess.PIPE, check=True)
    assert [supervisor, str(tmp_path)] in json.loads(printed.stdout)


def test_a_run_of_ones_own_is_none_of_the_others(supervisor: int):
    assert supervisor not in [other.pid for other in other_runs()]


def test_the_cpu_time_of_others_is_all_but_ones_own(monkeypatch: pytest.MonkeyPatch):
    busy, own = iter([10.0, 16.0]), iter([1.0, 3.0])
    monkeypatch.setattr(surroundings, "_busy_seconds", lambda: next(busy))
    monkeypatch.setattr(surroundings, "_own_seconds", lambda: next(own))
    assert Surroundings().result()["other_cpu_seconds"] == 4.0


def test_a_waited_for_child_counts_as_ones_own():
    before = surroundings._own_seconds()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert surroundings._own_seconds() - before >= 0.3
