"""What Snakemake itself makes of a run: records of rules without a plan, another executor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hloop.provenance.verify import Verdict, verify

SNAKEFILE = """
rule all:
    input: "models/0.txt", "models/1.txt", "sum.txt"
rule train:
    output: "models/{seed}.txt"
    resources: gpu=1
    shell: "echo {wildcards.seed} > {output}; sleep 0.1"
rule copy:
    input: "in.txt"
    output: temp("copy.txt")
    shell: "cat {input} > {output}"
rule sum:
    input: "copy.txt", "models/0.txt"
    output: "sum.txt", directory("folder")
    retries: 1
    shell:
        "mkdir folder; cat {input} > {output[0]}; "
        "test -f once || (touch once; rm -r folder; exit 1)"
"""


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} - {"not_formal"}


@pytest.fixture(scope="module")
def workflow(shared_workspace: Any) -> Path:
    """A workflow with a retried job and a temporary file, run with records of its rules."""
    shared_workspace.write("Snakefile", SNAKEFILE)
    shared_workspace.write("in.txt", "in\n")
    options = ("--hloop-devices", "simulated:2", "--hloop-provenance", "all")
    result = shared_workspace.snakemake(*options)
    assert result.returncode == 0, result.stdout
    root: Path = shared_workspace.root
    return root


@pytest.fixture
def copied(workflow: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the workflow's folder, and of the run directory in it."""
    shutil.copytree(workflow, tmp_path / "copy", symlinks=True)
    (run,) = (tmp_path / "copy/.snakemake/hloop").iterdir()
    return tmp_path / "copy", run


def test_the_records_of_rules_are_complete_and_unaltered(copied: tuple[Path, Path]) -> None:
    root, run = copied
    verdict = verify(run, repo_root=root)
    assert (codes(verdict), verdict.complete, verdict.exit_code) == (set(), True, 0)
    assert verdict.counts["jobs"] == verdict.counts["completed"] + 1 == 5


@pytest.mark.parametrize(
    ("name", "code"),
    [("sum.txt", "output_changed"), ("in.txt", "input_changed"), ("Snakefile", None)],
)
def test_a_changed_file_of_a_workflow_is_seen(
    copied: tuple[Path, Path], name: str, code: str | None
) -> None:
    root, run = copied
    (root / name).write_text("forged")
    assert codes(verify(run, repo_root=root)) == {code} - {None}


def test_a_missing_output_of_a_rule_is_seen(copied: tuple[Path, Path]) -> None:
    root, run = copied
    (root / "sum.txt").unlink()
    assert codes(verify(run, repo_root=root)) == {"output_missing"}


@pytest.mark.parametrize("name", ["extra", "rules/extra", "rules/train-1-1/extra", "jobs/x"])
def test_an_extra_file_beside_the_records_of_rules_is_seen(
    copied: tuple[Path, Path], name: str
) -> None:
    root, run = copied
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).touch()
    assert codes(verify(run, repo_root=root)) == {"unexpected_file"}


def test_a_missing_record_of_a_rule_is_seen(copied: tuple[Path, Path]) -> None:
    root, run = copied
    (run / "rules/train-1-1/run_record.json").unlink()
    assert "record_missing" in codes(verify(run, repo_root=root))


def test_a_report_of_rules_must_be_canonical(copied: tuple[Path, Path]) -> None:
    root, run = copied
    report = run / "hloop_run.json"
    report.write_bytes(report.read_bytes() + b"\n")
    assert "not_canonical" in codes(verify(run, repo_root=root))


def test_a_run_under_another_executor_is_unaltered(workspace: Any, make_job: Any) -> None:
    made = {"role": "o", "path": "{run_dir}/o"}
    workspace.plan(
        make_job("a", "echo > run/o; sleep 0.2", "gpu", outputs=[made]),
        make_job("b", "sleep 0.2", "gpu"),
        make_job("c", depends_on=["a"], inputs=[made]),
    )
    argv = workspace.snakemake_argv("--executor", "local")
    result = workspace.run(*argv, "devices=simulated:2")
    assert result.returncode == 0, result.stdout
    verdict = verify(workspace.root / "run")
    assert (codes(verdict), verdict.exit_code) == (set(), 0)
    assert [note.code for note in verdict.notes] == ["another_executor"]
