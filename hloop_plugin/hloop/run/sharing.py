"""A run's leases: which devices it may use now, since no other run does.

The supervisor asks here after each step. What the engine wants is leased and granted, what
was granted and not used is given back, and who keeps a job waiting is said. It never waits:
a lease that another run has is asked for again a little later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hloop.devices.leases import LeaseFolder, lease_key, machine_id
from hloop.devices.resolve import DeviceTable
from hloop.locks import Holder, Lock
from hloop.run.asking import PatientObserver
from hloop.run.attempt import Attempt, record_name
from hloop.run.journal import utc_now
from hloop.run.opening import Opening
from hloop.run.runlock import holder_of_run
from hloop.run.timers import Timers
from hloop.schedule.events import DeviceGranted, DeviceLost, DeviceWithheld, Event, Want

POLL_NS = 100_000_000
# Whoever has just got a lease needs a moment to say so.
PATIENCE_NS = 1_000_000_000
# How long a lease that cannot even be asked for may keep a job waiting: a full disk passes.
GIVE_UP_NS = 60_000_000_000
STAY_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Blocked:
    """A device that cannot be had now.

    Attributes:
        holder: who has its lease; None where that is not known.
        problem: why its lease cannot be asked for; None where it can.
    """

    device: int
    holder: Holder | None = None
    problem: str | None = None

    @property
    def text(self) -> str:
        if self.problem is not None:
            return f"the lease of device {self.device} cannot be taken: {self.problem}"
        return f"device {self.device} is held by {self.holder or 'another run'}"

    def to_dict(self) -> dict[str, Any]:
        """Give what the journal says of it."""
        holder = None if self.holder is None else self.holder.to_dict()
        return {"device": self.device, "holder": holder, "problem": self.problem}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Blocked:
        holder = None if entry["holder"] is None else Holder(**entry["holder"])
        return cls(entry["device"], holder, entry["problem"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits for devices."""

    job_id: str
    devices: tuple[Blocked, ...]

    @property
    def text(self) -> str:
        return "; ".join(blocked.text for blocked in self.devices)

    def to_dict(self) -> dict[str, Any]:
        """Give what the journal says of it."""
        devices = [blocked.to_dict() for blocked in self.devices]
        return {"job": record_name(self.job_id), "devices": devices}


class Sharing:
    """The leases of one run. Devices of a run that was opened without a folder have none.

    Args:
        timers: the loop's timers.
        note: writes an event into the run's journal.
        say: tells the executor that a job waits, and why.
        observer: looks whether a device is lost before a job gets it.
    """

    def __init__(
        self,
        timers: Timers,
        note: Callable[..., None],
        say: Callable[[str, str], None],
        observer: PatientObserver,
    ):
        self._timers = timers
        self._note = note
        self._say = say
        self._folder: LeaseFolder | None = None
        self._table = DeviceTable((), "", None)
        self._holder = holder_of_run("", "")
        self._observer = observer
        self._keys: dict[int, str] = {}
        # By device: those whose turn is this run's; leases of no job yet; leases by job.
        self._turns: dict[int, Lock] = {}
        self._spare: dict[int, Lock] = {}
        self._used: dict[str, dict[int, Lock]] = {}
        self._stuck: list[Lock] = []
        self._granted: set[int] = set()
        self._lost: set[int] = set()
        self._blocked: dict[int, Blocked] = {}
        # By device: since when its lease cannot be asked for.
        self._refused: dict[int, int] = {}
        self._waits: dict[str, tuple[Waiting | None, int]] = {}
        self._polls = False

    def open(self, opening: Opening) -> list[Event]:
        """Begin a run. Gives what the engine must know before it starts anything.

        Raises:
            DeviceError: the folder of its leases cannot be used.
        """
        if run := opening.run or opening.rules:
            self._holder = holder_of_run(run.run_dir, run.session_id)
        if opening.leases is None:
            return []
        self._table = opening.table
        self._folder = LeaseFolder.open(Path(opening.leases.folder))
        self._note("leases", folder=opening.leases.folder, remark=opening.leases.remark)
        self._stay()
        machine = machine_id()
        self._keys = {device.logical: lease_key(device, machine) for device in self._table.devices}
        return [DeviceWithheld(device) for device in self._keys]

    def close(self) -> None:
        """Let go of the folder; what is leased must have been given back."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def lose(self, device: int, reason: str) -> list[Event]:
        """Note that a device does not work any more. Gives what the engine must know."""
        if device in self._lost:
            return []
        self._lost.add(device)
        self._note("device_lost", device=device, reason=reason)
        return [DeviceLost(device, reason)]

    # What the engine wants

    def settle(self, wants: Callable[[], Sequence[Want]]) -> list[Event]:
        """Get what the engine wants, as far as it can be had; give back what it did not use.

        Args:
            wants: the engine's own; asked only when it has heard of what was given back.
        """
        if self._folder is None:
            return []
        if unused := self._granted & self._spare.keys():
            self._granted.clear()
            for device in unused:
                self._spare.pop(device).release()
            return [DeviceWithheld(device) for device in sorted(unused)]
        self._granted.clear()
        self._blocked.clear()
        wanted = wants()
        found: list[int] = []
        kept: set[int] = set()
        for want in wanted:
            got, keep = self._gather(want, {*found, *kept})
            found += got
            kept |= keep
            self._tell_waits(want, got)
        if found and self._observer.is_starting():
            kept, found = {*kept, *found}, []
        self._let_go(kept, found)
        events = self._give_up()
        for job_id in self._waits.keys() - {want.job_id for want in wanted}:
            del self._waits[job_id]
        if kept or self._blocked:
            self._poll()
        for device in found:
            if reason := self._observer.loss(self._table.devices[device]):
                self._spare.pop(device).release()
                events += self.lose(device, reason)
            else:
                self._granted.add(device)
        return events + [DeviceGranted(device) for device in sorted(self._granted)]

    def _gather(self, want: Want, taken: Iterable[int]) -> tuple[list[int], set[int]]:
        """Lease devices for a want. Gives those that can be granted, and those whose turn or
        lease is kept while it waits.

        Where several are needed together they are taken in an order that all runs share, and
        none is kept behind one whose turn is another's: two runs never wait for each other.
        """
        devices = [device for device in want.devices if device not in taken]
        if want.least > 1:
            devices.sort(key=self._keys.__getitem__)
        got: list[int] = []
        prefix: set[int] = set()
        unbroken = True
        for device in devices:
            if len(got) == want.most:
                break
            is_mine = self._try(device)
            if device in self._spare:
                got.append(device)
            unbroken = is_mine and (unbroken or want.least == 1)
            if unbroken:
                prefix.add(device)
        if len(got) >= want.least:
            return got, set()
        return [], prefix

    def _try(self, device: int) -> bool:
        """Try to lease a device. Whether it or its turn is this run's now."""
        assert self._folder is not None
        if device in self._spare:
            return True
        key = self._keys[device]
        try:
            if device not in self._turns:
                turn = self._folder.try_turn(key)
                if turn is None:
                    self._blocked[device] = Blocked(device, self._folder.said(key))
                    return False
                self._turns[device] = turn
            lease = self._folder.try_lease(key)
        except OSError as error:
            self._blocked[device] = Blocked(device, None, self._folder.why_not(key, error))
            return device in self._turns
        if isinstance(lease, Lock):
            self._spare[device] = lease
        else:
            self._blocked[device] = Blocked(device, lease)
        return True

    def _let_go(self, kept: set[int], found: Sequence[int]) -> None:
        """Give back leases that came to nothing, and turns that are not waited in."""
        for device in self._spare.keys() - kept - set(found):
            self._spare.pop(device).release()
        for device in self._turns.keys() - kept:
            self._turns.pop(device).release()

    def _give_up(self) -> list[Event]:
        """Lose the devices whose leases cannot be asked for, and not for a moment only."""
        now = time.monotonic_ns()
        problems = {item.device: item.problem for item in self._blocked.values() if item.problem}
        self._refused = {device: self._refused.get(device, now) for device in problems}
        events: list[Event] = []
        for device, since in self._refused.items():
            if now - since >= GIVE_UP_NS:
                events += self.lose(device, f"its lease cannot be taken: {problems[device]}")
        return events

    # Who keeps a job waiting

    def _tell_waits(self, want: Want, got: Sequence[int]) -> None:
        if got:
            return
        now = time.monotonic_ns()
        said, since = self._waits.setdefault(want.job_id, (None, now))
        blocked = [self._blocked[d] for d in sorted(want.devices) if d in self._blocked]
        waiting = Waiting(want.job_id, tuple(blocked))
        known = all(item.holder or item.problem for item in blocked)
        late = said is None and now - since > PATIENCE_NS
        if blocked and waiting != said and (known or late):
            self._waits[want.job_id] = (waiting, since)
            self._note("job_waiting", **waiting.to_dict())
            self._say(waiting.job_id, waiting.text)

    def _poll(self) -> None:
        """Wake the loop up a little later: it settles after each turn."""
        if not self._polls:
            self._polls = True
            self._timers.at(time.monotonic_ns() + POLL_NS, self._polled)

    def _polled(self) -> None:
        self._polls = False

    # Leases in use

    def use(self, job_id: str, devices: Iterable[int]) -> None:
        """Note that a job is about to start on devices that were granted."""
        job = job_id.rpartition("/")[2]
        holder = replace(self._holder, job=job, since=utc_now())
        leases = {device: self._spare.pop(device) for device in devices if device in self._spare}
        for lease in leases.values():
            lease.say(holder)
        if leases:
            self._used[job_id] = leases

    def release(self, job_id: str) -> list[Event]:
        """Give back the devices of a job whose processes are gone. The engine must know of
        that together with the freed slot."""
        leases = self._used.pop(job_id, {})
        for lease in leases.values():
            lease.release()
        return [DeviceWithheld(device) for device in leases]

    def gone(self, attempt: Attempt) -> list[Event]:
        """As :meth:`release`. But what an attempt's processes may still use that nothing ends
        is lost, and its leases are kept until this process ends."""
        if not attempt.unkillable or attempt.slot is None:
            return self.release(attempt.name)
        self._stuck += self._used.pop(attempt.name, {}).values()
        pids = ", ".join(map(str, attempt.unkillable))
        reason = f"{attempt.name} may still use it: KILL did not end pid {pids}"
        return [event for index in attempt.slot.devices for event in self.lose(index, reason)]

    def _stay(self) -> None:
        assert self._folder is not None
        self._folder.stay()
        for leases in (self._spare, self._turns, *self._used.values()):
            for lease in leases.values():
                lease.stay()
        self._timers.at(time.monotonic_ns() + STAY_NS, self._stay)
