"""Pools: which architecture they have, and that an unknown one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError
from hloop.plan.model import ARCHITECTURE_VARIABLE
from hloop.plan.pools import architecture_of
from hloop.plan.prepare import read_config
from hloop.plan.sweep import SweepOptions
from source_tree import ROOT

TABLE = ROOT / "config/pools.yaml"
WORKLOAD: dict[str, Any] = {
    "schema": "hloop.workload.v1",
    "plan_id": "p",
    "pool": "ci-training",
    "devices": [0],
    "stages": {
        "train": {"resource": "gpu", "command": ["train", "--arch", "<architecture>"]},
        "judge": {"resource": "cpu", "command": ["judge"]},
    },
}


@pytest.mark.parametrize(
    ("pool", "architecture"),
    [
        ("ci-training", "sm_89"),
        ("ci-training-l40s", "sm_89"),
        ("ci-training-h100", "sm_90"),
        ("h100", "sm_90"),
        ("a100-large", "sm_80"),
    ],
)
def test_a_pool_has_the_architecture_of_its_entry(pool: str, architecture: str) -> None:
    assert architecture_of(pool, TABLE) == architecture


@pytest.mark.parametrize("pool", ["ci-training-2", "xci-training", "H100", "l40", ""])
def test_a_pool_that_no_entry_matches_is_refused(pool: str) -> None:
    with pytest.raises(HloopError) as error:
        architecture_of(pool, TABLE)
    assert error.value.problems[0].code == "unknown_pool"


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ({"*h100*": "sm_90", "*l40s*": "sm_89"}, "matches"),
        ({"*h100*": "sm90"}, "pools"),
        ({}, "pools"),
    ],
)
def test_a_table_that_does_not_settle_it_is_refused(
    tmp_path: Path, pools: dict[str, str], words: str
) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(yaml.safe_dump({"schema": "hloop.pools.v1", "pools": pools}))
    with pytest.raises(HloopError, match=words):
        architecture_of("l40s-h100", table)


def commands(folder: Path, **options: Any) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    config = folder / "workload.yaml"
    config.write_text(yaml.safe_dump(WORKLOAD, sort_keys=False))
    plan = read_config(config, repo_root=folder, options=SweepOptions(pools=TABLE, **options)).plan
    return [(job.command, dict(job.environment)) for job in plan.jobs]


def test_the_gpu_jobs_of_a_workload_are_told_the_architecture(tmp_path: Path) -> None:
    assert commands(tmp_path) == [
        (("train", "--arch", "sm_89"), {ARCHITECTURE_VARIABLE: "sm_89"}),
        (("judge",), {}),
    ]


def test_the_command_line_names_another_pool(tmp_path: Path) -> None:
    assert commands(tmp_path, pool="my-h100")[0][0] == ("train", "--arch", "sm_90")


@pytest.mark.parametrize("pool", ["h10", ""])
def test_an_unknown_pool_gives_no_plan(tmp_path: Path, pool: str) -> None:
    with pytest.raises(HloopError, match=f"no entry matches the pool '{pool}'"):
        commands(tmp_path, pool=pool)


def test_a_table_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HloopError, match="there is no such table of pools"):
        architecture_of("h100", tmp_path / "pools.yaml")
