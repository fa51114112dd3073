"""External inputs: are they there, and do they hold the bytes that the plan names?

The same is asked again when a job starts. Asked here, before a run, it tells everything at
once. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from hloop.errors import Problem
from hloop.files import FileRefused, hash_file
from hloop.plan.lint import name_jobs
from hloop.plan.paths import Resolver, inside
from hloop.plan.render import RenderedArtifact, RenderedPlan


def missing_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Look for every input outside the run directory, without reading it.

    Returns:
        A problem for each input that is missing, or neither a plain file nor a link to one.
    """
    problems = []
    for where, artifact in _external(rendered):
        path = artifact.path
        if not os.path.exists(path):
            problems.append(_not_there(where, "missing", f"{path} does not exist"))
        elif not os.path.isfile(path):
            problems.append(_not_there(where, "not_a_file", f"{path} is not a plain file"))
    return _named(problems, rendered)


def check_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Hash every input outside the run directory, once per file.

    Returns:
        A problem for each input that cannot be read, or is other than its ``sha256``. An
        input without ``sha256`` must only be there: lint refuses it.
    """
    digests: dict[str, str | FileRefused] = {}
    problems = []
    for where, artifact in _external(rendered):
        path = artifact.path
        if path not in digests:
            try:
                digests[path] = hash_file(path, follow=True).sha256
            except FileRefused as error:
                digests[path] = error
        digest = digests[path]
        if isinstance(digest, FileRefused):
            problems.append(_not_there(where, digest.code, digest.problems[0].found))
        elif artifact.sha256 not in (None, digest):
            problems.append(
                Problem(
                    code="input_changed",
                    where=f"{where}.sha256",
                    found=f"{path} has the sha256 {digest}",
                    expected=f"{artifact.sha256}",
                    action="Restore the file; or, if it is meant to be another, change its sha256",
                )
            )
    return _named(problems, rendered)


def _external(rendered: RenderedPlan) -> Iterator[tuple[str, RenderedArtifact]]:
    """Give every input that no job makes, with its dotted path."""
    resolver = Resolver()
    run_dir = resolver.resolve(str(rendered.run_dir))
    for index, job in enumerate(rendered.plan.jobs):
        for position, artifact in enumerate(rendered.jobs[job.job_id].inputs):
            if not inside(resolver.resolve(artifact.path), run_dir):
                yield f"jobs[{index}].inputs[{position}]", artifact


def _not_there(where: str, code: str, found: str) -> Problem:
    return Problem(
        code=f"input_{code}",
        where=f"{where}.path",
        found=found,
        expected="a plain file, or a link to one",
        action="Put the file there, or correct the path",
    )


def _named(problems: list[Problem], rendered: RenderedPlan) -> list[Problem]:
    return name_jobs(problems, [job.job_id for job in rendered.plan.jobs])
