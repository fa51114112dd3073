"""The oracle: may the fast path's rows stand for those of the slow one?

Runs both paths through ``hloop run``, leg by leg, compares their rows, and writes a verdict.
The spec is frozen into the oracle's folder before anything runs, and only that copy is read.
"""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from hloop import files
from hloop.errors import Problem
from hloop.files import RunPaths
from hloop.plan.load import load_checked
from hloop.plan.placeholder import as_text
from hloop.report.oraclerows import Row, RowsComparison, compare_rows, read_rows
from hloop.report.oraclespec import OUTPUTS, OracleError, Spec, read_spec
from hloop.run.execution import check_may_begin, execute

VERDICT_SCHEMA = "hloop.oracle-verdict.v1"
SPEC_NAME = "spec.yaml"
VERDICT_NAME = "verdict.json"

Tell = Callable[[str], None]


class Question(StrEnum):
    """What a leg asks."""

    EQUALITY = "equality"
    """Is the fast path equal to the slow one?"""
    REPRODUCIBILITY = "reproducibility"
    """Is the fast path equal to itself, run again?"""

    def runs(self, workers: int) -> tuple[str, str]:
        """Give the names of the run that is held to be right, and of the one held against it."""
        fast = f"fast-{workers}"
        return ("slow", fast) if self is Question.EQUALITY else (fast, f"{fast}-again")


@dataclass(frozen=True)
class PathRun:
    """A run of one path that completed.

    Attributes:
        name: its run directory, in the oracle's folder.
        seconds: how long its job took.
    """

    name: str
    head: str
    seconds: float
    rows: list[Row]


def run_oracle(
    spec_file: Path,
    root: Path,
    repo_root: Path,
    *,
    questions: Sequence[Question] = (Question.EQUALITY,),
    devices: str = "auto",
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Run an oracle and write its verdict.

    Args:
        root: the oracle's folder, new or empty; absolute.
        devices: as in ``hloop run``.
        tell: is given one line for each run and leg.

    Returns:
        The verdict, schema ``hloop.oracle-verdict.v1``, as it is in ``root/verdict.json``.

    Raises:
        HloopError: there is no answer, and no verdict: the spec is not right, a path failed or
            the budget was used up, or what the verdict is bound to changed meanwhile.
    """
    _check_may_begin(read_spec(spec_file, repo_root), root, devices)
    root.mkdir(parents=True, exist_ok=True)
    files.publish(root / SPEC_NAME, spec_file.read_bytes())
    spec = read_spec(root / SPEC_NAME, repo_root)
    tell(f"spec frozen: sha256 {spec.sha256}")
    bound = {workers: spec.bound(workers) for workers in spec.workers}
    for workers, settings in bound.items():
        files.publish(root / _seal_name(workers), spec.seal(settings))
    oracle = _Oracle(spec, root, devices, tell)
    legs: list[dict[str, Any]] = []
    for question in questions:
        for workers in spec.workers:
            failed = any(leg["verdict"] == "FAIL" for leg in legs)
            legs.append(oracle.leg(question, workers, bound[workers], run=not failed))
    if files.hash_file(spec.file).sha256 != spec.sha256:
        raise OracleError(Problem("spec_changed", "", "the frozen spec changed"), file=spec.file)
    if bound != {workers: spec.bound(workers) for workers in spec.workers}:
        found = "a file, the code or a package that the verdict is bound to changed meanwhile"
        raise OracleError(Problem("bound_changed", "", found, action="Run the oracle anew"))
    verdict = {
        "schema_version": VERDICT_SCHEMA,
        "verdict": "FAIL" if any(leg["verdict"] != "GREEN" for leg in legs) else "GREEN",
        "oracle_id": spec.document["oracle_id"],
        "spec": {"path": SPEC_NAME, "sha256": spec.sha256},
        "decided": datetime.now(UTC).isoformat(timespec="seconds"),
        "on_fail": spec.document["decision"]["on_fail"],
        "legs": legs,
        "runs": {name: {"path": run.name, "head": run.head} for name, run in oracle.runs.items()},
    }
    files.publish(root / VERDICT_NAME, json.dumps(verdict, indent=2).encode() + b"\n")
    return verdict


def _check_may_begin(spec: Spec, root: Path, devices: str) -> None:
    """Demand what is knowable before: else an oracle that cannot begin has used up its folder."""
    RunPaths(root).check_new()
    for workers in spec.workers:
        spec.bound(workers)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "slow.plan.json")
        plan.write_text(json.dumps(spec.plan("slow", spec.workers[0], 1)))
        rendered = load_checked(plan, spec.repo_root, root / "slow")
        check_may_begin(plan, rendered, {"devices": devices})


@dataclass
class _Oracle:
    """The runs of one oracle, each made once, when a leg first needs it."""

    spec: Spec
    root: Path
    devices: str
    tell: Tell
    runs: dict[str, PathRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.spec.document["budget_seconds"]

    def leg(
        self, question: Question, workers: int, bound: dict[str, str], *, run: bool
    ) -> dict[str, Any]:
        names = question.runs(workers)
        leg: dict[str, Any] = {
            "question": question.value,
            "workers": workers,
            "verdict": "not_run",
            "settings": bound,
            "baseline": names[0],
            "candidate": names[1],
            "rows": None,
            "speedup": None,
        }
        if not run:
            self.tell(f"{question} at {workers} workers: not run, an earlier leg decides")
            return leg
        baseline, candidate = (self._run(name, workers, bound) for name in names)
        found = compare_rows(baseline.rows, candidate.rows, self.spec.rules)
        leg |= {"verdict": "GREEN" if found.equal else "FAIL", "rows": found.to_dict()}
        if found.equal and question is Question.EQUALITY and candidate.seconds:
            leg["speedup"] = round(baseline.seconds / candidate.seconds, 3)
        self.tell(f"{question} at {workers} workers: {leg['verdict']}{_counts(found)}")
        return leg

    def _run(self, name: str, workers: int, bound: dict[str, str]) -> PathRun:
        if name not in self.runs:
            self.runs[name] = self._make(name, workers, bound)
            self.tell(f"{name}: {self.runs[name].seconds:.2f} s")
        return self.runs[name]

    def _make(self, name: str, workers: int, bound: dict[str, str]) -> PathRun:
        path = name.partition("-")[0]
        self._demand_budget(name)
        seconds = math.ceil(self._deadline - time.monotonic())
        plan = self.root / f"{name}.plan.json"
        sealed = self.root / _seal_name(workers)
        document = self.spec.plan(path, workers, seconds, sealed)
        files.publish(plan, json.dumps(document, indent=2).encode() + b"\n")
        rendered = load_checked(plan, self.spec.repo_root, self.root / name)
        given = {"devices": self.devices}
        check_may_begin(plan, rendered, given)
        try:
            report = execute(plan, rendered, given, watch=self._end_in_time).report
        finally:
            # Whatever a run that was stopped came to, this is why.
            self._demand_budget(name)
        job = report["jobs"][0]
        if report["status"] != "completed":
            action = f"See {RunPaths(rendered.run_dir).job(path).stderr}"
            why = (job["failure"] or {}).get("message") or "the run was stopped"
            raise OracleError(Problem("path_failed", name, why, "rows", action))
        self._check_written(rendered.run_dir / OUTPUTS["settings"], path, bound)
        rows = read_rows(rendered.run_dir / OUTPUTS["rows"], self.spec.rules.identity)
        if path == "slow":
            self._check_seeds(rows)
        head = files.sha256_bytes(RunPaths(rendered.run_dir).report.read_bytes())
        return PathRun(name, head, job["elapsed_seconds"], rows)

    def _end_in_time(self, alive: Callable[[], bool]) -> None:
        """Stop a run at the deadline, also one that still waits for its device."""
        while alive():
            if time.monotonic() >= self._deadline:
                # Handed on to the run, as a signal from outside would be.
                signal.raise_signal(signal.SIGTERM)
                return
            time.sleep(0.05)

    def _demand_budget(self, name: str) -> None:
        if time.monotonic() >= self._deadline:
            budget = self.spec.document["budget_seconds"]
            found = f"the budget of {budget} s was used up by {name}; there is no verdict"
            raise OracleError(Problem("budget", "budget_seconds", found), file=self.spec.file)

    def _check_written(self, file: Path, path: str, bound: dict[str, str]) -> None:
        """Demand that the path ran with what the verdict is bound to, where it says so."""
        if not file.exists():
            return
        written = read_settings(file)
        for name in sorted(bound.keys() & written.keys()):
            if written[name] != bound[name] and (name != "workers" or path == "fast"):
                found = f"the path wrote that {name} was {written[name]}"
                raise OracleError(Problem("other_settings", name, found, bound[name]), file=file)

    def _check_seeds(self, rows: list[Row]) -> None:
        written = [row["seed"] for row in rows]
        lacking = [seed for seed in self.spec.document["seeds"] if seed not in written]
        if lacking:
            found = f"the slow path wrote no row for seed {lacking[0]}"
            raise OracleError(Problem("no_row", "seeds", found, "a row for every seed"))


def _seal_name(workers: int) -> str:
    return f"bound-{workers}.json"


def _counts(found: RowsComparison) -> str:
    counts = {
        "missing": len(found.missing),
        "unexpected": len(found.unexpected),
        "duplicate": len(found.duplicate),
    }
    said = "".join(f", {count} {name}" for name, count in counts.items() if count)
    return f", {found.identical} of {found.baseline} rows identical{said}"


def read_settings(file: Path) -> dict[str, str]:
    """Read the settings of a run, one mapping of names to scalars, and give them as text.

    Raises:
        HloopError: it is no such file.
    """
    from hloop.plan.document import parse_document

    document = parse_document(file)
    if not isinstance(document, dict):
        problem = Problem("wrong_type", "", "no mapping stands here", "settings by name")
        raise OracleError(problem, file=file)
    return {
        str(name): as_text(value)
        for name, value in document.items()
        if isinstance(value, str | int | float)
    }
