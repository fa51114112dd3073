"""External inputs: there, and of the digest that the plan names."""

import hashlib
import os
from pathlib import Path

import pytest
from hloop.errors import Problem
from hloop.plan.external import check_external_inputs, missing_external_inputs
from hloop.plan.model import Artifact, Job, Plan, ResourceClass
from hloop.plan.render import RenderedPlan, render_plan

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def reading(root: Path, path: str, sha256: str | None = SHA256) -> RenderedPlan:
    """A plan with one job that reads ``path``."""
    artifact = Artifact("checkpoint", path, sha256)
    job = Job(job_id="a", resource=ResourceClass.CPU, command=("x",), inputs=(artifact,))
    return render_plan(Plan("p", (job,)), root, root / "run")


def check(root: Path, path: str, sha256: str | None = SHA256) -> list[Problem]:
    return check_external_inputs(reading(root, path, sha256))


def missing(root: Path, path: str) -> list[tuple[str, str]]:
    return [(p.code, p.where) for p in missing_external_inputs(reading(root, path))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "c.pt").write_bytes(CONTENT)
    return tmp_path


def test_an_unaltered_input_is_no_problem(root: Path) -> None:
    assert check(root, "c.pt") == []


def test_a_link_to_an_unaltered_input_is_no_problem(root: Path) -> None:
    os.symlink("c.pt", root / "link.pt")
    assert check(root, "link.pt") == []


def test_an_altered_input_is_found(root: Path) -> None:
    (root / "c.pt").write_bytes(b"other")
    problems = check(root, "c.pt")
    assert [(p.code, p.where) for p in problems] == [("input_changed", "jobs[0].inputs[0].sha256")]


def test_a_missing_input_is_found(root: Path) -> None:
    problems = check(root, "nowhere.pt")
    assert [(p.code, p.where) for p in problems] == [("input_missing", "jobs[0].inputs[0].path")]


def test_a_folder_is_no_input(root: Path) -> None:
    assert [problem.code for problem in check(root, "{repo_root}")] == ["input_not_a_file"]


def test_an_input_without_digest_must_only_be_there(root: Path) -> None:
    assert check(root, "c.pt", None) == []


def test_what_a_job_will_make_is_not_asked_for(root: Path) -> None:
    assert check(root, "{run_dir}/later.json") == []


def test_the_job_is_named(root: Path) -> None:
    assert check(root, "nowhere.pt")[0].found.startswith("job 'a': ")


def test_the_quick_look_does_not_read_what_is_there(root: Path) -> None:
    (root / "c.pt").write_bytes(b"other")
    assert missing(root, "c.pt") == []


def test_the_quick_look_finds_a_missing_input(root: Path) -> None:
    assert missing(root, "nowhere.pt") == [("input_missing", "jobs[0].inputs[0].path")]


def test_the_quick_look_finds_a_folder(root: Path) -> None:
    assert missing(root, "{repo_root}") == [("input_not_a_file", "jobs[0].inputs[0].path")]
