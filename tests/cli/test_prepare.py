"""`hloop prepare`: what it prints, what it writes, and that it writes nothing when in doubt."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hloop.cli.main import main
from hloop.plan.identity import plan_semantic_hash
from hloop.plan.load import load_checked, load_plan

WORKLOAD = """
schema: hloop.workload.v1
plan_id: tiny
python: py
axes: {seed: [1, 2]}
devices: [0]
stages:
  roll:
    over: [seed]
    resource: gpu
    inputs: {weights: weights.bin}
    outputs: {log: "{run_dir}/<seed>.csv"}
    command: [<python>, roll.py, <inputs.weights>, <outputs.log>]
  choose:
    needs: [roll]
    resource: io
    command: [<python>, choose.py]
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.bin").write_text("w")
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    monkeypatch.chdir(tmp_path)


def hloop(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hloop", "prepare", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


PREPARE = ("--config", "workload.yaml", "--run-dir", "out")


def test_it_prints_the_published_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hloop(monkeypatch, *PREPARE)
    plan = load_plan("out/materialized_plan.json")
    assert capsys.readouterr().out == f"prepared HLoop jobs=3 hash={plan_semantic_hash(plan)}\n"


def test_what_it_writes_is_a_plan_that_keeps_every_rule(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hloop(monkeypatch, *PREPARE)
    rendered = load_checked("out/materialized_plan.json", tmp_path, tmp_path / "run")
    assert list(rendered.jobs) == ["roll_1", "roll_2", "choose"]


def test_it_writes_the_plan_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hloop(monkeypatch, *PREPARE)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("out", "weights.bin", "workload.yaml")
    ]


def test_json_holds_what_a_program_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hloop(monkeypatch, *PREPARE, "--json")
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "plan": str(tmp_path / "out/materialized_plan.json"),
        "plan_id": "tiny",
        "plan_semantic_hash": plan_semantic_hash(load_plan("out/materialized_plan.json")),
        "jobs": 3,
        "jobs_by_resource": {"gpu": 2, "io": 1},
        "benchmark": {
            "repetitions": 5,
            "modes": ["sequential", "bulk-sync", "hloop"],
            "warmup": True,
        },
    }


def test_the_same_plan_may_be_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hloop(monkeypatch, *PREPARE)
    assert hloop(monkeypatch, *PREPARE) == 0


def test_another_plan_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hloop(monkeypatch, *PREPARE)
    before = Path("out/materialized_plan.json").read_bytes()
    Path("workload.yaml").write_text(WORKLOAD.replace("tiny", "other"))
    code = hloop(monkeypatch, *PREPARE)
    after = Path("out/materialized_plan.json").read_bytes()
    assert (code, after) == (2, before)
    assert "holds another plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "weights.bin}",
            "gone.bin}",
            r"stages\.roll\.inputs\.weights: \S+gone\.bin does not exist",
        ),
        ("<outputs.log>", "<output.log>", r"Did you mean <outputs\.log>\?"),
        ("{run_dir}/<seed>", "/elsewhere/<seed>", r"leads to /elsewhere/1\.csv"),
        ("[<python>, choose", "['{run-dir}', choose", r"Write \{run_dir\}"),
        ("resource: io", "resource: [", r"workload\.yaml: line \d+, column \d+: not YAML"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    words: str,
) -> None:
    Path("workload.yaml").write_text(WORKLOAD.replace(old, new))
    code = hloop(monkeypatch, *PREPARE)
    assert (code, Path("out").exists()) == (2, False)
    assert re.search(words, capsys.readouterr().err)


def test_the_repository_root_can_be_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "weights.bin").rename(other / "weights.bin")
    assert hloop(monkeypatch, *PREPARE, "--repo-root", "other") == 0


def test_a_run_directory_that_is_a_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out").write_text("")
    assert hloop(monkeypatch, *PREPARE) == 2
    assert "out/materialized_plan.json cannot be written" in capsys.readouterr().err


def test_a_native_configuration_asks_for_its_checkout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("workload.yaml").write_text(
        "{schema: mimicx.native-hloop-benchmark.v1, task_dir: t, runtime_python: p, backend: b,"
        " tasks: [a], gpus: [0], evaluation_seeds: [1]}"
    )
    assert hloop(monkeypatch, *PREPARE) == 2
    assert "Pass --mimicx-root" in capsys.readouterr().err


SWEEP = """
schema: hloop.workload.v1
plan_id: tiny
sweep: {seeds: {base: 7}, folds: {mode: inside}}
devices: [0]
stages:
  train:
    over: [seed]
    resource: gpu
    job_id: train_s<seed.index>
    command: [train, --seed, <seed>, --max-folds, <folds>]
  choose: {needs: [train], resource: io, command: [choose]}
"""
DRY_RUN = ("--config", "workload.yaml", "--seeds", "2", "--folds", "3", "--dry-run")


def test_a_dry_run_prints_a_line_for_each_job_and_a_count_for_each_class(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("workload.yaml").write_text(SWEEP)
    hloop(monkeypatch, *DRY_RUN)
    assert capsys.readouterr().out.splitlines() == [
        "job=train_s0 seed=7 max_folds=3 class=gpu",
        "job=train_s1 seed=8 max_folds=3 class=gpu",
        "job=choose class=io",
        "class=gpu jobs=2",
        "class=io jobs=1",
    ]


def test_a_dry_run_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Path("workload.yaml").write_text(SWEEP)
    before = sorted(tmp_path.rglob("*"))
    hloop(monkeypatch, *DRY_RUN, "--run-dir", "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_directory_is_needed_to_write_into(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hloop(monkeypatch, "--config", "workload.yaml") == 2
    assert "'--run-dir'" in capsys.readouterr().err


def test_a_sweep_whose_jobs_would_all_die_at_start_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.py").write_text(
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--seed')\n"
        "parser.add_argument('--max-folds')\n"
        "parser.parse_args()\n"
    )
    command = f"command: [{sys.executable}, train.py, --seed, <seed>, --fold, <folds>]"
    contract = f"contract: {{help: [{sys.executable}, train.py, --help]}}"
    Path("workload.yaml").write_text(
        SWEEP.replace(
            "command: [train, --seed, <seed>, --max-folds, <folds>]", f"{command}\n    {contract}"
        )
    )
    before = sorted(Path().iterdir())
    prepare = ("--config", "workload.yaml", "--seeds", "30", "--folds", "5", "--run-dir", "out")
    assert hloop(monkeypatch, *prepare) == 2
    assert sorted(Path().iterdir()) == before
    assert "stage 'train' gives --fold" in capsys.readouterr().err
