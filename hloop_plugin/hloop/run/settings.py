"""The settings of a run: their names, defaults and where they come from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from hloop.devices.architecture import require_architecture
from hloop.devices.leases import LeaseFolder
from hloop.devices.resolve import DeviceTable, require, resolve_devices
from hloop.errors import HloopError, Problem, ReportError
from hloop.files import RunPaths
from hloop.plan.model import ARCHITECTURE_VARIABLE, Plan, ResourceClass
from hloop.run.asking import ask_architectures, ask_machine
from hloop.run.opening import MAX_LOG_BYTES, LeaseOpening
from hloop.schedule.events import EngineSettings, Mode, Placement

_LEAST = {
    "cpu_workers": 1,
    "io_workers": 1,
    "grace_seconds": 0,
    "heartbeat_seconds": 0,
    # Less holds neither a beginning nor an end.
    "max_log_bytes": 1 << 16,
}
OPTIONS = "the executor's settings (--hloop-…)"
_SESSION_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Provenance(StrEnum):
    """Which jobs get records."""

    PLAN = "plan"
    """Those of the plan."""
    ALL = "all"
    """Those of all rules."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What can be set for a run, by an executor setting, an option or the configuration.

    Attributes:
        mode: ``sequential``, ``hloop`` or ``bulk-sync``.
        devices: ``auto``, ``simulated:N``, or entries as in CUDA_VISIBLE_DEVICES.
        placement: ``pinned`` or ``any``.
        cpu_workers, io_workers: in place of the plan's limits; None keeps those.
        grace_seconds: between TERM and KILL.
        heartbeat_seconds: between two heartbeats in the journal, 0 for none; None takes 60, and
            900 in a formal run.
        max_log_bytes: how long a log of a plan's job may be.
        durations: a former run's directory or report, whose times say which of the ready jobs
            has the longest path before it; None takes the plan's ``expected_seconds``.
        session_id: what the records call the session of the run; None has one made.
        provenance: ``plan`` or ``all``.
        formal: the run is formal, and ``gate`` decides whether it may begin.
        gate: the fidelity gate of a formal run, an absolute path; None of any other.
        resume: the run directory holds a run that is resumed.
        lease_dir: where devices are leased, an absolute path; None takes the machine's folder,
            and leases no simulated devices.
    """

    mode: Mode = Mode.HLOOP
    devices: str = "auto"
    placement: Placement = Placement.PINNED
    cpu_workers: int | None = None
    io_workers: int | None = None
    grace_seconds: int = 10
    heartbeat_seconds: int | None = None
    max_log_bytes: int = MAX_LOG_BYTES
    durations: str | None = None
    session_id: str | None = None
    provenance: Provenance = Provenance.PLAN
    formal: bool = False
    gate: str | None = None
    resume: bool = False
    lease_dir: str | None = None

    def override(self, values: Mapping[str, Any], *, source: str) -> RunSettings:
        """Take those of ``values`` that are not None.

        Raises:
            HloopError: a value that cannot be, or one of ``formal`` and ``gate`` without the
                other; ``source`` says where it stands.
        """
        given = {
            field.name: values[field.name]
            for field in fields(self)
            if values.get(field.name) is not None
        }
        problems = []
        choices: type[StrEnum]
        for name, choices in (
            ("mode", Mode),
            ("placement", Placement),
            ("provenance", Provenance),
        ):
            if name in given:
                try:
                    given[name] = choices(given[name])
                except ValueError:
                    expected = ", ".join(item.value for item in choices)
                    problems.append(_problem(name, given[name], f"one of {expected}"))
        for name, least in _LEAST.items():
            value = given.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                problems.append(_problem(name, value, f"an integer of at least {least}"))
        for name in ("devices", "durations", "gate", "lease_dir"):
            if not isinstance(given.get(name, ""), str):
                problems.append(_problem(name, given[name], "a string"))
        for name in ("formal", "resume"):
            if not isinstance(given.get(name, False), bool):
                problems.append(_problem(name, given[name], "true or false"))
        session = given.get("session_id", "-")
        if not isinstance(session, str) or not _SESSION_ID.fullmatch(session):
            expected = "1 to 64 letters, digits, dots, underscores and dashes"
            problems.append(_problem("session_id", session, expected))
        if problems:
            raise HloopError(problems, file=source)
        for name in ("gate", "lease_dir"):
            if name in given:
                given[name] = os.path.abspath(given[name])
        return replace(self, **given)

    def _half_formal(self) -> Problem | None:
        """Say what is wrong where a run is formal without a gate, or has a gate for nothing, or
        is formal and resumed."""
        if self.formal and self.resume:
            found, expected = "a formal run cannot be resumed", "a formal run in a new folder"
            return Problem("resume_formal", "resume", found, expected, "Leave one of them out")
        if self.formal == (self.gate is not None):
            return None
        if self.formal:
            found, action = "formal is set, and gate is not", "Name the gate that was approved"
        else:
            found, action = "gate is set, and formal is not", "Set formal too, or leave gate out"
        return Problem("setting", "formal", found, "both for a formal run, neither else", action)

    @property
    def heartbeat(self) -> int:
        """Seconds between two heartbeats; 0 for none."""
        if self.heartbeat_seconds is not None:
            return self.heartbeat_seconds
        return 900 if self.formal else 60

    def engine(self, plan: Plan | None, table: DeviceTable, *, keep_going: bool) -> EngineSettings:
        """Give the engine's settings for a plan on these devices."""
        plan_limits = (4, 2) if plan is None else (plan.max_cpu_workers, plan.max_io_workers)
        return EngineSettings(
            mode=self.mode,
            devices=tuple(device.logical for device in table.devices),
            cpu_workers=self.cpu_workers or plan_limits[0],
            io_workers=self.io_workers or plan_limits[1],
            placement=self.placement,
            keep_going=keep_going,
        )

    def durations_ns(self) -> dict[str, int]:
        """Give how long each job took that completed in the former run; {} without one.

        Raises:
            ReportError: there is no run report, or it is not one.
        """
        if self.durations is None:
            return {}
        path = Path(self.durations)
        if path.is_dir():
            path = RunPaths(path).report
        try:
            jobs = json.loads(path.read_bytes())["jobs"]
            return {
                job["job_id"]: round(job["elapsed_seconds"] * 1e9)
                for job in jobs
                # Reports of the original have no status: they hold completed runs only.
                if job.get("status", "completed") == "completed"
            }
        except OSError as error:
            found = f"it cannot be read: {error.strerror}"
        except (ValueError, KeyError, TypeError, AttributeError):
            found = "it is no run report"
        expected = "a run directory, or its hloop_run.json"
        problem = Problem("durations", "", found, expected, "Name one, or leave --durations out")
        raise ReportError(problem, file=path)

    def resolve(self, plan: Plan | None, environ: Mapping[str, str]) -> DeviceTable:
        """Find the devices, and demand those that the plan needs.

        The first to be asked once all settings are together, it also demands that they agree.

        Raises:
            HloopError: a run is formal without a gate, or has a gate for nothing.
            DeviceError: the setting is malformed, or a device is not there.
        """
        if problem := self._half_formal():
            raise HloopError(problem)
        table = resolve_devices(self.devices, environ, ask_machine)
        if plan is not None:
            pinned = self.placement is Placement.PINNED
            require(
                table,
                {
                    job.job_id: (job.device or 0) if pinned else 0
                    for job in plan.jobs
                    if job.resource is ResourceClass.GPU
                },
            )
            require_architecture(
                table,
                {
                    job.job_id: (
                        job.environment[ARCHITECTURE_VARIABLE],
                        job.device if pinned else None,
                    )
                    for job in plan.jobs
                    if ARCHITECTURE_VARIABLE in job.environment
                },
                ask_architectures,
            )
        return table

    def lease_folder(self, table: DeviceTable, environ: Mapping[str, str]) -> LeaseFolder | None:
        """Open the folder of the devices' leases; None where they have none.

        Raises:
            DeviceError: it cannot be used.
        """
        if self.lease_dir is not None:
            return LeaseFolder.open(Path(self.lease_dir))
        if all(device.simulated for device in table.devices):
            return None
        return LeaseFolder.default(environ)

    def leases(self, table: DeviceTable, environ: Mapping[str, str]) -> LeaseOpening | None:
        """Give what a supervisor must know of the leases; None where there are none.

        Raises:
            DeviceError: their folder cannot be used.
        """
        folder = self.lease_folder(table, environ)
        if folder is None:
            return None
        folder.close()
        return LeaseOpening(str(folder.path), folder.remark)


def _problem(name: str, value: object, expected: str) -> Problem:
    return Problem("setting", name, f"{value!r} is not possible", expected)
