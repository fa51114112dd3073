"""Resuming a plan's run: Snakemake hands over every job, and hloop decides what is done.

workflow/rules/common.smk asks when Snakemake asks it for its targets: then the executor's
settings are known, and which jobs need to run is not decided yet. It is imported at every start
of Snakemake, so nothing of hloop's is.
"""

from __future__ import annotations

from typing import Any


def is_resumed(workflow: Any) -> bool:
    """Whether the executor hloop was started with ``--hloop-resume``."""
    return bool(getattr(workflow.executor_settings, "resume", None))


def hand_over_all(workflow: Any) -> None:
    """Have Snakemake hand over every job, as ``--forceall`` does, also those that its metadata
    calls incomplete, as ``--rerun-incomplete`` does. By itself it would leave out jobs whose
    files are there, or refuse."""
    workflow.dag.forcerules.update(workflow.dag.rules)
    workflow.dag.ignore_incomplete = True
