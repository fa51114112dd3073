"""The summary of a benchmark: what its runs come to, and whether that may be quoted.

It makes the document ``mimicx.native-hloop-benchmark-summary.v1`` of runs that were taken: the
published fields as they are published, but for the names of the modes, and more. It reads
nothing; it writes three files beside each other.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hloop import files
from hloop.plan import identity
from hloop.plan.model import Plan
from hloop.report import statistics
from hloop.report.benchmark import BenchmarkPaths, Protocol
from hloop.report.measuring import MeasuredRun
from hloop.report.quoting import reasons_against
from hloop.report.summarytext import summary_text
from hloop.schedule.events import Mode

SUMMARY_SCHEMA = "mimicx.native-hloop-benchmark-summary.v1"

_DIGITS = 6
_COLUMNS = (
    *("label", "repetition", "position", "mode", "run_dir", "started_at", "elapsed_seconds"),
    *("makespan_seconds", "lower_bound_seconds", "efficiency", "head"),
)


def summarize(plan: Plan, protocol: Protocol, runs: Sequence[MeasuredRun]) -> dict[str, Any]:
    """Give the summary document.

    Args:
        runs: those of all repetitions that are complete, the warm-up's too, in the order of
            the protocol; at least one. After the warm-up alone no mode has any number.
    """
    measured = [run for run in runs if run.planned.repetition is not None]
    # Sorted by repetition: what was measured together stands at one place.
    of_mode = {
        mode: [run for run in measured if run.planned.mode is mode]
        for mode in (protocol.modes if measured else ())
    }
    elapsed = {mode: [_elapsed(run) for run in entries] for mode, entries in of_mode.items()}
    samples = {mode: statistics.summarize(values) for mode, values in elapsed.items()}
    speedups = _speedups(elapsed)
    reasons = reasons_against(protocol, runs)
    return {
        "schema": SUMMARY_SCHEMA,
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "placement_digest": identity.placement_digest(plan),
        "repetitions": len({run.planned.repetition for run in measured}),
        "repetitions_asked_for": protocol.repetitions,
        "repetitions_of_the_configuration": protocol.wanted,
        "warmup": protocol.warmup,
        "modes": [mode.value for mode in protocol.modes],
        "quotable": {"passed": not reasons, "reasons": reasons},
        "selection_hashes": sorted({run.decision for run in runs if run.decision is not None}),
        "decision_parity": _parity(runs),
        "median_seconds": {mode: _round(sample.median) for mode, sample in samples.items()},
        "mean_seconds": {mode: _round(sample.mean) for mode, sample in samples.items()},
        **{
            f"speedup_hloop_vs_{mode.replace('-', '_')}": _speedup(speedups, Mode.HLOOP, mode)
            for mode in (Mode.SEQUENTIAL, Mode.BULK_SYNC)
        },
        "every_repetition_hloop_faster_than_sequential": _always_faster(elapsed),
        "timings": _timings(measured),
        "bootstrap": {
            "seed": statistics.SEED,
            "resamples": statistics.RESAMPLES,
            "confidence": statistics.CONFIDENCE,
        },
        "statistics": {
            mode: {
                "elapsed_seconds": _sample(samples[mode]),
                **{
                    name: _sample(statistics.summarize(values))
                    for name, values in _scheduling(entries).items()
                },
                "idle_seconds": _idle(entries),
            }
            for mode, entries in of_mode.items()
        },
        "speedups": speedups,
        "host": runs[0].report["host"],
        "versions": runs[0].report["versions"],
        "devices": runs[0].report["devices"],
        "limits": runs[0].report["scheduling"]["limits"],
        "placement": runs[0].report["scheduling"]["placement"],
        "runs": [_run(run) for run in runs],
    }


def write_summary(paths: BenchmarkPaths, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json``, ``SUMMARY.md`` and ``timings.csv``, each at one stroke.

    Raises:
        OSError: the folder cannot be written to.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files.replace(paths.summary, text.encode("utf-8", "backslashreplace"))
    files.replace(paths.text, summary_text(summary).encode("utf-8", "backslashreplace"))
    table = io.StringIO()
    writer = csv.DictWriter(table, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(summary["runs"])
    files.replace(paths.timings, table.getvalue().encode())


def decisions_agree(runs: Sequence[MeasuredRun]) -> bool:
    """Whether these runs decided the same; also where none decides anything."""
    return len({run.decision for run in runs}) <= 1


def _parity(runs: Sequence[MeasuredRun]) -> bool | None:
    """Whether all runs decided the same; None where nothing is decided."""
    if all(run.decision is None for run in runs):
        return None
    return decisions_agree(runs)


def _timings(measured: Sequence[MeasuredRun]) -> list[dict[str, Any]]:
    rows: dict[int | None, dict[str, Any]] = {}
    for run in measured:
        number = run.planned.repetition
        row = rows.setdefault(number, {"repetition": number})
        row[run.planned.mode.value] = _elapsed(run)
    return list(rows.values())


def _speedups(elapsed: Mapping[Mode, Sequence[float]]) -> list[dict[str, Any]]:
    """Give every mode against every mode that stands before it in the protocol, both ways."""
    entries = []
    for mode, values in elapsed.items():
        for baseline, others in elapsed.items():
            if mode is not baseline:
                ratio = statistics.ratio(others, values)
                entries.append(
                    {
                        "mode": mode.value,
                        "baseline": baseline.value,
                        "ratio_of_medians": _round(ratio.of_medians),
                        "paired_ratios": [_round(value) for value in ratio.paired],
                        "median_paired_ratio": _round(ratio.median_paired),
                        "interval": _interval(ratio.interval),
                    }
                )
    return entries


def _speedup(speedups: Sequence[Mapping[str, Any]], mode: Mode, baseline: Mode) -> float | None:
    for entry in speedups:
        if (entry["mode"], entry["baseline"]) == (mode, baseline):
            found: float = entry["ratio_of_medians"]
            return found
    return None


def _always_faster(elapsed: Mapping[Mode, Sequence[float]]) -> bool | None:
    if not elapsed.keys() >= {Mode.HLOOP, Mode.SEQUENTIAL}:
        return None
    pairs = zip(elapsed[Mode.HLOOP], elapsed[Mode.SEQUENTIAL], strict=True)
    return all(hloop < sequential for hloop, sequential in pairs)


def _elapsed(run: MeasuredRun) -> float:
    return float(run.report["elapsed_seconds"])


def _scheduling(runs: Sequence[MeasuredRun]) -> dict[str, list[float]]:
    """Give what the reports say of the schedule, by name; nothing that one of them lacks."""
    entries = [run.report["scheduling"] for run in runs]
    values = {
        "makespan_seconds": [entry["makespan_seconds"] for entry in entries],
        "lower_bound_seconds": [entry["lower_bound"]["seconds"] for entry in entries],
        "efficiency": [entry["efficiency"] for entry in entries],
    }
    return {name: column for name, column in values.items() if None not in column}


def _idle(runs: Sequence[MeasuredRun]) -> dict[str, float]:
    """Give the median idle time of every slot."""
    entries = [run.report["scheduling"]["idle_seconds"] for run in runs]
    return {
        slot: _round(
            statistics.summarize([entry[slot] for entry in entries if slot in entry]).median
        )
        for slot in entries[0]
    }


def _sample(sample: statistics.Sample) -> dict[str, Any]:
    fields = asdict(sample)
    for name in ("median", "mean", "standard_deviation"):
        fields[name] = None if fields[name] is None else _round(fields[name])
    return {**fields, "interval": _interval(sample.interval)}


def _interval(interval: statistics.Interval | None) -> list[float] | None:
    return None if interval is None else [_round(interval.low), _round(interval.high)]


def _round(value: float) -> float:
    return round(value, _DIGITS)


def _run(run: MeasuredRun) -> dict[str, Any]:
    planned, report = run.planned, run.report
    scheduling = report["scheduling"]
    git = run.manifest["code_digests"]["git"]
    return {
        "label": planned.label,
        "repetition": planned.repetition,
        "position": planned.position,
        "mode": planned.mode.value,
        "run_dir": planned.name,
        "head": run.head,
        "session_id": report["session_id"],
        "started_at": report["started_at"],
        "completed_at": report["completed_at"],
        "elapsed_seconds": report["elapsed_seconds"],
        "makespan_seconds": scheduling["makespan_seconds"],
        "lower_bound_seconds": scheduling["lower_bound"]["seconds"],
        "limiting": scheduling["lower_bound"]["limiting"],
        "efficiency": scheduling["efficiency"],
        "idle_seconds": scheduling["idle_seconds"],
        "selection_hash": run.decision,
        "git_commit": git and git["commit"],
        "surroundings": run.surroundings,
    }
