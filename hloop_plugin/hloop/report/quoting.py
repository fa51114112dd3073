"""Whether the numbers of a benchmark may be quoted, and every reason why not.

Each reason is one that a reviewer would name. What is not known counts as a reason too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hloop.errors import first_of
from hloop.report.benchmark import Protocol
from hloop.report.measuring import MeasuredRun

OTHER_CPU_SHARE = 0.05
"""More than this part of all CPUs' time, used by others, is another load."""

# It tells two boots apart, not two machines.
_NOT_THE_MACHINE = {"boot_id"}


def reasons_against(protocol: Protocol, runs: Sequence[MeasuredRun]) -> list[str]:
    """Give every reason why the numbers may not be quoted; [] if they may.

    Args:
        runs: those of all repetitions that are complete, in the order of the protocol. Each is
            complete and unaltered, since others are not taken.
    """
    return [
        *_too_few(protocol, runs),
        *_simulated(runs),
        *_differing(runs),
        *_code(runs),
        *_decisions(runs),
        *_times(runs),
        *_others([run for run in runs if run.planned.repetition is not None]),
    ]


def _too_few(protocol: Protocol, runs: Sequence[MeasuredRun]) -> Iterator[str]:
    done = len({run.planned.repetition for run in runs} - {None})
    if done < protocol.repetitions:
        yield f"{done} of {protocol.repetitions} repetitions are complete"
    elif done < protocol.wanted:
        yield f"{_count(done, 'repetition')}, and the configuration asks for {protocol.wanted}"


def _simulated(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    if any(device["simulated"] for run in runs for device in run.report["devices"]):
        yield "the devices are simulated"


def _differing(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """What must be the same in all runs."""
    for name in ("host", "versions"):
        entries = [run.report[name] for run in runs]
        for key in sorted({key for entry in entries for key in entry} - _NOT_THE_MACHINE):
            yield from _several(f"{name}.{key}", runs, [entry.get(key) for entry in entries])
    yield from _several(
        "devices",
        runs,
        [
            [(device["logical"], device["uuid"] or device["token"]) for device in devices]
            for devices in (run.report["devices"] for run in runs)
        ],
    )
    for name in ("placement", "limits"):
        yield from _several(name, runs, [run.report["scheduling"][name] for run in runs])


def _code(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    git = [run.manifest["code_digests"]["git"] for run in runs]
    if None in git:
        yield "the code is in no git repository, so that no commit says what it was"
    known = [entry for entry in git if entry is not None]
    if problem := next((entry["problem"] for entry in known if entry["problem"]), None):
        yield f"the state of the git repository is not known: {problem}"
    elif any(entry["dirty"] for entry in known):
        yield "the git repository holds changes or files that are not committed"
    yield from _several("the git commit", runs, [entry and entry["commit"] for entry in git])
    yield from _several(
        "the scripts", runs, [run.manifest["code_digests"]["scripts"] for run in runs]
    )
    packages = [run.manifest["environment"]["packages"] for run in runs]
    yield from _several("the installed packages", runs, packages)


def _decisions(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    decided = {run.decision for run in runs}
    if None in decided:
        yield "no selection shows that the modes decide the same"
    elif len(decided) > 1:
        yield "the runs do not all decide the same"


def _times(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """Runs one after another, in the order of the protocol."""
    spans = [
        (
            datetime.fromisoformat(run.report["started_at"]),
            datetime.fromisoformat(run.report["completed_at"]),
            run,
        )
        for run in runs
    ]
    for (_, end, first), (start, _, second) in zip(spans, spans[1:], strict=False):
        if start < end:
            yield (
                f"{second.planned.name} began before {first.planned.name} had ended: "
                "they overlapped, or ran in another order than that of the protocol"
            )


def _others(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    unknown = [run for run in runs if run.surroundings is None]
    if unknown:
        yield (
            f"what else the machine did is not known of {_names(unknown)}: "
            "to have these runs made anew, move them away"
        )
    known = [(run, run.surroundings) for run in runs if run.surroundings is not None]
    if beside := [run for run, noticed in known if noticed["other_runs"]]:
        yield f"other runs of hloop went on at the same time as {_names(beside)}"
    if loaded := [run for run, noticed in known if _other_share(noticed) > OTHER_CPU_SHARE]:
        most = max(_other_share(run.surroundings or {}) for run in loaded)
        yield (
            f"other programs used up to {most:.0%} of the CPUs during {_names(loaded)}; "
            f"up to {OTHER_CPU_SHARE:.0%} is allowed"
        )


def _other_share(noticed: Mapping[str, Any]) -> float:
    share: float = noticed["other_cpu_seconds"] / (noticed["seconds"] * noticed["cpu_count"])
    return share


def _several(name: str, runs: Sequence[MeasuredRun], values: Sequence[Any]) -> Iterator[str]:
    """Say that something is not the same in all runs."""
    others = [run for run, value in zip(runs, values, strict=True) if value != values[0]]
    if others:
        first = runs[0].planned.name
        yield f"not the same in all runs: {name} ({first} against {_names(others)})"


def _names(runs: Iterable[MeasuredRun]) -> str:
    return first_of([run.planned.name for run in runs])


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
