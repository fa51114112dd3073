"""The manifest: what it says of a run, and which files it is built from."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical
from hloop.devices.resolve import resolve_devices
from hloop.devices.visible import Gpu, Machine
from hloop.errors import HloopError
from hloop.plan.contract import format_problems
from hloop.plan.identity import experiment_digest, placement_digest, plan_semantic_hash
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.manifest import build_manifest
from hloop.provenance.records import PLAN, Reference
from hloop.run.settings import RunSettings
from supervised import job, rendered

MASK = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
MACHINE = Machine((Gpu("GPU-a", "T4"), Gpu("GPU-b", "A100")), "570.86.10")
PLAN_REFERENCE = Reference.of_bytes("${RUN_DIR}/plan.json", PLAN, b"{}")


@pytest.fixture
def plan(tmp_path: Path) -> RenderedPlan:
    (tmp_path / "train.py").write_text("train")
    (tmp_path / "workload.yaml").write_text("jobs: []\n")
    return rendered(tmp_path, job("a", command=["python3", "train.py"]), job("b"))


def manifest(source: RenderedPlan, **changes: Any) -> dict[str, Any]:
    table = resolve_devices("auto", MASK, lambda: MACHINE)
    return build_manifest(
        **{
            "session_id": "session",
            "run_kind": "interface_sanity_only",
            "executor": "hloop",
            "mode": "external",
            "settings": RunSettings().engine(source.plan, table, keep_going=True),
            "grace_seconds": 7,
            "plan": source,
            "table": table,
            "config_files": [source.repo_root / "workload.yaml"],
            "snakemake": "9.27.1",
            "environ": MASK,
            "repo_root": source.repo_root,
            "run_dir": source.run_dir,
            "upstream": [PLAN_REFERENCE],
            "scripts": Scripts(Portable(source.run_dir, source.repo_root)),
            **changes,
        }
    )


def file(name: str, data: bytes) -> dict[str, Any]:
    sha256 = hashlib.sha256(data).hexdigest()
    return {"path": name, "type": "file", "sha256": sha256, "size": len(data)}


def test_a_manifest_has_its_format(plan: RenderedPlan) -> None:
    created = {"time": "2026-01-02T03:04:05.000006Z", "offset_ns": 0}
    assert format_problems({**manifest(plan), "created": created}, "manifest") == []


def test_a_manifest_has_a_canonical_form(plan: RenderedPlan) -> None:
    found = manifest(plan)
    assert canonical.loads(canonical.dumps(found)) == found


def test_the_run_is_described_by_its_settings(plan: RenderedPlan) -> None:
    found = manifest(plan)
    keys = ("session_id", "run_kind", "executor", "mode", "placement", "keep_going")
    assert [found[key] for key in keys] == [
        *("session", "interface_sanity_only", "hloop", "external", "pinned", True)
    ]
    assert (found["grace_seconds"], found["limits"]) == (7, {"cpu": 4, "io": 2})


def test_the_plan_is_known_by_its_digests(plan: RenderedPlan) -> None:
    found = manifest(plan)
    assert found["plan"] == {
        "plan_id": "test",
        "plan_semantic_hash": plan_semantic_hash(plan.plan),
        "experiment_digest": experiment_digest(plan.plan),
        "placement_digest": placement_digest(plan.plan),
    }
    assert found["upstream"] == [PLAN_REFERENCE.to_dict()]


def test_a_run_without_a_plan_has_a_manifest(plan: RenderedPlan) -> None:
    found = manifest(plan, plan=None, upstream=[])
    assert (found["plan"], found["upstream"]) == (None, [])
    assert found["code_digests"]["scripts"] == []


def test_configuration_and_scripts_have_digests(plan: RenderedPlan) -> None:
    found = manifest(plan)
    assert found["config_digests"] == [file("${REPO_ROOT}/workload.yaml", b"jobs: []\n")]
    assert found["code_digests"]["scripts"] == [file("${REPO_ROOT}/train.py", b"train")]


def test_the_code_is_in_no_repository_here(plan: RenderedPlan) -> None:
    assert manifest(plan)["code_digests"]["git"] is None


def test_a_configuration_that_is_gone_is_an_error(plan: RenderedPlan) -> None:
    (plan.repo_root / "workload.yaml").unlink()
    with pytest.raises(HloopError, match=r"workload\.yaml does not exist"):
        manifest(plan)


def test_devices_are_those_of_the_run(plan: RenderedPlan) -> None:
    found = manifest(plan)["devices"]
    device = {"logical": 0, "token": "1", "uuid": "GPU-b", "name": "A100", "simulated": False}
    assert found == {
        "visible": "1",
        "source": "CUDA_VISIBLE_DEVICES=1",
        "driver": "570.86.10",
        "devices": [device],
    }


def test_an_unset_mask_is_null(plan: RenderedPlan) -> None:
    assert manifest(plan, environ={})["devices"]["visible"] is None


def test_software_and_machine_are_there(plan: RenderedPlan) -> None:
    found = manifest(plan)
    assert found["environment"]["variables"] == MASK
    assert found["host"]["hostname"] == socket.gethostname()


def test_the_folders_are_absolute(plan: RenderedPlan) -> None:
    found = manifest(plan)
    assert (found["repo_root"], found["run_dir"]) == (str(plan.repo_root), str(plan.run_dir))
