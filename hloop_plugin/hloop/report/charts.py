"""Charts by Altair: pictures for a paper, and those of a page that a reader can ask.

Altair and vl-convert take seconds to import and to draw, so they are imported where a chart is
wanted and nowhere else. vl-convert holds all of Vega: nothing is asked of any network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hloop.report.html import visible

WIDTH = 720
LANE = 18
MAX_COLOURS = 20
PALETTE = (
    *("#77aadd", "#eedd88", "#44bb99", "#ffaabb", "#bbcc33", "#99ddff", "#ee8866", "#aaaa00"),
)
"""Paul Tol's light scheme: told apart with every kind of colour blindness, also under black text
(https://personal.sron.nl/~pault/)."""
# Seen on paper and on a dark page.
NEUTRAL = "#7a8291"

# Evaluating text as code is forbidden in the page, so Vega interprets its expressions.
_EMBED = """
for (const place of document.querySelectorAll("[data-chart]")) {
  const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
  vegaEmbed(place, spec, {
    ast: true, actions: false, renderer: "svg", defaultStyle: false,
    tooltip: {disableDefaultStyle: true},
  });
}
"""


_UNITS = (("hours", 3600, 3), ("minutes", 60, 3), ("seconds", 1, 0))
"""What the axis counts in, its length in seconds, and from how many of it on."""


def timeline_chart(bands: Sequence[Mapping[str, Any]]) -> Any:
    """Draw bands as :func:`hloop.report.timeline.band` gives them, on one time axis."""
    import altair as alt

    end = max((band["end"] for band in bands), default=0.0)
    unit = next((unit for unit in _UNITS if end >= unit[2] * unit[1]), _UNITS[-1])
    colour = _colour(bands)
    charts = [_band(band, end, unit, colour) for band in bands]
    chart = charts[0] if len(charts) == 1 else alt.vconcat(*charts, spacing=12)
    return _paper(chart)


def _colour(bands: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    stages = list(dict.fromkeys(job["stage"] for band in bands for job in band["jobs"]))
    legend = alt.Legend(orient="bottom", columns=4) if len(stages) <= MAX_COLOURS else None
    names = [visible(stage) for stage in stages]
    colours = (
        {"range": PALETTE[: len(names)]} if len(names) <= len(PALETTE) else {"scheme": "tableau20"}
    )
    scale = alt.Scale(domain=names, **colours)
    return alt.Color("stage:N", title=None, legend=legend, scale=scale)


def _band(band: Mapping[str, Any], end: float, unit: tuple[str, int, int], colour: Any) -> Any:
    import altair as alt

    lanes = [visible(lane["name"]) for lane in band["lanes"]]
    name, length, _ = unit
    bars = list(_bars(band, lanes, length))
    x = alt.X("start:Q", title=name, scale=alt.Scale(domain=[0, end / length], nice=False))
    y = alt.Y("lane:N", title=None, sort=None, scale=alt.Scale(domain=lanes))
    layers = [
        alt.Chart(_data(bars))
        .mark_bar(height={"band": 0.8})
        .encode(x=x, x2="end:Q", y=y, color=colour),
        # What did not complete has an edge: colour alone is not read by everybody.
        alt.Chart(_data([bar for bar in bars if not bar["good"]]))
        .mark_bar(height={"band": 0.8}, filled=False, stroke="#b3261e", strokeWidth=1.5)
        .encode(x=x, x2="end:Q", y=y),
    ]
    begins = [*(wave["start"] for wave in band["waves"]), *band["sessions"]]
    if begins:
        rules = _data([{"start": start / length} for start in begins])
        layers.append(
            alt.Chart(rules).mark_rule(strokeDash=[3, 3], color="#555").encode(x="start:Q")
        )
    height = max(LANE, min(LANE, 1200 / max(1, len(lanes))) * len(lanes))
    title = {"title": visible(band["title"])} if band["title"] else {}
    return alt.layer(*layers).properties(width=WIDTH, height=height, **title)


def _data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"values": rows}


def _bars(band: Mapping[str, Any], lanes: Sequence[str], length: int) -> Iterator[dict[str, Any]]:
    for job in band["jobs"]:
        if job["lane"] is not None:
            yield {
                "lane": lanes[job["lane"]],
                "start": job["start"] / length,
                "end": job["end"] / length,
                "stage": visible(job["stage"]),
                "good": job["status"] == "completed",
            }


def repetitions_chart(summary: Mapping[str, Any]) -> Any:
    """Draw every measured run of a benchmark, with each mode's median and its interval."""
    import altair as alt

    modes = summary["modes"]
    runs = [
        {
            "mode": run["mode"],
            "seconds": run["elapsed_seconds"],
            "repetition": run["repetition"],
            "run": visible(run["run_dir"]),
        }
        for run in summary["runs"]
        if run["repetition"] is not None
    ]
    medians = []
    for mode, statistics in summary["statistics"].items():
        sample = statistics["elapsed_seconds"]
        low, high = sample["interval"] or (sample["median"], sample["median"])
        medians.append({"mode": mode, "seconds": sample["median"], "low": low, "high": high})
    # From zero, so that twice as far is twice as long.
    x = alt.X("seconds:Q", title="elapsed seconds", scale=alt.Scale(zero=True))
    y = alt.Y("mode:N", title=None, sort=None, scale=alt.Scale(domain=modes))
    medians_data = _data(medians)
    return _paper(
        alt.layer(
            alt.Chart(medians_data)
            .mark_rule(strokeWidth=2, color=NEUTRAL)
            .encode(x=alt.X("low:Q", title="elapsed seconds"), x2="high:Q", y=y),
            alt.Chart(medians_data)
            .mark_tick(thickness=2.5, size=26, color=NEUTRAL)
            .encode(
                x=x,
                y=y,
                tooltip=[
                    alt.Tooltip("mode:N"),
                    alt.Tooltip("seconds:Q", title="median", format=".3f"),
                    alt.Tooltip("low:Q", format=".3f"),
                    alt.Tooltip("high:Q", format=".3f"),
                ],
            ),
            alt.Chart(_data(runs))
            .mark_point(filled=True, size=70, opacity=0.75)
            .encode(
                x=x,
                y=y,
                color=alt.Color("mode:N", legend=None, scale=alt.Scale(scheme="tableau10")),
                tooltip=[
                    alt.Tooltip("run:N"),
                    alt.Tooltip("seconds:Q", format=".3f"),
                ],
            ),
        ).properties(width="container", height=48 * len(modes))
    )


def _paper(chart: Any) -> Any:
    return chart.configure(font="sans-serif", background="transparent").configure_view(stroke=None)


def to_svg(chart: Any) -> str:
    """Give a chart as SVG on its own.

    Raises:
        ValueError: Vega cannot draw it.
    """
    import vl_convert

    spec = chart.to_dict()
    if spec.get("width") == "container":
        spec["width"] = WIDTH
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def embed_script() -> str:
    """Give the script that draws a page's charts: all of Vega, about 0.9 MB.

    A chart is an element with ``data-chart``, the id of the block that holds its specification.
    """
    import vl_convert

    script: str = vl_convert.javascript_bundle(_EMBED)
    return script
