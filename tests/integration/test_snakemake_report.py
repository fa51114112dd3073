"""``snakemake --report`` on a run that has ended."""

from __future__ import annotations

import zipfile

import pytest
from hloop.run import page

OUT = "{run_dir}"


@pytest.fixture(scope="module")
def report(shared_workspace, make_job) -> dict[str, str]:
    """The files of the report, by name."""
    workspace = shared_workspace
    workspace.plan(
        make_job(
            "roll",
            f"echo 1 > {OUT}/m.csv; echo 1 > {OUT}/big.bin",
            "gpu",
            outputs=[
                {"role": "m", "path": f"{OUT}/m.csv"},
                {"role": "b", "path": f"{OUT}/big.bin"},
            ],
        ),
        make_job(
            "look",
            f"echo 2 > {OUT}/d.txt",
            outputs=[{"role": "d", "path": f"{OUT}/d.txt"}],
            depends_on=["roll"],
        ),
        make_job(
            "pick",
            f"echo 3 > {OUT}/selection.json",
            "io",
            outputs=[{"role": "s", "path": f"{OUT}/selection.json"}],
            depends_on=["look"],
        ),
        selection_artifact=f"{OUT}/selection.json",
    )
    workspace.run(*workspace.snakemake_argv(), env={page.SWITCH: "yes"})
    done = workspace.run(*workspace.snakemake_argv("--report", "report.zip"))
    assert done.returncode == 0, done.stdout
    with zipfile.ZipFile(workspace.root / "report.zip") as archive:
        return {
            name.rsplit("/", 1)[1] if "/raw/" in name else "page": archive.read(name).decode()
            for name in archive.namelist()
        }


def test_it_holds_what_people_can_read_of_what_the_jobs_made(report):
    assert {"m.csv", "d.txt", "selection.json"} <= report.keys()


def test_it_does_not_hold_what_they_cannot(report):
    assert "big.bin" not in report


def test_it_holds_the_timeline_and_the_run_report(report):
    assert {"report.html", "hloop_run.json"} <= report.keys()


@pytest.mark.parametrize("category", ["rollouts", "diagnoses", "selection", "timeline", "summary"])
def test_it_has_its_categories(report, category):
    assert f'"{category}"' in report["page"]


def test_a_file_has_its_caption(report):
    assert "a diagnosis of what a rollout left" in report["page"]


def test_it_describes_the_workflow(report):
    assert "A fixed plan, run by hloop" in report["page"]
