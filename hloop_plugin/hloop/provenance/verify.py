"""``hloop verify``: a run's verdict, derived again from its files.

The verdict is a function of the files in the run directory, the inputs outside of it and, where
it is given, the head that was kept elsewhere. Nothing that the run says of itself counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.devices.resolve import UNRESOLVED
from hloop.errors import HloopError, PlanError, Problem, RunDirectoryError
from hloop.files import FORMAL_NAME, RunPaths
from hloop.plan.render import RenderedPlan, render_plan
from hloop.provenance.agreement import check_agreement
from hloop.provenance.attestation import check_attestation
from hloop.provenance.chain import GATE_PATH, PLAN_PATH, REPORT_PATH, Chain, walk
from hloop.provenance.claims import check_claims, holds_completed
from hloop.provenance.contents import check_contents
from hloop.provenance.findings import CATALOGUE, COMPLETE, ELIGIBLE, UNALTERED, Finding
from hloop.provenance.reading import RunFiles
from hloop.provenance.strays import check_strays
from hloop.provenance.times import check_times

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Verdict:
    """What a run directory proves; None where that cannot be decided.

    Attributes:
        head: ``sha256:<hex>`` over the report; None without one.
        run_kind: ``formal`` or ``interface_sanity_only``; None where it is not known.
        complete: every job of the plan completed, and all its outputs are there. Without a
            plan: every job of which the report tells.
        unaltered: every file is what the run left.
        eligible: a formal run, complete and unaltered, with a gate that re-derives, on devices
            that are known.
        findings: what costs something.
        notes: what costs nothing.
        completed: ids of the jobs whose records show that they completed.
        counts: ``jobs``, ``completed``, and ``records`` that were read.
    """

    head: str | None
    run_kind: str | None
    complete: bool | None
    unaltered: bool | None
    eligible: bool | None
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    completed: frozenset[str]
    counts: dict[str, int]

    @property
    def exit_code(self) -> int:
        """0: it holds. 1: it does not. 2: that cannot be decided."""
        if self.unaltered is False:
            return 1
        if self.head is None:
            return 2
        parts = [self.complete, self.unaltered]
        if self.run_kind == "formal":
            parts.append(self.eligible)
        if False in parts:
            return 1
        return 2 if None in parts else 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "head": self.head,
            "run_kind": self.run_kind,
            "complete": self.complete,
            "unaltered": self.unaltered,
            "eligible": self.eligible,
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [finding.to_dict() for finding in self.notes],
            "counts": self.counts,
        }


def verify(
    run_dir: Path,
    *,
    repo_root: Path | None = None,
    expect_head: str | None = None,
    attestation: tuple[Path, Path] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Derive the verdict of a run again.

    Args:
        repo_root: where ``${REPO_ROOT}`` lies now; None: where it lay when the run began.
        expect_head: ``sha256:<hex>``, as it was kept elsewhere.
        attestation: an attestation of the run, and the public key to hold it against.
        progress: is told how much of the inputs and outputs is read.

    Raises:
        RunDirectoryError: it is no run directory.
        AttestationError: the attestation or the key cannot be looked at.
    """
    paths = RunPaths(run_dir)
    if not any(os.path.lexists(path) for path in (paths.report, paths.plan, paths.manifest)):
        raise RunDirectoryError(
            Problem(
                "no_run_dir",
                "",
                f"{run_dir} is no run directory",
                "a folder with a plan.json and a hloop_run.json",
                "Give the folder that hloop run wrote into",
            )
        )
    root = None if repo_root is None else os.path.abspath(repo_root)
    files = RunFiles(os.fspath(run_dir), root)
    chain = walk(files, root)
    if expect_head is not None and chain.head is None and not files.is_there(REPORT_PATH):
        chain.add("head_mismatch", REPORT_PATH, "there is no report", expect_head)
    elif expect_head is not None and chain.head not in (None, expect_head):
        chain.add("head_mismatch", REPORT_PATH, f"the head is {chain.head}", expect_head)
    if attestation is not None:
        for finding in check_attestation(*attestation, chain.head, chain.report):
            chain.add(finding.code, finding.where, finding.found, finding.expected)
    rendered = _render(chain)
    if rendered is not None:
        check_agreement(chain, rendered)
    if chain.manifest is not None and (rendered is not None or not chain.has_plan):
        check_times(chain, None if rendered is None else rendered.plan)
    check_claims(chain, files, rendered)
    check_contents(chain, files, rendered, progress)
    check_strays(chain, files, rendered)
    if chain.is_formal:
        _check_formal(chain, files)
    elif chain.manifest is not None:
        chain.add("not_formal", "", f"its run_kind is {chain.manifest['run_kind']}", "formal")
    return _verdict(chain)


def _render(chain: Chain) -> RenderedPlan | None:
    """Fill in the plan's templates for the folders that the run had."""
    if chain.plan is None or chain.manifest is None:
        return None
    try:
        return render_plan(chain.plan, chain.manifest["repo_root"], chain.manifest["run_dir"])
    except (PlanError, ValueError) as error:
        chain.add("schema", PLAN_PATH, str(error))
        return None


def _check_formal(chain: Chain, files: RunFiles) -> None:
    """A formal run's gate re-derives, and its jobs keep what a formal job must have."""
    from hloop.provenance.gate import rederive

    if chain.plan is not None:
        try:
            problems = rederive(Path(files.root) / FORMAL_NAME, chain.plan)
        except HloopError as error:
            problems = list(error.problems)
        for problem in problems:
            chain.add("gate_mismatch", GATE_PATH, str(problem))
    for job_id, job in chain.jobs.items():
        scheduled = job.scheduled
        if scheduled is None:
            continue
        needed = ("method", "case", "seed", "hard_timeout_ms", "fidelity_gate", "config_digests")
        lacking = [key for key in needed if scheduled[key] in (None, [])]
        if lacking:
            chain.add("formal_rule", job_id, f"it has no {', '.join(lacking)}")
        device = scheduled["device"]
        if device is not None and (
            device["simulated"] or scheduled["gpu_uuid"] in (None, UNRESOLVED)
        ):
            chain.add("device_not_real", job_id, f"its device is {device['token']}", "a UUID")


def _verdict(chain: Chain) -> Verdict:
    everything = list(chain.findings)
    notes = tuple(finding for finding in everything if CATALOGUE[finding.code].is_note)
    findings = tuple(finding for finding in everything if not CATALOGUE[finding.code].is_note)
    parts: dict[str, bool | None] = {}
    for part in (COMPLETE, UNALTERED, ELIGIBLE):
        rules = [CATALOGUE[finding.code] for finding in findings]
        if any(part in rule.denies for rule in rules):
            parts[part] = False
        else:
            parts[part] = None if any(part in rule.clouds for rule in rules) else True
    if chain.plan is None and chain.has_plan and parts[COMPLETE]:
        parts[COMPLETE] = None
    if parts[ELIGIBLE]:
        if False in (parts[COMPLETE], parts[UNALTERED]):
            parts[ELIGIBLE] = False
        elif None in (parts[COMPLETE], parts[UNALTERED]) or not chain.is_formal:
            parts[ELIGIBLE] = None
    completed = frozenset(job.job_id for job in chain.attempts if holds_completed(job))
    return Verdict(
        head=chain.head,
        run_kind=None if chain.manifest is None else chain.manifest["run_kind"],
        complete=parts[COMPLETE],
        unaltered=parts[UNALTERED],
        eligible=parts[ELIGIBLE],
        findings=findings,
        notes=notes,
        completed=completed,
        counts={
            "jobs": len(chain.attempts),
            "completed": len(completed),
            "records": sum(record is not None for record in chain.read.values()),
        },
    )
