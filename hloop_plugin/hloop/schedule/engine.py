"""The engine: a state machine that says what starts when. Events in, instructions out.

It does no I/O, reads no clock, starts nothing and draws no random number: the same events in
the same order give the same instructions. What a job does and whether it went well is for
the caller to find out and to tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hloop.schedule.events import (
    DeviceGranted,
    DeviceLost,
    DeviceWithheld,
    EngineSettings,
    Event,
    Instruction,
    JobAdded,
    JobEnded,
    JobNode,
    JobReady,
    JobRejected,
    Launch,
    Mode,
    Placement,
    Skip,
    SlotFreed,
    SlotKind,
    Stop,
    Unplaceable,
    Want,
)
from hloop.schedule.graph import dependants_of, longest_before, topological_order
from hloop.schedule.modes import RULES
from hloop.schedule.slots import FINAL, NOT_STARTED, JobEntry, JobState, Slots

NOT_ASKED_FOR = "not asked for"


class Engine:
    """Decides for one run which job starts when and in which slot.

    A job starts when the jobs it depends on have completed, Snakemake has handed it over, and
    the mode finds it a slot. A dependency that is not asked for counts as met: Snakemake
    hands a job over only when its inputs are there.
    """

    def __init__(
        self,
        settings: EngineSettings,
        nodes: Sequence[JobNode] = (),
        wanted: Collection[str] | None = None,
    ):
        """
        Args:
            settings: mode, devices, limits.
            nodes: all jobs of the plan, in plan order.
            wanted: ids of the jobs that will be handed over; None for all. The others are
                skipped by the first instructions.

        Raises:
            ValueError: a job that no plan can hold, a device that does not exist, a
                dependency that is unknown or on a cycle, or impossible settings.
        """
        self._settings = settings
        self._slots = Slots(settings)
        self._entries: dict[str, JobEntry] = {}
        devices = frozenset(settings.devices)
        for place, node in enumerate(nodes):
            if node.job_id in self._entries:
                raise ValueError(f"two jobs are called {node.job_id}")
            _check_plan_node(node, devices, settings.placement)
            self._entries[node.job_id] = JobEntry(node, place, in_plan=True)
        order = self._order(None if wanted is None else set(wanted))
        self._rules = RULES[settings.mode](settings, self._slots, order)
        self._begun = False
        self._halted = ""
        self._arrivals = 0
        # Launched jobs whose outcome is not known, in order of launch.
        self._running: dict[str, JobEntry] = {}
        self._unfinished = len(order)

    def _order(self, wanted: set[str] | None) -> list[JobEntry]:
        """Link the jobs that are asked for and bring them into the order of the mode."""
        depends_on = {e.job_id: tuple(e.node.depends_on) for e in self._entries.values()}
        order = topological_order(depends_on)
        if wanted is not None:
            if unknown := wanted - self._entries.keys():
                raise ValueError(f"{min(unknown)} is asked for and not in the plan")
            for entry in self._entries.values():
                if entry.job_id not in wanted:
                    entry.state, entry.reason = JobState.SKIPPED, NOT_ASKED_FOR
            order = [job_id for job_id in order if job_id in wanted]
            depends_on = {
                job_id: tuple(above for above in depends_on[job_id] if above in wanted)
                for job_id in self._entries
                if job_id in wanted
            }
        dependants = dependants_of(depends_on)
        for job_id, below in dependants.items():
            self._entries[job_id].unmet = len(set(depends_on[job_id]))
            self._entries[job_id].dependants = [self._entries[other] for other in below]
        entries = [self._entries[job_id] for job_id in order]
        if self._settings.mode is Mode.HLOOP:
            durations = {e.job_id: e.node.expected_ns or 0 for e in entries}
            below_ns = longest_before(reversed(order), dependants, durations)
            entries.sort(key=lambda e: (-durations[e.job_id] - below_ns[e.job_id], e.place))
        for rank, entry in enumerate(entries):
            entry.rank = rank
        return entries

    # What has happened

    def start(self) -> list[Instruction]:
        """Give the instructions that no event asks for. A second call gives nothing."""
        return self.handle()

    def handle(self, *events: Event) -> list[Instruction]:
        """Take in what happened and say what to do, in this order.

        Events that came together are best given together: nothing is started before all of
        them are known, so that among jobs handed over together the longest path wins.

        Raises:
            ValueError: an event that cannot be, which is a bug in the caller: an unknown job,
                a job that is handed over, freed or ended twice, a job of no plan that asks
                for what it cannot get.
        """
        out: list[Instruction] = []
        if not self._begun:
            self._begun = True
            for entry in self._entries.values():
                if entry.state is JobState.SKIPPED:
                    out.append(Skip(entry.job_id, entry.reason, handed=False))
                elif not entry.unmet:
                    self._rules.reachable(entry)
        for event in events:
            match event:
                case JobReady(job_id):
                    out += self._ready(self._entry(job_id))
                case SlotFreed(job_id):
                    self._freed(self._entry(job_id))
                case JobEnded(job_id, completed):
                    out += self._ended(self._entry(job_id), completed)
                case JobRejected(job_id):
                    out += self._rejected(self._entry(job_id))
                case JobAdded(node):
                    out += self._added(node)
                case Stop(reason):
                    out += self._halt(reason)
                case DeviceWithheld(device):
                    self._slots.withhold(device)
                case DeviceGranted(device):
                    self._slots.grant(device)
                    self._rules.opened((device,))
                case DeviceLost(device, reason):
                    self._slots.lose(device, reason)
                    self._rules.lost()
                    out += self._unplaceable(self._entries.values())
        chosen = self._rules.choose()
        for instruction in chosen:
            if isinstance(instruction, Launch):
                self._running[instruction.job_id] = self._entries[instruction.job_id]
        return out + chosen

    def _entry(self, job_id: str) -> JobEntry:
        try:
            return self._entries[job_id]
        except KeyError:
            raise ValueError(f"{job_id} is not a job of this run") from None

    def _added(self, node: JobNode) -> list[Instruction]:
        if node.job_id in self._entries:
            raise ValueError(f"{node.job_id} is a job of this run already")
        _check_other_node(node, self._settings)
        entry = JobEntry(node, len(self._entries), in_plan=False, rank=self._arrivals)
        self._entries[node.job_id] = entry
        if self._halted:
            entry.state, entry.reason = JobState.SKIPPED, self._halted
        else:
            self._unfinished += 1
        return self._ready(entry)

    def _ready(self, entry: JobEntry) -> list[Instruction]:
        if entry.handed:
            raise ValueError(f"{entry.job_id} is handed over twice")
        if entry.state is not JobState.WAITING and entry.state is not JobState.SKIPPED:
            raise ValueError(f"{entry.job_id} is handed over, but has {entry.state} already")
        entry.handed = True
        entry.arrival = self._arrivals
        self._arrivals += 1
        if entry.state is JobState.SKIPPED:
            return [Skip(entry.job_id, entry.reason, handed=True)]
        self._advance(entry)
        return self._unplaceable([entry])

    def _unplaceable(self, entries: Iterable[JobEntry]) -> list[Instruction]:
        """Refuse the jobs that are handed over and need what is lost."""
        found: list[Instruction] = []
        for entry in entries:
            waits = entry.handed and entry.state in NOT_STARTED and not entry.refused
            if waits and (reason := self._slots.why_never(entry)):
                entry.refused = True
                found.append(Unplaceable(entry.job_id, reason))
        return found

    def _advance(self, entry: JobEntry) -> None:
        """A job that is handed over and waits for no dependency is ready."""
        if entry.state is JobState.WAITING and entry.handed and not entry.unmet:
            entry.state = JobState.READY
            self._rules.ready(entry)

    def _freed(self, entry: JobEntry) -> None:
        if entry.state is not JobState.RUNNING:
            raise ValueError(f"the slot of {entry.job_id} is freed, but the job is {entry.state}")
        assert entry.slot is not None
        entry.state = JobState.GONE
        self._slots.give_back(entry.slot)
        self._rules.opened(entry.slot.devices)

    def _ended(self, entry: JobEntry, completed: bool) -> list[Instruction]:
        if entry.slot is None:
            return self._ended_unlaunched(entry, completed)
        if entry.state is JobState.RUNNING:
            self._freed(entry)
        if entry.state is not JobState.GONE:
            raise ValueError(f"{entry.job_id} ends, but has {entry.state} already")
        del self._running[entry.job_id]
        self._unfinished -= 1
        self._rules.ended()
        if not completed:
            entry.state = JobState.FAILED
            return self._failed(entry, "failed")
        entry.state = JobState.COMPLETED
        for dependant in entry.dependants:
            dependant.unmet -= 1
            if not dependant.unmet and dependant.state is JobState.WAITING:
                self._rules.reachable(dependant)
                self._advance(dependant)
        return []

    def _ended_unlaunched(self, entry: JobEntry, completed: bool) -> list[Instruction]:
        if completed or entry.state is JobState.FAILED:
            raise ValueError(f"{entry.job_id} ends, but was never launched or ended before")
        if entry.state in NOT_STARTED:
            self._unfinished -= 1
        entry.state = JobState.FAILED
        self._rules.dropped(entry)
        return self._failed(entry, "failed")

    def _rejected(self, entry: JobEntry) -> list[Instruction]:
        if entry.state is not JobState.COMPLETED:
            raise ValueError(f"{entry.job_id} is rejected, but is {entry.state}")
        entry.state = JobState.FAILED
        return self._failed(entry, "was rejected by Snakemake")

    # What will not start

    def _failed(self, entry: JobEntry, how: str) -> list[Instruction]:
        if not self._settings.keep_going:
            return self._halt(f"{entry.job_id} {how}")
        below: list[JobEntry] = []
        stack = [entry]
        while stack:
            for dependant in stack.pop().dependants:
                if not dependant.tainted:
                    dependant.tainted = True
                    stack.append(dependant)
                    below.append(dependant)
        below.sort(key=lambda dependant: dependant.place)
        return self._skip(below, f"depends on {entry.job_id}, which {how}")

    def _halt(self, reason: str) -> list[Instruction]:
        """Skip everything that has not started, now and for ever. The first reason stays."""
        if self._halted:
            return []
        self._halted = reason
        return self._skip(self._entries.values(), reason)

    def _skip(self, entries: Iterable[JobEntry], reason: str) -> list[Instruction]:
        skipped: list[Instruction] = []
        for entry in entries:
            if entry.state in NOT_STARTED:
                entry.state, entry.reason = JobState.SKIPPED, reason
                self._unfinished -= 1
                self._rules.dropped(entry)
                skipped.append(Skip(entry.job_id, reason, entry.handed))
        return skipped

    # What can be asked

    def wants(self) -> list[Want]:
        """Say which withheld devices would let jobs start if they were granted now, in the
        order of right. Nothing is wanted that no job would start on at once."""
        return self._rules.wants() if self._slots.withheld else []

    @property
    def finished(self) -> bool:
        """Every job known so far has ended or will not start."""
        return not self._unfinished

    @property
    def running(self) -> tuple[str, ...]:
        """Jobs that were launched and whose outcome is not known, in order of launch."""
        return tuple(self._running)

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The waves so far; bulk-sync only."""
        return tuple(self._rules.waves)

    def state(self, job_id: str) -> JobState:
        """Say where a job stands.

        Raises:
            ValueError: there is no such job.
        """
        return self._entry(job_id).state

    def why_not(self, job_id: str) -> str:
        """Say in words why a job has not started.

        Raises:
            ValueError: there is no such job, or it has started.
        """
        entry = self._entry(job_id)
        if entry.slot is not None:
            raise ValueError(f"{job_id} has started")
        if entry.state is JobState.SKIPPED:
            return entry.reason
        if entry.state is JobState.FAILED:
            return "it failed before it could start"
        if entry.unmet:
            missing = self._missing(entry)
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            return f"waits for: {', '.join(missing[:3])}{more}"
        if not entry.handed:
            return "not handed over yet"
        return self._rules.why_not(entry)

    def reasons(self) -> dict[str, str]:
        """Give :meth:`why_not` for every job that has not started, in plan order."""
        return {
            job_id: self.why_not(job_id)
            for job_id, entry in self._entries.items()
            if entry.slot is None
        }

    def _missing(self, entry: JobEntry) -> list[str]:
        """The dependencies that have not completed; those not asked for count as met."""
        above = [self._entries[job_id] for job_id in dict.fromkeys(entry.node.depends_on)]
        final = (JobState.COMPLETED, JobState.SKIPPED)
        return [dependency.job_id for dependency in above if dependency.state not in final]

    def check(self) -> None:
        """Assert every invariant. It looks at every job: for tests, after each event."""
        entries = list(self._entries.values())
        running = [e for e in entries if e.state in (JobState.RUNNING, JobState.GONE)]
        assert {e.job_id for e in running} == self._running.keys()
        assert self._unfinished == sum(e.state not in FINAL for e in entries)
        for entry in entries:
            assert entry.reason or entry.state is not JobState.SKIPPED
            assert entry.slot is None or not entry.unmet
            if entry.state in NOT_STARTED:
                assert entry.slot is None and not self._halted and not entry.tainted
                assert entry.unmet == len(self._missing(entry))
                ready = entry.handed and not entry.unmet
                assert ready == (entry.state is JobState.READY)
        self._slots.check([e.slot for e in running if e.state is JobState.RUNNING and e.slot])
        self._rules.check([e for e in entries if e.state is JobState.READY and not e.refused])


def _check_plan_node(node: JobNode, devices: frozenset[int], placement: Placement) -> None:
    if node.kind is SlotKind.RULE:
        raise ValueError(f"{node.job_id} is of kind rule, which no plan holds")
    if node.kind is not SlotKind.GPU:
        return
    if node.device is None or node.device_count > 1:
        raise ValueError(f"{node.job_id} is a gpu job of a plan: it needs exactly one device")
    if node.device not in devices and (not devices or placement is Placement.PINNED):
        exist = ", ".join(str(device) for device in sorted(devices)) or "none"
        raise ValueError(f"{node.job_id} is pinned to device {node.device}; there are: {exist}")


def _check_other_node(node: JobNode, settings: EngineSettings) -> None:
    if node.depends_on or node.device is not None:
        raise ValueError(f"{node.job_id} is of no plan: it has no dependencies and no pin")
    if node.kind is SlotKind.GPU:
        if not 1 <= node.device_count <= len(settings.devices):
            have = len(settings.devices)
            raise ValueError(f"{node.job_id} needs {node.device_count} devices of {have}")
    elif node.kind is not SlotKind.RULE or node.device_count:
        raise ValueError(f"{node.job_id} is of no plan: expected kind rule, or gpu with devices")
