"""Seeds that were used, seeds that were ignored, and results that no seed settles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import HloopError
from hloop.plan.model import Artifact, CompareMode, Job, Plan, ResourceClass
from hloop.report.checkseeds import check_seeds
from synthetic_run import SyntheticRun


def job(name: str, seed: int | None, **fields: Any) -> Job:
    output = Artifact(
        "result", f"{{run_dir}}/{name}/result.json", None, CompareMode.JSON, ("/when/at",)
    )
    command = fields.pop("command", ("train", "--seed", str(seed), "--out", output.path))
    return Job(
        job_id=f"train_{name}",
        resource=ResourceClass.CPU,
        command=command,
        outputs=fields.pop("outputs", (output,)),
        candidate_id=name,
        seed=seed,
        **fields,
    )


def checked(root: Path, *made: tuple[Job, Any], status: str = "completed") -> dict[str, Any]:
    """Check a run of these jobs, each with what it wrote."""
    return check_seeds([run_of(root, *made, status=status)])


def run_of(
    root: Path, *made: tuple[Job, Any], name: str = "run", status: str = "completed"
) -> Path:
    run = SyntheticRun(root, Plan("p", tuple(job for job, _ in made)), name)
    for position, (one, content) in enumerate(made):
        path = run.paths.root / str(one.candidate_id) / "result.json"
        path.parent.mkdir()
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        run.run(one.job_id, 10 + 20 * position, 20 + 20 * position, status)
    run.end(500, status)
    run.write()
    run.paths.plan.write_text(json.dumps(run.plan.to_document()))
    return run.paths.root


A, B, AGAIN = job("a", 7), job("b", 8), job("again", 7)


def test_different_seeds_with_different_results_pass(tmp_path: Path) -> None:
    assert checked(tmp_path, (A, {"x": 0.1}), (B, {"x": 0.2}))["passed"] is True


def test_different_seeds_with_the_same_result_fail(tmp_path: Path) -> None:
    found = checked(tmp_path, (A, {"x": 0.1}), (B, {"x": 0.1}))
    assert found["findings"] == [
        {"code": "seed_ignored", "seeds": [7, 8], "jobs": ["run/train_a", "run/train_b"]}
    ]


@pytest.mark.parametrize(
    "content",
    [
        '{"seed": SEED, "x": 0.1}',
        '{"name": "NAME", "x": 0.1}',
        '{"x": 0.1, "when": {"at": "SEED.25"}}',
        "step,x\n1,0.1\nseed SEED\n",
    ],
)
def test_a_result_that_only_names_its_seed_is_the_same(tmp_path: Path, content: str) -> None:
    found = checked(
        tmp_path,
        *(
            (one, content.replace("SEED", str(one.seed)).replace("NAME", one.job_id))
            for one in (A, B)
        ),
    )
    assert [finding["code"] for finding in found["findings"]] == ["seed_ignored"]


def test_the_same_seed_with_different_results_fails(tmp_path: Path) -> None:
    found = checked(tmp_path, (A, {"x": 0.1}), (AGAIN, {"x": 0.2}))
    assert [finding["code"] for finding in found["findings"]] == ["not_reproducible"]


def test_what_is_not_compared_may_differ_between_the_same_seed(tmp_path: Path) -> None:
    first = (A, {"x": 0.1, "when": {"at": 1}})
    second = (AGAIN, {"x": 0.1, "when": {"at": 2}})
    assert checked(tmp_path, first, second, (B, {"x": 0.3}))["passed"] is True


def test_two_runs_are_taken_together(tmp_path: Path) -> None:
    first = run_of(tmp_path, (A, {"x": 0.1}), name="first")
    second = run_of(tmp_path, (A, {"x": 0.2}), name="second")
    found = check_seeds([first, second])
    assert [finding["jobs"] for finding in found["findings"]] == [
        ["first/train_a", "second/train_a"]
    ]


def test_a_run_is_not_held_against_itself(tmp_path: Path) -> None:
    run_dir = run_of(tmp_path, (A, {"x": 0.1}), (B, {"x": 0.2}))
    with pytest.raises(HloopError, match="the same run as"):
        check_seeds([run_dir, run_dir])


@pytest.mark.parametrize(
    "other",
    [
        job("b", 8, command=("judge", "--seed", "8")),
        job("b", 8, command=("train", "--seed", "8", "--task", "jump")),
        job("b", None),
        job("b", 8, outputs=()),
    ],
)
def test_jobs_that_differ_otherwise_are_not_compared(tmp_path: Path, other: Job) -> None:
    assert checked(tmp_path, (A, {"x": 0.1}), (other, {"x": 0.1}))["passed"] is None


def test_the_seeds_of_modules_belong_to_the_seed(tmp_path: Path) -> None:
    jobs = [job(n, s, command=("t", str(s), str(2**63 + s))) for n, s in (("a", 7), ("b", 8))]
    found = checked(tmp_path, *((one, {"x": 0.1}) for one in jobs))
    assert found["different"] == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # The seeds are among the numbers of a result.
        ("loss 0.5 after 1", "loss 0.5 after 1"),
        ('{"seed": 0, "loss": 0.5, "steps": 1}', '{"seed": 1, "loss": 0.5, "steps": 1}'),
        # An output says where it lies, or has a word that is one job's name.
        ("RUN/a/result.json: 3", "RUN/b/result.json: 3"),
        ("a rose is a rose", "a rose is a rose"),
        ("train_a: 3", "train_b: 3"),
    ],
)
def test_a_seed_that_is_ignored_is_found_whatever_its_number(
    tmp_path: Path, first: str, second: str
) -> None:
    contents = [text.replace("RUN", str(tmp_path / "run")) for text in (first, second)]
    jobs = (job("a", 0, outputs=BYTES["a"]), job("b", 1, outputs=BYTES["b"]))
    found = checked(tmp_path, *zip(jobs, contents, strict=True))
    assert [finding["code"] for finding in found["findings"]] == ["seed_ignored"]


BYTES = {
    name: (Artifact("result", f"{{run_dir}}/{name}/result.json"),) for name in ("a", "b", "c", "d")
}


def test_a_fold_is_no_seed_where_the_two_are_equal(tmp_path: Path) -> None:
    points = {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1)}
    jobs = [
        (job(name, seed, command=("t", "--seed", str(seed), "--fold", str(fold))), {"x": fold})
        for name, (seed, fold) in points.items()
    ]
    assert [finding["jobs"] for finding in checked(tmp_path, *jobs)["findings"]] == [
        ["run/train_a", "run/train_c"],
        ["run/train_b", "run/train_d"],
    ]


@pytest.mark.parametrize("told", ["command", "environment", "needs"])
def test_the_same_seed_under_other_settings_is_not_the_same_job(tmp_path: Path, told: str) -> None:
    """Also where only the job before was told the settings."""
    made = []
    for name, seed, rate in (("a", 1, 1), ("b", 2, 1), ("c", 1, 9), ("d", 2, 9)):
        settings = {
            "command": {"command": ("t", str(seed), str(rate))},
            "environment": {"command": ("t", str(seed)), "environment": {"RATE": str(rate)}},
            "needs": {"command": ("t", str(seed)), "depends_on": (f"train_{name}0",)},
        }[told]
        made.append((job(f"{name}0", None, command=("prepare", str(rate))), "x"))
        made.append((job(name, seed, **settings), {"x": 10 * seed + rate}))
    found = checked(tmp_path, *made)
    assert (found["findings"], found["different"], found["repeated"]) == ([], 2, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seed", "SEED", "--replay", "MODULE"),
        ("--seed=SEED", "--name", "train_NAME"),
        ("--name", "exp_seedSEED"),
    ],
)
def test_jobs_that_are_told_their_seed_or_name_differ_in_the_seed_alone(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    # The default seed leaves the base of a module, which is a short number.
    made = []
    for name, seed, module in (("r1", 42, "48879"), ("r2", 43, "3318862629515972094")):
        words = [
            item.replace("SEED", str(seed)).replace("MODULE", module).replace("NAME", name)
            for item in arguments
        ]
        made.append((job(name, seed, command=("t", *words)), f"module {module}"))
    assert [f["code"] for f in checked(tmp_path, *made)["findings"]] == (
        ["seed_ignored"] if "MODULE" in arguments else []
    )


def test_jobs_that_failed_are_not_compared(tmp_path: Path) -> None:
    found = checked(tmp_path, (A, {"x": 1}), (B, {"x": 1}), status="failed")
    assert found["groups"] == []


def test_a_file_that_was_changed_since_counts_by_its_digest(tmp_path: Path) -> None:
    run_dir = run_of(tmp_path, (A, {"x": 0.1}), (B, {"x": 0.2}))
    (run_dir / "b/result.json").write_text('{"x": 0.1}')
    assert check_seeds([run_dir])["passed"] is True
