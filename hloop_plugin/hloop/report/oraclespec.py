"""An oracle's spec: the two paths as commands, what a verdict is bound to, the rule.

Format ``hloop.oracle.v1``, described in ``schemas/oracle.schema.json`` and ``docs/oracle.md``.
Reads the files that a verdict is bound to, for their digests; starts and writes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import HloopError, Problem
from hloop.files import hash_file
from hloop.plan.contract import format_problems
from hloop.plan.document import parse_document
from hloop.plan.model import PLAN_SCHEMA
from hloop.plan.placeholder import PlaceholderFiller, Scalar, Scope, as_text
from hloop.plan.template import fill
from hloop.report.oraclerows import RowRules

OUTPUTS = {"rows": "rows.jsonl", "settings": "settings.json", "trace": "trace.jsonl"}
"""What a path may write: role and name in the run directory. It must write rows."""

SEAL = "oracle.seal"
"""The role of an input of every run; no file of a spec can have it."""

_ANY = r"[^\x00]+"
_PLACEHOLDER = re.compile(r"<([A-Za-z_][\w.]*)>")


class OracleError(HloopError):
    """A spec, verdict or path that gives no answer."""


@dataclass(frozen=True)
class Spec:
    """A spec that was read.

    Attributes:
        file: where it lies.
        sha256: 64 hex digits over its bytes.
        document: what it holds; keeps its schema.
        repo_root: what ``{repo_root}`` stands for; absolute.
    """

    file: Path
    sha256: str
    document: Mapping[str, Any]
    repo_root: Path

    @property
    def workers(self) -> list[int]:
        return list(self.document["workers"])

    @property
    def rules(self) -> RowRules:
        return RowRules(
            identity=tuple(self.document["identity"]),
            ignore=self.document["ignore"],
            tolerances=self.document.get("tolerances", {}),
        )

    def code_files(self) -> list[Path]:
        """Give the programs, absolute, sorted by their names within the code's root.

        Raises:
            OracleError: a name or pattern finds nothing.
        """
        root, found = self._code_root(), set()
        for index, pattern in enumerate(self.document["code"]["files"]):
            matches = [path for path in root.glob(pattern) if path.is_file()]
            if not matches:
                where, what = f"code.files[{index}]", f"there is no {pattern} in {root}"
                raise OracleError(Problem("missing", where, what, "a file"), file=self.file)
            found |= set(matches)
        return sorted(found, key=lambda path: path.relative_to(root).as_posix())

    def bound(self, workers: int) -> dict[str, str]:
        """Give all that a verdict at this worker count is bound to, as it is now.

        The digest of the code is that of what ``sha256sum`` prints of its files.

        Raises:
            HloopError: a file or a package is not there.
        """
        settings = {name: as_text(value) for name, value in self.document["settings"].items()}
        settings["workers"] = str(workers)
        for name, template in self.document["files"].items():
            path = self.path(template)
            settings[f"{name}_sha256"] = hash_file(path, follow=True).sha256
        root = self._code_root()
        lines = [
            f"{hash_file(path, follow=True).sha256}  {path.relative_to(root).as_posix()}\n"
            for path in self.code_files()
        ]
        settings["code_sha256"] = hashlib.sha256("".join(lines).encode()).hexdigest()
        for index, name in enumerate(self.document.get("packages", ())):
            try:
                settings[f"{name}_version"] = version(name)
            except PackageNotFoundError:
                problem = Problem("missing", f"packages[{index}]", f"{name} is not installed")
                raise OracleError(problem, file=self.file) from None
        return settings

    def path(self, template: str) -> Path:
        return self.repo_root / fill(template, str(self.repo_root), "")

    def seal(self, settings: Mapping[str, str]) -> bytes:
        """Give what a run of the oracle has as an input, so that its head covers what it is for.

        Args:
            settings: what the verdict will be bound to, as :meth:`bound` gave it.
        """
        return canonical.dumps({"spec_sha256": self.sha256, "settings": dict(settings)})

    def plan(
        self, path: str, workers: int, seconds: int, sealed: Path | None = None
    ) -> dict[str, Any]:
        """Give the plan, of one job, that runs a path: ``slow`` or ``fast``.

        Args:
            sealed: the file that holds :meth:`seal`, absolute.
        """
        command = self.command(path, workers)
        roles = [role for role in OUTPUTS if f"<outputs.{role}>" in self.document["paths"][path]]
        resource = self.document.get("resource", "gpu")
        inputs = {
            name: (template, self.path(template))
            for name, template in self.document["files"].items()
        }
        if sealed is not None:
            inputs[SEAL] = (str(sealed).replace("{", "{{").replace("}", "}}"), sealed)
        return {
            "schema_version": PLAN_SCHEMA,
            "plan_id": f"{self.document['oracle_id']}_{path}",
            "jobs": [
                {
                    "job_id": path,
                    "resource": resource,
                    **({"cuda_visible_devices": "0"} if resource == "gpu" else {}),
                    "command": command,
                    "inputs": [
                        {
                            "role": role,
                            "path": template,
                            "sha256": hash_file(path, follow=True).sha256,
                        }
                        for role, (template, path) in inputs.items()
                    ],
                    "outputs": [
                        {"role": role, "path": f"{{run_dir}}/{OUTPUTS[role]}", "compare": "none"}
                        for role in roles
                    ],
                    "budget": {"max_seconds": seconds},
                }
            ],
        }

    def _code_root(self) -> Path:
        return self.path(self.document["code"]["root"])

    def command(self, path: str, workers: int) -> list[str]:
        """Give the command of a path, with ``{repo_root}`` and ``{run_dir}`` still in it.

        Raises:
            OracleError: a placeholder is not known.
        """
        filler, scope = PlaceholderFiller(), Scope(self._values(path, workers))
        command = []
        for index, item in enumerate(self.document["paths"][path]):
            if item == "<seeds>":
                command += [str(seed) for seed in self.document["seeds"]]
            else:
                command.append(filler.text(item, scope, f"paths.{path}[{index}]"))
        if filler.problems:
            raise OracleError(filler.problems, file=self.file)
        return command

    def _values(self, path: str, workers: int) -> dict[str, Scalar]:
        document = self.document
        return {
            "python": sys.executable,
            **({"workers": workers} if path == "fast" else {}),
            **{f"settings.{name}": value for name, value in document["settings"].items()},
            **{f"files.{name}": value for name, value in document["files"].items()},
            **{f"outputs.{role}": f"{{run_dir}}/{name}" for role, name in OUTPUTS.items()},
        }

    def settings_of(self, path: str, command: list[str], cwd: str = "") -> dict[str, str] | None:
        """Say what a command runs this path with; None where it is another command.

        Seeds, outputs and the Python are free. A file counts by its digest as it is now.

        Args:
            command: with ``{repo_root}`` filled in, and with any run directory.
            cwd: where it runs, if that is not the repository root.
        """
        pattern = "".join(
            r"(?:[^\x00-][^\x00]*\x00)+" if item == "<seeds>" else rf"{self._item(item)}\x00"
            for item in self.document["paths"][path]
        )
        names = [
            name
            for item in self.document["paths"][path]
            for name in _PLACEHOLDER.findall(item)
            if name != "seeds"
        ]
        match = re.fullmatch(pattern, "".join(f"{item}\x00" for item in command))
        if match is None:
            return None
        settings: dict[str, str] = {}
        for name, value in zip(names, match.groups(), strict=True):
            kind, _, rest = name.partition(".")
            if kind == "files":
                settings[f"{rest}_sha256"] = hash_file(
                    self.repo_root / cwd / value, follow=True
                ).sha256
            elif (
                kind in ("settings", "workers")
                # What stands there twice must be the same twice.
                and settings.setdefault(rest or kind, value) != value
            ):
                return None
        return settings

    def _item(self, item: str) -> str:
        literals = _PLACEHOLDER.split(item)[::2]
        filled = [re.escape(fill(text, str(self.repo_root), "")) for text in literals]
        return f"({_ANY})".join(filled)


def read_spec(file: Path, repo_root: Path) -> Spec:
    """Read a spec and hold it against its format and rules.

    Raises:
        HloopError: all that is wrong with it.
    """
    document = parse_document(file)
    if problems := format_problems(document, "oracle"):
        raise OracleError(problems, file=file)
    if problems := list(_problems(document)):
        raise OracleError(problems, file=file)
    spec = Spec(file, hashlib.sha256(file.read_bytes()).hexdigest(), document, repo_root)
    for path in ("slow", "fast"):
        spec.command(path, 1)
    return spec


def _problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    slow, fast = document["paths"]["slow"], document["paths"]["fast"]
    for path, command in (("slow", slow), ("fast", fast)):
        for needed in ("<seeds>", "<outputs.rows>"):
            if needed not in command:
                found = f"the command has no item {needed}"
                yield Problem("placeholder_missing", f"paths.{path}", found)
        text = json.dumps(command)
        for name in document["settings"]:
            if f"<settings.{name}>" not in text:
                found = f"the command does not take <settings.{name}>"
                action = (
                    "A verdict cannot be bound to what has no effect: take it, or leave it out"
                )
                yield Problem("setting_unused", f"paths.{path}", found, action=action)
    if "<workers>" not in json.dumps(fast):
        yield Problem("placeholder_missing", "paths.fast", "the command does not take <workers>")
    taken = {"workers", "code_sha256", *(f"{name}_sha256" for name in document["files"])}
    taken |= {f"{name}_version" for name in document.get("packages", ())}
    for name in taken & document["settings"].keys():
        yield Problem("name_taken", f"settings.{name}", f"a verdict has a {name} of its own")
    if "code" in document["files"]:
        yield Problem("name_taken", "files.code", "a verdict has a code_sha256 of its own")
    for name in set(document["ignore"]) & {*document["identity"], *document.get("tolerances", {})}:
        yield Problem("ignored_twice", f"ignore.{name}", f"{name} has another part as well")
