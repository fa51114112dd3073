"""What a verdict of the oracle covers: settings that are given, or the jobs of a plan.

A GREEN holds only for what it was bound to. Reads; starts and writes nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import HloopError, Problem
from hloop.plan.contract import format_problems
from hloop.plan.document import parse_document
from hloop.plan.render import RenderedPlan
from hloop.report.oracle import Question
from hloop.report.oraclespec import OracleError, read_spec


class NotCovered(HloopError):
    """A run that a verdict does not cover."""


@dataclass(frozen=True)
class OracleVerdict:
    """A verdict that was read, with its frozen spec as it was.

    Attributes:
        spec_file: the frozen spec beside it; its digest was checked.
    """

    file: Path
    document: Mapping[str, Any]
    spec_file: Path

    def against(self, settings: Mapping[str, str]) -> list[str]:
        """Say why these settings are not covered; nothing where they are.

        Settings that the verdict is not bound to decide nothing.
        """
        if self.document["verdict"] != "GREEN":
            return [f"the verdict is FAIL; the spec says: {self.document['on_fail']}"]
        legs = [leg for leg in self.document["legs"] if leg["question"] == Question.EQUALITY]
        if not legs:
            return ["the verdict does not say that the fast path is equal to the slow one"]
        asked = settings.get("workers")
        for leg in legs:
            if str(leg["workers"]) == asked:
                return [
                    f"{name} is {settings.get(name, 'not given')}; the verdict is bound to {value}"
                    for name, value in leg["settings"].items()
                    if settings.get(name) != value
                ]
        known = ", ".join(str(leg["workers"]) for leg in legs)
        return [f"workers is {asked or 'not given'}; the verdict is bound to {known}"]


def read_verdict(file: Path) -> OracleVerdict:
    """Read a verdict, and hold its frozen spec against the digest in it.

    Raises:
        OracleError: it cannot be read, or the spec was changed after it was frozen.
    """
    document = parse_document(file)
    if problems := format_problems(document, "oracle-verdict"):
        raise OracleError(problems, file=file)
    spec_file = file.parent / document["spec"]["path"]
    try:
        found = hashlib.sha256(spec_file.read_bytes()).hexdigest()
    except OSError as error:
        problem = Problem("unreadable", "spec", f"cannot be read: {error.strerror}")
        raise OracleError(problem, file=spec_file) from None
    if found != (frozen := document["spec"]["sha256"]):
        what = f"the spec was changed after it was frozen: its sha256 is {found}"
        action = "The verdict says nothing any more; run the oracle anew"
        raise OracleError(Problem("spec_changed", "", what, frozen, action), file=spec_file)
    return OracleVerdict(file, document, spec_file)


def require_verdict(file: Path, rendered: RenderedPlan) -> None:
    """Demand that a verdict covers every job of a plan that runs the programs it is about.

    A job may run the slow path, which needs no verdict, or the fast one as the verdict has it.
    Files, code and packages count as they are now.

    Raises:
        NotCovered: it does not, or the plan has no such job.
        OracleError: the verdict gives no answer.
    """
    verdict = read_verdict(file)
    spec = read_spec(verdict.spec_file, Path(rendered.repo_root))
    code = {str(path) for path in spec.code_files()}
    problems, seen = [], 0
    for job_id, job in rendered.jobs.items():
        command = list(job.argv)
        if not code.intersection(os.path.normpath(os.path.join(job.cwd, a)) for a in command):
            continue
        seen += 1
        if spec.settings_of("slow", command) is not None:
            continue
        settings = spec.settings_of("fast", command)
        if settings is None:
            reasons = ["its command is neither of the two paths of the spec"]
        else:
            workers = settings["workers"]
            now = spec.bound(int(workers)) if workers.isdecimal() else {}
            reasons = verdict.against({**now, **settings})
        problems += [Problem("not_covered", f"jobs.{job_id}", reason) for reason in reasons]
    if not seen:
        problems = [Problem("not_covered", "jobs", "no job runs what the verdict is about")]
    if problems:
        raise NotCovered(problems, file=file)
