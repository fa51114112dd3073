"""Makes the report page of a run or a benchmark, and the pictures beside it.

It writes beside the evidence and never into it: a page proves nothing, and no digest covers it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import files
from hloop.errors import Problem, ReportError
from hloop.files import RunPaths
from hloop.report.benchmark import BenchmarkPaths, is_benchmark

TIMELINE, REPETITIONS = "timeline", "repetitions"


@dataclass(frozen=True)
class Written:
    """What was written."""

    page: Path
    charts: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"page": str(self.page), "charts": [str(chart) for chart in self.charts]}


def write_pages(
    folder: Path, out: Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> Written:
    """Write the page of a run directory, or of the folder of a benchmark or a simulation, and
    each chart as SVG.

    Args:
        out: the page; None for ``report.html`` in the folder. A chart's name is that of the
            page with ``-timeline.svg`` or ``-repetitions.svg`` at its end.
        progress: as in :func:`hloop.provenance.verify.verify`.

    Raises:
        ReportError: it is none of these, what lies in it cannot be read, or the page not written.
    """
    if not folder.is_dir():
        problem = Problem(
            "no_folder", "", f"{folder} is no folder", "a run directory, or a benchmark's folder"
        )
        raise ReportError(problem)
    page = out or RunPaths(folder).html
    if is_benchmark(folder):
        return _write_benchmark(folder, page)
    from hloop.report.simulation import SIMULATION_NAME

    if (folder / SIMULATION_NAME).exists() and not RunPaths(folder).report.exists():
        return _write_simulation(folder, page)
    _check_run(folder)
    return _write_run(folder, page, progress)


def _check_run(folder: Path) -> None:
    """Say what a folder is that holds nothing to draw, where that can be said."""
    paths = RunPaths(folder)
    expected = "a run of a plan, a benchmark or a simulation"
    if os.path.lexists(paths.report) or paths.journal.exists():
        if paths.rules.is_dir() and not paths.plan.exists():
            found = "a run of rules without a plan, of which there is no page"
            action = "hloop verify checks its records; snakemake --report shows what rules made"
            raise ReportError(Problem("no_plan", "", f"{folder} holds {found}", expected, action))
        return
    if BenchmarkPaths(folder).protocol.exists():
        found = "a benchmark of which no repetition has ended"
        action = "Wait for the first, or run hloop benchmark again to go on with it"
    else:
        found = "no hloop_run.json, journal.jsonl, summary.json or simulation.json"
        action = ""
    raise ReportError(Problem("nothing", "", f"{folder} holds {found}", expected, action))


def write_run_page(run_dir: Path) -> Path:
    """Write the page of a run that has just ended: not verified, and without pictures.

    Raises:
        ReportError: see :func:`write_pages`.
    """
    from hloop.report.rundata import read_run
    from hloop.report.runpage import run_page

    page = RunPaths(run_dir).html
    _write(page, run_page(read_run(run_dir, with_verdict=False), page.parent))
    return page


def _write_run(run_dir: Path, page: Path, progress: Callable[[int, int], None] | None) -> Written:
    from hloop.report.rundata import read_run, timeline_data
    from hloop.report.runpage import run_page

    run = read_run(run_dir, with_verdict=True, progress=progress)
    _write(page, run_page(run, page.parent))
    from hloop.report.charts import timeline_chart, to_svg

    chart = _beside(page, TIMELINE)
    _write(chart, to_svg(timeline_chart(timeline_data(run, "")["bands"])))
    return Written(page, (chart,))


def _write_benchmark(folder: Path, page: Path) -> Written:
    from hloop.report.benchmarkpage import bands_of, benchmark_page, read_summary
    from hloop.report.charts import embed_script, repetitions_chart, timeline_chart, to_svg

    summary = read_summary(folder)
    bands, troubles = bands_of(folder, summary)
    repetitions = repetitions_chart(summary)
    spec = repetitions.to_dict()
    _write(page, benchmark_page(summary, bands, troubles, spec, embed_script()))
    charts = {REPETITIONS: repetitions}
    if bands:
        charts[TIMELINE] = timeline_chart(bands)
    for name, chart in charts.items():
        _write(_beside(page, name), to_svg(chart))
    return Written(page, tuple(_beside(page, name) for name in charts))


def _write_simulation(folder: Path, page: Path) -> Written:
    from hloop.report.charts import timeline_chart, to_svg
    from hloop.report.simulationpage import read_simulation, simulation_bands, simulation_page

    simulation = read_simulation(folder)
    bands = simulation_bands(simulation)
    _write(page, simulation_page(simulation, bands))
    if not bands:
        return Written(page, ())
    chart = _beside(page, TIMELINE)
    _write(chart, to_svg(timeline_chart(bands)))
    return Written(page, (chart,))


def _beside(page: Path, name: str) -> Path:
    return page.with_name(f"{page.stem}-{name}.svg")


def _write(path: Path, content: str) -> None:
    try:
        files.replace(path, content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        problem = Problem(
            "unwritable",
            "",
            f"{path} cannot be written: {error.strerror}",
            action="Name another with --out",
        )
        raise ReportError(problem) from None


def main() -> None:
    """Write the page of a run or a benchmark that has just ended; see :mod:`hloop.run.page`."""
    folder = Path(os.path.abspath(sys.argv[1]))
    if is_benchmark(folder):
        write_pages(folder)
    else:
        write_run_page(folder)


if __name__ == "__main__":
    main()
