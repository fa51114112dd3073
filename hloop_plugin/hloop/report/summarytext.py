"""The summary of a benchmark as a page for people, ``SUMMARY.md``. It adds nothing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def summary_text(summary: Mapping[str, Any]) -> str:
    """Give a summary document as Markdown."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    done, asked = summary["repetitions"], summary["repetitions_asked_for"]
    count = f"{done} of {asked}" if done < asked else f"{done}"
    yield f"# {summary['plan_id']}"
    yield ""
    yield (
        f"{count} measured {'repetition' if asked == 1 else 'repetitions'} of each mode"
        f"{', after one to warm up' if summary['warmup'] else ''}; the order of the modes is "
        "rotated by repetition."
    )
    yield ""
    if summary["statistics"]:
        yield from _table(
            ("mode", "median s", "95 % interval", "mean s", "sd s", "efficiency", "lower bound s"),
            [_mode_row(mode, entry) for mode, entry in summary["statistics"].items()],
        )
        yield ""
    pairs = [entry for entry in summary["speedups"] if _is_shown(summary["modes"], entry)]
    if pairs:
        yield from _table(
            ("speed-up", "of medians", "median of pairs", "95 % interval"),
            [
                (
                    f"{entry['mode']} over {entry['baseline']}",
                    f"{entry['ratio_of_medians']:.3f}",
                    f"{entry['median_paired_ratio']:.3f}",
                    _interval(entry["interval"]),
                )
                for entry in pairs
            ],
        )
        yield ""
    yield _parity(summary["decision_parity"])
    yield ""
    reasons = summary["quotable"]["reasons"]
    if not reasons:
        yield "These numbers may be quoted."
        return
    yield "These numbers may not be quoted:"
    yield ""
    for reason in reasons:
        yield f"- {reason}"


def _mode_row(mode: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    elapsed = entry["elapsed_seconds"]
    spread = elapsed["standard_deviation"]
    efficiency, bound = entry.get("efficiency"), entry["lower_bound_seconds"]
    return (
        mode,
        f"{elapsed['median']:.3f}",
        _interval(elapsed["interval"]),
        f"{elapsed['mean']:.3f}",
        "-" if spread is None else f"{spread:.3f}",
        f"{efficiency['median']:.1%}" if efficiency else "-",
        f"{bound['median']:.3f}",
    )


def _is_shown(modes: Sequence[str], entry: Mapping[str, Any]) -> bool:
    """Each pair once: what comes later in the order of the modes over what comes before."""
    return modes.index(entry["mode"]) > modes.index(entry["baseline"])


def _interval(interval: Sequence[float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def _parity(parity: bool | None) -> str:
    if parity is None:
        return "The plan makes no selection, so that there is no decision to compare."
    if parity:
        return "In every repetition all modes decided the same."
    return "The runs did not all decide the same."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Give a table whose columns are as wide as they must be, numbers to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        texts = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        return "| " + " | ".join(texts) + " |"

    yield line(head)
    rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    yield "| " + " | ".join(rules) + " |"
    yield from map(line, rows)
