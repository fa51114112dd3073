"""Runs for pages to show: like those of synthetic_run.py, with their plans beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hloop.plan.model import Job, Plan, ResourceClass
from synthetic_run import PLAN, SyntheticRun

EVIL = "</script><img src=x onerror=document.title='owned'>\u202e\x00"
"""What a name or an output may hold, and must not do."""


def drawn_run(root: Path, plan: Plan = PLAN, **start: object) -> SyntheticRun:
    run = SyntheticRun(root, plan, start=dict(start))
    run.paths.plan.write_text(json.dumps(plan.to_document()))
    return run


def completed_run(root: Path) -> SyntheticRun:
    run = drawn_run(root)
    run.run_all()
    run.write()
    return run


def failed_run(root: Path) -> SyntheticRun:
    """rollout_b fails, and says something evil; what depends on it is skipped."""
    run = drawn_run(root)
    run.write_files()
    run.run("rollout_a", 10, 110)
    run.ready("rollout_b", 9)
    run.started("rollout_b", 10)
    run.gone("rollout_b", 210, returncode=3)
    run.ended("rollout_b", 211, "failed", f"it exited with 3 {EVIL}")
    run.run("diagnose_a", 112, 142)
    run.add("job_skipped", 212, job="diagnose_b", reason="rollout_b failed")
    run.add("job_skipped", 212, job="select", reason="rollout_b failed")
    run.end(220, "failed")
    run.write()
    return run


def paused_run(root: Path) -> SyntheticRun:
    """It stops before its first job and is resumed at 500 ms; rollout_b waits for a lease."""
    run = drawn_run(root)
    run.write_files()
    started = {key: run.events[0][key] for key in run.events[0].keys() - {"event", "offset_ns"}}
    run.add("run_resumed", 500, **started, session=2, kept=[], again=[])
    run.run("rollout_a", 510, 610)
    run.add("job_waiting", 511, job="rollout_b", devices=[])
    run.run("rollout_b", 710, 910)
    run.run("diagnose_a", 612, 642)
    run.run("diagnose_b", 912, 962)
    run.run("select", 964, 974)
    run.end(980)
    run.write()
    return run


def waves_run(root: Path) -> SyntheticRun:
    """The jobs of PLAN in bulk-sync."""
    run = drawn_run(root, mode="bulk-sync")
    run.write_files()
    for index, jobs in enumerate(
        (["rollout_a", "rollout_b"], ["diagnose_a", "diagnose_b"], ["select"])
    ):
        run.add("wave_started", 10, index=index, jobs=jobs)
    run.run("rollout_a", 10, 110)
    run.run("rollout_b", 10, 210)
    run.run("diagnose_a", 220, 250)
    run.started("diagnose_b", 220, "cpu 1")
    run.gone("diagnose_b", 270)
    run.ended("diagnose_b", 271)
    run.run("select", 280, 290)
    run.end(300)
    run.write()
    return run


def evil_run(root: Path) -> SyntheticRun:
    """A run whose plan is called something evil; so is a candidate."""
    jobs = tuple(
        replace(job, candidate_id=EVIL) if job.job_id == "rollout_a" else job for job in PLAN.jobs
    )
    run = drawn_run(root, replace(PLAN, plan_id=EVIL, jobs=jobs))
    run.run_all()
    run.write()
    return run


def many_jobs(root: Path, pairs: int) -> SyntheticRun:
    """A run of pairs of a rollout and a diagnosis on two devices and two cpu workers."""
    jobs: list[Job] = []
    for number in range(pairs):
        name = f"{number:04}"
        command = ("python", "{repo_root}/scripts/rollout.py", f"--seed={number}")
        jobs.append(
            Job(
                f"rollout_{name}",
                ResourceClass.GPU,
                command,
                candidate_id=f"c{number % 50}",
                cuda_visible_devices=str(number % 2),
            )
        )
        jobs.append(
            Job(f"diagnose_{name}", ResourceClass.CPU, command, depends_on=(f"rollout_{name}",))
        )
    run = drawn_run(root, Plan("many", tuple(jobs), max_cpu_workers=2))
    for number in range(pairs):
        start = 10 + number // 2 * 100
        run.run(f"rollout_{number:04}", start, start + 80 + number % 7)
    for number in range(pairs):
        start, name = 112 + number // 2 * 100, f"diagnose_{number:04}"
        run.ready(name, start - 1)
        run.started(name, start, f"cpu {number % 2}")
        run.gone(name, start + 60)
        run.ended(name, start + 61)
    run.end(pairs * 50 + 300)
    run.write()
    return run
