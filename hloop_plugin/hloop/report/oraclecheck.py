"""What a verdict of the oracle covers: settings that are given, or the jobs of a plan.

A GREEN holds only for what it was bound to. Reads; starts and writes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.errors import HloopError, Problem
from hloop.plan.contract import format_problems
from hloop.plan.document import parse_document
from hloop.plan.render import RenderedJob, RenderedPlan
from hloop.report.load import load_report, unaltered_output
from hloop.report.oracle import Question
from hloop.report.oraclerows import Row, compare_rows, read_rows
from hloop.report.oraclespec import SEAL, OracleError, Spec, read_spec


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
    """Read a verdict, and hold it against the spec and the runs beside it.

    The frozen spec and every run must have the digests that the verdict gives, and the legs are
    compared anew.

    Raises:
        HloopError: it cannot be read, the spec was changed after it was frozen, or spec and runs
            lead to another verdict.
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
    _derive_anew(file, document, read_spec(spec_file, file.parent))
    return OracleVerdict(file, document, spec_file)


def _derive_anew(file: Path, document: Mapping[str, Any], spec: Spec) -> None:
    """Demand that the verdict is what its spec and its runs lead to."""

    def demand(holds: bool, where: str, found: str) -> None:
        if not holds:
            action = "The verdict says nothing any more; run the oracle anew"
            raise OracleError(Problem("verdict_changed", where, found, action=action), file=file)

    reports = {
        name: load_report(file.parent / run["path"]) for name, run in document["runs"].items()
    }
    rows: dict[str, list[Row]] = {}
    for name, report in reports.items():
        head = document["runs"][name]["head"]
        demand(f"sha256:{report.sha256}" == head, f"runs.{name}.head", "the run has another head")
        path = unaltered_output(report, name.partition("-")[0], "rows")
        rows[name] = [] if path is None else read_rows(path, spec.rules.identity)
    failed = False
    for index, leg in enumerate(document["legs"]):
        where, names = f"legs[{index}]", (leg["baseline"], leg["candidate"])
        if leg["verdict"] == "not_run":
            demand(failed, where, "no leg before it failed")
            continue
        demand(not failed, where, "a leg before it failed")
        asked = Question(leg["question"]).runs(leg["workers"])
        demand(names == asked and reports.keys() >= set(names), where, "its runs are others")
        found = compare_rows(rows[names[0]], rows[names[1]], spec.rules)
        failed = not found.equal
        demand(leg["verdict"] == ("FAIL" if failed else "GREEN"), where, "its rows say otherwise")
        same = json.loads(json.dumps(found.to_dict())) == leg["rows"]
        demand(same, f"{where}.rows", "the rows of its runs differ in another way")
        job = reports[names[1]].jobs.get("fast", {})
        seal = hashlib.sha256(spec.seal(leg["settings"])).hexdigest()
        sealed = [i.get("sha256") for i in job.get("inputs") or () if i.get("role") == SEAL]
        demand(sealed == [seal], f"{where}.settings", "its run was made for other settings")
    said = "FAIL" if failed else "GREEN"
    demand(document["verdict"] == said, "verdict", "its legs say otherwise")


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
    code = {os.path.realpath(path): str(path) for path in spec.code_files()}
    problems, seen = [], 0
    for job_id, job in rendered.jobs.items():
        if code.keys().isdisjoint(_paths_in(job)):
            continue
        # The programs may be written in any way, as from the folder that the job runs in.
        command = [code.get(os.path.realpath(os.path.join(job.cwd, a)), a) for a in job.argv]
        seen += 1
        if spec.settings_of("slow", command, job.cwd) is not None:
            continue
        settings = spec.settings_of("fast", command, job.cwd)
        if settings is None:
            reasons = ["its command is neither of the two paths of the spec"]
        else:
            workers = settings["workers"]
            now = spec.bound(int(workers)) if workers.isdecimal() else {}
            reasons = verdict.against({**now, **settings})
            reasons += _surroundings(spec, job)
        problems += [Problem("not_covered", f"jobs.{job_id}", reason) for reason in reasons]
    if not seen:
        problems = [Problem("not_covered", "jobs", "no job runs what the verdict is about")]
    if problems:
        raise NotCovered(problems, file=file)


def _paths_in(job: RenderedJob) -> set[str]:
    """Give all that could be a file in a job's command, also within a text for a shell."""
    words = {word for item in job.argv for word in (item, *re.split(r"[\s;&|()=\"']+", item))}
    return {os.path.realpath(os.path.join(job.cwd, word)) for word in words}


def _surroundings(spec: Spec, job: RenderedJob) -> list[str]:
    """Say what else of a job the verdict is not bound to: its variables and its Python."""
    found = [f"it sets the variable {name}, which the oracle did not" for name in job.environment]
    fast = spec.document["paths"]["fast"]
    before_seeds = fast[: fast.index("<seeds>")]
    if spec.document.get("packages") and "<python>" in before_seeds:
        python = job.argv[before_seeds.index("<python>")]
        place = os.path.join(job.cwd, python) if os.sep in python else shutil.which(python)
        if os.path.dirname(os.path.abspath(place or "")) != os.path.dirname(sys.executable):
            found.append(f"it runs {python}; versions of packages are known of {sys.executable}")
    return found
