"""What was measured, summed up and as the Markdown tables that docs/peers.md quotes.

Pure: samples go in, numbers and text come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from textwrap import fill
from typing import Any

from hloop.schedule.events import Placement
from peers.tools import Peer
from peers.workloads import Workload

Sample = Mapping[str, Any]
"""One run of one peer: ``makespan``, ``command`` and ``cpu`` in seconds; ``shared`` and
``moved``, counts of jobs; ``workload``, ``peer`` and ``repetition``."""

SLEEPS = (
    *("makespan, s", "over the bound", "jobs/s", "CPU per job, ms", "command, s"),
    *("shared", "not on its pin"),
)
NOOPS = (
    *("jobs/s", "CPU per job, ms", "CPU of one job more, ms", "command, s", "CPU to start, s"),
    *("command of one job, s", "shared", "not on its pin"),
)


def summary(workload: Workload, placement: Placement, samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians, each with the least and the most; of sharing and of moving, the most of any run."""
    jobs, bound = len(workload.jobs), workload.bound(placement)
    spans = [sample["makespan"] for sample in samples]
    cpu = median(sample["cpu"] for sample in samples)
    middle, least, most = median(spans), min(spans), max(spans)
    return {
        "runs": len(samples),
        "makespan_seconds": round(middle, 4),
        "bound_seconds": round(bound, 4),
        # The no-op workloads have none.
        "over_bound": bound and [round(span / bound, 4) for span in (middle, least, most)],
        "jobs_per_second": [round(jobs / span, 2) for span in (middle, most, least)],
        "command_seconds": round(median(sample["command"] for sample in samples), 4),
        "cpu_seconds": round(cpu, 4),
        "cpu_seconds_per_job": round(cpu / jobs, 5),
        "shared_jobs": max(sample["shared"] for sample in samples),
        "shared_runs": sum(sample["shared"] > 0 for sample in samples),
        "moved_jobs": max(sample["moved"] for sample in samples),
    }


def summaries(
    peers: Iterable[Peer], workloads: Iterable[Workload], samples: Iterable[Sample]
) -> dict[str, dict[str, dict[str, Any]]]:
    """The summary of each workload and peer that has any sample, by their names."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        found.setdefault((sample["workload"], sample["peer"]), []).append(sample)
    return {
        workload.name: {
            peer.name: summary(workload, peer.placement, found[workload.name, peer.name])
            for peer in peers
            if (workload.name, peer.name) in found
        }
        for workload in workloads
    }


def further_job(
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]], jobs: int
) -> dict[str, float]:
    """CPU seconds of one no-op job more, by peer: what all cost, without what one costs."""
    one, many = workloads.get("start", {}), workloads.get("noop", {})
    return {
        peer: round((many[peer]["cpu_seconds"] - one[peer]["cpu_seconds"]) / (jobs - 1), 5)
        for peer in many
        if peer in one and jobs > 1
    }


# As text


def markdown(result: Mapping[str, Any], workloads: Mapping[str, Workload]) -> str:
    """The result for people, and for docs/peers.md."""
    versions = dict.fromkeys(about["version"] for about in result["peers"].values())
    before, after = result["load"]
    text = (
        f"Medians of {result['repetitions']} repetitions, in turns, on {result['machine']}; load "
        f"average {before.split()[0]} before and {after.split()[0]} after. {', '.join(versions)}."
    )
    lines = fill(text, 99).split("\n")
    lines += [f"Missing: {name} ({reason})." for name, reason in result["missing"].items()]
    for name in ("paper", "unbalanced"):
        if name in result["workloads"]:
            lines += ["", _bounds(name, workloads[name]), ""]
            lines += _table(SLEEPS, result, name, _sleep_cells)
    if "noop" in result["workloads"]:
        jobs = len(workloads["noop"].jobs)
        lines += ["", f"**Noop**, {jobs} jobs, and **start**, one job:", ""]
        lines += _table(NOOPS, result, "noop", partial(_noop_cells, result))
    lines += [""] if result["failures"] else []
    for entry in result["failures"]:
        run = f"{entry['workload']}, repetition {entry['repetition'] + 1}"
        lines.append(f"- Failed: {entry['peer']} ({run}): {entry['reason']}")
    return "\n".join(lines)


def _bounds(name: str, workload: Workload) -> str:
    pinned, free = workload.bound(Placement.PINNED), workload.bound(Placement.ANY)
    without = "" if pinned == free else f" with pins, {free:.3f} s without"
    return f"**{name.capitalize()}**, {workload.text}: lower bound {pinned:.3f} s{without}."


def _table(
    heads: Sequence[str],
    result: Mapping[str, Any],
    name: str,
    cells: Callable[[str, Mapping[str, Any]], list[str]],
) -> list[str]:
    lines = [_line(["", *heads]), "|---" * (len(heads) + 1) + "|"]
    for peer, about in result["peers"].items():
        row = result["workloads"][name].get(peer)
        if row is not None:
            found = [*cells(peer, row), _shared(row), str(row["moved_jobs"])]
        else:
            reason = "cannot: jobs depend on each other" if about["flat_only"] else "no result"
            found = [reason, *[""] * (len(heads) - 1)]
        lines.append(_line([peer, *found]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _sleep_cells(peer: str, row: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['makespan_seconds']:.2f}",
        _ranged(row["over_bound"], 3),
        f"{row['jobs_per_second'][0]:.1f}",
        f"{row['cpu_seconds_per_job'] * 1e3:.0f}",
        f"{row['command_seconds']:.1f}",
    ]


def _noop_cells(result: Mapping[str, Any], peer: str, row: Mapping[str, Any]) -> list[str]:
    one = result["workloads"].get("start", {}).get(peer)
    more = result["cpu_seconds_per_further_job"].get(peer)
    return [
        _ranged(row["jobs_per_second"], 1),
        f"{row['cpu_seconds_per_job'] * 1e3:.1f}",
        "-" if more is None else f"{more * 1e3:.1f}",
        f"{row['command_seconds']:.1f}",
        "-" if one is None else f"{one['cpu_seconds']:.2f}",
        "-" if one is None else f"{one['command_seconds']:.2f}",
    ]


def _ranged(values: Sequence[float], digits: int) -> str:
    middle, least, most = (f"{value:.{digits}f}" for value in values)
    return middle if least == most else f"{middle} ({least} to {most})"


def _shared(row: Mapping[str, Any]) -> str:
    """How many jobs found another one on their device."""
    if not row["shared_jobs"]:
        return "0"
    return f"{row['shared_jobs']} (in {row['shared_runs']} of {row['runs']})"
