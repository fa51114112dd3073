# What all rules share: the configuration, the plan made of it, and what a rule's body does.
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Under its own name Snakemake's parser takes it for a keyword.
from snakemake.io import report as mark
from snakemake.logging import logger

from hloop.errors import HloopError
from hloop.run.shown import shown, shown_pages
from hloop.run.workflow import define
from snakemake_executor_plugin_hloop.resuming import hand_over_all, is_resumed

# `hloop run` brings a configuration of its own.
if not {"workload", "plan"} & config.keys():

    configfile: "config/config.yaml"


if workflow.modifier.parent_modifier is not None:
    raise WorkflowError(
        "A plan's workflow cannot be a module of another: the executor would not find the "
        "plan. Run it by itself."
    )

try:
    # The executor finds the plan under this name.
    hloop_run = define(
        config,
        default_root=Path(workflow.basedir).parent,
        subprocess=workflow.subprocess_exec,
    )
except HloopError as error:
    raise WorkflowError(str(error)) from None

if workflow.is_main_process:
    for warning in hloop_run.warnings:
        logger.warning(f"hloop: {warning}")


def completion_markers(wildcards):
    """The targets. A run that is about to start demands a run directory of its own; one that is
    resumed, that Snakemake leaves it to hloop what is done."""
    starts = workflow.executor_plugin is not None and not (
        workflow.dryrun or workflow.touch
    )
    if starts and workflow.is_main_process:
        try:
            if is_resumed(workflow):
                hand_over_all(workflow)
            else:
                hloop_run.paths.check_new()
        except HloopError as error:
            raise WorkflowError(str(error)) from None
    return hloop_run.markers


def outputs_of(job, category, caption):
    """A job's outputs. Once a run has ended, those that people can read are marked for
    `snakemake --report`."""
    marked = set(shown(hloop_run.paths, job.outputs))
    labels = {"job": job.job_id}
    return [
        (
            mark(path, caption, category, None, labels | {"file": Path(path).name})
            if path in marked
            else path
        )
        for path in job.outputs
    ]


# Of an input function Snakemake does not look for the captions itself.
captions = {
    name: workflow.current_basedir.join(f"../report/{name}.rst")
    for name in ("timeline", "summary")
}


def hloop_pages(wildcards):
    """What hloop itself made of a run that has ended. A run that is resumed makes it anew."""
    if is_resumed(workflow):
        return []
    return [
        mark(path, captions[name], name, None, {"file": Path(path).name})
        for name, paths in shown_pages(hloop_run.paths).items()
        for path in paths
    ]
