"""External inputs: there, and of the digest that the plan names."""

import hashlib
import os
from pathlib import Path

import pytest
from hloop.errors import Problem
from hloop.plan.external import check_external_inputs, missing_external_inputs
from hloop.plan.model import Artifact, ArtifactType, Job, Plan, ResourceClass
from hloop.plan.render import RenderedPlan, render_plan
from hloop.trees import hash_tree

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def reading(
    root: Path, path: str, sha256: str | None = SHA256, type: ArtifactType = ArtifactType.FILE
) -> RenderedPlan:
    """A plan with one job that reads ``path``."""
    artifact = Artifact("checkpoint", path, sha256, type=type)
    job = Job(job_id="a", resource=ResourceClass.CPU, command=("x",), inputs=(artifact,))
    return render_plan(Plan("p", (job,)), root, root / "run")


def check(root: Path, path: str, sha256: str | None = SHA256) -> list[Problem]:
    return check_external_inputs(reading(root, path, sha256))


def check_folder(root: Path, path: str, sha256: str | None) -> list[str]:
    plan = reading(root, path, sha256, ArtifactType.DIRECTORY)
    return [problem.code for problem in check_external_inputs(plan)]


def missing(root: Path, path: str) -> list[tuple[str, str]]:
    return [(p.code, p.where) for p in missing_external_inputs(reading(root, path))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "c.pt").write_bytes(CONTENT)
    return tmp_path


@pytest.fixture
def folder(root: Path) -> Path:
    (root / "motions").mkdir()
    (root / "motions" / "walk.npz").write_bytes(CONTENT)
    return root / "motions"


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


def test_an_unaltered_folder_is_no_problem(folder: Path) -> None:
    assert check_folder(folder.parent, "motions", hash_tree(folder).sha256) == []


def test_a_link_to_an_unaltered_folder_is_no_problem(folder: Path) -> None:
    os.symlink("motions", folder.parent / "link")
    assert check_folder(folder.parent, "link", hash_tree(folder).sha256) == []


def test_an_altered_folder_is_found(folder: Path) -> None:
    before = hash_tree(folder).sha256
    (folder / "walk.npz").write_bytes(b"other")
    assert check_folder(folder.parent, "motions", before) == ["input_changed"]


def test_a_file_is_no_folder(root: Path) -> None:
    assert check_folder(root, "c.pt", SHA256) == ["input_not_a_directory"]


def test_a_folder_that_one_job_reads_as_a_file_is_still_read_as_a_folder(folder: Path) -> None:
    jobs = [
        Job(
            job_id=type.value,
            resource=ResourceClass.CPU,
            command=("x",),
            inputs=(Artifact("r", "motions", hash_tree(folder).sha256, type=type),),
        )
        for type in ArtifactType
    ]
    root = folder.parent
    problems = check_external_inputs(render_plan(Plan("p", tuple(jobs)), root, root / "run"))
    assert [problem.code for problem in problems] == ["input_not_a_file"]


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


def test_the_quick_look_finds_a_file_where_a_folder_belongs(root: Path) -> None:
    plan = reading(root, "c.pt", type=ArtifactType.DIRECTORY)
    assert [p.code for p in missing_external_inputs(plan)] == ["input_not_a_directory"]


def test_the_quick_look_takes_a_folder_where_one_belongs(folder: Path) -> None:
    plan = reading(folder.parent, "motions", type=ArtifactType.DIRECTORY)
    assert missing_external_inputs(plan) == []
