"""Flags that are read from help texts of real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hloop.plan.helptext import Flag, flags_of

HELP = Path(__file__).parents[1] / "data/help"


def read(name: str) -> dict[str, Flag]:
    flags = flags_of((HELP / f"{name}.txt").read_text())
    return {name: flag for flag in flags for name in flag.names}


@pytest.mark.parametrize(
    ("program", "count"),
    [
        ("build", 17),
        ("pytest", 111),
        ("pip-install", 67),
        ("black", 31),
        ("snakefmt", 15),
        ("rocrate-validator", 28),
        ("typer", 6),
        ("ruff-check", 41),
        ("cargo-build", 39),
    ],
)
def test_all_flags_of_a_program_are_found(program: str, count: int) -> None:
    assert len(flags_of((HELP / f"{program}.txt").read_text())) == count


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("build", "--outdir -o"),
        ("pip-install", "-r --requirement"),
        ("black", "--fast --safe"),
        ("snakefmt", "-s --sort -S --no-sort"),
        ("rocrate-validator", "--no-cache -nc"),
        ("ruff-check", "-n --no-cache"),
        ("cargo-build", "-v --verbose"),
        ("train-argparse", "--amp --no-amp"),
        ("train-click", "--amp --no-amp"),
        ("train-typer", "--amp --no-amp"),
    ],
)
def test_a_flag_has_all_its_names(program: str, names: str) -> None:
    assert read(program)[names.split()[0]].names == tuple(names.split())


@pytest.mark.parametrize(
    ("program", "flag", "choices"),
    [
        ("build", "--installer", "pip uv"),
        ("pytest", "--import-mode", "prepend append importlib"),
        ("rocrate-validator", "-f", "json text"),
        ("ruff-check", "--color", "auto always never"),
        ("cargo-build", "--color", "auto always never"),
        ("train-argparse", "-m", "fast slow"),
        ("train-click", "--mode", "fast slow"),
        ("train-typer", "--mode", "fast slow"),
    ],
)
def test_listed_choices_are_read(program: str, flag: str, choices: str) -> None:
    assert read(program)[flag].choices == tuple(choices.split())


@pytest.mark.parametrize(
    ("program", "required"),
    [
        ("train-argparse", {"--seed"}),
        ("train-click", {"-s", "--seed", "--max-folds"}),
        ("train-typer", {"-s", "--seed"}),
        ("pip-install", set()),
        ("ruff-check", set()),
        ("pytest", set()),
    ],
)
def test_required_flags_are_known(program: str, required: set[str]) -> None:
    assert {name for name, flag in read(program).items() if flag.required} == required


@pytest.mark.parametrize(
    ("program", "flag", "takes"),
    [
        ("train-argparse", "--seed", True),
        ("train-argparse", "--cpu", False),
        ("train-argparse", "--gpu", None),
        ("train-click", "--since", True),
        ("train-click", "--amp", False),
        ("train-typer", "--max-folds", True),
        ("cargo-build", "--jobs", True),
        ("cargo-build", "--bin", None),
        ("ruff-check", "--fix", False),
    ],
)
def test_whether_a_value_follows_is_known(program: str, flag: str, takes: bool | None) -> None:
    assert read(program)[flag].takes_value is takes


@pytest.mark.parametrize("program", ["train-argparse", "train-typer"])
def test_a_flag_that_only_a_description_names_is_not_offered(program: str) -> None:
    # Both descriptions speak of --fold; in the box it begins a line.
    assert "--fold" not in read(program)


def test_clap_names_what_is_required_in_its_usage() -> None:
    text = (
        "Usage: train [OPTIONS] --seed <SEED> <DATA>\n\nOptions:\n  -s, --seed <SEED>  The seed\n"
    )
    assert flags_of(text) == [Flag(("-s", "--seed"), True, None, True)]


def test_clap_lists_values_one_below_the_other() -> None:
    text = (
        "Options:\n      --mode <MODE>\n          How\n\n          Possible values:\n"
        "          - fast: at once\n          - slow: later\n\n  -h, --help\n          Help\n"
    )
    assert flags_of(text)[0].choices == ("fast", "slow")


def test_a_name_in_brackets_is_two_flags() -> None:
    assert flags_of("options:\n  --[no-]color  Colours\n")[0].names == ("--color", "--no-color")


def test_part_of_a_value_is_no_list_of_choices() -> None:
    assert flags_of("options:\n  --scope NAME=[global|local]  x\n")[0].choices is None


def test_colours_are_not_read() -> None:
    assert flags_of("Options:\n  \x1b[1m--seed\x1b[0m \x1b[3mN\x1b[0m  x\n") == [
        Flag(("--seed",), True)
    ]


@pytest.mark.parametrize("text", ["", "no flags\n", "- a bullet\n", "usage: x [-h] --seed N\n"])
def test_another_text_has_no_flags(text: str) -> None:
    assert flags_of(text) == []
