# How a run begins and ends where another executor runs it. The executor hloop sees to both
# itself, also when it is killed.
import snakemake as snakemake_package

from hloop.run.report import goodbye_text


onstart:
    if workflow.executor_plugin.name != "hloop":
        hloop_run.begin(
            executor=workflow.executor_plugin.name,
            snakemake=snakemake_package.__version__,
        )


onsuccess:
    if workflow.executor_plugin.name != "hloop":
        print(f"hloop: {goodbye_text(hloop_run.end())}")


onerror:
    if workflow.executor_plugin.name != "hloop":
        print(f"hloop: {goodbye_text(hloop_run.end())}")
