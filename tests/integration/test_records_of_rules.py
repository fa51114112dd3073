"""Workflows without a plan, and beside one, whose jobs get records (``provenance: all``)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hloop.provenance.verify import Verdict, verify

ALL = ("--hloop-provenance", "all", "--hloop-devices", "simulated:2")

# One rule of each kind that cannot be hashed as a plain file, or is run by a Snakemake of its own.
SNAKEFILE = """
configfile: "config.yaml"
envvars: "CANARY"

rule all:
    input: "kept", "folder", "by_run", "touched", "stream_end", "link"

rule first:
    output: temp("first")
    resources: gpu=1
    shell: "echo $HLOOP_DEVICE_ID > {output}"

rule kept:
    input: data="first", conf=["config.yaml", "Snakefile"]
    output: protected("kept")
    resources: gpu=2
    shell: "cat {input} > {output}"

rule folder:
    input: "kept"
    output: directory("folder")
    shell: "mkdir {output}; echo x > {output}/x"

rule by_run:
    input: "folder"
    output: "by_run"
    run:
        import os
        open(output[0], "w").write(" ".join(sorted(os.listdir(input[0]))))

rule touched:
    input: "folder"
    output: touch("touched")
    shell: "true"

rule stream:
    output: pipe("stream")
    shell: "echo pipe > {output}"

rule stream_end:
    input: "stream"
    output: "stream_end"
    shell: "cat {input} > {output}"

rule link:
    input: "kept"
    output: "link"
    shell: "ln -s kept {output}"
"""


def run_dir(root: Path) -> Path:
    (found,) = (root / ".snakemake/hloop").iterdir()
    return found


def report(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run_dir(root) / "hloop_run.json").read_bytes())
    return document


def entry(root: Path, rule: str) -> dict[str, Any]:
    """The one attempt of a rule."""
    (found,) = (entry for entry in report(root)["rules"] if entry["rule"] == rule)
    return found


def record(root: Path, rule: str, name: str) -> Any:
    return json.loads((run_dir(root) / "rules" / entry(root, rule)["name"] / name).read_bytes())


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} - {"not_formal"}


@pytest.fixture(scope="module")
def workflow(shared_workspace: Any) -> Any:
    """The workflow, run to its end, with a secret in its environment."""
    shared_workspace.write("Snakefile", SNAKEFILE)
    shared_workspace.write("config.yaml", "key: 1\n")
    shared_workspace.result = shared_workspace.snakemake(*ALL, env={"CANARY": "yellow-bird-71"})
    assert shared_workspace.result.returncode == 0, shared_workspace.result.stdout
    return shared_workspace


def test_every_kind_of_rule_is_complete_and_unaltered(workflow: Any) -> None:
    verdict = verify(run_dir(workflow.root))
    assert (codes(verdict), verdict.exit_code) == (set(), 0)


def test_every_job_has_an_entry_and_rules_without_a_body_have_none(workflow: Any) -> None:
    rules = sorted(found["rule"] for found in report(workflow.root)["rules"])
    # Two jobs with a stream between them are one group.
    (group,) = (rule for rule in rules if rule.endswith("_stream_stream_end"))
    assert set(rules) - {group} == {"first", "kept", "folder", "by_run", "touched", "link"}


def test_the_head_is_printed(workflow: Any) -> None:
    head = verify(run_dir(workflow.root)).head
    assert f"head: {head}" in workflow.result.stdout


def test_no_record_holds_a_secret_of_the_environment(workflow: Any) -> None:
    files = [path for path in run_dir(workflow.root).rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if b"yellow-bird-71" in path.read_bytes()]


def test_inputs_have_the_names_that_the_rule_gives_them(workflow: Any) -> None:
    inputs = record(workflow.root, "kept", "scheduled_job.json")["input_digests"]
    assert [(item["role"], item["path"]) for item in inputs] == [
        ("data", "${REPO_ROOT}/first"),
        ("conf", "${REPO_ROOT}/config.yaml"),
        ("conf", "${REPO_ROOT}/Snakefile"),
    ]


def test_what_snakemake_removes_is_named(workflow: Any) -> None:
    assert entry(workflow.root, "first")["temporary"] == ["${REPO_ROOT}/first"]


def test_what_snakemake_touches_is_not_covered(workflow: Any) -> None:
    assert entry(workflow.root, "touched")["not_covered"] == ["${REPO_ROOT}/touched"]


def test_the_snakefile_and_the_configuration_are_in_the_manifest(workflow: Any) -> None:
    manifest = json.loads((run_dir(workflow.root) / "manifest.json").read_bytes())
    assert {item["path"] for item in manifest["config_digests"]} == {
        "${REPO_ROOT}/Snakefile",
        "${REPO_ROOT}/config.yaml",
    }


# Other endings


def test_without_being_asked_for_nothing_is_written(workspace: Any) -> None:
    workspace.write("Snakefile", "rule a:\n    output: 'o'\n    shell: 'echo > {output}'\n")
    assert workspace.snakemake().returncode == 0
    assert not (workspace.root / ".snakemake/hloop").exists()


def test_what_a_workflow_replaces_itself_is_unaltered(workspace: Any) -> None:
    workspace.write(
        "Snakefile",
        """
rule all:
    input: "table", "listing"
rule before:
    input: before_update("table")
    output: "copy"
    shell: "cp {input} {output}"
rule after:
    input: "copy"
    output: update("table")
    shell: "cat {input} >> {output}"
rule grows:
    input: "folder"
    output: "listing"
    shell: "ls {input} > {output}; touch folder/new"
""",
    )
    workspace.write("table", "row\n")
    workspace.write("folder/old", "")
    result = workspace.snakemake(*ALL, "--forceall")
    assert result.returncode == 0, result.stdout
    assert codes(verify(run_dir(workspace.root))) == set()


def test_outputs_that_snakemake_does_not_take_are_rejected(workspace: Any) -> None:
    workspace.write(
        "Snakefile",
        "rule a:\n    output: ensure('o', non_empty=True)\n    shell: 'touch {output}'\n",
    )
    assert workspace.snakemake(*ALL).returncode == 1
    assert entry(workspace.root, "a")["failure"]["reason"] == "rejected"
    assert codes(verify(run_dir(workspace.root))) == {"job_not_completed"}


def test_a_workflow_that_is_stopped_has_a_report(workspace: Any, waiting: Any) -> None:
    workspace.write("Snakefile", "rule a:\n    output: 'o'\n    shell: 'touch up; sleep 60'\n")
    argv = ("snakemake", "--executor", "hloop", "--cores", "1", *ALL)
    process = workspace.start(argv)
    waiting((workspace.root / "up").exists, "the job")
    process.send_signal(signal.SIGINT)
    workspace.finish(process)
    assert report(workspace.root)["status"] == "interrupted"
    assert verify(run_dir(workspace.root)).unaltered is True


def test_a_workflow_whose_supervisor_is_killed_has_a_report(workspace: Any) -> None:
    # The supervisor is the job's parent, and knows of the job when it has written it down.
    known = "until grep -q rule_started .snakemake/hloop/*/journal.jsonl; do sleep 0.01; done"
    script = f"{known}; kill -KILL $PPID; sleep 60"
    workspace.write("Snakefile", f"rule a:\n    output: 'o'\n    shell: '{script}'\n")
    result = workspace.snakemake(*ALL)
    assert result.returncode == 1 and "head: sha256:" in result.stdout
    assert entry(workspace.root, "a")["failure"]["reason"] == "supervisor_died"
    assert verify(run_dir(workspace.root)).unaltered is True


def test_rules_beside_a_plan_have_their_records_in_its_run(workspace: Any, make_job: Any) -> None:
    made = {"role": "o", "path": "{run_dir}/o"}
    workspace.plan(make_job("a", "echo > run/o", outputs=[made]))
    packaged = str(workspace.snakemake_argv()[2])
    workspace.write(
        "Snakefile",
        f"include: '{packaged}'\n\nrule more:\n    input: '{workspace.root}/run/o'\n"
        "    output: 'more'\n    shell: 'cat {input} > {output}'\n",
    )
    settings = ("--config", "plan=plan.json", "run_dir=run", f"repo_root={workspace.root}")
    result = workspace.snakemake("more", *ALL, *settings)
    assert result.returncode == 0, result.stdout
    (found,) = workspace.report()["rules"]
    assert (found["rule"], found["status"]) == ("more", "completed")
    assert codes(verify(workspace.root / "run")) == set()
