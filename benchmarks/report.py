"""What a run's report page costs: making it, its size, and until Chromium has painted it.

A plan of as many no-op jobs is run once. Its page is held against the same timeline as Vega
draws it. It fails where the page has 10 MB or takes 3 s to its first paint.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from hloop.report.charts import timeline_chart
from hloop.report.rundata import read_run, timeline_data
from hloop.run.page import make_page
from measuring import finish, run
from noop_jobs import make_plan
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

MAX_BYTES, MAX_SECONDS = 10_000_000, 3.0
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
LOADED = """
const entry = performance.getEntriesByType('navigation')[0];
return entry.loadEventEnd / 1000;
"""


def browse(pages: dict[str, Path], repetitions: int) -> dict[str, dict[str, float]]:
    """Open the pages in turns. Gives the median seconds to the first paint and to the end of
    loading."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in pages}
    try:
        for _ in range(repetitions):
            for name, page in pages.items():
                browser.get(page.as_uri())
                time.sleep(0.5)
                times = browser.execute_script(PAINTED), browser.execute_script(LOADED)
                found[name].append(times)
    finally:
        browser.quit()
    return {
        name: {
            "first_paint_seconds": round(median(paint for paint, _ in times), 3),
            "loaded_seconds": round(median(load for _, load in times), 3),
        }
        for name, times in found.items()
    }


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    if trouble := work():
        sys.exit(str(trouble))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plan.json").write_text(json.dumps(make_plan(options.jobs // 2)))
        argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json", "--run-dir", "run"]
        run([*argv, "--devices", "simulated:2"], folder)
        run_dir = folder / "run"
        making = median(timed(lambda: make_page(run_dir)) for _ in range(options.repetitions))
        page, vega = run_dir / "report.html", folder / "vega.html"
        bands = timeline_data(read_run(run_dir, with_verdict=False), "")["bands"]
        timeline_chart(bands).save(vega, inline=True)
        pages = {"page": page, "vega": vega}
        result: dict[str, dict[str, float]] = browse(pages, options.repetitions)
        for which, path in pages.items():
            result[which]["bytes"] = path.stat().st_size
    result["page"]["making_seconds"] = round(making, 3)
    print(f"{options.jobs} jobs, medians of {options.repetitions}")
    for which, text in (("page", "the report page"), ("vega", "its timeline alone, by Vega")):
        paint, loaded = result[which]["first_paint_seconds"], result[which]["loaded_seconds"]
        size = result[which]["bytes"] / 1e6
        print(f"  {text:<28} {size:6.2f} MB  painted {paint:6.3f} s  loaded {loaded:6.3f} s")
    print(f"  made in {making:.3f} s, in a process of its own")
    finish(result)
    if result["page"]["bytes"] >= MAX_BYTES:
        sys.exit(f"the page has {MAX_BYTES} bytes or more")
    if result["page"]["first_paint_seconds"] >= MAX_SECONDS:
        sys.exit(f"its first paint takes {MAX_SECONDS} s or more")


if __name__ == "__main__":
    main()
