"""Rendering: where a plan's paths lead in one run."""

from pathlib import Path

import pytest
from hloop.errors import PlanError
from hloop.plan.model import Artifact, Job, Plan, ResourceClass
from hloop.plan.render import RenderedJob, render_plan


def rendered(**fields: object) -> RenderedJob:
    values: dict[str, object] = {"command": ("true",), **fields}
    job = Job(job_id="a", resource=ResourceClass.CPU, **values)  # type: ignore[arg-type]
    return render_plan(Plan("p", (job,)), "/repo", "/runs/1").jobs["a"]


def test_a_relative_path_is_relative_to_the_repository() -> None:
    assert rendered(inputs=(Artifact("r", "data/x"),)).inputs[0].path == "/repo/data/x"


def test_a_relative_working_directory_is_relative_to_the_repository() -> None:
    assert rendered(cwd="src").cwd == "/repo/src"


def test_dots_in_a_path_are_resolved() -> None:
    assert rendered(outputs=(Artifact("r", "{run_dir}/a/../b"),)).outputs[0].path == "/runs/1/b"


def test_two_slashes_in_front_of_a_path_are_one() -> None:
    assert rendered(inputs=(Artifact("r", "//data/x"),)).inputs[0].path == "/data/x"


@pytest.mark.parametrize(("folder", "cwd"), [("//runs/1", "/runs/1/x"), ("/", "/x")])
def test_two_slashes_in_front_of_a_folder_are_one(folder: str, cwd: str) -> None:
    job = Job(job_id="a", resource=ResourceClass.CPU, command=("true",), cwd="{run_dir}/x")
    assert render_plan(Plan("p", (job,)), "/repo", folder).jobs["a"].cwd == cwd


def test_environment_values_are_templates_and_names_are_not() -> None:
    environment = {"{run_dir}": "{repo_root}:{run_dir}"}
    assert rendered(environment=environment).environment == {"{run_dir}": "/repo:/runs/1"}


def test_relative_folders_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = Job(job_id="a", resource=ResourceClass.CPU, command=("{run_dir}",))
    assert render_plan(Plan("p", (job,)), ".", "run").jobs["a"].argv == (f"{tmp_path}/run",)


def test_every_near_miss_is_told_with_its_place() -> None:
    with pytest.raises(PlanError) as error:
        rendered(command=("{runs_dir}", "x", "{run-dir}"), cwd="{repo_rot}")
    wheres = [problem.where for problem in error.value.problems]
    assert wheres == ["jobs[0].command[0]", "jobs[0].command[2]", "jobs[0].cwd"]
