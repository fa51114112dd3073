"""What the installed plugin costs every start of Snakemake: with it and without it, in turns."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from measuring import finish, run

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
    walls: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repetitions):
            for name, code in (("with", START), ("without", HIDE + START)):
                walls[name].append(run([sys.executable, "-c", code], Path(folder)).wall)
    pairs = zip(walls["with"], walls["without"], strict=True)
    extra = median(a - b for a, b in pairs) * 1e3
    for name, values in walls.items():
        print(f"{name:<8} the plugin: {median(values) * 1e3:7.1f} ms (median of {len(values)})")
    print(f"difference, median of pairs: {extra:.1f} ms")
    finish({"extra_ms": round(extra, 2)})


if __name__ == "__main__":
    main()
