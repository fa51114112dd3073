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
from hloop.trees import hash_tree


def missing_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Look for every input outside the run directory, without reading it.

    Returns:
        A problem for each input that is missing, or neither what the plan says, a plain file
        or a folder, nor a link to one.
    """
    problems = []
    for where, artifact in _external(rendered):
        path = artifact.path
        if not os.path.exists(path):
            problems.append(_not_there(where, artifact, "missing", f"{path} does not exist"))
        elif artifact.directory and not os.path.isdir(path):
            found = f"{path} is not a folder"
            problems.append(_not_there(where, artifact, "not_a_directory", found))
        elif not artifact.directory and not os.path.isfile(path):
            found = f"{path} is not a plain file"
            problems.append(_not_there(where, artifact, "not_a_file", found))
    return _named(problems, rendered)


def check_external_inputs(rendered: RenderedPlan) -> list[Problem]:
    """Hash every input outside the run directory, each file or folder once.

    Returns:
        A problem for each input that cannot be read, or is other than its ``sha256``. An
        input without ``sha256`` must only be there: lint refuses it.
    """
    digests: dict[tuple[str, bool], str | FileRefused] = {}
    problems = []
    for where, artifact in _external(rendered):
        path = artifact.path
        key = path, artifact.directory
        if key not in digests:
            read = hash_tree if artifact.directory else hash_file
            try:
                digests[key] = read(path, follow=True).sha256
            except FileRefused as error:
                digests[key] = error
        digest = digests[key]
        if isinstance(digest, FileRefused):
            problems.append(_not_there(where, artifact, digest.code, digest.problems[0].found))
        elif artifact.sha256 not in (None, digest):
            problems.append(
                Problem(
                    code="input_changed",
                    where=f"{where}.sha256",
                    found=f"{path} has the sha256 {digest}",
                    expected=f"{artifact.sha256}",
                    action="Restore it; or, if it is meant to be another, change its sha256",
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


def _not_there(where: str, artifact: RenderedArtifact, code: str, found: str) -> Problem:
    kind = "folder" if artifact.directory else "plain file"
    return Problem(
        code=f"input_{code}",
        where=f"{where}.path",
        found=found,
        expected=f"a {kind}, or a link to one",
        action="Put it there, or correct the path",
    )


def _named(problems: list[Problem], rendered: RenderedPlan) -> list[Problem]:
    return name_jobs(problems, [job.job_id for job in rendered.plan.jobs])
