"""Runs of a benchmark made by hand, for what is said of them: no process, no file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hloop.report.benchmark import Protocol
from hloop.report.measuring import MeasuredRun
from hloop.schedule.events import Mode

BEGIN = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
GPU = {"logical": 0, "token": "GPU-a", "uuid": "GPU-a", "name": "H", "simulated": False}
REPORT: dict[str, Any] = {
    "mode": "hloop",
    "session_id": "s",
    "host": {"hostname": "node", "cpu_count": 8, "boot_id": "1"},
    "versions": {"hloop": "0.1.0"},
    "devices": [GPU],
    "scheduling": {
        "placement": "pinned",
        "limits": {"cpu": 4, "io": 2},
        "makespan_seconds": 1.0,
        "lower_bound": {"seconds": 0.5, "limiting": "device 0"},
        "efficiency": 0.5,
        "idle_seconds": {"device 0": 0.25},
    },
}
MANIFEST: dict[str, Any] = {
    "code_digests": {
        "git": {"commit": "c" * 40, "dirty": False, "problem": None},
        "scripts": [],
    },
    "environment": {"packages": {"numpy": "2"}},
}
QUIET = {"seconds": 10.0, "cpu_count": 8, "other_cpu_seconds": 0.5, "other_runs": []}


def runs_of(protocol: Protocol, seconds: dict[Mode, Sequence[float]]) -> list[MeasuredRun]:
    """Every run of a protocol, one after another; ``seconds`` by repetition, 9 to warm up."""
    runs = []
    at = BEGIN
    for planned_runs in protocol.rounds():
        for planned in planned_runs:
            number = planned.repetition
            took = 9.0 if number is None else seconds[planned.mode][number]
            report, manifest = copy.deepcopy(REPORT), copy.deepcopy(MANIFEST)
            report["mode"] = planned.mode.value
            report["started_at"] = at.isoformat()
            at += timedelta(seconds=took)
            report["completed_at"] = at.isoformat()
            report["elapsed_seconds"] = took
            report["scheduling"]["makespan_seconds"] = took - 0.1
            surroundings = copy.deepcopy(QUIET)
            head = f"sha256:{len(runs):064x}"
            runs.append(MeasuredRun(planned, report, manifest, head, "d" * 64, surroundings))
    return runs
