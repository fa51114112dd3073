# How a run begins and ends where another executor runs it. The executor hloop sees to both
# itself, also when it is killed.
import snakemake as snakemake_package


onstart:
    if workflow.executor_plugin.name != "hloop":
        hloop_run.begin(
            executor=workflow.executor_plugin.name,
            snakemake=snakemake_package.__version__,
        )


onsuccess:
    if workflow.executor_plugin.name != "hloop":
        print("hloop: run {status}. Report: {report}".format_map(hloop_run.end()))


onerror:
    if workflow.executor_plugin.name != "hloop":
        print("hloop: run {status}. Report: {report}".format_map(hloop_run.end()))
