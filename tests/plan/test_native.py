"""The published 17-job plan, from MimicX's own configuration and from config/paper.yaml."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError
from hloop.plan.identity import experiment_digest, plan_semantic_hash
from hloop.plan.lint import lint
from hloop.plan.load import plan_from_document
from hloop.plan.model import Job, Plan, published_job_fields
from hloop.plan.prepare import BenchmarkSettings, prepare, read_config

REPOSITORY = Path(__file__).parents[2]
TASKS = {"tennis": 800, "football1": 455, "dance2": 784, "kongfu1": 1062}
CHECKPOINTS = {"tennis": "model_1248.pt"}
SCRIPTS = (
    "scripts/rollout_mjlab_motion_smoke.py",
    "scripts/autorefine/mine_failures.py",
    "scripts/autorefine/select_hloop_native.py",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A MimicX checkout with stand-ins for its scripts, interpreter, backend and inputs."""
    root = tmp_path / "mimicx"
    for name in (*SCRIPTS, ".venv/bin/python"):
        write(root / name, name)
    (root / "third_party/unitree_rl_mjlab").mkdir(parents=True)
    tasks = root / "tasks"
    for task, horizon in TASKS.items():
        motion, checkpoint = motion_of(root, task), checkpoint_of(root, task)
        write(motion, f"motion of {task}")
        write(checkpoint, f"checkpoint of {task}")
        entry = {
            "id": task,
            "motion_file": str(motion),
            "hloop_checkpoint": str(checkpoint),
            "horizon": horizon,
            "learning_rate": 1e-06,
        }
        write(tasks / f"{task}.yaml", yaml.safe_dump(entry))
    write_config(root)
    return root


def motion_of(root: Path, task: str) -> Path:
    return root / "paper-core-inputs/motions" / task / "original.npz"


def checkpoint_of(root: Path, task: str) -> Path:
    return root / "paper-core-inputs/hloop" / task / CHECKPOINTS.get(task, "model_2567.pt")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_config(root: Path, **changes: Any) -> Path:
    config = {
        "schema": "mimicx.native-hloop-benchmark.v1",
        "task_dir": str(root / "tasks"),
        "runtime_python": str(root / ".venv/bin/python"),
        "backend": str(root / "third_party/unitree_rl_mjlab"),
        "tasks": list(TASKS),
        "gpus": [0, 1],
        "evaluation_seeds": [1001, 2002],
        "repetitions": 5,
        "warmup": True,
    } | changes
    config = {key: value for key, value in config.items() if value is not ...}
    return write(root / "hloop.yaml", yaml.safe_dump(config, sort_keys=False))


def native(root: Path, **changes: Any) -> Plan:
    return prepare(write_config(root, **changes), repo_root=root.parent, mimicx_root=root)


def paper(root: Path) -> Plan:
    """The plan of config/paper.yaml, with the digests of the stand-ins."""
    text = (REPOSITORY / "config/paper.yaml").read_text()
    document = yaml.safe_load(text)
    for task, entry in document["axes"]["task"].items():
        text = text.replace(entry["motion_sha256"], digest(motion_of(root, task)))
        text = text.replace(entry["checkpoint_sha256"], digest(checkpoint_of(root, task)))
    config = write(root.parent / "paper.yaml", text)
    return prepare(config, repo_root=root.parent, mimicx_root=root)


BOTH = pytest.mark.parametrize("make", [native, paper])
Make = Callable[[Path], Plan]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def job(plan: Plan, job_id: str) -> Job:
    return plan.by_id()[job_id]


@BOTH
def test_the_jobs_are_the_17_published_ones_in_their_order(checkout: Path, make: Make) -> None:
    assert [job.job_id for job in make(checkout).jobs] == [
        *("rollout_tennis_seed1001", "diagnose_tennis_seed1001"),
        *("rollout_tennis_seed2002", "diagnose_tennis_seed2002"),
        *("rollout_football1_seed1001", "diagnose_football1_seed1001"),
        *("rollout_football1_seed2002", "diagnose_football1_seed2002"),
        *("rollout_dance2_seed1001", "diagnose_dance2_seed1001"),
        *("rollout_dance2_seed2002", "diagnose_dance2_seed2002"),
        *("rollout_kongfu1_seed1001", "diagnose_kongfu1_seed1001"),
        *("rollout_kongfu1_seed2002", "diagnose_kongfu1_seed2002"),
        "select_candidates",
    ]


@BOTH
def test_the_head_of_the_plan_is_the_published_one(checkout: Path, make: Make) -> None:
    document = make(checkout).to_document()
    del document["jobs"]
    assert document == {
        "schema_version": "mimicx.hloop-plan.v1",
        "plan_id": "native_core4_rollout_diagnose_select_v1",
        "max_cpu_workers": 8,
        "max_io_workers": 1,
        "selection_artifact": "{run_dir}/selection.json",
    }


@BOTH
def test_a_rollout_is_the_published_one(checkout: Path, make: Make) -> None:
    root, backend = checkout, f"{checkout}/third_party/unitree_rl_mjlab"
    motion, checkpoint = motion_of(root, "football1"), checkpoint_of(root, "football1")
    folder = "{run_dir}/candidates/football1_seed2002"
    rollout = job(make(root), "rollout_football1_seed2002")
    assert published_job_fields(rollout) == {
        "job_id": "rollout_football1_seed2002",
        "resource": "gpu",
        "command": [
            f"{root}/.venv/bin/python",
            f"{root}/scripts/rollout_mjlab_motion_smoke.py",
            "--task",
            "Unitree-G1-Tracking-MimicX-Curriculum",
            "--motion-file",
            str(motion),
            "--num-envs",
            "1",
            "--steps",
            "455",
            "--seed",
            "2002",
            "--device",
            "cuda:0",
            "--disable-joint-init-noise",
            "--checkpoint-file",
            str(checkpoint),
            "--metrics-output",
            f"{folder}/metrics.json",
            "--step-metrics-output",
            f"{folder}/metrics_steps.csv",
        ],
        "depends_on": [],
        "cwd": backend,
        "environment": {"PYTHONPATH": f"{backend}:{backend}/src:{root}"},
        "inputs": [
            {"role": "motion", "path": str(motion), "sha256": digest(motion)},
            {"role": "checkpoint", "path": str(checkpoint), "sha256": digest(checkpoint)},
        ],
        "outputs": [
            {"role": "metrics", "path": f"{folder}/metrics.json", "sha256": None},
            {"role": "steps", "path": f"{folder}/metrics_steps.csv", "sha256": None},
        ],
        "candidate_id": "football1_seed2002",
        "seed": 2002,
        "budget": {"rollouts": 1, "policy_updates": 0},
        "cuda_visible_devices": "1",
    }


@BOTH
def test_a_diagnosis_is_the_published_one(checkout: Path, make: Make) -> None:
    folder = "{run_dir}/candidates/dance2_seed1001"
    metrics, steps = f"{folder}/metrics.json", f"{folder}/metrics_steps.csv"
    report = f"{folder}/failure_report.json"
    assert published_job_fields(job(make(checkout), "diagnose_dance2_seed1001")) == {
        "job_id": "diagnose_dance2_seed1001",
        "resource": "cpu",
        "command": [
            f"{checkout}/.venv/bin/python",
            f"{checkout}/scripts/autorefine/mine_failures.py",
            *("--metrics-json", metrics, "--step-csv", steps, "--output-json", report),
        ],
        "depends_on": ["rollout_dance2_seed1001"],
        "cwd": str(checkout),
        "environment": {},
        "inputs": [
            {"role": "metrics", "path": metrics, "sha256": None},
            {"role": "steps", "path": steps, "sha256": None},
        ],
        "outputs": [{"role": "failure_report", "path": report, "sha256": None}],
        "candidate_id": None,
        "seed": None,
        "budget": {},
        "cuda_visible_devices": None,
    }


@BOTH
def test_the_selection_is_the_published_one(checkout: Path, make: Make) -> None:
    candidates = [f"{task}_seed{seed}" for task in TASKS for seed in (1001, 2002)]
    reports = [f"{{run_dir}}/candidates/{name}/failure_report.json" for name in candidates]
    arguments = []
    for name, report in zip(candidates, reports, strict=True):
        arguments += ["--candidate", name, report]
    assert published_job_fields(job(make(checkout), "select_candidates")) == {
        "job_id": "select_candidates",
        "resource": "io",
        "command": [
            f"{checkout}/.venv/bin/python",
            f"{checkout}/scripts/autorefine/select_hloop_native.py",
            *arguments,
            *("--output", "{run_dir}/selection.json"),
        ],
        "depends_on": [f"diagnose_{name}" for name in candidates],
        "cwd": str(checkout),
        "environment": {},
        "inputs": [
            {"role": "failure_report", "path": report, "sha256": None} for report in reports
        ],
        "outputs": [{"role": "selection", "path": "{run_dir}/selection.json", "sha256": None}],
        "candidate_id": None,
        "seed": None,
        "budget": {},
        "cuda_visible_devices": None,
    }


@BOTH
def test_horizons_and_devices_are_the_published_ones(checkout: Path, make: Make) -> None:
    rollouts = [job for job in make(checkout).jobs if job.resource == "gpu"]
    steps = [int(job.command[job.command.index("--steps") + 1]) for job in rollouts]
    assert [(step, job.device) for step, job in zip(steps, rollouts, strict=True)] == [
        (horizon, device) for horizon in TASKS.values() for device in (0, 1)
    ]


@BOTH
def test_the_plan_keeps_every_rule(checkout: Path, make: Make) -> None:
    assert lint(make(checkout), checkout.parent, checkout.parent / "run") == []


@BOTH
def test_the_plan_reads_back_as_it_was(checkout: Path, make: Make) -> None:
    plan = make(checkout)
    assert plan_from_document(plan.to_document()) == plan


@pytest.mark.parametrize("digest_of", [plan_semantic_hash, experiment_digest])
def test_the_paper_workload_is_the_native_plan(
    checkout: Path, digest_of: Callable[[Plan], str]
) -> None:
    assert digest_of(paper(checkout)) == digest_of(native(checkout))


@BOTH
def test_benchmark_settings_are_the_paper_s(checkout: Path, make: Make) -> None:
    make(checkout)
    config = {native: checkout / "hloop.yaml", paper: checkout.parent / "paper.yaml"}[make]
    settings = read_config(config, repo_root=checkout, mimicx_root=checkout).benchmark
    assert settings == BenchmarkSettings(
        repetitions=5, modes=("sequential", "bulk-sync", "hloop"), warmup=True
    )


def test_without_a_checkout_only_the_constants_are_told() -> None:
    with pytest.raises(HloopError) as error:
        prepare(REPOSITORY / "config/paper.yaml", repo_root=REPOSITORY)
    assert [problem.where for problem in error.value.problems] == [
        *("python", "constants.backend", "constants.inputs")
    ]


def test_the_frozen_digests_are_demanded(checkout: Path) -> None:
    with pytest.raises(HloopError) as error:
        prepare(REPOSITORY / "config/paper.yaml", repo_root=checkout, mimicx_root=checkout)
    assert {problem.code for problem in error.value.problems} == {"input_changed"}


def test_devices_go_round_robin_over_any_number(checkout: Path) -> None:
    plan = native(checkout, gpus=[3, 0, 5])
    devices = [job.device for job in plan.jobs if job.resource == "gpu"]
    assert devices == [3, 0, 5, 3, 0, 5, 3, 0]


def test_warmup_and_repetitions_may_be_left_out(checkout: Path) -> None:
    config = write_config(checkout, warmup=..., repetitions=...)
    settings = read_config(config, repo_root=checkout, mimicx_root=checkout).benchmark
    assert settings == BenchmarkSettings(repetitions=5, warmup=True)


def test_relative_paths_are_relative_to_the_file_that_they_stand_in(checkout: Path) -> None:
    for task in TASKS:
        path = checkout / f"tasks/{task}.yaml"
        path.write_text(path.read_text().replace(f"{checkout}/", "../"))
    plan = native(
        checkout,
        task_dir="tasks",
        backend="third_party/unitree_rl_mjlab",
        runtime_python=".venv/bin/python",
    )
    rollout = job(plan, "rollout_tennis_seed1001")
    paths = (rollout.command[0], rollout.cwd, rollout.inputs[0].path)
    assert paths == (
        f"{checkout}/.venv/bin/python",
        f"{checkout}/third_party/unitree_rl_mjlab",
        f"{checkout}/tasks/../paper-core-inputs/motions/tennis/original.npz",
    )


def test_the_interpreter_of_a_virtual_environment_stays_a_link(checkout: Path) -> None:
    link = checkout / "env/bin/python"
    link.parent.mkdir(parents=True)
    link.symlink_to(checkout / ".venv/bin/python")
    plan = native(checkout, runtime_python=str(link))
    assert job(plan, "select_candidates").command[0] == str(link)


def test_an_interpreter_may_be_a_bare_name(checkout: Path) -> None:
    plan = native(checkout, runtime_python="python3")
    assert job(plan, "select_candidates").command[0] == "python3"


def test_the_checkout_is_written_without_links(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout)
    plan = prepare(checkout / "hloop.yaml", repo_root=tmp_path, mimicx_root=tmp_path / "link")
    assert job(plan, "select_candidates").cwd == str(checkout)


def test_what_belongs_to_a_machine_is_not_compared(checkout: Path) -> None:
    plan = native(checkout)
    outputs = {
        output.role: (output.compare.value, output.ignore)
        for entry in plan.jobs
        for output in entry.outputs
    }
    assert outputs == {
        "metrics": ("json", ("/motion_file", "/checkpoint_file", "/device")),
        "steps": ("csv", ()),
        "failure_report": ("json", ("/source",)),
        "selection": ("bytes", ()),
    }


def failure(root: Path, **changes: Any) -> str:
    with pytest.raises(HloopError) as error:
        native(root, **changes)
    return str(error.value)


def set_in_task(root: Path, **changes: Any) -> None:
    path = root / "tasks/dance2.yaml"
    entry = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({k: v for k, v in entry.items() if v is not ...}))


def test_a_checkout_is_asked_for(checkout: Path) -> None:
    with pytest.raises(HloopError, match="Pass --mimicx-root"):
        prepare(checkout / "hloop.yaml", repo_root=checkout)


@pytest.mark.parametrize("name", [*SCRIPTS, ".venv/bin/python"])
def test_a_missing_file_of_the_checkout_is_told(checkout: Path, name: str) -> None:
    (checkout / name).unlink()
    assert f"{checkout}/{name} does not exist" in failure(checkout)


def test_a_missing_backend_is_told(checkout: Path) -> None:
    assert "backend: /no/such does not exist" in failure(checkout, backend="/no/such")


def test_a_missing_task_file_is_told(checkout: Path) -> None:
    (checkout / "tasks/dance2.yaml").unlink()
    assert f"{checkout}/tasks/dance2.yaml: the file cannot be read" in failure(checkout)


def test_all_missing_inputs_are_told_at_once(checkout: Path) -> None:
    motion_of(checkout, "tennis").unlink()
    checkpoint_of(checkout, "dance2").unlink()
    found = re.findall(r"tasks/(\w+).yaml: (\w+): \S+ does not exist", failure(checkout))
    assert found == [("tennis", "motion_file"), ("dance2", "hloop_checkpoint")]


@pytest.mark.parametrize("key", ["motion_file", "hloop_checkpoint"])
def test_a_task_file_may_give_digests(checkout: Path, key: str) -> None:
    set_in_task(checkout, **{f"{key}_sha256": "0" * 64})
    assert f"expected {'0' * 64}, which the configuration gives" in failure(checkout)


def test_a_digest_of_nothing_is_refused(checkout: Path) -> None:
    set_in_task(checkout, motion_sha256="0" * 64)
    assert "there is no 'motion' in this file" in failure(checkout)


@pytest.mark.parametrize("key", ["motion_file", "hloop_checkpoint", "horizon"])
def test_a_task_file_must_have_its_keys(checkout: Path, key: str) -> None:
    set_in_task(checkout, **{key: ...})
    assert f"tasks/dance2.yaml: the key {key!r} is missing" in failure(checkout)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": ["tennis"]}, "task: the key 'task' is unknown"),
        ({"gpus": []}, "gpus: the list is empty"),
        ({"gpus": [True]}, "gpus[0]: the truth value true stands here; expected an integer"),
        ({"evaluation_seeds": [1.0]}, "Write 1, without a decimal point"),
        ({"tasks": ["../tennis"]}, "tasks[0]: the text '../tennis' does not do"),
        ({"tasks": ...}, "the key 'tasks' is missing"),
        ({"repetitions": 0}, "repetitions: the integer 0 is too small"),
    ],
)
def test_a_wrong_configuration_is_told(
    checkout: Path, changes: dict[str, Any], words: str
) -> None:
    assert words in failure(checkout, **changes)
