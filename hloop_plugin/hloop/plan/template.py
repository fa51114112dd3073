"""Templates: ``{repo_root}`` and ``{run_dir}`` are filled in, and nothing else.

The rule has two halves. A text that is valid under the published rule (only these two names
in braces, any literal brace doubled) is rendered by it, as ``str.format`` would. Any other
text has only the two names replaced and keeps every other brace as it is written, so that
JSON, awk, ``python -c`` and ``${shell_variable}`` need no care.
"""

from __future__ import annotations

import os
import re

from hloop.errors import PlanError, Problem

REPO_ROOT = "repo_root"
RUN_DIR = "run_dir"

_PUBLISHED = re.compile(r"(?:[^{}]++|\{\{|\}\}|\{(?:repo_root|run_dir)\})*+")
_PUBLISHED_TOKEN = re.compile(r"\{\{|\}\}|\{(repo_root|run_dir)\}")
_NAME = re.compile(r"\{(repo_root|run_dir)\}")

# What str.format would take, and a brace that closes too late or never.
_GLUED = re.compile(r"(?<!\$)\{\s*(repo_root|run_dir)\s*(?:[!:.\[/][^{}]*\}?|$)")
_IN_BRACES = re.compile(r"(?<!\$)\{([\w .-]*)\}")


def render(text: str, repo_root: str, run_dir: str) -> str:
    """Fill in the two names.

    Raises:
        PlanError: ``text`` has a near miss of the two names.
    """
    if "{" not in text and "}" not in text:
        return text
    if problem := near_miss(text):
        raise PlanError(problem)
    return fill(text, repo_root, run_dir)


def fill(text: str, repo_root: str, run_dir: str) -> str:
    """Fill in the two names, and leave near misses as they are."""
    values = {REPO_ROOT: repo_root, RUN_DIR: run_dir}
    if _PUBLISHED.fullmatch(text):
        return _PUBLISHED_TOKEN.sub(
            lambda match: values[match[1]] if match[1] else match[0][0], text
        )
    return _NAME.sub(lambda match: values[match[1]], text)


def uses_run_dir(text: str) -> bool:
    """Say whether the rendered text depends on the run directory."""
    return fill(text, "", "") != fill(text, "", "x")


def near_miss(text: str) -> Problem | None:
    """Find a word in braces that was probably meant to be one of the two names.

    What follows a ``$`` belongs to the shell, and a text that is valid under the published
    rule has no near miss: there ``{{runs_dir}}`` is the way to write ``{runs_dir}``.
    """
    if "{" not in text or _PUBLISHED.fullmatch(text):
        return None
    if match := _GLUED.search(text):
        return _near_miss(match[0], match[1])
    for match in _IN_BRACES.finditer(text):
        if match[1] in (REPO_ROOT, RUN_DIR):
            continue
        word = re.sub(r"[\W_]", "", match[1]).lower()
        word = word.replace("directory", "dir").replace("repository", "repo")
        for name in (REPO_ROOT, RUN_DIR):
            if _one_slip_apart(word, name.replace("_", "")):
                return _near_miss(match[0], name)
    return None


def _near_miss(found: str, name: str) -> Problem:
    return Problem(
        code="template_near_miss",
        where="",
        found=f"{found} is no template",
        expected="only {repo_root} and {run_dir}, written exactly so",
        action=f"Write {{{name}}}; if the braces are meant as they stand, double every brace "
        "of this text",
    )


def _one_slip_apart(a: str, b: str) -> bool:
    """Say whether two words differ by at most one letter: more, less, another, or swapped."""
    if abs(len(a) - len(b)) > 1:
        return False
    start = len(os.path.commonprefix([a, b]))
    a, b = a[start:], b[start:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])
