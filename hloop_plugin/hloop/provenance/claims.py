"""Holds what a run says of itself against the records that it is made of.

The report repeats what stands in the records, and an attempt status what stands in its run
record. Nothing that is said here counts; what is said wrongly is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.chain import JOURNAL_PATH, REPORT_PATH, Chain, JobChain
from hloop.provenance.reading import Refused, RunFiles
from hloop.provenance.records import Status

# Of a job whose supervisor died: what stands in its run record came too late for its status.
_BURIED = ("supervisor_died", "run_died")


def check_claims(chain: Chain, files: RunFiles, rendered: RenderedPlan | None) -> None:
    """Add where the report, or an attempt status, contradicts the records below it."""
    for job in chain.attempts:
        _check_status(chain, job)
        _check_completed(chain, job)
    for job in chain.jobs.values():
        if job.claim is not None:
            _check_job(chain, job, job.claim, rendered)
    for job in chain.rules.values():
        assert job.claim is not None
        _check_ending(chain, f"{REPORT_PATH}: {job.job_id}", job, job.claim)
    if chain.report is None:
        return
    if "jobs" not in chain.report:
        _check_rules_run(chain, chain.report)
        return
    _check_run(chain, chain.report)
    if rendered is not None:
        _check_selection(chain, chain.report, files, rendered)


def _compare(
    chain: Chain, where: str, found: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    """Compare fields by their names. The published report need not have all."""
    for key, value in expected.items():
        if found.get(key) != value:
            said = f"it says {key} {found.get(key)!r}"
            chain.add("self_report_mismatch", where, said[:500], repr(value)[:500])


# An attempt


def _check_status(chain: Chain, job: JobChain) -> None:
    """An attempt status must be what its own fields and its run record allow."""
    status, record = job.status, job.record
    if status is None:
        return
    completed = status["status"] == Status.COMPLETED
    expected: dict[str, Any] = {}
    if completed:
        expected |= {"returncode": 0, "signal": None, "failure": None}
    else:
        expected["outputs"] = []
        if status["failure"] is None:
            said = f"it is {status['status']} and says not why"
            chain.add("self_report_mismatch", job.job_id, said)
    if record is not None and not _is_buried(status):
        expected |= {
            "returncode": record["returncode"],
            "signal": record["signal"],
            "wall_ns": record["ended"]["offset_ns"] - record["started"]["offset_ns"],
        }
    if record is None and completed:
        chain.add("self_report_mismatch", job.job_id, "it completed, and no run record shows it")
    if record is not None:
        ends = [record[name] for name in ("returncode", "signal") if record[name] is not None]
        # What KILL did not end has neither.
        if len(ends) == 2 or (not ends and completed):
            said = f"returncode {record['returncode']}, signal {record['signal']}"
            chain.add("self_report_mismatch", job.job_id, said, "one of the two")
    limit = None if job.scheduled is None else job.scheduled["hard_timeout_ms"]
    # The limit was rounded up to a millisecond.
    if status["status"] == Status.TIMED_OUT and (
        limit is None or status["wall_ns"] <= (limit - 1) * 1_000_000
    ):
        said = f"it timed out after {status['wall_ns']} ns"
        chain.add("self_report_mismatch", job.job_id, said, f"a hard timeout of {limit} ms")
    _compare(chain, job.job_id, status, expected)


def _is_buried(status: Mapping[str, Any]) -> bool:
    return status["failure"] is not None and status["failure"]["reason"] in _BURIED


def holds_completed(job: JobChain) -> bool:
    """Whether the records show that a job completed, and nothing took that back."""
    status, record = job.status, job.record
    return (
        status is not None
        and record is not None
        and job.scheduled is not None
        and status["status"] == Status.COMPLETED
        and record["returncode"] == 0
        and (job.claim is None or job.claim.get("status") == Status.COMPLETED)
    )


def _check_completed(chain: Chain, job: JobChain) -> None:
    # Where Snakemake tried again, the last attempt counts.
    if holds_completed(job) or (job.claim is not None and job.claim.get("retried")):
        return
    claim = {} if job.claim is None else job.claim
    status = claim.get("status") if job.status is None else job.status["status"]
    failure = claim.get("failure") or (job.status or {}).get("failure")
    why = f": {failure['message']}" if failure is not None else ""
    if status == Status.COMPLETED and job.claim is not None and not why:
        why = ", and its records do not show it"
    found = f"it is {status}{why}" if status else "nothing shows how it ended"
    chain.add("job_not_completed", job.job_id, found)


def _check_job(
    chain: Chain, job: JobChain, claim: Mapping[str, Any], rendered: RenderedPlan | None
) -> None:
    """The report's entry of a job, against its records."""
    where = f"{REPORT_PATH}: {job.job_id}"
    expected: dict[str, Any] = {}
    if rendered is not None:
        entry = rendered.jobs[job.job_id]
        portable = Portable(rendered.run_dir, rendered.repo_root)
        expected |= {
            "candidate_id": entry.job.candidate_id,
            "resource": entry.job.resource.value,
            "cuda_visible_devices": entry.job.cuda_visible_devices,
            "seed": entry.job.seed,
            "budget": dict(entry.job.budget),
            "command": [portable.text(item) for item in entry.argv],
        }
    if scheduled := job.scheduled:
        expected["command_semantic_hash"] = scheduled["command_semantic_hash"]
        if job.record is not None:
            expected |= {"slot": scheduled["slot"], "device": scheduled["device"]}
    if record := job.record:
        expected |= _of_record(record)
        if record["concurrent_with"] is not None:
            expected["concurrent_with"] = record["concurrent_with"]
    if status := job.status:
        if status["status"] == Status.COMPLETED and not job.was_rejected:
            _compare_artifacts(chain, where, claim["outputs"], status["outputs"])
        if scheduled is not None and not job.was_rejected and not _is_buried(status):
            _compare_artifacts(chain, where, claim["inputs"], scheduled["input_digests"])
    _check_ending(chain, where, job, claim)
    _compare(chain, where, claim, expected)


def _check_ending(chain: Chain, where: str, job: JobChain, claim: Mapping[str, Any]) -> None:
    """What the report says of how an attempt ended, and why."""
    if job.status is None:
        if claim.get("status") == Status.COMPLETED:
            found = "it says completed, without an attempt status"
            chain.add("self_report_mismatch", where, found)
    elif job.was_rejected and job.status["status"] == Status.COMPLETED:
        _compare(chain, where, claim, {"status": Status.FAILED.value})
    else:
        _compare(chain, where, claim, {"status": job.status["status"]})
        said, failure = claim.get("failure"), job.status["failure"]
        short = said and {key: said[key] for key in ("reason", "message")}
        if short != failure:
            chain.add("self_report_mismatch", where, f"it says failure {short}", str(failure))


def _of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    started, ended = record["started"], record["ended"]
    return {
        "returncode": record["returncode"],
        "signal": record["signal"],
        "started_at": started["time"],
        "ended_at": ended["time"],
        "start_offset_ns": started["offset_ns"],
        "end_offset_ns": ended["offset_ns"],
        "elapsed_seconds": _seconds(ended["offset_ns"] - started["offset_ns"]),
        "cpu_seconds": _seconds(record["usage"]["cpu_ns"]),
        "max_rss_bytes": record["usage"]["max_rss_bytes"],
    }


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e9, 6)


def _compare_artifacts(chain: Chain, where: str, said: Any, references: Any) -> None:
    found = [(item["role"], item["path"], item["sha256"], item["size_bytes"]) for item in said]
    expected = [(item["role"], item["path"], item["sha256"], item["size"]) for item in references]
    for one, other in zip(found, expected, strict=False):
        if one != other:
            chain.add("self_report_mismatch", where, f"it says {one}", str(other))
    if len(found) != len(expected):
        names = f"it names {len(found)} files"
        chain.add("self_report_mismatch", where, names, str(len(expected)))


# The run


def _check_run(chain: Chain, report: Mapping[str, Any]) -> None:
    completed = all(holds_completed(job) for job in chain.jobs.values())
    # The other way round, a run may have been stopped after its last job.
    if report["status"] == "completed" and not completed:
        found = "it says status 'completed'"
        chain.add("self_report_mismatch", REPORT_PATH, found, "not completed")
    candidates = sorted(
        job.claim["candidate_id"]
        for job in chain.jobs.values()
        if job.claim is not None and job.claim["candidate_id"] is not None
    )
    expected: dict[str, Any] = {"candidate_ids": candidates}
    if manifest := chain.manifest:
        environment = manifest["environment"]
        expected |= {key: manifest[key] for key in ("mode", "executor", "session_id", "run_kind")}
        expected |= dict(manifest["plan"] or {})
        expected |= {
            "host": manifest["host"],
            "versions": {
                "hloop": environment["hloop"],
                "python": environment["python"]["version"],
                "snakemake": environment["snakemake"],
            },
            "devices": manifest["devices"]["devices"],
        }
        _check_waves(chain, report, manifest)
        scheduling = report.get("scheduling") or {}
        fields = {"placement": manifest["placement"], "limits": manifest["limits"]}
        # The jobs' entries have been held against their records.
        fields |= _makespan(report["jobs"])
        _compare(chain, f"{REPORT_PATH}: scheduling", scheduling, fields)
    if (journal := chain.read.get(JOURNAL_PATH)) is not None:
        expected |= _times_of(journal.content.data) or {}
    _compare(chain, REPORT_PATH, report, expected)


def _makespan(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From the first start to the last end; nothing where a job that started has no end."""
    spans = [
        (job["start_offset_ns"], job["end_offset_ns"])
        for job in jobs
        if job.get("start_offset_ns") is not None
    ]
    if any(end is None for _, end in spans):
        return {}
    length = max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0
    return {"makespan_seconds": _seconds(length)}


def _times_of(journal: bytes) -> dict[str, Any] | None:
    """When the run began, how long it took and when it ended; None of what is no journal."""
    try:
        # A last line that was cut off is none.
        events = [json.loads(line) for line in journal.split(b"\n")[:-1]]
        times = {
            "started_at": events[0]["time"],
            "elapsed_seconds": _seconds(max(event["offset_ns"] for event in events)),
        }
        if events[-1]["event"] == "run_ended":
            times["completed_at"] = events[-1]["time"]
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return None
    return times


def _check_rules_run(chain: Chain, report: Mapping[str, Any]) -> None:
    """The report of a run without a plan."""
    completed = all(
        holds_completed(job) or (job.claim or {}).get("retried") for job in chain.rules.values()
    )
    if report["status"] == "completed" and not completed:
        found = "it says status 'completed'"
        chain.add("self_report_mismatch", REPORT_PATH, found, "not completed")
    if manifest := chain.manifest:
        keys = ("executor", "session_id", "run_kind")
        _compare(chain, REPORT_PATH, report, {key: manifest[key] for key in keys})
        if manifest["plan"] is not None:
            chain.add("self_report_mismatch", REPORT_PATH, "it tells of no plan", "the manifest's")


def _check_waves(chain: Chain, report: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    said = {job_id: wave for wave, jobs in enumerate(report.get("waves") or ()) for job_id in jobs}
    for job_id, job in chain.jobs.items():
        if job.scheduled is not None and said.get(job_id) != job.scheduled["wave"]:
            found = f"it says that {job_id!r} ran in wave {said.get(job_id)}"
            chain.add("self_report_mismatch", REPORT_PATH, found, str(job.scheduled["wave"]))


def _check_selection(
    chain: Chain, report: Mapping[str, Any], files: RunFiles, rendered: RenderedPlan
) -> None:
    path = rendered.selection_artifact
    if path is not None:
        path = Portable(rendered.run_dir, rendered.repo_root).path(path)
    _compare(chain, REPORT_PATH, report, {"selection_artifact": path})
    selection = report["selection"]
    made = {
        output["path"]: output["sha256"]
        for job in chain.jobs.values()
        if job.status is not None and holds_completed(job)
        for output in job.status["outputs"]
    }
    where = f"{REPORT_PATH}: selection"
    if path is None or path not in made:
        if selection is not None:
            chain.add("self_report_mismatch", where, "it has a selection that no job made")
        return
    if selection is None:
        chain.add("self_report_mismatch", where, "it has none", "what a job made")
        return
    expected: dict[str, Any] = {"sha256": made[path]}
    try:
        expected["value"] = json.loads(files.read(path).data, parse_constant=_refuse)
    except Refused:
        pass  # The output itself is a finding.
    except (ValueError, RecursionError):
        expected["value"] = None
    _compare(chain, where, selection, expected)


def _refuse(name: str) -> Any:
    raise ValueError(name)
