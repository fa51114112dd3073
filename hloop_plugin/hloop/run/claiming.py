"""A run directory is claimed once, by publishing the plan in it; later the plan is read back.

The process that claims it, Snakemake's, need not import what a supervisor needs: nothing here
knows how a plan is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hloop import files
from hloop.errors import Problem, RunDirectoryError
from hloop.files import RunPaths
from hloop.plan.load import plan_from_checked_document
from hloop.plan.render import RenderedPlan, render_plan
from hloop.provenance.gatefolder import publish_gate
from hloop.run.runlock import check_new


def claim(rendered: RenderedPlan, formal: Mapping[str, bytes] | None = None) -> RunPaths:
    """Make the run directory this run's own, by publishing the plan in it.

    Args:
        formal: of a formal run, the gate with all that it builds on, as
            :func:`hloop.run.approval.check_formal` gives it.

    Raises:
        HloopError: it holds something already, or cannot be written to.
    """
    paths = RunPaths(rendered.run_dir)
    check_new(paths)
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        files.publish(paths.plan, rendered.plan.to_bytes())
    except FileExistsError:
        check_new(paths)  # Another run was faster: it says so.
        raise
    except OSError as error:
        problem = Problem(
            "run_dir_unwritable",
            "",
            f"the run directory {paths.root} cannot be written to: {error.strerror}",
            action="Choose another run directory",
        )
        raise RunDirectoryError(problem) from None
    publish_gate(formal or {}, paths.formal.root)
    return paths


def load_claimed(run_dir: Path, repo_root: Path) -> RenderedPlan:
    """Read back the plan of a claimed run directory."""
    document = json.loads(RunPaths(run_dir).plan.read_bytes())
    return render_plan(plan_from_checked_document(document), repo_root, run_dir)
