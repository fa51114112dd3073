"""External inputs: are they there, and do they hold the bytes that the plan names?

The same is asked again when a job starts. Asked here, before a run, it costs reading every
such file once. Nothing is written.
"""

from __future__ import annotations

import os

from hloop.errors import Problem
from hloop.files import FileRefused, hash_file
from hloop.plan.lint import name_jobs
from hloop.plan.paths import Resolver, inside
from hloop.plan.render import RenderedPlan


def check_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Hash every input outside the run directory, once per file.

    Returns:
        A problem for each input that is missing, no plain file or a link to one, or other
        than its ``sha256``. An input without ``sha256`` must only be there: lint refuses it.
    """
    resolver = Resolver()
    run_dir = resolver.resolve(str(rendered.run_dir))
    digests: dict[str, str | FileRefused] = {}
    problems = []
    for index, job in enumerate(rendered.plan.jobs):
        for position, artifact in enumerate(rendered.jobs[job.job_id].inputs):
            path = artifact.path
            if inside(resolver.resolve(path), run_dir):
                continue
            if path not in digests:
                try:
                    digests[path] = hash_file(path, follow=True).sha256
                except FileRefused as error:
                    digests[path] = error
            digest, where = digests[path], f"jobs[{index}].inputs[{position}]"
            if isinstance(digest, FileRefused):
                problem = digest.problems[0]
                problems.append(
                    Problem(
                        code=f"input_{digest.code}",
                        where=f"{where}.path",
                        found=problem.found,
                        expected=problem.expected,
                        action="Put the file there, or correct the path",
                    )
                )
            elif artifact.sha256 not in (None, digest):
                problems.append(
                    Problem(
                        code="input_changed",
                        where=f"{where}.sha256",
                        found=f"{path} has the sha256 {digest}",
                        expected=f"{artifact.sha256}",
                        action="Restore the file; or, if it is meant to be another, "
                        "change its sha256",
                    )
                )
    return name_jobs(problems, [job.job_id for job in rendered.plan.jobs])


def missing_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Find inputs that no job makes and that are not there. Reads no file."""
    made = {output.path for job in rendered.jobs.values() for output in job.outputs}
    problems = []
    for index, job in enumerate(rendered.plan.jobs):
        for position, artifact in enumerate(rendered.jobs[job.job_id].inputs):
            if artifact.path not in made and not os.path.exists(artifact.path):
                problems.append(
                    Problem(
                        code="input_missing",
                        where=f"jobs[{index}].inputs[{position}].path",
                        found=f"{artifact.path} does not exist",
                        expected="a file",
                        action="Put the file there, or correct the path",
                    )
                )
    return name_jobs(problems, [job.job_id for job in rendered.plan.jobs])
