"""The parts of a page that say where the time went: timeline, idle devices, critical path.

They are written in; only the timeline itself is drawn by a script, from what goes along as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloop.report.charts import PALETTE
from hloop.report.html import Markup, data_block, element, section, table

MAX_STEPS = 100
MAX_GAPS = 10
LEAST_GAP = 0.01
"""Shorter gaps, as a share of the whole, are not listed."""

CAUSES = {
    "start": "began with the run",
    "dependency": "waited for what it depends on:",
    "slot": "waited for its slot, which was held by",
    "barrier": "waited at the barrier for",
    "turn": "waited its turn behind",
    "lease": "waited for the lease of its device",
    "session": "waited until the run was resumed",
}
_WITHOUT_JOB = ("start", "lease", "session")

Band = Mapping[str, Any]
"""As :func:`hloop.report.timeline.band` gives it."""


def timeline_section(note: object = "") -> Markup:
    """Give the place that the scripts draw a timeline into."""
    without = element("noscript", element("p", "The timeline needs JavaScript."))
    return section("Timeline", note, without, element("div", id="timeline"))


def timeline_block(bands: Sequence[Band], artifacts: Sequence[Sequence[Any]] = ()) -> Markup:
    """Give what the scripts draw."""
    phrases = {cause: [phrase, cause not in _WITHOUT_JOB] for cause, phrase in CAUSES.items()}
    data = {"bands": bands, "artifacts": artifacts, "causes": phrases, "colours": PALETTE}
    return data_block("data", data)


@dataclass(frozen=True)
class Idle:
    """How long all devices together were idle, and of how many seconds."""

    seconds: float
    whole_seconds: float

    @property
    def share(self) -> float:
        return self.seconds / self.whole_seconds


def device_idle(band: Band) -> Idle | None:
    """Sum up the devices' idle times; None where there is no device, or nothing ran."""
    lanes = [lane for lane in _device_lanes(band) if lane["share"] is not None]
    whole = sum(lane["length"] for lane in lanes)
    return Idle(sum(lane["idle"] for lane in lanes), whole) if whole else None


def _device_lanes(band: Band) -> list[Mapping[str, Any]]:
    return [lane for lane in band["lanes"] if lane["name"].startswith("device ")]


def idle_section(band: Band) -> Iterator[Markup]:
    """Give the longest times in which a device did nothing, and what ended them."""
    idle = device_idle(band)
    if idle is None:
        return
    found = [
        (end - start, lane["name"], start, end, step)
        for lane in _device_lanes(band)
        for start, end, step in lane["gaps"]
        if end - start >= LEAST_GAP * lane["length"]
    ]
    found.sort(key=lambda entry: -entry[0])
    total = (
        f"All devices together did nothing for {seconds(idle.seconds)} of "
        f"{seconds(idle.whole_seconds)}: {idle.share:.0%}."
    )
    parts: list[object] = [element("p", total)]
    if found:
        rows = [
            (name, *map(seconds, (length, start, end)), _ended_by(band["jobs"], step))
            for length, name, start, end, step in found[:MAX_GAPS]
        ]
        heads = ("device", "idle", "from", "to", "what came then")
        parts.append(table(heads, rows, class_="times"))
        if len(found) > MAX_GAPS:
            parts.append(element("p", f"and {len(found) - MAX_GAPS} shorter ones", class_="quiet"))
    yield section("Idle devices", *parts)


def _ended_by(jobs: Sequence[Mapping[str, Any]], step: Mapping[str, Any] | None) -> str:
    if step is None:
        return "no job came"
    return f"{jobs[step['job']]['id']} {_why(jobs, step)}"


def _why(jobs: Sequence[Mapping[str, Any]], step: Mapping[str, Any]) -> str:
    phrase = CAUSES[step["cause"]]
    return phrase if step["cause"] in _WITHOUT_JOB else f"{phrase} {jobs[step['before']]['id']}"


def critical_path_section(band: Band) -> Markup:
    """Give the chain of jobs that made the run as long as it was, as it happened."""
    jobs, steps = band["jobs"], band["path"]
    if not steps:
        return section("Critical path", element("p", "No job started."))
    work = sum(jobs[step["job"]]["end"] - jobs[step["job"]]["start"] for step in steps)
    between = sum(step["gap"] for step in steps)
    # A path of thousands of jobs: its ends tell most.
    shown = steps if len(steps) <= MAX_STEPS else [*steps[: MAX_STEPS // 2], *steps[-50:]]
    left_out = len(steps) - len(shown)
    rows = [
        (
            jobs[step["job"]]["id"],
            seconds(jobs[step["job"]]["end"] - jobs[step["job"]]["start"]),
            seconds(step["gap"]),
            _why(jobs, step),
        )
        for step in shown
    ]
    chain = "The job" if len(steps) == 1 else f"The chain of {len(steps)} jobs"
    note = f"{chain} that ended last, as it happened: {seconds(work)} of work and "
    note += f"{seconds(between)} {'before it' if len(steps) == 1 else 'between them'}."
    if left_out:
        note += f" {left_out} in the middle are left out."
    return section(
        "Critical path",
        element("p", note),
        table(("job", "took", "gap before", "why then"), rows, class_="times"),
    )


def warning(sentence: object) -> Markup:
    return element("p", sentence, class_="warning")


def facts_list(facts: Sequence[tuple[str, object]]) -> Markup:
    given = [
        element("div", element("dt", name), element("dd", value))
        for name, value in facts
        if value is not None
    ]
    return element("dl", *given, class_="facts")


def seconds(value: float) -> str:
    """Give a time as people read it."""
    if value < 120:
        return f"{value:.3f} s" if value < 10 else f"{value:.2f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
