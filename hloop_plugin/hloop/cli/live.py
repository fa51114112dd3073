"""What is shown while a run goes on: lanes on a terminal, lines elsewhere.

Both read the run's journal and nothing else, so they show what was recorded.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
POLL_SECONDS = 0.1


def follow(
    journal: Path,
    alive: Callable[[], bool],
    *,
    start: int = 0,
    ready: Callable[[], bool] = lambda: True,
) -> Iterator[Event | None]:
    """Give a journal's events as they come, and None about every 0.1 s while none do.

    Ends when ``alive`` says no and everything has been read.

    Args:
        start: where to begin in the file: at the beginning of a line.
        ready: the file that is there is the one to follow.
    """
    rest = b""
    file = None
    while True:
        last = not alive()
        if file is None and ready() and journal.exists():
            file = journal.open("rb")
            file.seek(start)
        *lines, rest = (rest + (file.read() if file else b"")).split(b"\n")
        for line in lines:
            yield json.loads(line)
        if last:
            break
        yield None
        time.sleep(POLL_SECONDS)
    if file is not None:
        file.close()


class Progress:
    """Where a run is, as far as its journal tells.

    Attributes:
        total: how many jobs it has.
        done: how many jobs ended in which way.
        lanes: by slot the job in it and since when, in seconds since the run started.
        held: by slot why nothing starts there just now, though a job is ready for it.
        start: the event that began the run, or the session of it that goes on.
        over: the jobs that have ended or never start.
        took: seconds that jobs took which have ended.
        status: how the run ended; None as long as it goes on.
    """

    def __init__(self, total: int):
        self.total = total
        self.done: dict[str, int] = {}
        self.lanes: dict[str, tuple[str, float] | None] = {}
        self.held: dict[str, str] = {}
        self.start: Event | None = None
        self.over: set[str] = set()
        self.took: dict[str, float] = {}
        self.status: str | None = None
        self._zero = time.monotonic()
        self._end: float | None = None
        self._slots: dict[str, str] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the run started, until it ended."""
        return time.monotonic() - self._zero if self._end is None else self._end

    @property
    def running(self) -> dict[str, float]:
        """The jobs that run, and for how many seconds."""
        now = self.elapsed
        return {lane[0]: now - lane[1] for lane in self.lanes.values() if lane is not None}

    def died(self, last: float) -> None:
        """The run ended without a word, at its last event."""
        self._end = last

    def take(self, event: Event) -> str | None:
        """Take an event. Gives the line that tells of it, or None where none is needed."""
        job, offset = event.get("job", ""), event["offset_ns"] / 1e9
        match event["event"]:
            case "run_started" | "run_resumed":
                self.start, self.status, self._end = event, None, None
                self._zero = _zero(event)
                self.lanes, self.held, self.done, self.over = {}, {}, {}, set()
                for device in event["devices"]:
                    self.lanes[f"device {device['logical']}"] = None
                simulated = any(device["simulated"] for device in event["devices"])
                devices = f"{len(event['devices'])} {'simulated ' if simulated else ''}device(s)"
                text = f"{event['plan_id']}: {self.total} jobs, mode {event['mode']}, {devices}"
                if event["event"] == "run_resumed":
                    self.done["kept"] = len(event["kept"])
                    self.over = {entry["job"] for entry in event["kept"]}
                    text += "".join(f"\n{line}" for line in _decisions(event))
            case "job_waiting":
                from hloop.run.sharing import Blocked

                blocked = [Blocked.from_dict(entry) for entry in event["devices"]]
                for entry in blocked:
                    device = f"device {entry.device}"
                    self.held[device] = entry.text.removeprefix(f"{device} is ")
                text = f"{job} waits: {'; '.join(entry.text for entry in blocked)}"
            case "leases" if event["remark"]:
                text = f"leases are kept in {event['folder']}: {event['remark']}"
            case "device_lost":
                text = f"device {event['device']} is lost: {event['reason']}"
            case "job_started":
                slot = self._slots[job] = event["slot"] or "elsewhere"
                self.lanes[slot] = (job, offset)
                self.held.pop(slot, None)
                text = f"{job} started on {slot}"
            case "job_gone":
                if slot := self._slots.get(job):
                    if lane := self.lanes[slot]:
                        self.took[job] = offset - lane[1]
                    self.lanes[slot] = None
                return None
            case "job_ended":
                self.done[event["status"]] = self.done.get(event["status"], 0) + 1
                self.over.add(job)
                text = f"{job} {event['status']}"
                if event["failure"]:
                    text += f": {event['failure']['message']}"
            case "job_skipped":
                self.done["skipped"] = self.done.get("skipped", 0) + 1
                self.over.add(job)
                text = f"{job} skipped: {event['reason']}"
            case "wave_started":
                text = f"wave {event['index'] + 1}: {', '.join(event['jobs'])}"
            case "stopping":
                text = f"stopping: {event['reason']}"
            case "run_ended":
                self.status, self._end = event["status"], offset
                return None
            case _:
                return None
        return f"{offset:8.2f} s  {text}"


def _decisions(event: Event) -> Iterator[str]:
    """Say what becomes of each job of a run that is resumed."""
    for word in ("kept", "again"):
        for entry in event[word]:
            yield f"{word:5}  {entry['job']}: {entry['reason']}"


def _zero(event: Event) -> float:
    """Give when a run started by this process's monotonic clock."""
    from hloop.provenance.host import boot_id

    if event["host"].get("boot_id") == boot_id():
        return float(event["monotonic_ns"]) / 1e9
    # Another machine wrote it: the clocks on the wall are all that both have.
    since = datetime.now(UTC) - datetime.fromisoformat(event["time"])
    return time.monotonic() - since.total_seconds() - float(event["offset_ns"]) / 1e9


def show(
    events: Iterator[Event | None],
    total: int,
    progress: Progress | None = None,
    left: Callable[[Progress], float | None] = lambda _progress: None,
) -> None:
    """Show a run until it ends: live lanes if stderr is a terminal, else a line per event.

    Args:
        progress: takes the events.
        left: says how many seconds the rest may take; None where that cannot be told.
    """
    progress = progress or Progress(total)
    if not sys.stderr.isatty():
        for event in events:
            if event is not None and (line := progress.take(event)):
                print(line, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(
        console=console,
        get_renderable=lambda: lanes(progress, left(progress), console.height),
        refresh_per_second=8,
        transient=True,
    ):
        for event in events:
            line = None if event is None else progress.take(event)
            # The lanes show the rest; what went wrong stays on the screen.
            if event is None:
                continue
            if event.get("failure") or event["event"] == "stopping":
                console.print(line, style="red", markup=False, highlight=False)
            elif event["event"] == "run_resumed":
                console.print(line, markup=False, highlight=False)


def lanes(progress: Progress, left: float | None = None, height: int | None = None) -> Any:
    """One row per slot with its job, above a bar of what is done.

    Args:
        height: how many lines there is room for; None for as many as it takes.
    """
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    now = progress.elapsed
    rows = sorted(progress.lanes.items(), key=lambda lane: _place(lane[0]))
    room = len(rows) if height is None else max(1, height - 4)
    table = Table.grid(padding=(0, 2))
    # Where there is no room for all, the middle gives way.
    table.add_column(no_wrap=True, min_width=max(map(len, progress.lanes), default=0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, min_width=6)
    for slot, entry in rows if len(rows) <= room else rows[: room - 1]:
        if entry is not None:
            job, since = entry
            table.add_row(Text(slot, "bold"), Text(job), Text(span(now - since, 1), "cyan"))
        elif slot in progress.held:
            table.add_row(Text(slot, "bold"), Text(progress.held[slot], "yellow"), "")
        else:
            table.add_row(Text(slot, "bold"), Text("idle", "dim"), "")
    if len(rows) > room:
        hidden = rows[room - 1 :]
        busy = sum(entry is not None for _, entry in hidden)
        table.add_row("…", Text(f"and {len(hidden)} more slots, {busy} of them busy", "dim"), "")
    done = sum(progress.done.values())
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=max(1, progress.total), completed=done, width=24),
        Text(f"{done} of {progress.total}"),
    )
    told = [f"{count} {status}" for status, count in progress.done.items()]
    told.append(span(now))
    if left is not None:
        told.append(f"about {span(left)} left")
    return Group(table, bar, Text(", ".join(told), "cyan"))


def span(seconds: float, places: int = 0) -> str:
    """Give a length of time as people read it."""
    if seconds < 120:
        return f"{seconds:.{places}f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _place(slot: str) -> tuple[bool, str, int]:
    """Devices first, and each class by number."""
    kind, _, index = slot.partition(" ")
    return (kind != "device", kind, int(index) if index.isdigit() else 0)
