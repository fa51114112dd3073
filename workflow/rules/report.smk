# How a run begins and ends where another executor runs it. The executor hloop sees to both
# itself, also when it is killed.
import snakemake as snakemake_package

from snakemake_executor_plugin_hloop.goodbye import say_goodbye


onstart:
    if workflow.executor_plugin.name != "hloop":
        hloop_run.begin(
            executor=workflow.executor_plugin.name,
            snakemake=snakemake_package.__version__,
        )


onsuccess:
    if workflow.executor_plugin.name != "hloop":
        say_goodbye(hloop_run.end(), print, claimed=True)


onerror:
    if workflow.executor_plugin.name != "hloop":
        say_goodbye(hloop_run.end(), print, claimed=True)
