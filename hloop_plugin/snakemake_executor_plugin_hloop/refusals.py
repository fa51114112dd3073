"""What Snakemake was asked for and hloop cannot give: refused before the first job.

It is imported at every start of Snakemake, so imports stand where they are needed.
"""

from __future__ import annotations

from typing import Any


def refuse_debugging(workflow: Any) -> None:
    """Refuse what needs a terminal or an editor beside the job.

    Raises:
        HloopError: Snakemake was asked for it.
    """
    from hloop.errors import HloopError, Problem

    settings = workflow.execution_settings
    options = {"--debug": settings.debug, "--edit-notebook": settings.edit_notebook}
    if given := [option for option, value in options.items() if value]:
        raise HloopError(
            Problem(
                "debugging",
                given[0],
                "hloop's jobs have no standard input and run in a session of their own",
                action="Use --executor local for this",
            )
        )


def refuse_unforced(workflow: Any) -> None:
    """Demand that Snakemake hands over every job of a run that is resumed. By itself it would
    leave out those whose files are there.

    Raises:
        HloopError: it was started without ``--forceall``.
    """
    from hloop.errors import HloopError, Problem

    if not workflow.dag_settings.forceall:
        found, action = "Snakemake itself would leave jobs out", "Add --forceall"
        raise HloopError(
            Problem("resume_unforced", "resume", found, "hloop decides what is done", action)
        )


def refuse_formal() -> None:
    """Refuse a formal run of a workflow that has no plan.

    Raises:
        HloopError: always.
    """
    from hloop.errors import HloopError, Problem

    found, expected = "this workflow has no plan", "the packaged workflow, with a plan"
    raise HloopError(Problem("formal_without_plan", "--hloop-formal", found, expected))


def refuse_limits(workflow: Any) -> None:
    """Demand that Snakemake hands over every ready job of a plan.

    A mode that waits for the plan's next job would wait for ever for one that Snakemake
    holds back.

    Raises:
        HloopError: ``--resources`` limits a resource class.
    """
    from hloop.errors import HloopError, Problem
    from hloop.plan.model import ResourceClass

    limits = workflow.global_resources
    given = [c.value for c in ResourceClass if (r := limits.get(c.value)) and r.value is not None]
    if given:
        raise HloopError(
            Problem(
                "limited_resource",
                "--resources",
                f"it limits {', '.join(given)}",
                "no limit on what a plan's jobs need: hloop gives out devices and workers",
                "Leave it out; use --hloop-devices, --hloop-cpu-workers, --hloop-io-workers",
            )
        )
