"""How long a run that goes on will still take: the engine plays the rest of it.

What a job takes is known from former runs or from the plan, else supposed to be what the jobs of
its class took so far. It reads nothing and knows no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from hloop.plan.model import Plan
from hloop.schedule.events import EngineSettings, Mode, Placement
from hloop.schedule.nodes import plan_nodes
from hloop.schedule.simulate import simulate


@dataclass(frozen=True)
class Outlook:
    """What an estimate is made of.

    Attributes:
        known_ns: how long jobs take, as far as that is known beforehand.
    """

    plan: Plan
    known_ns: Mapping[str, int]

    def left_ns(
        self,
        start: Mapping[str, Any],
        over: Collection[str],
        running_ns: Mapping[str, int],
        took_ns: Mapping[str, int],
    ) -> int | None:
        """Give how long the rest will take; None where that cannot be told.

        Args:
            start: the journal's ``run_started`` or ``run_resumed``.
            over: jobs that have ended or never start.
            running_ns: jobs that run, and for how long already.
            took_ns: how long each job took that has ended.
        """
        if start["mode"] not in set(Mode):
            return None
        settings = EngineSettings(
            mode=Mode(start["mode"]),
            devices=tuple(sorted(device["logical"] for device in start["devices"])),
            cpu_workers=start["limits"]["cpu"],
            io_workers=start["limits"]["io"],
            placement=Placement(start["placement"]),
        )
        durations = self._durations(over, running_ns, took_ns)
        if durations is None:
            return None
        nodes = [
            replace(node, depends_on=tuple(name for name in node.depends_on if name in durations))
            for node in plan_nodes(self.plan, durations)
            if node.job_id in durations
        ]
        try:
            return simulate(settings, nodes, durations).makespan_ns
        except ValueError:
            return None  # The journal tells of devices that the plan's pins are not among.

    def _durations(
        self,
        over: Collection[str],
        running_ns: Mapping[str, int],
        took_ns: Mapping[str, int],
    ) -> dict[str, int] | None:
        """Give how long each job that is not over will still take."""
        by_class: dict[str, list[int]] = {}
        for job in self.plan.jobs:
            if job.job_id in took_ns:
                by_class.setdefault(job.resource, []).append(took_ns[job.job_id])
        left = {}
        for job in self.plan.jobs:
            if job.job_id in over:
                continue
            whole = self.known_ns.get(job.job_id)
            if whole is None:
                if job.resource not in by_class:
                    return None
                whole = round(fmean(by_class[job.resource]))
            left[job.job_id] = max(0, whole - running_ns.get(job.job_id, 0))
        return left
