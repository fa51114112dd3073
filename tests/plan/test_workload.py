"""What a workload becomes: jobs, order, placeholders, gathering, devices, digests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.document import parse_document
from hloop.plan.expansion import running_python
from hloop.plan.lint import lint
from hloop.plan.model import Artifact, ArtifactType, CompareMode, Formal, Plan
from hloop.plan.prepare import BenchmarkSettings, prepare, read_config
from hloop.trees import hash_tree

WORKLOAD = """
schema: hloop.workload.v1
plan_id: p
python: py
constants: {extra: 7, fast: true}
axes:
  task:
    walk: {horizon: 10, weights: good}
    run: {horizon: 20, weights: bad}
  seed: [3, 5]
devices: [0, 2, 4]
max_cpu_workers: 3
selection_artifact: "{run_dir}/choice.json"
stages:
  roll:
    over: [task, seed]
    resource: gpu
    candidate: <task>_s<seed>
    seed: <seed>
    inputs: {weights: "{repo_root}/<task.weights>.bin"}
    outputs:
      log: "{run_dir}/<candidate>/log.csv"
      meta: {path: "{run_dir}/<candidate>/meta.json", compare: json, ignore: [/when]}
    command:
      [<python>, roll.py, --steps, <task.horizon>, --in, <inputs.weights>, --out=<outputs.log>]
    budget: {rollouts: 1, expected_seconds: <task.horizon>, notes: [<seed>, "s<seed>"]}
  look:
    over: [task, seed]
    needs: [roll]
    resource: cpu
    job_id: look_<roll.candidate>
    inputs: {log: <roll.outputs.log>}
    outputs: {note: "{run_dir}/<roll.candidate>/note.json"}
    command: [<python>, look.py, <inputs.log>, <outputs.note>]
    environment: {LEVEL: <constants.extra>, FAST: <constants.fast>, ONE: 1}
    cwd: "{run_dir}"
  best:
    over: [task]
    needs: [look]
    resource: cpu
    inputs: {note: {each: look, path: <look.outputs.note>}}
    outputs: {best: "{run_dir}/<task>.json"}
    command:
      - <python>
      - best.py
      - <task>
      - {each: look, items: [--note, <look.job_id>, <seed>, <look.outputs.note>]}
      - <outputs.best>
  choose:
    needs: [best]
    resource: io
    inputs: {best: {each: best, path: <best.outputs.best>}}
    outputs: {choice: "{run_dir}/choice.json"}
    command: [<python>, choose.py, {each: best, items: [<task>]}]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make(tmp_path, WORKLOAD)


def make(folder: Path, text: str) -> Plan:
    for name in ("good", "bad"):
        (folder / f"{name}.bin").write_text(name)
    config = folder / "workload.yaml"
    config.write_text(text)
    return prepare(config, repo_root=folder)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def job(plan: Plan, job_id: str) -> Any:
    return plan.by_id()[job_id]


def test_stages_over_the_same_axes_give_their_jobs_together(plan: Plan) -> None:
    assert [job.job_id for job in plan.jobs] == [
        *("roll_walk_3", "look_walk_s3", "roll_walk_5", "look_walk_s5"),
        *("roll_run_3", "look_run_s3", "roll_run_5", "look_run_s5"),
        *("best_walk", "best_run", "choose"),
    ]


def test_the_plan_keeps_every_rule(plan: Plan, tmp_path: Path) -> None:
    assert lint(plan, tmp_path, tmp_path / "run") == []


def test_the_head_of_the_plan_comes_from_the_workload(plan: Plan) -> None:
    head = (plan.plan_id, plan.max_cpu_workers, plan.max_io_workers, plan.selection_artifact)
    assert head == ("p", 3, 2, "{run_dir}/choice.json")


def test_placeholders_are_filled_and_templates_are_left(plan: Plan) -> None:
    assert job(plan, "roll_run_5").command == (
        *("py", "roll.py", "--steps", "20", "--in", "{repo_root}/bad.bin"),
        "--out={run_dir}/run_s5/log.csv",
    )


def test_a_whole_placeholder_keeps_its_type_in_seed_and_budget(plan: Plan) -> None:
    roll = job(plan, "roll_walk_5")
    assert (roll.seed, roll.budget) == (
        5,
        {"rollouts": 1, "expected_seconds": 10, "notes": [5, "s5"]},
    )


def test_environment_values_become_text(plan: Plan) -> None:
    environment = job(plan, "look_walk_s3").environment
    assert environment == {"LEVEL": "7", "FAST": "true", "ONE": "1"}


def test_only_stages_with_a_candidate_give_one(plan: Plan) -> None:
    ids = (job(plan, "roll_walk_3").candidate_id, job(plan, "look_walk_s3").candidate_id)
    assert ids == ("walk_s3", None)


def test_a_job_depends_on_the_needed_job_with_its_axes(plan: Plan) -> None:
    assert job(plan, "look_run_s3").depends_on == ("roll_run_3",)


def test_a_stage_over_fewer_axes_gathers_the_jobs_that_share_its_axes(plan: Plan) -> None:
    assert job(plan, "best_run").depends_on == ("look_run_s3", "look_run_s5")


def test_a_stage_over_no_axis_gathers_all(plan: Plan) -> None:
    assert job(plan, "choose").depends_on == ("best_walk", "best_run")


def test_each_repeats_items_per_gathered_job_with_its_axes_known(plan: Plan) -> None:
    assert job(plan, "best_walk").command == (
        *("py", "best.py", "walk"),
        *("--note", "look_walk_s3", "3", "{run_dir}/walk_s3/note.json"),
        *("--note", "look_walk_s5", "5", "{run_dir}/walk_s5/note.json"),
        "{run_dir}/walk.json",
    )


def test_each_repeats_an_input_per_gathered_job(plan: Plan) -> None:
    assert job(plan, "choose").inputs == (
        Artifact("best", "{run_dir}/walk.json"),
        Artifact("best", "{run_dir}/run.json"),
    )


def test_devices_are_assigned_round_robin_to_gpu_jobs_only(plan: Plan) -> None:
    devices = [job.cuda_visible_devices for job in plan.jobs]
    assert devices == ["0", None, "2", None, "4", None, "0", None, None, None, None]


def test_each_gpu_stage_starts_at_the_first_device(tmp_path: Path) -> None:
    text = WORKLOAD.replace(
        "    resource: cpu\n    job_id: look", "    resource: gpu\n    job_id: look"
    )
    plan = make(tmp_path, text)
    assert job(plan, "look_walk_s3").cuda_visible_devices == "0"


def test_inputs_outside_the_run_directory_get_their_digest(plan: Plan) -> None:
    assert job(plan, "roll_run_3").inputs == (
        Artifact("weights", "{repo_root}/bad.bin", sha256("bad")),
    )


def test_a_relative_input_is_relative_to_the_repository_root(tmp_path: Path) -> None:
    plan = make(
        tmp_path, WORKLOAD.replace('"{repo_root}/<task.weights>.bin"', "<task.weights>.bin")
    )
    assert job(plan, "roll_walk_3").inputs[0].sha256 == sha256("good")


def test_a_registered_input_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "linked.bin").symlink_to(tmp_path / "good.bin")
    plan = make(tmp_path, WORKLOAD.replace("weights: bad", "weights: linked"))
    assert job(plan, "roll_run_3").inputs[0].sha256 == sha256("good")


def test_how_outputs_are_compared_reaches_the_plan(plan: Plan) -> None:
    assert job(plan, "roll_walk_3").outputs[1] == Artifact(
        "meta", "{run_dir}/walk_s3/meta.json", compare=CompareMode.JSON, ignore=("/when",)
    )


FORMAL_WORKLOAD = """
schema: hloop.workload.v1
plan_id: formal
axes: {method: [ppo], case: [1, 2], seed: [7]}
stages:
  train:
    over: [method, case, seed]
    resource: cpu
    seed: <seed>
    inputs:
      config: good.bin
      motions: {path: motions, type: directory}
    outputs:
      net: {path: "{run_dir}/<job_id>/net", type: directory, checkpoint: net_<case>}
    command: [train, <inputs.motions>, <outputs.net>]
    formal: {method: <method>, case: case<case>, config: config}
  rate:
    over: [method, case, seed]
    needs: [train]
    resource: cpu
    inputs: {net: {path: <train.outputs.net>, type: directory}}
    command: [rate, <inputs.net>]
"""


@pytest.fixture
def formal(tmp_path: Path) -> Plan:
    (tmp_path / "motions").mkdir()
    (tmp_path / "motions" / "walk.npz").write_bytes(b"walk")
    return make(tmp_path, FORMAL_WORKLOAD)


def test_what_a_formal_job_claims_is_filled_in(formal: Plan) -> None:
    assert job(formal, "train_ppo_2_7").formal == Formal("ppo", "case2", "config")


def test_only_a_stage_that_says_so_is_formal(formal: Plan) -> None:
    assert job(formal, "rate_ppo_2_7").formal is None


def test_directories_and_checkpoints_reach_the_plan(formal: Plan) -> None:
    assert job(formal, "train_ppo_2_7").outputs == (
        Artifact(
            "net",
            "{run_dir}/train_ppo_2_7/net",
            type=ArtifactType.DIRECTORY,
            checkpoint="net_2",
        ),
    )


def test_a_registered_folder_gets_its_digest(formal: Plan, tmp_path: Path) -> None:
    assert job(formal, "train_ppo_1_7").inputs[1] == Artifact(
        "motions", "motions", hash_tree(tmp_path / "motions").sha256, type=ArtifactType.DIRECTORY
    )


def test_a_plan_with_all_additions_keeps_every_rule(formal: Plan, tmp_path: Path) -> None:
    assert lint(formal, tmp_path, tmp_path / "run") == []


def test_a_doubled_placeholder_is_literal(tmp_path: Path) -> None:
    plan = make(tmp_path, WORKLOAD.replace("choose.py", "'<<task>> a<b <<x>>'"))
    assert job(plan, "choose").command[1] == "<task> a<b <x>"


def test_constants_may_use_other_roots_and_axis_constants_their_value(tmp_path: Path) -> None:
    text = WORKLOAD.replace("extra: 7", "extra: <mimicx_root>/x").replace(
        "weights: good", "weights: good, label: <task>-<constants.extra>"
    )
    text = text.replace("horizon: 20,", "horizon: 20, label: none,")
    for name in ("good", "bad"):
        (tmp_path / f"{name}.bin").write_text(name)
    config = tmp_path / "workload.yaml"
    config.write_text(text.replace("roll.py", "<task.label>"))
    plan = prepare(config, repo_root=tmp_path, mimicx_root=tmp_path / "mimicx")
    assert job(plan, "roll_walk_3").command[1] == f"walk-{tmp_path}/mimicx/x"


def test_python_is_by_default_the_interpreter_that_runs_hloop(tmp_path: Path) -> None:
    plan = make(tmp_path, WORKLOAD.replace("python: py\n", ""))
    assert job(plan, "choose").command[0] == running_python(tmp_path)


def test_an_interpreter_in_the_repository_is_written_with_its_root(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "python3.11")
    assert running_python(tmp_path, python) == "{repo_root}/.venv/bin/python3.11"


def test_all_names_of_one_interpreter_are_written_alike(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "python3.11")
    Path(python).with_name("python").symlink_to("python3.11")
    assert running_python(tmp_path, python) == "{repo_root}/.venv/bin/python"


def test_another_interpreter_of_the_name_python_is_not_taken(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "python3.11")
    interpreter(tmp_path, "python")
    assert running_python(Path("/elsewhere"), python) == python


def interpreter(root: Path, name: str) -> str:
    path = root / ".venv" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return str(path)


def test_a_plan_file_is_passed_through(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_document()))
    assert prepare(path, repo_root=tmp_path) == plan


def test_benchmark_settings_have_their_place(tmp_path: Path) -> None:
    text = WORKLOAD + "benchmark: {repetitions: 2, modes: [hloop], warmup: false}\n"
    make(tmp_path, text)
    settings = read_config(tmp_path / "workload.yaml", repo_root=tmp_path).benchmark
    assert settings == BenchmarkSettings(repetitions=2, modes=("hloop",), warmup=False)


def test_benchmark_settings_do_not_enter_the_plan(plan: Plan, tmp_path: Path) -> None:
    assert make(tmp_path, WORKLOAD + "benchmark: {repetitions: 2}\n") == plan


def test_json_does_as_well_as_yaml(plan: Plan, tmp_path: Path) -> None:
    config = tmp_path / "workload.json"
    config.write_text(json.dumps(parse_document(tmp_path / "workload.yaml")))
    assert prepare(config, repo_root=tmp_path) == plan


def test_the_example_in_the_docs_gives_the_jobs_that_it_says(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs/workloads.md").read_text()
    (tmp_path / "policies").mkdir()
    for name in ("good", "bad"):
        (tmp_path / f"policies/{name}.npz").write_text(name)
    text = docs.split("```yaml\n")[1].split("```")[0]
    plan = make(tmp_path, text)
    assert (lint(plan, tmp_path, tmp_path / "run"), [job.job_id for job in plan.jobs]) == (
        [],
        [
            *(
                "rollout_walk_1001",
                "diagnose_walk_1001",
                "rollout_walk_2002",
                "diagnose_walk_2002",
            ),
            *(
                "rollout_jump_1001",
                "diagnose_jump_1001",
                "rollout_jump_2002",
                "diagnose_jump_2002",
            ),
            "select",
        ],
    )
