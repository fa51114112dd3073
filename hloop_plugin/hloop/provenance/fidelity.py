"""The author-fidelity manifest: what is claimed of the methods of a formal run.

It is written by people, so it may have any formatting, but no value may be empty or stand in
for one that is not known. Here it is read, and what it claims of files is held against them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.canonical import no_duplicates
from hloop.errors import HloopError, Problem
from hloop.files import FileDigest, FileRefused, hash_file
from hloop.plan.contract import format_problems
from hloop.plan.document import child

STAND_INS = frozenset({"unknown", "missing", "n/a", "none", "null"})
"""What stands where a value is not known; compared without case and blanks around it."""

TO_DO = frozenset({"todo", "tbd", "fixme", "xxx"})
"""The same where it is the first word, whatever follows; compared without full stops, too."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A file that the manifest names.

    Attributes:
        where: dotted path of its entry in the manifest.
        name: its case (configuration), its role (checkpoint) or the gate that it shows.
        path: relative, as it stands there.
        sha256: 64 hex digits.
    """

    where: str
    name: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Method:
    """What the manifest says of one method.

    Attributes:
        configs: one for each case, relative to the top of the source tree.
        checkpoints: those it is given, relative to the manifest's folder.
        checkpoint_roles: those that its training makes.
    """

    name: str
    configs: tuple[Claim, ...]
    checkpoints: tuple[Claim, ...]
    checkpoint_roles: tuple[str, ...]

    def config(self, case: str) -> Claim | None:
        return next((claim for claim in self.configs if claim.name == case), None)


@dataclass(frozen=True, slots=True)
class Fidelity:
    """An author-fidelity manifest that keeps its format.

    Attributes:
        commit: the authors' own commit.
        required_gates: name to whether it was passed.
        evidence: the files that show it, relative to the manifest's folder.
    """

    protocol: str
    fidelity_class: str
    commit: str
    methods: tuple[Method, ...]
    required_gates: dict[str, bool]
    evidence: tuple[Claim, ...]

    def method(self, name: str) -> Method | None:
        return next((method for method in self.methods if method.name == name), None)


def read_fidelity(data: bytes, file: object) -> tuple[Fidelity | None, list[Problem]]:
    """Read a manifest from its bytes. Gives None beside the reasons why it cannot be used.

    Raises:
        HloopError: the bytes are no JSON, or have a key twice.
    """
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=no_duplicates)
    except (ValueError, RecursionError) as error:
        problem = Problem("not_json", "", f"it is not JSON in UTF-8: {error}", "one JSON document")
        raise HloopError(problem, file=file) from None
    problems = list(_stand_ins(document, ""))
    known = {problem.where for problem in problems}
    problems += [
        problem
        for problem in format_problems(document, "author-fidelity")
        if problem.where not in known
    ]
    if problems:
        return None, problems
    fidelity = _fidelity(document)
    problems += _twice("methods", "method", [method.name for method in fidelity.methods])
    for index, method in enumerate(fidelity.methods):
        at = f"methods[{index}]"
        problems += _twice(f"{at}.configs", "case", [claim.name for claim in method.configs])
        roles = [claim.name for claim in method.checkpoints]
        problems += _twice(f"{at}.checkpoints", "role", roles)
    names = [gate["name"] for gate in document["required_gates"]]
    problems += _twice("required_gates", "name", names)
    return fidelity, problems


def _stand_ins(value: Any, where: str) -> Iterator[Problem]:
    """Find every value that is empty or stands in for one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _stand_ins(item, child(where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _stand_ins(item, child(where, index))
    if value in (None, [], {}) or (isinstance(value, str) and _stands_in(value)):
        found = f"{json.dumps(value)} stands here"
        yield Problem("no_value", where, found, "a value", "Find it out and write it down")


def _stands_in(text: str) -> bool:
    text = text.strip().casefold()
    first = re.split(r"[\s:,;]", text, maxsplit=1)[0].replace(".", "").strip("<>[]()")
    return text in STAND_INS or first in TO_DO or not any(map(str.isalnum, text))


def _twice(where: str, key: str, names: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Problem(
                "listed_twice",
                f"{where}[{index}].{key}",
                f"{name!r} stands twice",
                "each once",
                "Leave one of the two out",
            )


def _fidelity(document: Any) -> Fidelity:
    gates = document["required_gates"]
    return Fidelity(
        protocol=document["protocol"],
        fidelity_class=document["fidelity_class"],
        commit=document["source"]["commit"],
        methods=tuple(
            Method(
                name=entry["method"],
                configs=_claims(entry["configs"], f"methods[{index}].configs", "case"),
                checkpoints=_claims(
                    entry.get("checkpoints", ()), f"methods[{index}].checkpoints", "role"
                ),
                checkpoint_roles=tuple(entry["checkpoint_roles"]),
            )
            for index, entry in enumerate(document["methods"])
        ),
        required_gates={gate["name"]: gate["passed"] for gate in gates},
        evidence=tuple(
            Claim(f"required_gates[{index}].evidence[{place}]", gate["name"], **item)
            for index, gate in enumerate(gates)
            for place, item in enumerate(gate["evidence"])
        ),
    )


def _claims(entries: Sequence[Any], where: str, key: str) -> tuple[Claim, ...]:
    return tuple(
        Claim(f"{where}[{index}]", entry[key], entry["path"], entry["sha256"])
        for index, entry in enumerate(entries)
    )


def gate_problems(fidelity: Fidelity) -> list[Problem]:
    """Give every required gate that was not passed."""
    return [
        Problem(
            "gate_not_passed",
            f"required_gates[{index}].passed",
            f"the required gate {name!r} was not passed",
            "true",
            "Mend what it found, and ask it again",
        )
        for index, (name, passed) in enumerate(fidelity.required_gates.items())
        if not passed
    ]


def claim_problems(what: str, claims: Sequence[Claim], folder: Path) -> list[Problem]:
    """Hash what the manifest names, and give every file that is not as it says.

    Args:
        what: ``config``, ``checkpoint`` or ``evidence``; begins the problems' codes.
        folder: what the paths are relative to. No symbolic link below it is followed.
    """
    problems = []
    for claim in claims:
        result = hash_below(folder, claim.path)
        if isinstance(result, Problem):
            code, found, expected = f"{what}_{result.code}", result.found, result.expected
        elif result.sha256 != claim.sha256:
            code, expected = f"{what}_changed", claim.sha256
            found = f"{folder / claim.path} has the sha256 {result.sha256}"
        else:
            continue
        action = "Put back the file that was looked at, or look at this one and claim it"
        problems.append(Problem(code, claim.where, found, expected, action))
    return problems


def hash_below(folder: Path, path: str) -> FileDigest | Problem:
    """Hash a plain file below a folder, without following a symbolic link on the way."""
    step = folder
    for part in Path(path).parts[:-1]:
        step /= part
        if step.is_symlink():
            return Problem("not_a_file", "", f"{step} is a symbolic link", "a folder")
    try:
        return hash_file(folder / path)
    except FileRefused as error:
        return error.problems[0]
