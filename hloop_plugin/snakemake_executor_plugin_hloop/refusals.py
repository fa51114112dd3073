"""What Snakemake was asked for and hloop cannot give: refused before the first job.

It is imported at every start of Snakemake, so imports stand where they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloop.run.settings import RunSettings


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
    """Demand that Snakemake hands over every job of a run that is resumed: see
    :func:`snakemake_executor_plugin_hloop.resuming.hand_over_all`.

    Raises:
        HloopError: it was asked for something else than the whole plan.
    """
    from hloop.errors import HloopError, Problem

    if not workflow.dag.rules <= workflow.dag.forcerules:
        found = "Snakemake was given targets, and would leave out jobs whose files are there"
        action = "Name no targets, or add --forceall"
        raise HloopError(
            Problem("resume_unforced", "--hloop-resume", found, "hloop decides it", action)
        )


def refuse_without_plan(settings: RunSettings) -> None:
    """Refuse what only a run of a plan can be, for a workflow that has none.

    Raises:
        HloopError: it is to be formal, or resumed.
    """
    from hloop.errors import HloopError, Problem

    found, expected = "this workflow has no plan", "the packaged workflow, with a plan"
    for name, is_set in (("formal", settings.formal), ("resume", settings.resume)):
        if is_set:
            raise HloopError(Problem(f"{name}_without_plan", f"--hloop-{name}", found, expected))


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
