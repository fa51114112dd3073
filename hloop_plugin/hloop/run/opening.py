"""The message that opens a run: how it is written by the executor, and read by the supervisor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field

from hloop.devices.resolve import Device, DeviceTable
from hloop.run.channel import Message
from hloop.schedule.events import EngineSettings, Mode, Placement

MAX_LOG_BYTES = 1 << 30
"""What is kept of a log, where nothing else is asked for."""


@dataclass(frozen=True)
class RunOpening:
    """What a run's records say of it as a whole.

    Attributes:
        run_dir, repo_root: absolute.
        executor: the name of the executor that decides what starts when.
        snakemake: its version.
        session_id: names the run's session in its records.
        config_files: what the plan, or a workflow without one, was made from.
    """

    run_dir: str
    repo_root: str
    executor: str
    snakemake: str
    session_id: str
    config_files: tuple[str, ...]


@dataclass(frozen=True)
class PlanOpening(RunOpening):
    """What a supervisor must know of the plan that it runs.

    Attributes:
        only: another executor runs the plan, and this is the one job that is run here.
        durations_ns: how long each job took in a former run, where known.
        resumed: the run is resumed, and its session has begun already.
    """

    only: str | None = None
    durations_ns: Mapping[str, int] = field(default_factory=dict)
    resumed: bool = False


@dataclass(frozen=True)
class LeaseOpening:
    """Where the devices of a run are leased.

    Attributes:
        folder: absolute.
        remark: why other users do not share it; "" where they do, or it was named.
    """

    folder: str
    remark: str = ""


@dataclass(frozen=True)
class Opening:
    """What a supervisor must know before the first job.

    Attributes:
        settings: what the engine must know.
        table: the devices.
        grace_seconds: from TERM to KILL.
        wanted: ids of the plan's jobs that will be handed over; None for all.
        run: None without a plan.
        rules: the run whose records the jobs of no plan get; None where they get none.
        leases: where the devices are leased; None where they are not.
        heartbeat_seconds: between two heartbeats in the journal; 0 for none.
        max_log_bytes: what is kept of a log.
    """

    settings: EngineSettings
    table: DeviceTable
    grace_seconds: float
    wanted: Collection[str] | None
    run: PlanOpening | None
    rules: RunOpening | None = None
    leases: LeaseOpening | None = None
    heartbeat_seconds: int = 0
    max_log_bytes: int = MAX_LOG_BYTES

    def to_message(self) -> Message:
        return {
            "do": "open",
            "settings": asdict(self.settings),
            "devices": asdict(self.table),
            "grace_seconds": self.grace_seconds,
            "wanted": None if self.wanted is None else list(self.wanted),
            "run": None if self.run is None else asdict(self.run),
            "rules": None if self.rules is None else asdict(self.rules),
            "leases": None if self.leases is None else asdict(self.leases),
            "heartbeat_seconds": self.heartbeat_seconds,
            "max_log_bytes": self.max_log_bytes,
        }

    @classmethod
    def from_message(
        cls,
        *,
        settings: Message,
        devices: Message,
        grace_seconds: float,
        wanted: list[str] | None,
        run: Message | None,
        rules: Message | None,
        leases: Message | None,
        heartbeat_seconds: int,
        max_log_bytes: int,
    ) -> Opening:
        """Read the message, whose ``do`` has been taken off."""
        modes = {"mode": Mode(settings["mode"]), "placement": Placement(settings["placement"])}
        entries = tuple(Device(**device) for device in devices["devices"])
        plan = None if run is None else PlanOpening(**_with_tuple(run))
        rules_run = None if rules is None else RunOpening(**_with_tuple(rules))
        return cls(
            EngineSettings(**(settings | modes)),
            DeviceTable(entries, devices["source"], devices["mask"], devices["driver"]),
            grace_seconds,
            wanted,
            plan,
            rules_run,
            None if leases is None else LeaseOpening(**leases),
            heartbeat_seconds,
            max_log_bytes,
        )


def _with_tuple(run: Message) -> Message:
    return run | {"config_files": tuple(run["config_files"])}
