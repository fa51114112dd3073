"""What README.md shows of a workflow and a plan of one's own works as it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    return README.partition(f"```{language}\n")[2].partition("```")[0]


def shown_after(command: str) -> list[str]:
    """The lines that the README shows below a command."""
    return README.partition(f"$ {command}\n")[2].partition("```")[0].splitlines()


@pytest.fixture
def own_workflow(workspace):
    workspace.write("Snakefile", example("python"))
    return workspace


WORKFLOW = "snakemake --executor hloop --cores all --hloop-devices simulated:2"


def test_the_jobs_of_the_workflow_see_the_devices_that_the_readme_shows(own_workflow):
    own_workflow.run(*WORKFLOW.split())
    seen = {path.read_text().split()[-1] for path in own_workflow.root.glob("models/*")}
    assert seen == {line.split()[-1] for line in shown_after("cat models/*")}


def test_the_log_of_the_workflow_tells_devices_as_the_readme_shows(own_workflow):
    def told(lines: list[str]) -> set[str]:
        # Which job comes first is Snakemake's choice.
        return {re.sub(r"jobid \d", "jobid …", line) for line in lines if "started on" in line}

    printed = own_workflow.run(*WORKFLOW.split()).stdout.splitlines()
    assert told(printed) == told(shown_after(WORKFLOW))


@pytest.fixture
def own_plan(workspace):
    workspace.write("plan.yaml", example("yaml"))
    return workspace


def test_the_plan_is_shown_as_the_readme_shows_it(own_plan):
    result = own_plan.run("hloop", "plan", "plan.yaml")
    printed = result.stdout.replace(str(own_plan.root), "…").splitlines()
    left_out = [line for line in shown_after("hloop plan plan.yaml") if line not in printed]
    assert set(left_out) == {"…"}


def test_the_plan_runs_as_the_readme_shows_it(own_plan):
    command = "hloop run --plan plan.yaml --run-dir runs/first --devices simulated:2"
    result = own_plan.run(*command.split())
    assert result.returncode == 0, result.stdout

    def timeless(lines: list[str]) -> list[str]:
        lines = [re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", line) for line in lines]
        return sorted(re.sub(r"\d+\.\d\d s", "… s", line) for line in lines)

    printed = result.stdout.replace(str(own_plan.root), "…").splitlines()
    assert timeless(printed) == timeless(shown_after(command))
