"""Flag contracts: does a program offer the flags that a stage's commands give it?

A stage declares how its flags are known: from a help text, from a list, or not at all. All that
is wrong is told before a plan is written, so that no sweep goes out with a flag that its program
refuses. The help is run by :mod:`hloop.plan.helprun`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hloop.errors import Problem
from hloop.plan.helprun import HelpFailed, help_text
from hloop.plan.helptext import Flag, flags_of, names_subcommand
from hloop.plan.model import Job

_FLAG = re.compile(r"--?[A-Za-z?@][^=\s]*")
_HELP_WORDS = ("--help", "-h", "-help", "-?", "help", "--help-all", "--helpfull", "--usage")

Fill = Callable[[Any, str], str]
"""Fills in the placeholders of a text that stands at a dotted path."""


def contract_problems(
    stages: Mapping[str, Mapping[str, Any]],
    jobs: Mapping[str, Sequence[Job]],
    axes: Iterable[str],
    *,
    fill: Fill,
    repo_root: Path,
) -> list[Problem]:
    """Hold the commands of all stages against their contracts.

    Args:
        stages: the stages of a workload, by name.
        jobs: the jobs that each gave.
        axes: the names of the axes.
        repo_root: the folder that a help command runs in.
    """
    problems: dict[tuple[str, str], Problem] = {}
    for name, stage in stages.items():
        if "contract" not in stage:
            continue
        for problem in _of_stage(name, stage, jobs.get(name, ()), list(axes), fill, repo_root):
            # Many jobs give the same flag.
            problems.setdefault((problem.where, problem.found), problem)
    return list(problems.values())


def _of_stage(
    name: str,
    stage: Mapping[str, Any],
    jobs: Sequence[Job],
    axes: Sequence[str],
    fill: Fill,
    repo_root: Path,
) -> Iterator[Problem]:
    where, contract = f"stages.{name}.contract", stage["contract"]
    if len(contract) != 1:
        found = f"stage {name!r} declares {' and '.join(contract) or 'nothing'}"
        yield Problem("bad_contract", where, found, "one of help, flags and none")
        return
    if "none" in contract:
        return
    program: tuple[str, ...] = ()
    text = ""
    if "flags" in contract:
        flags = [_declared(entry) for entry in contract["flags"]]
    else:
        argv = tuple(
            fill(item, f"{where}.help[{index}]").replace("{repo_root}", str(repo_root))
            for index, item in enumerate(contract["help"])
        )
        program = tuple(item for item in argv if item not in _HELP_WORDS)
        try:
            text = help_text(argv, repo_root)
            flags = flags_of(text)
            last = text.strip().splitlines()[-1].strip()
            reason = "" if flags else f"shows no flags that hloop can read; it ends with {last!r}"
        except HelpFailed as error:
            reason = str(error)
        if reason:
            found = f"stage {name!r}: the help command {' '.join(argv)!r} {reason}"
            action = "Correct it, or declare the flags: contract: {flags: [...]}"
            yield Problem("help_failed", f"{where}.help", found, action=action)
            return
    for job in jobs:
        command = [item.replace("{repo_root}", str(repo_root)) for item in job.command]
        # A profiler stands before it, with flags of its own.
        command = command[len(stage.get("profile", {}).get("command", ())) :]
        folder = repo_root / job.cwd.replace("{repo_root}", str(repo_root))
        start = _start(command, program, repo_root, folder)
        if start is None:
            found = (
                f"stage {name!r}: the help is of {program[-1]}, which the command does not name"
            )
            yield Problem("help_of_another", f"{where}.help", found)
            return
        for problem in _of_command(name, command[start:], flags):
            if problem.code == "flag_not_offered" and (sub := _subcommand(text, command[start:])):
                action = f"If {sub} is a sub-command, read its help: [..., {sub}, --help]"
                problem = replace(problem, action=action)
            yield problem
    yield from _collisions(name, stage, flags, axes)


def _declared(entry: Any) -> Flag:
    if isinstance(entry, str):
        return Flag((entry,))
    choices = entry.get("choices")
    return Flag(
        (entry["flag"],),
        choices=None if choices is None else tuple(map(str, choices)),
        required=entry.get("required", False),
    )


def _start(
    command: Sequence[str], program: Sequence[str], repo_root: Path, folder: Path
) -> int | None:
    """Give where the program's own arguments begin; None where it is not in the command.

    Args:
        folder: the one that the command runs in; its help is run in ``repo_root``.
    """
    if program:
        # What launches the program, with flags of its own, may stand before it.
        last = repo_root / program[-1]
        places = [i for i, item in enumerate(command) if last in (repo_root / item, folder / item)]
        return places[0] + 1 if places else None
    index = 1
    if re.fullmatch(r"python[\d.]*", Path(command[0]).name):
        while index < len(command) and command[index].startswith("-"):
            if command[index] in ("-m", "-c"):
                return index + 2
            index += 2 if command[index] in ("-W", "-X") else 1
        index += 1
    return index


def _subcommand(text: str, arguments: Sequence[str]) -> str | None:
    """Give the first argument where the help that was read could name it as a sub-command."""
    word = next((item for item in arguments if not _FLAG.match(item)), None)
    return word if word is not None and names_subcommand(text, word) else None


def _of_command(stage: str, arguments: Sequence[str], flags: Sequence[Flag]) -> Iterator[Problem]:
    where = f"stages.{stage}.command"
    by_name = {name: flag for flag in flags for name in flag.names}
    given: set[str] = set()
    skip = False
    for index, item in enumerate(arguments):
        if item == "--":
            break
        if skip or not _FLAG.match(item):
            skip = False
            continue
        written, equals, value = item.partition("=")
        flag = by_name.get(written) or _short(written, by_name)
        if flag is None:
            yield _not_offered(stage, written, by_name)
            continue
        given |= set(flag.names)
        if not equals:
            skip = flag.takes_value is True
            value = arguments[index + 1] if index + 1 < len(arguments) else ""
        if flag.choices is not None and written in by_name and value not in flag.choices:
            close = difflib.get_close_matches(value, flag.choices, 1)
            yield Problem(
                "value_not_offered",
                where,
                f"stage {stage!r} gives {written} the value {value!r}",
                f"one of {', '.join(flag.choices)}",
                f"Did you mean {close[0]!r}?" if close else "",
            )
    for flag in flags:
        if flag.required and not given.intersection(flag.names):
            name = max(flag.names, key=len)
            found = f"stage {stage!r} does not give {name}, which its program requires"
            yield Problem("flag_missing", where, found, action=f"Add {name} to the command")
    for group in dict.fromkeys(flag.group for flag in flags if flag.group is not None):
        members = [flag for flag in flags if flag.group == group]
        used = [flag for flag in members if given.intersection(flag.names)]
        listed = ", ".join(group.names)
        if group.required and not used:
            found = f"stage {stage!r} gives none of {listed}, of which its program requires one"
            yield Problem("flag_missing", where, found, action="Add one of them to the command")
        elif group.exclusive and len(used) > 1:
            both = " and ".join(max(flag.names, key=len) for flag in used)
            found = f"stage {stage!r} gives {both}, of which its program takes one"
            yield Problem("flags_exclude", where, found, f"one of {listed}", "Leave one out")


def _short(written: str, by_name: Mapping[str, Flag]) -> Flag | None:
    """Read ``-n5`` and ``-xvf``: a short flag with its value, or several in one."""
    return None if written.startswith("--") else by_name.get(written[:2])


def _not_offered(stage: str, written: str, by_name: Mapping[str, Flag]) -> Problem:
    found = f"stage {stage!r} gives {written}, which its program does not offer"
    # A flag whose name only got longer or shorter is nearer than one that looks alike.
    part = written.lstrip("-")
    alike = [name for name in by_name if len(part) > 2 and part in name]
    close = alike[:1] or difflib.get_close_matches(written, by_name, 1, cutoff=0.5)
    action = f"Did you mean {close[0]}?" if close else f"It offers: {', '.join(by_name)}"
    return Problem("flag_not_offered", f"stages.{stage}.command", found, action=action)


def _collisions(
    stage: str, entry: Mapping[str, Any], flags: Sequence[Flag], axes: Sequence[str]
) -> Iterator[Problem]:
    """Find a flag that is given two axes, of which the program keeps one."""
    first = {name: flag.names[0] for flag in flags for name in flag.names}
    told: dict[str, str] = {}
    command = [str(item) for item in entry["command"]]
    for item, following in zip(command, [*command[1:], ""], strict=True):
        written, equals, value = item.partition("=")
        match = re.fullmatch(r"<(\w+)(\.\w+)?>", value if equals else following)
        if written not in first or match is None or match[1] not in axes:
            continue
        other = told.setdefault(first[written], match[1])
        if other != match[1]:
            found = f"stage {stage!r} gives {written} both <{other}> and <{match[1]}>"
            action = "Give each axis a flag of its own"
            yield Problem("axis_collides", f"stages.{stage}.command", found, action=action)
