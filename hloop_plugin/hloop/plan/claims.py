"""The rules about what a job claims: its checkpoints, and its part in a formal run.

They look at one job alone, and never at the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hloop.errors import Problem
from hloop.plan.model import Formal, Job

# Method and case become names of folders.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def checkpoint_problems(job: Job, where: str) -> Iterator[Problem]:
    """Find checkpoints that cannot be told apart."""
    first: dict[str, int] = {}
    for index, output in enumerate(job.outputs):
        name = output.checkpoint
        if name is not None and first.setdefault(name, index) != index:
            yield Problem(
                code="duplicate_checkpoint",
                where=f"{where}.outputs[{index}].checkpoint",
                found=f"outputs[{first[name]}] is the checkpoint {name!r} too",
                action="Give each checkpoint of a job a name of its own",
            )


def formal_problems(job: Job, where: str) -> Iterator[Problem]:
    """Find what a formal run could not take from a job."""
    formal = job.formal
    if formal is None:
        return
    for key, name in (("method", formal.method), ("case", formal.case)):
        if not _SAFE.fullmatch(name):
            yield Problem(
                code="unsafe_formal_name",
                where=f"{where}.formal.{key}",
                found=f"the {key} {name!r} cannot be the name of a folder",
                expected="letters, digits, ., _ and -, beginning with a letter or digit",
                action="Choose another name",
            )
    if job.seed is None:
        yield Problem(
            code="formal_without_seed",
            where=f"{where}.seed",
            found="the job is formal and has no seed",
            expected="the seed that its command is given",
            action="Add seed",
        )
    if found := _config(job, formal):
        yield Problem(
            code="formal_config",
            where=f"{where}.formal.config",
            found=found,
            expected="the role of one input that has a sha256",
            action="Correct config, or add the input and its sha256",
        )


def _config(job: Job, formal: Formal) -> str:
    """Say what is wrong with the input that holds the configuration; "" where nothing is."""
    inputs = [item for item in job.inputs if item.role == formal.config]
    if not inputs:
        return f"no input has the role {formal.config!r}"
    if len(inputs) > 1:
        return f"{len(inputs)} inputs have the role {formal.config!r}"
    return "" if inputs[0].sha256 else f"the input {formal.config!r} has no sha256"
