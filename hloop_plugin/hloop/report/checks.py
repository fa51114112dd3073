"""The checks of a comparison: of the two runs as a whole, and job by job.

A check passes on evidence only: what both reports lack is unknown, and unknown does not pass.
Files are read only where their digests differ and the plan asks for their content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hloop.plan.model import CompareMode
from hloop.report.load import RunReport
from hloop.report.outputs import Finding, Rule, Verdict, Version, compare_file, json_finding

Job = Mapping[str, Any]
Check = dict[str, Any]

_TWO_RULES = Finding(Verdict.DIFFERS, "the two reports want it compared in different ways")


class Comparison:
    """Two reports, and what they say about how files are compared."""

    def __init__(self, baseline: RunReport, candidate: RunReport):
        self._baseline = baseline
        self._candidate = candidate
        self._both_ours = _is_ours(baseline) and _is_ours(candidate)
        self._rules = _rules(baseline), _rules(candidate)
        # A file is the output of one job and the input of others: it is compared once.
        self._compare_file = cache(compare_file)

    def checks(self) -> list[Check]:
        """Give every check, in the order of the baseline's jobs."""
        first, second = self._baseline.document, self._candidate.document
        identity = "experiment_digest" if self._both_ours else "plan_semantic_hash"
        checks = [
            _equal(name, first.get(name), second.get(name)) for name in (identity, "candidate_ids")
        ]
        checks.append(_equal("job_ids", sorted(self._baseline.jobs), sorted(self._candidate.jobs)))
        pairs = {
            job_id: (job, self._candidate.jobs[job_id])
            for job_id, job in self._baseline.jobs.items()
            if job_id in self._candidate.jobs
        }
        other_checkout = _is_other_checkout(pairs.values())
        for job_id, (job, other) in pairs.items():
            checks += [
                self._command(f"jobs.{job_id}.command", job, other, other_checkout),
                self._files(f"jobs.{job_id}.inputs", job.get("inputs"), other.get("inputs")),
                self._files(f"jobs.{job_id}.outputs", job.get("outputs"), other.get("outputs")),
                _equal(f"jobs.{job_id}.outcome", _outcome(job), _outcome(other)),
            ]
        return checks + self._selection()

    def _command(self, name: str, job: Job, other: Job, other_checkout: bool) -> Check:
        shown = [
            {key: side.get(key) for key in ("command_semantic_hash", "command")}
            for side in (job, other)
        ]
        finding = _same(*(side["command_semantic_hash"] for side in shown))
        # The original writes commands with the paths of one machine: there the hash decides.
        if self._both_ours and finding.verdict is not Verdict.UNKNOWN:
            if shown[0]["command"] != shown[1]["command"]:
                finding = Finding(Verdict.DIFFERS, "the command is another one")
            elif not finding.verdict.passes and other_checkout and _names_repository(job):
                finding = Finding(Verdict.SAME, "the hash differs by the repository's path only")
        return _check(name, finding, *shown)

    def _files(
        self, name: str, first: Sequence[Job] | None, second: Sequence[Job] | None
    ) -> Check:
        """Compare the inputs or outputs of one job, each by its rule."""
        if first is None or second is None:
            return _equal(name, first, second)
        shown = [
            [{key: entry.get(key) for key in ("role", "path", "sha256")} for entry in entries]
            for entries in (first, second)
        ]
        if [entry["role"] for entry in shown[0]] != [entry["role"] for entry in shown[1]]:
            return _check(name, Finding(Verdict.DIFFERS, "other files are declared"), *shown)
        found = [
            (entry, self._file(entry, other)) for entry, other in zip(first, second, strict=True)
        ]
        return {
            **_check(name, _sum_up(found), *shown),
            "files": [
                {
                    "role": entry.get("role"),
                    "path": entry.get("path"),
                    "compare": self._rule(_path(entry))[0].mode.value,
                    "verdict": finding.verdict.value,
                    "reason": finding.reason,
                    **finding.details,
                }
                for entry, finding in found
            ],
        }

    def _file(self, entry: Job, other: Job) -> Finding:
        # Outside the run the bytes are the identity, wherever another machine keeps them.
        paths = _path(entry), _path(other)
        if paths[0] != paths[1] and any(path.startswith("${RUN_DIR}/") for path in paths):
            return Finding(Verdict.DIFFERS, f"the candidate has it at {paths[1]}")
        rule, agreed = self._rule(paths[0])
        if not agreed:
            return _TWO_RULES
        return self._compare_file(
            rule, _version(self._baseline, entry), _version(self._candidate, other)
        )

    def _rule(self, path: str) -> tuple[Rule, bool]:
        """Give how the file at ``path`` is compared, and whether both reports agree on it."""
        rules = [rules[path] for rules in self._rules if path in rules]
        return (rules[0] if rules else Rule()), len(set(rules)) <= 1

    def _selection(self) -> list[Check]:
        """Compare the decision. There is no check where the plan declares no selection."""
        reports = self._baseline.document, self._candidate.document
        paths = [report.get("selection_artifact", "") for report in reports]
        first, second = (report.get("selection") for report in reports)
        if paths == [None, None] and first is second is None:
            return []
        if first is None or second is None:
            return [_equal("selection", first, second)]
        path = paths[0] or paths[1] or ""
        rule, agreed = self._rule(path)
        values = first.get("value"), second.get("value")
        finding = json_finding(*values, rule.ignore if rule.mode is CompareMode.JSON else ())
        if not agreed:
            finding = _TWO_RULES
        elif None in values or (rule.mode is CompareMode.BYTES and finding.verdict.passes):
            versions = [
                _version(report, {"path": path, "sha256": selection.get("sha256")})
                for report, selection in ((self._baseline, first), (self._candidate, second))
            ]
            finding = self._compare_file(rule, *versions)
        return [_check("selection", finding, first, second)]


def _is_ours(report: RunReport) -> bool:
    """Whether hloop wrote the report: the original has no such digest, and no rules."""
    return report.document.get("experiment_digest") is not None


def _rules(report: RunReport) -> dict[str, Rule]:
    """Give how each output of a run is compared, by its path."""
    return {
        _path(entry): Rule(
            CompareMode(entry.get("compare", CompareMode.BYTES)), tuple(entry.get("ignore", ()))
        )
        for job in report.jobs.values()
        for entry in job.get("outputs") or ()
        if _is_ours(report)
    }


def _path(entry: Job) -> str:
    return str(entry.get("path", ""))


def _version(report: RunReport, entry: Job) -> Version:
    """Find a run's version of a file. Only the run directory is known to be here."""
    root, _, rest = _path(entry).partition("/")
    path = report.run_dir / rest if root == "${RUN_DIR}" else None
    return Version(path, entry.get("sha256"))


def _names_repository(job: Job) -> bool:
    return any("${REPO_ROOT}" in item for item in job.get("command") or ())


def _is_other_checkout(pairs: Iterable[tuple[Job, Job]]) -> bool:
    """Whether the two runs used two checkouts of the repository.

    ``command_semantic_hash``, as published, covers the repository's own path: in another
    checkout it is another one for every command that names the repository.
    """
    key = "command_semantic_hash"
    named = [(job.get(key), other.get(key)) for job, other in pairs if _names_repository(job)]
    return bool(named) and all(first != second for first, second in named)


def _outcome(job: Job) -> dict[str, Any] | None:
    """Give how a job ended. The original records the exit status alone."""
    status, returncode = job.get("status"), job.get("returncode")
    if status is None and returncode is not None:
        status = "failed" if returncode else "completed"
    if status is None:
        return None
    return {
        "status": status,
        "returncode": returncode,
        "signal": job.get("signal"),
        "reason": (job.get("failure") or {}).get("reason"),
    }


def _sum_up(found: Sequence[tuple[Job, Finding]]) -> Finding:
    """Give the worst verdict over a job's files, and what is to be said of them."""
    verdicts = [finding.verdict for _, finding in found]
    for worst in (Verdict.DIFFERS, Verdict.UNKNOWN):
        if worst in verdicts:
            break
    else:
        worst = Verdict.SAME
    said = [f"{entry.get('role')}: {finding.reason}" for entry, finding in found if finding.reason]
    return Finding(worst, "; ".join(said))


def _same(baseline: Any, candidate: Any) -> Finding:
    if baseline is None and candidate is None:
        return Finding(Verdict.UNKNOWN, "neither report has it")
    if baseline is None or candidate is None:
        side = "candidate" if baseline is None else "baseline"
        return Finding(Verdict.DIFFERS, f"only the {side}'s report has it")
    return Finding(Verdict.SAME if baseline == candidate else Verdict.DIFFERS)


def _equal(name: str, baseline: Any, candidate: Any) -> Check:
    return _check(name, _same(baseline, candidate), baseline, candidate)


def _check(name: str, finding: Finding, baseline: Any, candidate: Any) -> Check:
    return {
        "name": name,
        "passed": finding.verdict.passes,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "baseline": baseline,
        "candidate": candidate,
    }
