"""The chain of a run's records, walked from the report down to the plan.

Every reference is held against the bytes that it refers to, each file is read once, and what
is read keeps its form and its schema. What the records say is not judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from hloop.files import FIRST_RESUMED, JobPaths, RunPaths
from hloop.plan.model import Plan
from hloop.provenance.findings import Finding, shown
from hloop.provenance.reading import (
    RUN_DIR,
    Content,
    Refused,
    RunFiles,
    document_of,
    is_inside,
    plan_of,
)
from hloop.provenance.records import (
    ATTEMPT_STATUS,
    FORMAL,
    GATE,
    JOURNAL,
    LAYERS,
    MANIFEST,
    PLAN,
    REPORT,
    RUN_RECORD,
    SCHEDULED_JOB,
)

_PATHS = RunPaths(Path(RUN_DIR))
PLAN_PATH, MANIFEST_PATH = str(_PATHS.plan), str(_PATHS.manifest)
JOURNAL_PATH, REPORT_PATH = str(_PATHS.journal), str(_PATHS.report)
GATE_PATH = str(_PATHS.formal.gate)

REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read.

    Attributes:
        path: portable.
        document: what it holds; None where that cannot be used.
    """

    path: str
    type: str
    content: Content
    document: dict[str, Any] | None


@dataclass(slots=True)
class JobChain:
    """The records of one attempt; documents that can be used, or None.

    Attributes:
        job_id: the job of the plan, or the name of an attempt of a job that no plan holds.
        claim: what the report says of the job.
        status_sha256: over the attempt status, 64 hex digits.
        session: the portable path of the manifest of the session that the attempt is of.
    """

    job_id: str
    claim: Mapping[str, Any] | None = None
    status: dict[str, Any] | None = None
    record: dict[str, Any] | None = None
    scheduled: dict[str, Any] | None = None
    status_sha256: str | None = None
    session: str = MANIFEST_PATH

    @property
    def was_rejected(self) -> bool:
        """Whether Snakemake did not take its outputs; it deletes them then."""
        failure = None if self.claim is None else self.claim.get("failure")
        return failure is not None and failure["reason"] == REJECTED


@dataclass
class Chain:
    """What the walk found.

    Attributes:
        head: ``sha256:<hex>`` over the report; None without one.
        plan: None where the run has none, or it cannot be used.
        report: of a run with a plan, or without one.
        manifest: of the run's first session.
        sessions: the manifests by portable path, in order; more than one of a run that was
            resumed. A manifest is None where it cannot be used.
        jobs: by id, in the order of the plan.
        rules: the attempts of jobs that no plan holds, by name.
        findings: without repetitions, in order.
        read: every record that was read, by portable path.
    """

    head: str | None = None
    report: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None
    sessions: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    plan: Plan | None = None
    jobs: dict[str, JobChain] = field(default_factory=dict)
    rules: dict[str, JobChain] = field(default_factory=dict)
    findings: dict[Finding, None] = field(default_factory=dict)
    read: dict[str, Record | None] = field(default_factory=dict)

    @property
    def is_formal(self) -> bool:
        return self.manifest is not None and self.manifest["run_kind"] == FORMAL

    @property
    def attempts(self) -> list[JobChain]:
        """Of the plan's jobs and of others."""
        return [*self.jobs.values(), *self.rules.values()]

    @property
    def has_plan(self) -> bool:
        """Whether the run has a plan. One whose records do not say is taken to have one."""
        if self.report is not None and "jobs" in self.report:
            return True
        return self.manifest is None or self.manifest["plan"] is not None

    def manifest_of(self, job: JobChain) -> dict[str, Any] | None:
        """Give the manifest of the session that an attempt is of."""
        return self.sessions.get(job.session) or self.manifest

    def add(self, code: str, where: str, found: str, expected: object = "") -> None:
        self.findings[Finding(code, shown(where), shown(found), shown(str(expected)))] = None


def walk(files: RunFiles, repo_root: str | None = None, *, use_report: bool = True) -> Chain:
    """Walk the chain of a run directory.

    Args:
        files: the run directory; its ``repo_root`` is set to the one that is found.
        repo_root: in place of the one that the manifest names.
        use_report: begin at the report; else at each attempt's status, as if there were none.
    """
    return _Walk(files, repo_root).walk(use_report)


class _Walk:
    def __init__(self, files: RunFiles, repo_root: str | None):
        self._files = files
        self._repo_root = repo_root
        self._chain = Chain()
        self._add = self._chain.add

    def walk(self, use_report: bool) -> Chain:
        chain = self._chain
        report = self._take(REPORT, REPORT_PATH) if use_report else None
        if report is not None:
            chain.head = f"sha256:{report.content.sha256}"
            chain.report = report.document
        self._run_records()
        self._load_plan()
        if chain.has_plan:
            self._jobs()
        self._rules()
        return chain

    # The run as a whole

    def _run_records(self) -> None:
        chain, report = self._chain, self._chain.report
        evidence = None if report is None else report.get("evidence")
        if report is not None and evidence is None:
            self._add("reference_type", REPORT_PATH, "it refers to no evidence", "evidence")
        for type, path, name in (
            (MANIFEST, MANIFEST_PATH, "manifest"),
            (JOURNAL, JOURNAL_PATH, "journal"),
        ):
            if evidence is not None and evidence[name] is not None:
                record = self._follow(REPORT_PATH, REPORT, evidence[name], {type: path})
            else:
                record = self._unreferenced(type, path)
            if type == MANIFEST and record is not None:
                chain.manifest = record.document
        self._files.repo_root = self._repo_root
        chain.sessions[MANIFEST_PATH] = chain.manifest
        self._further_sessions((evidence or {}).get("resumed"))
        if chain.manifest is None:
            return
        if self._repo_root is None:
            self._files.repo_root = chain.manifest["repo_root"]
        places = {PLAN: PLAN_PATH} if chain.has_plan else {}
        if chain.is_formal:
            places[GATE] = GATE_PATH
        for path, manifest in chain.sessions.items():
            if manifest is not None:
                self._follow_all(path, MANIFEST, manifest, places, places)

    def _further_sessions(self, references: Iterable[Mapping[str, Any]] | None) -> None:
        """Read the manifests of a run that was resumed. A report names them all."""
        if references is None and self._chain.report is not None:
            return
        named = None if references is None else list(references)
        for number in count(FIRST_RESUMED):
            path = str(_PATHS.session_manifest(number))
            if named is None and self._files.is_there(path):
                record = self._unreferenced(MANIFEST, path)
            elif named:
                record = self._follow(REPORT_PATH, REPORT, named.pop(0), {MANIFEST: path})
            else:
                return
            self._chain.sessions[path] = None if record is None else record.document

    def _load_plan(self) -> None:
        chain = self._chain
        if not chain.has_plan:
            return
        record = self._take(PLAN, PLAN_PATH)
        if record is None or record.document is None:
            return
        manifest = chain.manifest or {"repo_root": "/", "run_dir": self._files.root}
        try:
            chain.plan = plan_of(record.document, manifest["repo_root"], manifest["run_dir"])
        except Refused as error:
            self._add(error.code, PLAN_PATH, error.found, "a plan")

    # The jobs

    def _jobs(self) -> None:
        chain = self._chain
        claims: dict[str, Mapping[str, Any]] = {}
        for claim in () if chain.report is None else chain.report.get("jobs", ()):
            job_id = claim["job_id"]
            if job_id in claims:
                found = f"it names the job {job_id!r} twice"
                self._add("self_report_mismatch", REPORT_PATH, found)
            claims[job_id] = claim
        if chain.plan is not None:
            ids = list(chain.plan.by_id())
            if chain.report is not None:
                self._compare_ids(ids, claims)
        else:
            ids = [job_id for job_id in claims if _is_name(job_id)]
        for job_id in ids:
            chain.jobs[job_id] = self._job(job_id, claims.get(job_id), _PATHS.job(job_id))

    def _rules(self) -> None:
        """The attempts of jobs that no plan holds. Only the report tells which there are."""
        chain = self._chain
        for claim in () if chain.report is None else chain.report.get("rules", ()):
            name = claim["name"]
            if name in chain.rules or not _is_name(name):
                found = f"it names the attempt {name!r} twice, or that is no name"
                self._add("self_report_mismatch", REPORT_PATH, found)
            else:
                chain.rules[name] = self._job(name, claim, JobPaths(_PATHS.rules / name))

    def _compare_ids(self, ids: Iterable[str], claims: Iterable[str]) -> None:
        for job_id in set(ids) ^ set(claims):
            where = "the plan" if job_id in set(ids) else "the report"
            self._add("self_report_mismatch", REPORT_PATH, f"only {where} has the job {job_id!r}")

    def _job(self, job_id: str, claim: Mapping[str, Any] | None, paths: JobPaths) -> JobChain:
        job = JobChain(job_id, claim)
        scheduled_path, record_path = str(paths.scheduled), str(paths.record)
        status_path = str(paths.status)
        reference = None if claim is None else claim.get("attempt_status")
        if reference is not None:
            places = {ATTEMPT_STATUS: status_path}
            status = self._follow(REPORT_PATH, REPORT, reference, places)
        else:
            # Without a report a status counts as it is; a report that knows of none denies it.
            read = self._chain.report is None
            status = self._unreferenced(ATTEMPT_STATUS, status_path) if read else None
            if status is None:
                self._unreferenced(SCHEDULED_JOB, scheduled_path)
                self._unreferenced(RUN_RECORD, record_path)
        below: dict[str, Record] = {}
        if status is not None:
            job.status_sha256 = status.content.sha256
            job.status = status.document
        if job.status is not None:
            self._check_shape(status_path, job.status)
            job.session = self._session_of(job.status)
            places = {
                MANIFEST: job.session,
                SCHEDULED_JOB: scheduled_path,
                RUN_RECORD: record_path,
            }
            below = self._follow_all(status_path, ATTEMPT_STATUS, job.status, places, ())
        if record := below.get(RUN_RECORD):
            job.record = record.document
            if job.record is not None:
                places = {SCHEDULED_JOB: scheduled_path}
                below |= self._follow_all(record_path, RUN_RECORD, job.record, places, places)
        if scheduled := below.get(SCHEDULED_JOB):
            job.scheduled = scheduled.document
            if job.scheduled is not None:
                job.session = self._session_of(job.scheduled)
                places = {MANIFEST: job.session}
                if self._chain.has_plan:
                    places[PLAN] = PLAN_PATH
                if self._chain.is_formal:
                    places[GATE] = GATE_PATH
                self._follow_all(scheduled_path, SCHEDULED_JOB, job.scheduled, places, places)
        return job

    def _session_of(self, document: Mapping[str, Any]) -> str:
        """Give the manifest that a record refers to, where it is one of the run's."""
        paths = (item["path"] for item in document["upstream"] if item["type"] == MANIFEST)
        return next((path for path in paths if path in self._chain.sessions), MANIFEST_PATH)

    def _check_shape(self, path: str, status: Mapping[str, Any]) -> None:
        """Demand what an attempt status must refer to, by how far the attempt came."""
        types = [reference["type"] for reference in status["upstream"]]
        if types in ([SCHEDULED_JOB, RUN_RECORD], [SCHEDULED_JOB], [MANIFEST]):
            return
        if not types and self._chain.manifest is None:
            return
        if all(type in LAYERS and LAYERS[type] < LAYERS[ATTEMPT_STATUS] for type in types):
            expected = "the scheduled job and the run record, the scheduled job, or the manifest"
            self._add("reference_type", path, f"it refers to {', '.join(types)}", expected)

    # References

    def _follow_all(
        self,
        holder: str,
        type: str,
        document: Mapping[str, Any],
        places: Mapping[str, str],
        required: Iterable[str],
    ) -> dict[str, Record]:
        """Follow a record's upstream references. Gives those that lead somewhere, by type."""
        found: dict[str, Record] = {}
        seen: set[str] = set()
        for reference in document["upstream"]:
            if reference["type"] in seen:
                self._add("reference_type", holder, f"it refers to {reference['type']} twice")
            seen.add(reference["type"])
            record = self._follow(holder, type, reference, places)
            if record is not None:
                found[reference["type"]] = record
        for missing in sorted(set(required) - seen):
            self._add("reference_type", holder, f"it does not refer to {missing}")
        return found

    def _follow(
        self, holder: str, type: str, reference: Mapping[str, Any], places: Mapping[str, str]
    ) -> Record | None:
        """Follow one reference, to a record of one of these types, which lies there only."""
        kind, path = reference["type"], reference["path"]
        if kind not in places:
            downstream = LAYERS.get(kind, 0) >= LAYERS[type]
            code = "reference_downstream" if downstream else "reference_type"
            self._add(code, holder, f"it refers to {kind}", " or ".join(places) or "nothing")
            return None
        if not is_inside(path):
            self._add("path_escapes", holder, f"it refers to {path}", places[kind])
            return None
        if path != places[kind]:
            other = path.startswith((f"{_PATHS.jobs}/", f"{_PATHS.rules}/"))
            code = "wrong_job" if other else "reference_place"
            self._add(code, holder, f"it refers to {path}", places[kind])
            return None
        record = self._take(kind, path)
        if record is not None and not record.content.is_what(
            reference["sha256"], reference["size"]
        ):
            self._add(
                "record_changed",
                path,
                f"it has sha256 {record.content.sha256} and {len(record.content.data)} bytes",
                f"{reference['sha256']} and {reference['size']} bytes, as {holder} says",
            )
        return record

    def _unreferenced(self, type: str, path: str) -> Record | None:
        """Read a record that nothing refers to, where it is there."""
        if not self._files.is_there(path):
            return None
        if self._chain.report is not None:
            self._add("not_covered", path, "nothing refers to it")
        return self._take(type, path)

    def _take(self, type: str, path: str) -> Record | None:
        """Read a record, once."""
        if path not in self._chain.read:
            self._chain.read[path] = self._read(type, path)
        return self._chain.read[path]

    def _read(self, type: str, path: str) -> Record | None:
        try:
            content = self._files.read(path)
        except Refused as error:
            missing = "report_missing" if type == REPORT else "record_missing"
            code = missing if error.code == "missing" else error.code
            self._add(code, path, error.found)
            return None
        if content.links > 1:
            self._add("hard_link", path, f"it has {content.links} names", "one")
        try:
            return Record(path, type, content, document_of(type, path, content.data))
        except Refused as error:
            self._add(error.code, path, error.found)
            return Record(path, type, content, None)


def _is_name(job_id: str) -> bool:
    return "/" not in job_id and is_inside(f"{_PATHS.jobs}/{job_id}")
