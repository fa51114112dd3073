"""Golden vectors: each kind of record, made of fixed values, is byte for byte what it was.

tests/data/records holds what the builders gave. A record that differs is of another format, and
says so in its ``_type``; its file here is then written anew from what :func:`made` gives.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from formal_case import FormalCase
from hloop import canonical
from hloop.devices.resolve import resolve_devices
from hloop.files import FileDigest, JobPaths
from hloop.plan.load import plan_from_document
from hloop.plan.model import PLAN_SCHEMA
from hloop.plan.render import RenderedPlan, render_plan
from hloop.portable import Portable
from hloop.provenance import environment, gate, manifest
from hloop.provenance.code import Scripts
from hloop.provenance.records import DIRECTORY, FILE, MANIFEST, Reference, Status
from hloop.run import processes
from hloop.run.attempt import Attempt, Failure, Outcome, ReadArtifact
from hloop.run.evidence import Evidence, RunFacts
from hloop.run.journal import Instant, Journal
from hloop.run.report import assemble
from hloop.run.signs import Sign
from hloop.schedule.events import EngineSettings, Slot, SlotKind
from synthetic_run import PLAN, SyntheticRun

RECORDS = Path(__file__).parents[1] / "data/records"
# What sha256sum prints of them.
DIGESTS = {
    "attempt_status": "6db4d56f091ace9337b3225a3faf946e506db61dac362f218ce05baaf0b0b709",
    "attempt_status_failed": "bae31900df9700b1d239b4a240c9166b5fc59520274a6d483a3d317abbdcd85b",
    "fidelity_gate": "d34d1a0d57bebf9f9151a117af6f656c148d379c50431abbfc433da6e349886b",
    "formal_manifest": "6a9bf35b940cf9f58c3c68c58a0f8ae647d5dcd98532202f14983f4a93938e0d",
    "manifest": "b6c6b01d15a30323d4bc24396d7cc0ebe37102484e656fd6301ea3efd3f116f7",
    "report": "9e088f927fb50ab796c11ba93db630018a7406ed59fd7c897b781ca2225c6fdc",
    "run_record": "57cd54a02ee1569efbe737862495a8379c66565d3928f995c2b0dff903546a51",
    "scheduled_job": "5f112ce21a9d0fb8fbee0667bc733866e07466ae584df33f1374c42947dfbd8d",
}
DATA = FileDigest("3" * 64, 2)
PLAN_DOCUMENT = {
    "schema_version": "mimicx.hloop-plan.v1",
    "plan_id": "golden",
    "jobs": [
        {
            "job_id": "train",
            "resource": "gpu",
            "cuda_visible_devices": "0",
            "command": ["python", "train.py", "--out={run_dir}/train/policy.pt"],
            "seed": 7,
            "candidate_id": "größte",
            "budget": {"max_seconds": 60, "stall_seconds": 0.5},
            "environment": {"COLOUR": "{run_dir}/red"},
            "inputs": [{"role": "data", "path": "data.csv", "sha256": DATA.sha256}],
            "outputs": [
                {"role": "policy", "path": "{run_dir}/train/policy.pt", "checkpoint": "policy"},
                {"role": "frames", "path": "{run_dir}/train/frames", "type": "directory"},
            ],
        },
        {"job_id": "absent", "resource": "cpu", "command": ["absent"]},
    ],
}
HOST = {
    "hostname": "node",
    "system": "Linux",
    "release": "6.1",
    "machine": "x86_64",
    "cpu": "model",
    "cpu_count": 2,
    "boot_id": "00000000-0000-4000-8000-000000000000",
}
GIT = {
    "commit": "1" * 40,
    "dirty": True,
    "diff_sha256": "2" * 64,
    "untracked_files": 1,
    "problem": None,
}


class Made:
    """Makes every kind of record with the real builders.

    Attributes:
        root: the repository root; the run directory is ``run`` in it.
        records: what was made, by name.
    """

    def __init__(self, root: Path):
        self.root, self.run_dir = root, root / "run"
        self.portable = Portable(self.run_dir, root)
        self.records: dict[str, bytes] = {}
        self.run_dir.mkdir(parents=True)
        (root / "train.py").write_text("train\n")
        (root / "workload.yaml").write_text("jobs: []\n")
        rendered = render_plan(plan_from_document(PLAN_DOCUMENT), root, self.run_dir)
        self._attempts(rendered, self._facts(rendered))

    def _facts(self, rendered: RenderedPlan) -> RunFacts:
        plan = Reference.of_bytes("${RUN_DIR}/plan.json", PLAN_SCHEMA, b"{}\n")
        document = manifest.build_manifest(
            session_id="session",
            run_kind="interface_sanity_only",
            executor="hloop",
            mode="hloop",
            settings=EngineSettings(devices=(0,), cpu_workers=2, io_workers=1),
            grace_seconds=5,
            plan=rendered,
            table=resolve_devices("simulated:1", {}),
            config_files=[self.root / "workload.yaml"],
            snakemake="9.27.1",
            environ={"CUDA_VISIBLE_DEVICES": "0", "LANG": "C"},
            repo_root=self.root,
            run_dir=self.run_dir,
            upstream=[plan],
            scripts=Scripts(self.portable),
        )
        # The only values that are not portable.
        document |= {"repo_root": "/repository", "run_dir": "/repository/run"}
        document["created"] = {"time": "2026-01-02T03:04:05.000000Z", "offset_ns": 1}
        data = self.records["manifest"] = canonical.dumps(document)
        reference = Reference.of_bytes("${RUN_DIR}/manifest.json", MANIFEST, data)
        return RunFacts(document, reference, plan)

    def _attempts(self, rendered: RenderedPlan, facts: RunFacts) -> None:
        """One attempt that completed, and one that could not start."""
        journal = Journal(os.open(os.devnull, os.O_WRONLY), 0)
        writer = Evidence(
            self.run_dir / "jobs",
            self.portable,
            journal,
            facts,
            Scripts(self.portable),
            alone=True,
        )
        train = Attempt("train", rendered.jobs["train"], "token")
        train.inputs = [ReadArtifact("data", str(self.root / "data.csv"), FILE, DATA)]
        train.slot, train.wave = Slot(SlotKind.GPU, 0, (0,)), 1
        train.device = resolve_devices("simulated:1", {}).devices[0]
        train.environment = {"COLOUR": f"{self.run_dir}/red"}
        writer.schedule(train)
        train.pid, train.started = 1234, Instant.now()
        writer.started(train)
        train.wait_status = 0
        train.usage = {"max_rss_bytes": 4096, "cpu_ns": 1_500_000}
        train.last_sign, train.cut_bytes = Sign("stdout grew", Instant.now()), {"stdout": 9}
        train.gone = Instant.now()
        writer.gone(train)
        policy, frames = (item.path for item in rendered.jobs["train"].outputs)
        train.outputs = [
            ReadArtifact("policy", policy, FILE, FileDigest("4" * 64, 4), "policy"),
            ReadArtifact("frames", frames, DIRECTORY, FileDigest("5" * 64, 5)),
        ]
        paths = JobPaths(self.run_dir / "jobs/train")
        train.logs = [
            ReadArtifact("stdout", str(paths.stdout), FILE, FileDigest("6" * 64, 6)),
            ReadArtifact("stderr", str(paths.stderr), FILE, FileDigest("7" * 64, 0)),
        ]
        paths.transitions.write_text("12\n")
        writer.finish(train, Outcome(Status.COMPLETED))
        absent = Attempt("absent", rendered.jobs["absent"], "token")
        failure = Failure("not_started", f"there is no {self.run_dir}/absent")
        writer.finish(absent, Outcome(Status.FAILED, failure))
        journal.close()
        self.records |= {
            "scheduled_job": paths.scheduled.read_bytes(),
            "run_record": paths.record.read_bytes(),
            "attempt_status": paths.status.read_bytes(),
            "attempt_status_failed": JobPaths(self.run_dir / "jobs/absent").status.read_bytes(),
        }


def make_gate(root: Path) -> dict[str, bytes]:
    case = FormalCase(root, seeds=(1,))
    plan = render_plan(plan_from_document(case.document), root, root / "run")
    made = gate.approve(plan, fidelity=case.fidelity, patch=case.patch, source=case.source)
    return {name: made[f"{name}.json"] for name in ("fidelity_gate", "formal_manifest")}


def make_report(root: Path) -> bytes:
    # The published hash of a command covers the repository's path, where it names it.
    jobs = tuple(replace(job, command=("true", "{run_dir}")) for job in PLAN.jobs)
    run = SyntheticRun(root, replace(PLAN, jobs=jobs))
    run.run_all()
    return json.dumps(assemble(run.rendered, run.events), indent=2).encode() + b"\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every kind of record, made of values that are the same everywhere."""
    folder = tmp_path_factory.mktemp("golden")
    clock = itertools.count(1_000_000_000, 1_000_000_000)

    def tick(cls: type[Instant]) -> Instant:
        now = next(clock)
        return Instant(now, f"2026-01-02T03:04:{now // 1_000_000_000:02}.000000Z")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instant, "now", classmethod(tick))
        patch.setattr(processes, "start_ticks", lambda pid: 42)
        patch.setattr(manifest, "host_facts", lambda: HOST)
        patch.setattr(manifest, "git_facts", lambda root, run_dir: GIT)
        patch.setattr(environment, "packages", lambda: {"numpy": "2.0.0"})
        patch.setattr(environment, "__version__", "0.1.0")
        patch.setattr(environment.platform, "python_version", lambda: "3.11.0")
        # The id of the authors' commit, and the command in the formal plan.
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            patch.setenv(name, "2026-01-02T03:04:05Z")
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            patch.setenv(name, os.devnull)
        patch.setattr(sys, "executable", "/usr/bin/python3")
        records = Made(folder / "repository").records | make_gate(folder / "formal")
        return records | {"report": make_report(folder / "synthetic")}


@pytest.mark.parametrize("name", DIGESTS)
def test_a_record_is_what_it_was(made: dict[str, bytes], name: str) -> None:
    assert made[name].decode() == (RECORDS / f"{name}.json").read_text()


@pytest.mark.parametrize("name", DIGESTS)
def test_a_golden_record_has_its_digest(name: str) -> None:
    assert hashlib.sha256((RECORDS / f"{name}.json").read_bytes()).hexdigest() == DIGESTS[name]


def test_every_kind_has_a_golden_record(made: dict[str, bytes]) -> None:
    assert set(made) == set(DIGESTS)
