"""The message that opens a run: how it is written by the executor, and read by the supervisor."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from hloop.devices.resolve import Device, DeviceTable
from hloop.run.channel import Message
from hloop.schedule.events import EngineSettings, Mode, Placement


@dataclass(frozen=True)
class Opening:
    """What a supervisor must know before the first job.

    Attributes:
        settings: what the engine must know.
        table: the devices.
        grace_seconds: from TERM to KILL.
        wanted: ids of the plan's jobs that will be handed over; None for all.
        run: what :meth:`hloop.run.planrun.PlanRun.open` takes; None without a plan.
    """

    settings: EngineSettings
    table: DeviceTable
    grace_seconds: float
    wanted: Collection[str] | None
    run: Message | None

    def to_message(self) -> Message:
        return {
            "do": "open",
            "settings": asdict(self.settings),
            "devices": asdict(self.table),
            "grace_seconds": self.grace_seconds,
            "wanted": None if self.wanted is None else list(self.wanted),
            "run": self.run,
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
    ) -> Opening:
        """Read the message, whose ``do`` has been taken off."""
        modes = {"mode": Mode(settings["mode"]), "placement": Placement(settings["placement"])}
        entries = tuple(Device(**device) for device in devices["devices"])
        return cls(
            EngineSettings(**(settings | modes)),
            DeviceTable(entries, devices["source"], devices["mask"]),
            grace_seconds,
            wanted,
            run,
        )
