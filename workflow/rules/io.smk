# The io jobs of the plan. The executor runs them from the plan; the body is for other executors.
for job in hloop_run.rules("io"):

    rule:
        name:
            job.name
        input:
            job.inputs,
        output:
            outputs_of(job, "selection", "../report/selection.rst"),
        log:
            job.logs,
        retries: 0
        threads: 0
        resources:
            io=1,
            runtime=job.runtime,
        params:
            hloop_job=job.job_id,
        run:
            hloop_run.run_job(params.hloop_job)
