"""The rules about what a budget watches: ``watch`` and ``fail_on``.

Here is also what the two mean to a run: patterns of paths below the run directory, and
compiled regular expressions. Nothing here looks at the disk.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace

from hloop.errors import Problem
from hloop.files import OWN_NAMES
from hloop.plan.model import Job
from hloop.plan.template import fill, near_miss

MAX_PATTERN = 1000
"""The longest regular expression that a plan may hold, in characters."""

# Stand for the two names, where only it matters whether they are there: no path has a NUL.
_ROOT, _RUN = "\0root", "\0run"


def watch_parts(template: str) -> tuple[str, ...]:
    """Give a pattern of ``budget.watch`` as components below the run directory.

    Raises:
        ValueError: it leads elsewhere; says how.
    """
    text = fill(template, _ROOT, _RUN)
    if text.startswith(f"{_RUN}/"):
        text = text[len(_RUN) + 1 :]
    if "\0" in text or text.startswith("/"):
        raise ValueError("it does not lead below the run directory")
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if not parts:
        raise ValueError("it names no file")
    if ".." in parts:
        raise ValueError("it holds ..")
    if parts[0] in OWN_NAMES:
        raise ValueError(f"{parts[0]} in the run directory is hloop's own")
    # Everything below, as the files in it.
    return (*parts, "*") if parts[-1] == "**" else parts


def compile_fail_on(text: str) -> re.Pattern[str]:
    """Compile a pattern of ``budget.fail_on``.

    Raises:
        ValueError: it is none; says why.
    """
    if len(text) > MAX_PATTERN:
        raise ValueError(f"it has more than {MAX_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            # Of what a later Python may read otherwise.
            warnings.simplefilter("ignore")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"it is no regular expression: {error}") from None


def watch_problems(job: Job, where: str) -> Iterator[Problem]:
    """Find patterns of files that cannot be watched."""
    for index, template in enumerate(job.texts("watch")):
        at = f"{where}.budget.watch[{index}]"
        if problem := near_miss(template):
            yield replace(problem, where=at)
            continue
        try:
            watch_parts(template)
        except ValueError as error:
            yield Problem(
                code="bad_watch",
                where=at,
                found=f"the pattern {template!r}: {error}",
                expected="a pattern of files in the run directory, beside hloop's own names",
                action="Write it relative to the run directory, e.g. tb/**/events.*",
            )


def fail_on_problems(job: Job, where: str) -> Iterator[Problem]:
    """Find patterns of output that mean nothing, or everything."""
    for index, text in enumerate(job.texts("fail_on")):
        at = f"{where}.budget.fail_on[{index}]"
        try:
            matches_nothing = compile_fail_on(text).search("") is not None
        except ValueError as error:
            yield Problem(
                code="bad_fail_on",
                where=at,
                found=f"the pattern {text!r}: {error}",
                expected="a regular expression of Python's re",
                action="Correct it; put a backslash before what is meant as it stands",
            )
            continue
        if matches_nothing:
            yield Problem(
                code="fail_on_everything",
                where=at,
                found=f"the pattern {text!r} matches an empty line",
                expected="a pattern that needs something to match",
                action=r"Name what must be there, e.g. \bnan\b",
            )
