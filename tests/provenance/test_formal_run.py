"""`hloop run --formal`: what it refuses before it writes anything, and what it leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from formal_case import FormalCase, sha256
from formal_runs import GPUS, Bench, options
from hloop.devices.resolve import UNRESOLVED, Device, DeviceTable
from hloop.errors import HloopError
from hloop.files import RunPaths, data_dir
from hloop.plan.load import load_checked
from hloop.provenance.verify import verify
from hloop.run.approval import check_formal
from hloop.run.settings import RunSettings
from hloop.schedule.events import Placement

TABLE = DeviceTable(
    tuple(Device(index, uuid, uuid, "GPU", 1, False) for index, uuid in enumerate(GPUS)), "", None
)


def records(run_dir: Path, job_id: str, name: str) -> Any:
    return json.loads((run_dir / "jobs" / job_id / f"{name}.json").read_bytes())


# What is refused


@pytest.fixture
def passed(case: FormalCase, hloop: Any) -> FormalCase:
    """A case whose gate was passed and written."""
    assert hloop(*case.arguments()).code == 0
    return case


def refusals(
    case: FormalCase, table: DeviceTable = TABLE, executor: str = "hloop", **settings: Any
) -> list[str]:
    """The codes of the reasons for which a formal run of a case may not begin."""
    rendered = load_checked(case.plan, case.root, case.root / "run")
    given = RunSettings().override(
        {"formal": True, "gate": str(case.gate), **settings}, source="the test"
    )
    try:
        check_formal(rendered, given, table, executor=executor)
    except HloopError as error:
        return [problem.code for problem in error.problems]
    return []


def test_a_passed_gate_of_this_plan_lets_a_run_begin(passed: FormalCase) -> None:
    assert refusals(passed) == []


def change_device(**fields: Any) -> DeviceTable:
    return replace(TABLE, devices=(replace(TABLE.devices[0], **fields), TABLE.devices[1]))


@pytest.mark.parametrize(
    "table", [change_device(simulated=True, uuid=None), change_device(uuid=UNRESOLVED)]
)
def test_a_device_that_nvml_does_not_name_is_refused(
    passed: FormalCase, table: DeviceTable
) -> None:
    assert refusals(passed, table) == ["device_not_real"] * 2


def test_a_free_placement_is_refused(passed: FormalCase) -> None:
    assert refusals(passed, placement=Placement.ANY) == ["formal_placement"]


def test_another_executor_is_refused(passed: FormalCase) -> None:
    assert refusals(passed, executor="local") == ["formal_executor"]


def test_a_file_of_another_name_is_refused(passed: FormalCase) -> None:
    other = passed.gate.with_name("gate.json")
    shutil.copy(passed.gate, other)
    assert refusals(passed, gate=str(other)) == ["gate_name"]


def edit_gate(case: FormalCase) -> None:
    case.gate.chmod(0o644)
    case.gate.write_bytes(case.gate.read_bytes().replace(b'"studio"', b'"other"'))


def other_plan(case: FormalCase) -> None:
    case.document["plan_id"] = "other"
    case.write()


def no_timeout(case: FormalCase) -> None:
    del case.document["jobs"][0]["budget"]
    case.write()


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("unreadable", lambda case: case.gate.unlink()),
        ("gate_mismatch", edit_gate),
        ("gate_mismatch", other_plan),
        ("no_hard_timeout", no_timeout),
        ("source_differs", lambda case: (case.source / "train.py").write_text("")),
        ("source_differs", lambda case: (case.source / "torch.py").write_text("")),
        ("source", lambda case: case.source.rename(case.root / "moved")),
    ],
)
def test_a_gate_that_does_not_derive_anew_is_refused(
    passed: FormalCase, code: str, spoil: Callable[[FormalCase], object]
) -> None:
    spoil(passed)
    assert code in refusals(passed)


def test_a_refused_run_writes_nothing(passed: FormalCase, hloop: Any) -> None:
    run_dir = passed.root / "run"
    outcome = hloop(*options(passed, run_dir), "--devices", "simulated:2", "--json")
    assert (outcome.code, set(outcome.codes), run_dir.exists()) == (2, {"device_not_real"}, False)


def test_a_run_directory_that_holds_something_is_refused(passed: FormalCase, hloop: Any) -> None:
    (passed.root / "run").mkdir()
    (passed.root / "run/old.pt").write_text("")
    outcome = hloop(*options(passed, passed.root / "run"), "--json")
    assert (outcome.code, outcome.codes) == (2, ["run_dir_used"])


@pytest.mark.parametrize(("executor", "code"), [("hloop", 0), ("local", 1)])
def test_snakemake_itself_runs_formally_with_this_executor_only(
    passed: FormalCase, bench: Bench, tmp_path: Path, executor: str, code: int
) -> None:
    run_dir = tmp_path / "run"
    config = [
        *(f"plan={passed.plan}", f"run_dir={run_dir}", f"repo_root={passed.root}"),
        *("formal=True", f"gate={passed.gate}"),
    ]
    argv = ["snakemake", "-s", str(data_dir("workflow") / "Snakefile"), "--cores", "1"]
    argv += ["--workflow-profile", "none", "--executor", executor, "--config", *config]
    ended = bench.run(argv, tmp_path)
    assert (ended.returncode, run_dir.exists()) == (code, code == 0), ended.stderr


def test_a_workflow_without_a_plan_cannot_be_run_formally(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text("rule all:\n    output: 'x'\n    shell: 'touch x'\n")
    argv = ["snakemake", "--executor", "hloop", "--cores", "1"]
    ended = bench.run([*argv, "--hloop-formal", "--hloop-gate", "gate.json"], tmp_path)
    assert (ended.returncode, "this workflow has no plan" in ended.stderr) == (1, True)


# What a formal run leaves


def test_a_formal_run_is_eligible(successful: Any) -> None:
    verdict = verify(successful.run_dir)
    assert (verdict.eligible, verdict.exit_code, verdict.findings) == (True, 0, ())


def test_the_run_holds_its_own_copy_of_the_gate(successful: Any) -> None:
    folder = successful.case.gate.parent
    copied = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    formal = successful.run_dir / "formal"
    assert {name: (formal / name).read_bytes() for name in copied} == copied


def test_the_manifest_builds_on_the_gate(successful: Any) -> None:
    manifest = json.loads((successful.run_dir / "manifest.json").read_bytes())
    paths = [reference["path"] for reference in manifest["upstream"]]
    assert (manifest["run_kind"], paths) == (
        "formal",
        ["${RUN_DIR}/plan.json", "${RUN_DIR}/formal/fidelity_gate.json"],
    )


def test_a_scheduled_job_fixes_what_a_formal_job_is(successful: Any) -> None:
    scheduled = records(successful.run_dir, "train_repho_1", "scheduled_job")
    keys = ("run_kind", "protocol", "fidelity_class", "method", "case", "seed", "gpu_uuid")
    assert [scheduled[key] for key in (*keys, "hard_timeout_ms")] == [
        *("formal", "studio", "author_algorithm_preserving", "repho", "walk", 1, GPUS[0]),
        60000,
    ]


def test_a_scheduled_job_has_one_configuration_and_its_gate(successful: Any) -> None:
    scheduled = records(successful.run_dir, "train_ppo_1", "scheduled_job")
    config = successful.case.source / "configs/ppo.yaml"
    gate = f"sha256:{sha256(successful.case.gate)}"
    assert (scheduled["config_digests"], scheduled["fidelity_gate"]) == (
        [
            {
                "path": "${REPO_ROOT}/source/configs/ppo.yaml",
                "type": "file",
                "sha256": sha256(config),
                "size": config.stat().st_size,
            }
        ],
        {"path": "${RUN_DIR}/formal/fidelity_gate.json", "digest": gate},
    )


def test_each_job_has_caches_of_its_own(successful: Any) -> None:
    names = ("XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "WARP_CACHE_PATH")
    for job_id in ("train_repho_1", "train_ppo_1"):
        environment = records(successful.run_dir, job_id, "scheduled_job")["environment"]
        for name in (*names, "PYTHONPYCACHEPREFIX"):
            folder = environment[name].replace("${RUN_DIR}", str(successful.run_dir))
            assert Path(folder).parent == RunPaths(successful.run_dir).job(job_id).cache
            assert Path(folder).is_dir()


def test_a_job_is_told_of_its_caches(successful: Any) -> None:
    seen = (successful.run_dir / "walk/ppo/1/train/seen.txt").read_text()
    assert seen == str(successful.run_dir / "jobs/train_ppo_1/cache/xdg")


def test_no_compiled_file_is_left_in_the_source_tree(successful: Any) -> None:
    assert not list(successful.case.source.rglob("*.pyc"))


def test_a_run_record_has_every_checkpoint_under_its_own_name(successful: Any) -> None:
    record = records(successful.run_dir, "train_repho_1", "run_record")
    folder = "${RUN_DIR}/walk/repho/1/train/checkpoints"
    assert [(entry["role"], entry["path"]) for entry in record["checkpoints"]] == [
        ("forward", f"{folder}/forward_00012.pt"),
        ("backward", f"{folder}/backward_00012.pt"),
    ]


def test_a_file_that_no_output_declares_is_a_finding(successful: Any, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(successful.run_dir, run_dir, symlinks=True)
    (run_dir / "walk/repho/1/train/final.pt").write_text("")
    verdict = verify(run_dir)
    found = [(finding.code, finding.where) for finding in verdict.findings]
    assert found == [("unexpected_file", "${RUN_DIR}/walk/repho/1/train/final.pt")]


def test_a_run_of_formal_jobs_without_a_gate_is_never_eligible(
    case: FormalCase, bench: Bench, tmp_path: Path
) -> None:
    given = {"--plan": case.plan, "--repo-root": case.root, "--run-dir": tmp_path / "run"}
    argv = ["hloop", "run", *(str(item) for pair in given.items() for item in pair)]
    assert bench.run(argv, tmp_path).returncode == 0
    verdict = verify(tmp_path / "run")
    assert (verdict.complete, verdict.unaltered, verdict.eligible) == (True, True, False)
