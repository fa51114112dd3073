"""The benchmarks are programs and no package; their modules are found where they lie."""

from __future__ import annotations

import sys

from source_tree import ROOT

sys.path.append(str(ROOT / "benchmarks"))
