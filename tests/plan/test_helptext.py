"""Flags that are read from help texts of real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hloop.plan.helptext import Flag, Group, flags_of

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
        ("maturin-build", 37),
        ("mypy", 98),
        ("train-groups", 13),
        ("train-absl", 6),
        ("train-tyro", 8),
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
        ("train-absl", "--amp --noamp"),
        ("train-absl", "-o --out_dir"),
        ("train-tyro", "--amp --no-amp"),
        ("train-groups", "-g --gpu"),
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
        ("train-tyro", "--opt.kind", "adam sgd"),
        ("train-groups", "--tpu", "v4 v5"),
        ("train-groups", "--level", "0 1 2"),
        ("maturin-build", "-b", "pyo3 pyo3-ffi cffi uniffi bin"),
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
        ("train-tyro", {"--seed"}),
        ("train-groups", {"-s", "--seed", "--out"}),
        ("train-absl", set()),
        ("ruff-check", set()),
        ("pytest", set()),
        ("mypy", set()),
        ("maturin-build", set()),
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


@pytest.mark.parametrize(
    ("program", "groups"),
    [
        ("train-groups", ["-- --cpu -g --tpu", "[] --amp --no-amp", "[] --quiet --verbose"]),
        ("train-argparse", ["-- --cpu --gpu", "[] --amp --no-amp"]),
        ("pytest", []),
        ("cargo-build", []),
    ],
)
def test_alternatives_are_known(program: str, groups: list[str]) -> None:
    found = {flag.group for flag in read(program).values() if flag.group}
    told = {("-- " if g.required else "[] ") + " ".join(g.names) for g in found if g.exclusive}
    assert told == set(groups)


@pytest.mark.parametrize(
    ("usage", "group"),
    [
        ("[OPTIONS] <--cpu|--gpu[=<N>]|--tpu <NAME>> <DATA>", ("--cpu", "--gpu", "--tpu")),
        ("[OPTIONS] <DATA|--cpu|--gpu <N>>", None),
        ("[OPTIONS] <a|b>", None),
    ],
)
def test_of_alternatives_that_clap_requires_several_may_be_given(
    usage: str, group: tuple[str, ...] | None
) -> None:
    text = f"Usage: train {usage}\n\nOptions:\n      --cpu  x\n      --gpu[=<N>]  x\n"
    expected = None if group is None else Group(group, required=True, exclusive=False)
    assert [flag.group for flag in flags_of(text)] == [expected, expected]


@pytest.mark.parametrize(
    ("aliases", "names"),
    [
        ("[aliases: --jobs]", ("--threads", "--jobs")),
        ("\n\n          [aliases: jobs, n]\n          [short aliases: J]", None),
        ("[alias: --jobs] [short aliases: -J, -K]", ("--threads", "--jobs", "-J", "-K")),
    ],
)
def test_aliases_of_clap_are_names(aliases: str, names: tuple[str, ...] | None) -> None:
    text = f"Options:\n  --threads <N>  How many {aliases}\n"
    assert flags_of(text)[0].names == (names or ("--threads", "--jobs", "--n", "-J"))


def test_a_table_right_below_the_usage_is_read() -> None:
    text = "Usage: train [options...] <file>\n -s, --seed <N>  The seed\n"
    assert [flag.names for flag in flags_of(text)] == [("-s", "--seed")]


@pytest.mark.parametrize(
    "program", ["train-argparse", "train-typer", "train-groups", "train-absl"]
)
def test_a_flag_that_only_a_description_names_is_not_offered(program: str) -> None:
    # All descriptions speak of --fold; in the box and in the groups' it begins a line.
    assert "--fold" not in read(program)


def test_clap_names_what_is_required_in_its_usage() -> None:
    text = (
        "Usage: train [OPTIONS] --seed <SEED> <DATA>\n\nOptions:\n  -s, --seed <SEED>  The seed\n"
    )
    assert flags_of(text) == [Flag(("-s", "--seed"), True, None, True)]


def test_click_may_wrap_the_line_that_says_required() -> None:
    text = "Options:\n  --seed N  The seed. [env var: SEED;\n            required]\n"
    assert flags_of(text)[0].required


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
