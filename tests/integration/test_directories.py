"""Folders as the inputs and outputs of a plan's jobs."""

from __future__ import annotations

import pytest
from hloop.trees import hash_tree

MODELS = {"role": "models", "path": "{run_dir}/out/models", "type": "directory"}
MAKE = "mkdir -p run/out/models/empty && echo weights > run/out/models/net.pt"


@pytest.fixture
def motions(workspace):
    """An external folder, as an input."""
    folder = workspace.write("motions/walk/one.npz", "walk").parents[1]
    digest = hash_tree(folder).sha256
    return {"role": "motions", "path": "motions", "type": "directory", "sha256": digest}


def pair(make_job, motions, script=MAKE):
    """Who makes a folder, and who reads it."""
    return (
        make_job("make", script, inputs=[motions], outputs=[MODELS]),
        make_job("read", "cat run/out/models/net.pt", inputs=[MODELS], depends_on=["make"]),
    )


@pytest.mark.parametrize("executor", ["hloop", "local"])
def test_a_folder_goes_from_job_to_job_and_stays_as_it_was_recorded(
    workspace, make_job, motions, executor
):
    workspace.plan(*pair(make_job, motions))
    result = workspace.run(*workspace.snakemake_argv("--executor", executor))
    assert result.returncode == 0, result.stdout
    (made,), (read,) = (
        workspace.jobs()["make"]["outputs"],
        workspace.jobs()["read"]["inputs"],
    )
    digest = hash_tree(workspace.root / "run/out/models").sha256
    assert [made["sha256"], read["sha256"]] == [digest, digest]


def test_a_job_that_makes_no_folder_fails(workspace, make_job, motions):
    workspace.plan(*pair(make_job, motions, "true"))
    assert workspace.hloop_run().returncode == 1
    assert workspace.jobs()["make"]["failure"]["reason"] == "output_missing"


def test_an_external_folder_that_is_another_one_is_not_taken(workspace, make_job, motions):
    workspace.plan(*pair(make_job, motions))
    workspace.write("motions/run/new.npz", "run")
    assert workspace.hloop_run().returncode == 1
    assert workspace.jobs()["make"]["failure"]["reason"] == "input_digest"


def test_a_folder_that_a_job_changes_under_its_reader_fails_it(workspace, make_job, motions):
    workspace.plan(
        make_job("make", MAKE, inputs=[motions], outputs=[MODELS]),
        make_job("read", "touch run/out/models/more", inputs=[MODELS], depends_on=["make"]),
    )
    assert workspace.hloop_run().returncode == 1
    assert workspace.jobs()["read"]["failure"]["reason"] == "input_changed"
