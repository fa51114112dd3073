"""Profiles: a stage's command runs under the profiler that the stage declares.

Only where it is asked for, and where the profiler and the credentials that it needs are there:
else the stage runs without, and a sentence says so. Nothing is started here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop.errors import Problem

ROLE = "profile"
"""The role of the output that holds the profile."""


def profile_problems(document: Mapping[str, Any]) -> list[Problem]:
    """Give what keeps a workload from being profiled, before any machine is looked at."""
    stages: Mapping[str, Mapping[str, Any]] = document["stages"]
    declaring = [name for name, stage in stages.items() if "profile" in stage]
    if not declaring:
        found, action = "no stage declares a profiler", "Add profile to one, or leave it out"
        return [Problem("profile_undeclared", "--profile", found, action=action)]
    found = f"an output has the role {ROLE!r}, which is the profile's"
    return [
        Problem("name_taken", f"stages.{name}.outputs.{ROLE}", found, action="Rename it")
        for name in declaring
        if ROLE in stages[name].get("outputs", {})
    ]


def with_profiles(
    document: Mapping[str, Any], environ: Mapping[str, str], repo_root: Path, *, wanted: bool
) -> tuple[dict[str, Any], list[str]]:
    """Wrap the commands of the stages that declare a profiler.

    Args:
        repo_root: what a profiler that is written with a folder is relative to.

    Returns:
        the workload, in which only stages that are profiled still have ``profile``; and a
        sentence for each stage that runs without although its profile is wanted.
    """
    stages: dict[str, Any] = {}
    warnings = []
    for name, stage in document["stages"].items():
        profile = stage.get("profile")
        stages[name] = {key: value for key, value in stage.items() if key != "profile"}
        if profile is None or not wanted:
            continue
        if missing := _missing(profile, environ, repo_root):
            warnings.append(f"stage {name!r} runs without its profile: {missing}")
            continue
        stages[name] = {
            **stage,
            "outputs": {
                **stage.get("outputs", {}),
                ROLE: {"path": profile["output"], "compare": "none"},
            },
            "command": [*profile["command"], *stage["command"]],
        }
    return {**document, "stages": stages}, warnings


def _missing(profile: Mapping[str, Any], environ: Mapping[str, str], repo_root: Path) -> str:
    program = str(profile["command"][0]).replace("{repo_root}", str(repo_root))
    place = str(repo_root / program) if "/" in program else program
    # What a placeholder stands for is not known yet; `<python>` is there.
    if "<" not in program and shutil.which(place, path=environ.get("PATH")) is None:
        return f"there is no program {program!r}"
    absent = [name for name in profile.get("credentials", ()) if not environ.get(name)]
    return f"the environment has no {', '.join(absent)}" if absent else ""
