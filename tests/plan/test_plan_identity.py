"""The identity of a plan: golden vectors, and what moves which digest."""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hloop.plan.identity import (
    command_semantic_hash,
    experiment_digest,
    placement_digest,
    plan_semantic_hash,
)
from hloop.plan.load import load_plan
from hloop.plan.model import (
    Artifact,
    ArtifactType,
    CompareMode,
    Formal,
    Job,
    Plan,
    ResourceClass,
)
from hypothesis import given
from hypothesis import strategies as st

GOOD = Path(__file__).parents[1] / "data" / "plans" / "good"
PLAN = load_plan(GOOD / "every_field.yaml")

# plan_semantic_hash, experiment_digest, placement_digest. The first one is published; those of
# minimal.json can be had with sha256sum from the canonical JSON that the docstrings describe.
GOLDEN = {
    "minimal.json": (
        "fc5ef3b202b8ec0da4e1629640a26b810ff093cddb59060e55573fa5eca40323",
        "sha256:a68f7c463fdef53696c0f3dd8b9c1e36fa83522cb6439d01e9cf850a156d0f2b",
        "sha256:7bcb8bde295e7004259eba2b9b6b2186793aefbd0eab0de17e28624f1741ed8f",
    ),
    "waves.yaml": (
        "aa64c8231a37afd67ecc87d312914a3e0774b2e686ab0f9ef503024708354f58",
        "sha256:4f98122c3bc07e4597788e9e7591cdedd129723708fe89425105ba7886976d93",
        "sha256:2369374fef8fb9ac623954f6f538373ba8f8d6fa9bf6db52492267ceb0591b89",
    ),
    "every_field.yaml": (
        "cfb62114923623aa93a23420bbf9d24c1d3541d802a567717463a00aae990cb6",
        "sha256:e0de3387e83e472212073f294005ba0ac10752ebf7efa55dc063010332dc798d",
        "sha256:cc9bb13a8375389e1b8d76865122386ab564dbc2ce53eb0d1587a4074ed833ba",
    ),
    "additions.yaml": (
        "de1169e0357544e7941b375a1aff245b5b1fd5db1998e7e65b76e8d69676a8d6",
        "sha256:959c47f2f62ad340cf3f419ae0370a58fa276e64b8efdff277a3305523425b0f",
        "sha256:dd3d94cd4cfbb4bd67acb1ea612f4a2136f99f200709999cf38faed11883d1ac",
    ),
    "watching.yaml": (
        "0525dd9ec38beeb7c22aa2a75ca7e963456b6ae8945f0dca9f973dfdd7768d45",
        "sha256:dedd0a590c97bd66a1f71a3ff2b8b76855075b3a546b9f005d2eabba9ae75f2e",
        "sha256:e29ead80a350a1b67d99564a33ffcd1fdc1e6fee7b01442ad490562cc6f80c4d",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_plan_semantic_hash(name: str) -> None:
    assert plan_semantic_hash(load_plan(GOOD / name)) == GOLDEN[name][0]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_experiment_digest(name: str) -> None:
    assert experiment_digest(load_plan(GOOD / name)) == GOLDEN[name][1]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_placement_digest(name: str) -> None:
    assert placement_digest(load_plan(GOOD / name)) == GOLDEN[name][2]


def test_the_published_hash_takes_the_published_fields_in_plan_order() -> None:
    """Written out once more, from the format's description."""
    jobs = [
        {
            "job_id": job.job_id,
            "resource": job.resource.value,
            "command": list(job.command),
            "depends_on": list(job.depends_on),
            "cwd": job.cwd,
            "environment": job.environment,
            "inputs": [{"role": a.role, "path": a.path, "sha256": a.sha256} for a in job.inputs],
            "outputs": [{"role": a.role, "path": a.path, "sha256": a.sha256} for a in job.outputs],
            "candidate_id": job.candidate_id,
            "seed": job.seed,
            "budget": job.budget,
            "cuda_visible_devices": job.cuda_visible_devices,
        }
        for job in PLAN.jobs
    ]
    document = {
        "schema_version": "mimicx.hloop-plan.v1",
        "plan_id": "every-field",
        "max_cpu_workers": 8,
        "max_io_workers": 1,
        "selection_artifact": "{run_dir}/selection.json",
        "jobs": jobs,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    assert plan_semantic_hash(PLAN) == hashlib.sha256(text.encode()).hexdigest()


def with_job(**fields: Any) -> Plan:
    """The plan with its first job changed."""
    return replace(PLAN, jobs=(replace(PLAN.jobs[0], **fields), *PLAN.jobs[1:]))


def with_budget(**fields: Any) -> Plan:
    return with_job(budget={**PLAN.jobs[0].budget, **fields})


def with_input(**fields: Any) -> Plan:
    return with_job(inputs=(replace(PLAN.jobs[0].inputs[0], **fields),))


def with_output(**fields: Any) -> Plan:
    first, *others = PLAN.jobs[0].outputs
    return with_job(outputs=(replace(first, **fields), *others))


def moved(plan: Plan) -> tuple[bool, bool]:
    """Whether the experiment digest and the placement digest are others."""
    return (
        experiment_digest(plan) != experiment_digest(PLAN),
        placement_digest(plan) != placement_digest(PLAN),
    )


PLACEMENT = {
    "device": with_job(cuda_visible_devices="1"),
    "cpu limit": replace(PLAN, max_cpu_workers=7),
    "io limit": replace(PLAN, max_io_workers=2),
    "job order": replace(PLAN, jobs=PLAN.jobs[::-1]),
    "expected_seconds": with_budget(expected_seconds=4.5),
}


@pytest.mark.parametrize("plan", PLACEMENT.values(), ids=PLACEMENT)
def test_placement_moves_only_the_placement_digest(plan: Plan) -> None:
    assert moved(plan) == (False, True)


FORMAL = Formal("ppo", "walk", "checkpoint")
EXPERIMENT = {
    "plan_id": replace(PLAN, plan_id="other"),
    "selection_artifact": replace(PLAN, selection_artifact=None),
    "resource": with_job(resource=ResourceClass.IO),
    "command": with_job(command=("python", "other.py")),
    "command order": with_job(command=PLAN.jobs[0].command[::-1]),
    "cwd": with_job(cwd="{run_dir}"),
    "environment": with_job(environment={"PYTHONPATH": "other"}),
    "dependency": replace(
        PLAN, jobs=(*PLAN.jobs[:2], replace(PLAN.jobs[2], depends_on=("rollout_walk_1001",)))
    ),
    "candidate_id": with_job(candidate_id="other"),
    "seed": with_job(seed=1002),
    "free budget key": with_budget(rollouts=2),
    "max_seconds": with_budget(max_seconds=61),
    "stall_seconds": with_budget(stall_seconds=10.25),
    "vram_mib": with_budget(vram_mib=1024),
    "decimal budget": with_budget(max_seconds=60.0),
    "input digest": with_input(sha256="0" * 64),
    "input path": with_input(path="resources/run.pt"),
    "input role": with_input(role="motion"),
    "output path": with_output(path="{run_dir}/other.json"),
    "output digest": with_output(sha256="0" * 64),
    "compare": with_output(compare=CompareMode.NONE, ignore=()),
    "ignore": with_output(ignore=("/time",)),
    "output type": with_output(type=ArtifactType.DIRECTORY),
    "input type": with_input(type=ArtifactType.DIRECTORY),
    "checkpoint": with_output(checkpoint="policy"),
    "formal": with_job(formal=FORMAL),
    "one output less": with_job(outputs=PLAN.jobs[0].outputs[:2]),
}


@pytest.mark.parametrize("plan", EXPERIMENT.values(), ids=EXPERIMENT)
def test_what_is_run_moves_only_the_experiment_digest(plan: Plan) -> None:
    assert moved(plan) == (True, False)


def test_a_renamed_job_moves_both_digests() -> None:
    assert moved(with_job(job_id="other")) == (True, True)


@pytest.mark.parametrize("name", ["method", "case", "config"])
def test_all_of_what_a_formal_job_claims_counts(name: str) -> None:
    other = with_job(formal=replace(FORMAL, **{name: "other"}))
    assert experiment_digest(other) != experiment_digest(EXPERIMENT["formal"])


@pytest.mark.parametrize(
    "name", ["compare", "ignore", "output type", "input type", "checkpoint", "formal"]
)
def test_the_published_hash_leaves_hloops_additions_out(name: str) -> None:
    assert plan_semantic_hash(EXPERIMENT[name]) == plan_semantic_hash(PLAN)


@pytest.mark.parametrize("plan", PLACEMENT.values(), ids=PLACEMENT)
def test_placement_moves_the_published_hash(plan: Plan) -> None:
    assert plan_semantic_hash(plan) != plan_semantic_hash(PLAN)


ARTIFACTS = st.lists(
    st.builds(Artifact, st.sampled_from("rs"), st.text("xyz", min_size=1, max_size=2)), max_size=3
).map(tuple)
JOBS = st.lists(
    st.builds(
        Job,
        job_id=st.sampled_from([f"j{number}" for number in range(8)]),
        resource=st.sampled_from(ResourceClass),
        command=st.just(("true",)),
        depends_on=st.lists(st.sampled_from(["j0", "j1", "j2"])).map(tuple),
        inputs=ARTIFACTS,
        outputs=ARTIFACTS,
        budget=st.dictionaries(st.text(), st.floats(allow_nan=False) | st.integers(), max_size=3),
    ),
    unique_by=lambda job: job.job_id,
)


def shuffled(jobs: list[Job], shuffle: Callable[[list[Any]], None]) -> list[Job]:
    """The same jobs, with everything in another order that has no meaning."""

    def mixed(values: Any) -> list[Any]:
        copy = list(values)
        shuffle(copy)
        return copy

    return [
        replace(
            job,
            depends_on=tuple(mixed(job.depends_on) + mixed(set(job.depends_on))),
            inputs=tuple(mixed(job.inputs)),
            outputs=tuple(mixed(job.outputs)),
            budget=dict(mixed(job.budget.items())),
        )
        for job in mixed(jobs)
    ]


@given(JOBS, st.randoms())
def test_the_experiment_digest_is_free_of_every_order(jobs: list[Job], rng: random.Random) -> None:
    other = Plan("p", tuple(shuffled(jobs, rng.shuffle)))
    assert experiment_digest(other) == experiment_digest(Plan("p", tuple(jobs)))


def test_golden_command_semantic_hash() -> None:
    text = '["python","x.py","--out=${RUN_DIR}/x","\\u00e9"]'
    digest = command_semantic_hash(["python", "x.py", "--out=/runs/a/x", "é"], "/runs/a")
    assert digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("item", ["{}", "{}/x", "--out={}/x", "cat {}/x > '{}/y'", "a:{}/lib"])
def test_a_command_is_the_same_in_every_run_directory(item: str) -> None:
    first, second = (
        command_semantic_hash([item.replace("{}", run_dir)], run_dir)
        for run_dir in ("/runs/a", "/other/place/b")
    )
    assert first == second


def test_a_path_beside_the_run_directory_is_not_in_it() -> None:
    beside = command_semantic_hash(["/runs/ab"], "/runs/a")
    assert beside == hashlib.sha256(b'["/runs/ab"]').hexdigest()
