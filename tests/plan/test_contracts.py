"""Flag contracts: commands that their programs would refuse are refused before a plan is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError, Problem
from hloop.plan.helprun import HelpFailed, help_text
from hloop.plan.prepare import read_config

HELP_TEXTS = Path(__file__).parents[1] / "data/help"
TRAIN = """
import argparse, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("-s", "--seed", type=int, required=True)
parser.add_argument("--max-folds", type=int)
parser.add_argument("--mode", choices=["fast", "slow"])
parser.add_argument("--pattern")
with pathlib.Path("asked").open("a") as asked:
    asked.write("x")
parser.parse_args()
"""
HELP = {"help": ["<python>", "train.py", "--help"]}
LISTED = {
    "flags": [
        {"flag": "--seed", "required": True},
        "--max-folds",
        "--pattern",
        {"flag": "--mode", "choices": ["fast", "slow"]},
    ]
}


def problems(
    folder: Path, contract: Any, arguments: list[str], cwd: str = ".", **axes: list[Any]
) -> list[Problem]:
    (folder / "train.py").write_text(TRAIN)
    axes = {"seed": [1, 2], **axes}
    document = {
        "schema": "hloop.workload.v1",
        "plan_id": "p",
        "python": sys.executable,
        "axes": axes,
        "stages": {
            "train": {
                "over": list(axes),
                "resource": "cpu",
                "command": ["<python>", "-u", "train.py", *arguments],
                "contract": contract,
                "cwd": f"{{repo_root}}/{cwd}",
            }
        },
    }
    config = folder / "workload.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    try:
        read_config(config, repo_root=folder)
    except HloopError as error:
        return list(error.problems)
    return []


@pytest.fixture(params=["help", "flags"])
def contract(request: pytest.FixtureRequest) -> Any:
    return HELP if request.param == "help" else LISTED


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "--seed", "<seed>"],
        ["data", "--seed=<seed>", "--max-folds=3", "--mode", "slow"],
        ["--seed", "-1", "--", "--data"],
    ],
)
def test_flags_that_are_offered_pass(tmp_path: Path, contract: Any, arguments: list[str]) -> None:
    assert problems(tmp_path, contract, arguments) == []


def test_a_flag_that_is_not_offered_names_stage_flag_and_the_nearest(
    tmp_path: Path, contract: Any
) -> None:
    (problem,) = problems(tmp_path, contract, ["data", "--seed", "<seed>", "--fold", "1"])
    assert str(problem) == (
        "stages.train.command: stage 'train' gives --fold, which its program does not offer. "
        "Did you mean --max-folds?"
    )


def test_a_required_flag_that_is_missing_is_named(tmp_path: Path, contract: Any) -> None:
    (problem,) = problems(tmp_path, contract, ["data", "--max-folds", "<seed>"])
    assert (problem.code, "'train' does not give --seed" in problem.found) == (
        "flag_missing",
        True,
    )


@pytest.mark.parametrize("arguments", [["--mode", "fats"], ["--mode=fats"], ["--mode"]])
def test_a_value_outside_the_choices_is_named(
    tmp_path: Path, contract: Any, arguments: list[str]
) -> None:
    (problem,) = problems(tmp_path, contract, ["data", "--seed", "<seed>", *arguments])
    assert (problem.code, problem.expected) == ("value_not_offered", "one of fast, slow")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "gives none of --cpu, -g, --tpu, of which its program requires one"),
        (["--cpu", "--gpu", "0"], "gives --cpu and --gpu, of which its program takes one"),
        (["--tpu", "v4", "--quiet", "--verbose"], "gives --quiet and --verbose"),
    ],
)
def test_alternatives_are_held_against_what_is_given(
    tmp_path: Path, given: list[str], words: str
) -> None:
    help = ["cat", str(HELP_TEXTS / "train-groups.txt")]
    arguments = [help[1], "data", "--seed", "<seed>", "--out", "x", *given]
    (problem,) = problems(tmp_path, {"help": help}, arguments)
    assert words in problem.found


def test_one_of_the_alternatives_passes(tmp_path: Path) -> None:
    help = ["cat", str(HELP_TEXTS / "train-groups.txt")]
    arguments = [help[1], "data", "-s", "<seed>", "--out", "x", "-g0", "--amp", "--no-amp"]
    assert problems(tmp_path, {"help": help}, arguments) == []


def test_a_value_that_only_one_job_gets_is_found(tmp_path: Path) -> None:
    arguments = ["data", "--seed", "<seed>", "--mode", "<mode>"]
    (problem,) = problems(tmp_path, HELP, arguments, mode=["fast", "last"])
    assert "--mode the value 'last'" in problem.found


def test_two_axes_under_one_flag_collide(tmp_path: Path) -> None:
    arguments = ["data", "--seed", "<seed>", "-s", "<fold>"]
    (problem,) = problems(tmp_path, HELP, arguments, fold=[0, 1])
    assert (problem.code, "both <seed> and <fold>" in problem.found) == ("axis_collides", True)


def test_a_value_that_looks_like_a_flag_is_a_value(tmp_path: Path) -> None:
    arguments = ["data", "--seed", "<seed>", "--pattern", "--fold"]
    assert problems(tmp_path, HELP, arguments) == []


def test_the_help_is_run_once_for_all_jobs(tmp_path: Path) -> None:
    problems(tmp_path, HELP, ["data", "--seed", "<seed>"])
    problems(tmp_path, HELP, ["data", "--seed", "<seed>"])
    assert (tmp_path / "asked").read_text() == "x"


def test_a_reason_keeps_the_flags_unchecked(tmp_path: Path) -> None:
    assert problems(tmp_path, {"none": "it prints no help"}, ["--anything"]) == []


@pytest.mark.parametrize("contract", [{}, {**HELP, **LISTED}])
def test_a_contract_is_one_of_three(tmp_path: Path, contract: Any) -> None:
    assert problems(tmp_path, contract, ["data"])[0].code == "bad_contract"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["no-such-program-here", "--help"], "does not start"),
        (["<python>", "-c", "pass"], "printed nothing"),
        (["<python>", "-c", "print('hello')"], "shows no flags"),
        (["<python>", "-c", "import no_such_module_here"], "No module named"),
        (["<python>", "no-such-script.py"], "No such file"),
    ],
)
def test_a_help_that_cannot_be_read_is_told(tmp_path: Path, argv: list[str], words: str) -> None:
    (problem,) = problems(tmp_path, {"help": argv}, ["data"])
    assert (problem.code, words in problem.found) == ("help_failed", True)


def test_the_help_of_another_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(TRAIN)
    argv = ["<python>", "other.py", "--help"]
    assert problems(tmp_path, {"help": argv}, ["data"])[0].code == "help_of_another"


def test_a_help_that_does_not_end_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    with pytest.raises(HelpFailed, match="did not end"):
        help_text(("sh", "-c", "sleep 60 & sleep 60"), tmp_path, 0.2)


def test_a_help_on_stderr_with_another_exit_code_is_read(tmp_path: Path) -> None:
    # absl's ends with 1, and many programs print it to stderr.
    assert help_text(("sh", "-c", "echo words >&2; exit 1"), tmp_path) == "words\n"


def test_a_help_without_end_is_cut(tmp_path: Path) -> None:
    with pytest.raises(HelpFailed, match="more than"):
        help_text(("yes",), tmp_path)


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    assert help_text(("echo", "$HOME; x"), tmp_path) == "$HOME; x\n"


def test_the_program_may_be_written_with_its_folder(tmp_path: Path) -> None:
    contract = {"help": ["<python>", "{repo_root}/train.py", "--help"]}
    assert problems(tmp_path, contract, ["data", "--seed", "<seed>"]) == []


def test_the_program_may_be_named_from_the_folder_that_the_command_runs_in(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(TRAIN)
    contract = {"help": ["<python>", "src/train.py", "--help"]}
    arguments = ["data", "--seed", "<seed>", "--fold", "1"]
    (problem,) = problems(tmp_path, contract, arguments, cwd="src")
    assert problem.code == "flag_not_offered"


def test_a_help_that_lists_sub_commands_is_told(tmp_path: Path) -> None:
    text = "Usage: t [OPTIONS] COMMAND\n\nOptions:\n  --debug  x\n\nCommands:\n  train  Trains.\n"
    contract = {"help": ["sh", "-c", f"printf '{text}'"]}
    (problem,) = problems(tmp_path, contract, [contract["help"][2], "train", "--seed", "<seed>"])
    assert problem.action == "If train is a sub-command, read its help: [..., train, --help]"
