"""What the installed plugin costs every start of Snakemake: with it and without it, in turns."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from measuring import Cost, finish, middle, run

# Snakemake finds its plugins by this function; without is: as if it were not installed.
HIDE = """
import pkgutil
found = pkgutil.iter_modules
pkgutil.iter_modules = lambda *a: (m for m in found(*a) if "plugin_hloop" not in m.name)
"""
START = "from snakemake.cli import main; main(['--version'])"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(options.repetitions):
            sides = [("with", START), ("without", HIDE + START)]
            # Which of the two comes first has an effect of its own.
            for name, code in sides if repetition % 2 else reversed(sides):
                costs[name].append(run([sys.executable, "-c", code], Path(folder)))
    for name, values in costs.items():
        cost = middle(values)
        print(
            f"{name:<8} the plugin: {cost.wall * 1e3:7.1f} ms, {cost.cpu * 1e3:7.1f} ms of CPU "
            f"(medians of {len(values)})"
        )
    pairs = list(zip(costs["with"], costs["without"], strict=True))
    wall = median(a.wall - b.wall for a, b in pairs) * 1e3
    cpu = median(a.cpu - b.cpu for a, b in pairs) * 1e3
    print(f"difference, medians of pairs: {wall:.1f} ms, {cpu:.1f} ms of CPU")
    finish({"extra_ms": round(wall, 2), "extra_cpu_ms": round(cpu, 2)})


if __name__ == "__main__":
    main()
