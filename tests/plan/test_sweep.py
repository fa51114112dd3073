"""Sweeps: what seeds and folds become, and which sweeps are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError, Problem
from hloop.plan.prepare import Prepared, read_config
from hloop.plan.seeds import module_seed
from hloop.plan.sweep import SweepOptions

INSIDE: dict[str, Any] = {
    "schema": "hloop.workload.v1",
    "plan_id": "sweep",
    "sweep": {
        "seeds": {"base": 42, "modules": {"replay": 0xBEEF}},
        "folds": {"mode": "inside", "count": 5},
    },
    "devices": [0],
    "stages": {
        "train": {
            "over": ["seed"],
            "resource": "gpu",
            "job_id": "train_s<seed.index>",
            "seed": "<seed>",
            "command": ["train", "--seed", "<seed>", "--max-folds", "<folds>", "<seed.replay>"],
        },
        "judge": {"needs": ["train"], "resource": "cpu", "command": ["judge", "<tag>"]},
    },
}
FAN_OUT = {
    **INSIDE,
    "sweep": {"seeds": {}, "folds": {"mode": "fan_out"}},
    "stages": {
        "train": {
            "over": ["seed", "fold"],
            "resource": "gpu",
            "command": ["train", "--seed", "<seed>", "--fold", "<fold>"],
        }
    },
}


def made(folder: Path, document: Any, **options: Any) -> Prepared:
    config = folder / "workload.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return read_config(config, repo_root=folder, options=SweepOptions(**options))


def refused(folder: Path, document: Any, **options: Any) -> list[Problem]:
    with pytest.raises(HloopError) as error:
        made(folder, document, **options)
    return list(error.value.problems)


def changed(document: Any, *path: str, value: Any) -> Any:
    """A copy of the document in which the entry at the path is another."""
    head, *rest = path
    entry = changed(document.get(head, {}), *rest, value=value) if rest else value
    return {**document, head: entry}


def test_folds_inside_give_one_job_for_each_seed(tmp_path: Path) -> None:
    jobs = made(tmp_path, INSIDE, seeds=3, folds=2).plan.jobs
    assert [job.job_id for job in jobs] == ["train_s0", "train_s1", "train_s2", "judge"]


def test_a_job_with_folds_inside_is_told_how_many_and_of_no_single_one(tmp_path: Path) -> None:
    job = made(tmp_path, INSIDE, seeds=3, folds=2).plan.jobs[0]
    assert job.command[:5] == ("train", "--seed", "42", "--max-folds", "2")


def test_folds_that_fan_out_give_a_job_for_each_seed_and_fold(tmp_path: Path) -> None:
    plan = made(tmp_path, FAN_OUT, seeds=3, folds=2).plan
    assert [job.command[2:] for job in plan.jobs] == [
        (str(seed), "--fold", str(fold)) for seed in (42, 43, 44) for fold in (0, 1)
    ]


def test_one_seed_and_one_fold_are_the_plain_single_job(tmp_path: Path) -> None:
    plan = made(tmp_path, INSIDE, seeds=1, folds=1).plan
    assert [(job.job_id, job.seed) for job in plan.jobs] == [("train_s0", 42), ("judge", None)]


def test_without_options_the_workload_says_how_many(tmp_path: Path) -> None:
    document = changed(INSIDE, "sweep", "seeds", "count", value=4)
    assert [job.seed for job in made(tmp_path, document).plan.jobs] == [42, 43, 44, 45, None]


def test_the_default_seed_leaves_the_base_of_a_module(tmp_path: Path) -> None:
    assert made(tmp_path, INSIDE).plan.jobs[0].command[-1] == str(0xBEEF)


def test_another_seed_gives_a_module_another(tmp_path: Path) -> None:
    job = made(tmp_path, INSIDE, seeds=2).plan.jobs[1]
    assert job.command[-1] == str(module_seed(43, 0xBEEF))


def test_the_tag_ends_the_name_of_the_plan_and_is_a_placeholder(tmp_path: Path) -> None:
    plan = made(tmp_path, INSIDE, tag="v2").plan
    assert (plan.plan_id, plan.jobs[-1].command) == ("sweep_v2", ("judge", "v2"))


def test_a_point_says_what_a_job_stands_for(tmp_path: Path) -> None:
    assert made(tmp_path, INSIDE, folds=2).points == {
        "train_s0": {"seed": 42, "max_folds": 2},
        "judge": {},
    }


TRAIN = ("stages", "train")


@pytest.mark.parametrize(
    ("document", "code", "where"),
    [
        (changed(INSIDE, *TRAIN, "command", value=["t", "<folds>"]), "axis_unused", "train"),
        (
            changed(INSIDE, *TRAIN, "command", value=["t", "{run_dir}/s<seed>", "<folds>"]),
            "axis_unused",
            "train",
        ),
        (changed(INSIDE, *TRAIN, "command", value=["t", "<seed>"]), "axis_unused", "sweep.folds"),
        (changed(INSIDE, *TRAIN, "over", value=["seed", "fold"]), "folds_inside", "train"),
        (changed(INSIDE, "axes", value={"seed": [1]}), "axis_collides", "sweep.seeds"),
        (changed(INSIDE, "axes", value={"case": [1]}), "axis_unused", "axes.case"),
        (changed(FAN_OUT, "sweep", "folds", "axis", value="seed"), "axis_collides", "sweep.folds"),
        (changed(FAN_OUT, *TRAIN, "command", value=["t", "<seed>"]), "axis_unused", "train"),
        (changed(FAN_OUT, *TRAIN, "over", value=["seed"]), "axis_unused", "axes.fold"),
        (changed(FAN_OUT, *TRAIN, "cwd", value="<folds>"), "unknown_placeholder", "train.cwd"),
        (changed(INSIDE, "sweep", "seeds", "base", value=2**53 - 1), "too_large", "sweep.seeds"),
        (
            changed(INSIDE, "sweep", "seeds", "modules", value={"index": 1}),
            *("name_taken", "sweep.seeds.modules.index"),
        ),
    ],
)
def test_a_sweep_that_goes_wrong_is_refused(
    tmp_path: Path, document: Any, code: str, where: str
) -> None:
    problems = refused(tmp_path, document, seeds=2)
    assert any(code in problem.code and where in problem.where for problem in problems)


def test_a_stage_whose_seed_comes_from_the_stage_before_is_told_it(tmp_path: Path) -> None:
    test = {"over": ["seed"], "needs": ["train"], "resource": "cpu", "command": ["test"]}
    assert len(made(tmp_path, changed(INSIDE, "stages", "test", value=test)).plan.jobs) == 3


OWN = {
    "schema": "hloop.workload.v1",
    "plan_id": "p",
    "axes": {"lr": ["0.1", "0.2"]},
    "stages": {
        "train": {
            "over": ["lr"],
            "resource": "cpu",
            "candidate": "c_<lr>",
            "outputs": {"model": "{run_dir}/<lr>/model"},
            "command": ["train", "<outputs.model>"],
        }
    },
}


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("<outputs.model>", False),
        ("--out={run_dir}/<candidate>", False),
        ("--lr=<lr>", True),
        ("train --out {run_dir}/m --lr <lr>", True),
        ("<candidate>", True),
        ("--name=<job_id>", True),
    ],
)
def test_an_axis_of_the_workloads_own_that_no_command_is_told_is_warned_of(
    tmp_path: Path, item: str, told: bool
) -> None:
    document = changed(OWN, *TRAIN, "command", value=["train", item])
    warnings = list(made(tmp_path, document).warnings)
    expected = (
        "stage 'train' runs over 'lr', but its command is not told it: its jobs would all do the "
        "same. Put <lr> into the command, or take 'lr' out of over"
    )
    assert warnings == ([] if told else [expected])


@pytest.mark.parametrize(("option", "number"), [("seeds", 1), ("seeds", 3), ("folds", 2)])
def test_what_the_workload_does_not_declare_cannot_be_chosen(
    tmp_path: Path, option: str, number: int
) -> None:
    document = {
        **INSIDE,
        "sweep": {},
        "stages": {"one": {"resource": "cpu", "command": ["one"]}},
    }
    assert refused(tmp_path, document, **{option: number})[0].code == "sweep_undeclared"


def test_a_tag_is_part_of_names(tmp_path: Path) -> None:
    assert refused(tmp_path, INSIDE, tag="a/b")[0].code == "bad_tag"


def test_a_plan_has_no_sweep(tmp_path: Path) -> None:
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "p", "jobs": []}
    assert refused(tmp_path, plan, seeds=2)[0].code == "no_sweep"
