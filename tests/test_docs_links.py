"""What the pages point at exists: links, files, options, settings."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path

import pytest
import typer
from hloop.cli.main import application
from hloop.run.settings import RunSettings
from snakemake.cli import get_argument_parser
from snakemake_executor_plugin_hloop import ExecutorSettings
from source_tree import ROOT, project_files

PAGES = [name for name in project_files() if name.endswith(".md")]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# A path in the repository, wherever it stands: in prose, in code, in a command.
FILE = re.compile(
    r"(?<![\w/.}>])(?:benchmarks|config|docs|hloop_plugin|resources|schemas|tests|workflow)"
    r"/[\w./-]+"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose_of(page: str) -> str:
    return FENCE.sub("", text_of(page))


def links(page: str) -> list[tuple[Path, str]]:
    """The files that a page links to, each with the anchor or ""."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if not target.startswith(("https://", "http://")):
            path, _, anchor = target.partition("#")
            found.append((((ROOT / page).parent / path) if path else ROOT / page, anchor))
    return found


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_there_are_pages():
    assert {"README.md", "CONTRIBUTING.md", "docs/intro.md", "docs/further.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    assert not [
        f"{path}#{anchor}"
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in anchors(path))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page):
    named = {match[0].rstrip(".") for match in FILE.finditer(text_of(page))}
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_index_names_every_page():
    linked = {path.resolve() for path, _ in links("docs/README.md")}
    assert {ROOT / page for page in PAGES if page.startswith("docs/")} - linked == {
        ROOT / "docs/README.md"
    }


@cache
def options() -> dict[str, set[str]]:
    """The options of each command of hloop, and of Snakemake with the plugin."""
    group = typer.main.get_command(application())
    known = {
        name: {"--help"}.union(
            *(
                [*parameter.opts, *parameter.secondary_opts]
                # hloop oracle has a command of its own, check.
                for part in (command, *getattr(command, "commands", {}).values())
                for parameter in part.params
            )
        )
        for name, command in group.commands.items()
    }
    known["snakemake"] = set(get_argument_parser()._option_string_actions)
    return known


def commands(page: str) -> list[tuple[str, str]]:
    """The commands that a page shows, each by its name in ``options`` and in full."""
    shown = re.findall(r"^\$ (.+(?:\\\n.+)*)$", text_of(page), re.MULTILINE)
    shown += re.findall(r"`([^`]+)`", prose_of(page))
    found = []
    for command in shown:
        match = re.match(
            r"(?:\w+=\S* )*(?:\.venv/bin/)?"
            r"(?:hloop ([a-z-]+)|(snakemake))\s",
            command,
        )
        if match and (match[1] or match[2]) in options():
            found.append((match[1] or match[2], command))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_option_of_a_command_is_one_that_it_has(page):
    assert not [
        f"{command}: {option}"
        for name, command in commands(page)
        for option in OPTION.findall(command)
        if option not in options()[name]
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_is_named_alone_exists(page):
    # The demo's programs have options of their own, and so has make's.
    known = set().union(*options().values())
    named = {
        option
        for span in re.findall(r"`(--[^`]+)`", prose_of(page))
        for option in OPTION.findall(span)
    }
    assert named - known == set()


def test_the_options_of_hloop_run_are_the_settings():
    settings = {"--" + field.name.replace("_", "-") for field in fields(RunSettings)}
    # It is about jobs of no plan, and hloop run has none.
    assert settings - {"--provenance"} <= options()["run"]


def test_the_table_of_settings_has_every_setting_with_its_default():
    rows = re.findall(
        r"^\| `--hloop-([a-z-]+)` \| (.+?) \|", text_of("docs/further.md"), re.MULTILINE
    )
    of_the_run = {
        "cpu_workers": "the plan's max_cpu_workers",
        "io_workers": "the plan's max_io_workers",
        "heartbeat_seconds": "60; 900 in a formal run",
        "durations": "the plan's expected_seconds",
        "session_id": "made for each run",
        "gate": "none",
        "lease_dir": "/tmp/hloop-leases",
    }
    standard = {**asdict(RunSettings()), **of_the_run}
    assert {name.replace("-", "_"): default.replace("`", "") for name, default in rows} == {
        field.name: str(standard[field.name]) for field in fields(ExecutorSettings)
    }


def test_the_catalogue_puts_further_under_a_heading_of_the_second_rank():
    headings = re.findall(r"^(#+) ", prose_of("docs/further.md"), re.MULTILINE)
    assert min(map(len, headings)) == 3


def test_the_catalogue_puts_the_introduction_under_a_heading_of_its_own():
    assert "#" not in prose_of("docs/intro.md")


@pytest.mark.parametrize("page", ["docs/intro.md", "docs/further.md"])
def test_what_the_catalogue_copies_has_no_link_that_only_the_repository_has(page):
    assert links(page) == []
