"""Runs of several sessions, without Snakemake: a supervisor that dies, and another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hloop.devices.resolve import resolve_devices
from hloop.plan.render import RenderedPlan
from hloop.run.opening import Opening
from hloop.run.settings import RunSettings
from hloop.run.workflow import Started, WorkflowRun
from supervised import Supervised
from tampering import small_plan

SETTINGS = RunSettings(devices="simulated:2", resume=True, grace_seconds=1)


def take_up(plan: RenderedPlan, mode: str = "hloop") -> tuple[Started, Opening]:
    """Begin a further session of a run, as the executor does. Its lock is let go of."""
    table = resolve_devices("simulated:2", {})
    settings = SETTINGS.override({"mode": mode}, source="the test")
    engine = settings.engine(plan.plan, table, keep_going=False)
    started = WorkflowRun(plan, settings).start(settings, engine, table, "0")
    started.lock.release()
    wanted = [job_id for job_id in plan.jobs if job_id not in started.kept]
    return started, Opening(engine, table, 1, wanted, started.opening)


def resume(root: Path, plan: RenderedPlan, *waves: Sequence[str], mode: str = "hloop") -> Started:
    """Resume a run and run these jobs, a group after another, to the run's end."""
    started, opening = take_up(plan, mode)
    supervised = Supervised(root)
    try:
        supervised.send(opening.to_message())
        for names in waves:
            supervised.ready(*names)
            assert set(supervised.ended(*names)) == {"completed"}
        supervised.close()
    finally:
        supervised.end()
    return started


def interrupt_small(root: Path, mode: str = "hloop") -> RenderedPlan:
    """Run the small plan until its first two jobs have completed; then Snakemake dies."""
    root.mkdir(parents=True)
    plan = small_plan(root)
    supervised = Supervised(root)
    try:
        supervised.open(plan, mode=mode)
        supervised.ready("make", "other")
        assert supervised.ended("make", "other") == ["completed"] * 2
        supervised.hang_up()
    finally:
        supervised.end()
    return plan


def run_resumed(root: Path, mode: str = "hloop") -> RenderedPlan:
    """Interrupt the small plan's run, spoil one of its outputs, and resume it to its end."""
    plan = interrupt_small(root, mode)
    (root / "run/other").write_text("spoilt\n")
    resume(root, plan, ["other", "read"], ["last"], mode=mode)
    return plan
