"""Holds a run's records against its plan, rendered for the folders that the manifest names.

What a job was started with must be what the plan asks for, to the letter. When it ran, and
what the report says of it, is judged elsewhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hloop.devices.environment import MASK, PLAN_DEVICE, RUN_DEVICE
from hloop.devices.resolve import UNRESOLVED
from hloop.files import RunPaths
from hloop.plan import identity
from hloop.plan.identity import command_semantic_hash
from hloop.plan.model import ResourceClass
from hloop.plan.render import RenderedArtifact, RenderedJob, RenderedPlan
from hloop.portable import Portable
from hloop.provenance.chain import GATE_PATH, Chain, JobChain
from hloop.provenance.formal import CACHE_FOLDERS
from hloop.provenance.records import DIRECTORY, FILE, FORMAL, Status

# What hloop adds to a job's environment, beside the caches of a formal job.
_OWN_VARIABLES = frozenset({MASK, RUN_DEVICE, PLAN_DEVICE, "HLOOP_JOB_ID", "HLOOP_TRANSITIONS"})
# What no session of a run may change.
_OF_ALL_SESSIONS = ("run_kind", "executor", "mode", "placement", "repo_root", "run_dir")
_SLOTS = {ResourceClass.GPU: "device", ResourceClass.CPU: "cpu", ResourceClass.IO: "io"}


def check_agreement(chain: Chain, rendered: RenderedPlan) -> None:
    """Add where the manifest, or a job's records, are not what the plan asks for."""
    assert chain.manifest is not None
    plan = rendered.plan
    expected = {
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "placement_digest": identity.placement_digest(plan),
    }
    same = {key: chain.manifest[key] for key in _OF_ALL_SESSIONS}
    for path, manifest in chain.sessions.items():
        if manifest is not None:
            claimed = manifest["plan"] or dict.fromkeys(expected)
            _compare(chain, path, "plan.", claimed, expected)
            _compare(chain, path, "", manifest, same)
    portable = Portable(rendered.run_dir, rendered.repo_root)
    for job_id, job in chain.jobs.items():
        entry = rendered.jobs[job_id]
        manifest = chain.manifest_of(job) or chain.manifest
        if job.scheduled is not None:
            fields = _scheduled(entry, portable, manifest)
            fields["config_digests"] = _configs(entry, job.scheduled, manifest)
            _compare(chain, job_id, "", job.scheduled, fields)
            _check_environment(chain, entry, portable, job.scheduled)
            _check_device(chain, entry, job.scheduled, manifest)
            _check_artifacts(chain, job_id, portable, job.scheduled["input_digests"], entry.inputs)
            _check_gate(chain, job_id, job.scheduled)
        if job.status is not None and job.status["status"] == Status.COMPLETED:
            _check_artifacts(chain, job_id, portable, job.status["outputs"], entry.outputs)
        _check_record(chain, job, portable, entry)


def _compare(
    chain: Chain, where: str, prefix: str, found: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    for key, value in expected.items():
        if found[key] != value:
            chain.add("plan_mismatch", where, f"{prefix}{key} is {found[key]!r}", repr(value))


def _scheduled(
    entry: RenderedJob, portable: Portable, manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """Give the fields of a scheduled job that the plan and the manifest fix."""
    job = entry.job
    formal = job.formal
    folders = [os.path.dirname(output.path) for output in entry.outputs]
    return {
        "run_kind": manifest["run_kind"],
        "method": None if formal is None else formal.method,
        "case": None if formal is None else formal.case,
        "seed": job.seed,
        "candidate_id": job.candidate_id,
        "command": [portable.text(item) for item in entry.argv],
        "cwd": portable.path(entry.cwd),
        "command_semantic_hash": command_semantic_hash(entry.argv, portable.run_dir),
        "resource": job.resource.value,
        "hard_timeout_ms": _milliseconds(job.seconds("max_seconds")),
        "stall_limit_ms": _milliseconds(job.seconds("stall_seconds")),
        "conda_export_digest": manifest["environment"]["conda_export_digest"],
        "output_dir": portable.path(os.path.commonpath(folders)) if folders else None,
    }


def _configs(
    entry: RenderedJob, scheduled: Mapping[str, Any], manifest: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """A formal job has one configuration, its input; the others have those of the run."""
    formal = entry.job.formal
    if manifest["run_kind"] != FORMAL or formal is None:
        return list(manifest["config_digests"])
    return [
        {key: item[key] for key in ("path", "type", "sha256", "size")}
        for item in scheduled["input_digests"]
        if item["role"] == formal.config
    ]


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds * 1000)


def _check_environment(
    chain: Chain, entry: RenderedJob, portable: Portable, scheduled: Mapping[str, Any]
) -> None:
    found = scheduled["environment"]
    expected = {name: portable.text(value) for name, value in entry.environment.items()}
    expected["HLOOP_JOB_ID"] = entry.job.job_id
    if chain.is_formal:
        cache = RunPaths(portable.run_dir).job(entry.job.job_id).cache
        expected |= {name: portable.path(cache / folder) for name, folder in CACHE_FOLDERS.items()}
    if scheduled["device"] is not None:
        index = str(scheduled["device"]["logical"])
        expected |= {RUN_DEVICE: index, PLAN_DEVICE: index}
    for name, value in expected.items():
        if found.get(name) != value:
            said = f"{name} in its environment is {found.get(name)!r}"
            chain.add("plan_mismatch", entry.job.job_id, said, repr(value))
    for name in found.keys() - expected.keys() - _OWN_VARIABLES:
        chain.add("plan_mismatch", entry.job.job_id, f"its environment has {name}", "no such name")


def _check_device(
    chain: Chain, entry: RenderedJob, scheduled: Mapping[str, Any], manifest: Mapping[str, Any]
) -> None:
    """A gpu job has one device of the run, pinned where pins hold; no other job has any."""
    job_id, device = entry.job.job_id, scheduled["device"]
    devices = {item["logical"]: item for item in manifest["devices"]["devices"]}
    if entry.job.resource is not ResourceClass.GPU:
        if device is not None:
            chain.add("plan_mismatch", job_id, f"it had the device {device['logical']}", "none")
    elif device is None:
        chain.add("plan_mismatch", job_id, "it had no device", "one")
    elif device != devices.get(device["logical"]):
        said = f"its device {device['logical']} is not one of the manifest's"
        chain.add("plan_mismatch", job_id, said)
    elif manifest["placement"] == "pinned" and device["logical"] != entry.job.device:
        said = f"it had the device {device['logical']}"
        chain.add("plan_mismatch", job_id, said, f"{entry.job.device}, as the plan pins it")
    uuid = None if device is None else device["uuid"]
    if scheduled["gpu_uuid"] not in (uuid, None if uuid == UNRESOLVED else uuid):
        chain.add("plan_mismatch", job_id, f"gpu_uuid is {scheduled['gpu_uuid']!r}", repr(uuid))
    slot = scheduled["slot"]
    kind = _SLOTS[entry.job.resource]
    if slot is not None and (
        slot.rpartition(" ")[0] != kind
        or (device is not None and slot != f"{kind} {device['logical']}")
    ):
        chain.add("plan_mismatch", job_id, f"its slot is {slot!r}", f"one of the kind {kind}")


def _check_artifacts(
    chain: Chain,
    job_id: str,
    portable: Portable,
    found: Sequence[Mapping[str, Any]],
    declared: Sequence[RenderedArtifact],
) -> None:
    """References must be those that the plan declares, in its order, and its digests hold."""
    expected = [
        (item.role, portable.path(item.path), DIRECTORY if item.directory else FILE)
        for item in declared
    ]
    roles = [(entry["role"], entry["path"], entry["type"]) for entry in found]
    if roles != expected:
        extra = [entry for entry in roles if entry not in expected]
        lacking = [entry for entry in expected if entry not in roles]
        said = f"it names {extra or roles}"
        chain.add("plan_mismatch", job_id, said, str(lacking or expected))
        return
    for entry, item in zip(found, declared, strict=True):
        if item.sha256 is not None and entry["sha256"] != item.sha256:
            said = f"{entry['path']} had sha256 {entry['sha256']}"
            chain.add("plan_mismatch", job_id, said, f"{item.sha256}, as the plan says")


def _check_gate(chain: Chain, job_id: str, scheduled: Mapping[str, Any]) -> None:
    gate = chain.read.get(GATE_PATH) if chain.is_formal else None
    expected: dict[str, Any] = dict.fromkeys(("fidelity_gate", "protocol", "fidelity_class"))
    if gate is not None:
        digest = f"sha256:{gate.content.sha256}"
        document = gate.document or {}
        expected = {
            "fidelity_gate": {"path": GATE_PATH, "digest": digest},
            "protocol": document.get("protocol"),
            "fidelity_class": document.get("fidelity_class"),
        }
    for key, value in expected.items():
        if scheduled[key] != value:
            chain.add("gate_mismatch", job_id, f"its {key} is {scheduled[key]!r}", repr(value))


def _check_record(chain: Chain, job: JobChain, portable: Portable, entry: RenderedJob) -> None:
    if job.record is None:
        return
    checkpoints = {
        (item.declared.checkpoint, portable.path(item.path))
        for item in entry.outputs
        if item.declared.checkpoint is not None
    }
    found = {(item["role"], item["path"]) for item in job.record["checkpoints"]}
    completed = job.status is not None and job.status["status"] == Status.COMPLETED
    if not (found == checkpoints if completed else found <= checkpoints):
        said = f"its checkpoints are {sorted(found)}"
        chain.add("plan_mismatch", job.job_id, said, str(sorted(map(str, checkpoints))))


def jobs_of(chain: Chain) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Give the jobs that ran, each with its scheduled job and its run record."""
    for job_id, job in chain.jobs.items():
        if job.scheduled is not None and job.record is not None:
            yield job_id, job.scheduled, job.record
