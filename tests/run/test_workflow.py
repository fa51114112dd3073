"""From a configuration to the facts of Snakemake's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import HloopError
from hloop.run.claiming import claim
from hloop.run.workflow import WorkflowRun, define
from supervised import job, output, rendered


def write_plan(root: Path, *jobs: dict[str, Any]) -> Path:
    document = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "test", "jobs": list(jobs)}
    path = root / "plan.json"
    path.write_text(json.dumps(document))
    return path


def defined(root: Path, *jobs: dict[str, Any], **config: Any) -> WorkflowRun:
    """The run of a plan of these jobs, in ``root/run``."""
    path = write_plan(root, *jobs)
    config = {"plan": str(path), "run_dir": str(root / "run"), **config}
    return define(config, default_root=root)


def facts(run: WorkflowRun, job_id: str) -> Any:
    (found,) = (f for kind in ("cpu", "gpu", "io") for f in run.rules(kind) if f.job_id == job_id)
    return found


def refusal(config: dict[str, Any], root: Path) -> str:
    with pytest.raises(HloopError) as caught:
        define(config, default_root=root)
    return str(caught.value)


# Configurations that are not right


def test_a_configuration_without_a_source_says_what_it_lacks(tmp_path: Path) -> None:
    text = refusal({"run_dir": "run"}, tmp_path)
    assert "neither workload nor plan; expected one of workload and plan" in text


def test_two_sources_are_one_too_many(tmp_path: Path) -> None:
    text = refusal({"run_dir": "run", "plan": "p", "workload": "w"}, tmp_path)
    assert "it names workload and plan" in text


@pytest.mark.parametrize("value", [None, 3, ["run"]])
def test_a_run_directory_that_is_no_path_is_named(tmp_path: Path, value: object) -> None:
    path = write_plan(tmp_path, job("a"))
    assert "run_dir" in refusal({"plan": str(path), "run_dir": value}, tmp_path)


def test_a_repository_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    root = tmp_path / "missing"
    text = refusal({"run_dir": "run", "plan": "p", "repo_root": str(root)}, tmp_path)
    assert f"{root} is no folder" in text


def test_a_missing_run_directory_is_named(tmp_path: Path) -> None:
    path = write_plan(tmp_path, job("a"))
    assert "run_dir" in refusal({"plan": str(path)}, tmp_path)


def test_an_unknown_mode_is_named_with_the_known_ones(tmp_path: Path) -> None:
    path = write_plan(tmp_path, job("a"))
    config = {"plan": str(path), "run_dir": "run", "mode": "fast"}
    text = refusal(config, tmp_path)
    assert "mode" in text and "bulk-sync" in text


def test_a_plan_that_breaks_a_rule_is_refused_with_its_file(tmp_path: Path) -> None:
    path = write_plan(tmp_path, job("a", depends_on=["b"]))
    text = refusal({"plan": str(path), "run_dir": str(tmp_path / "run")}, tmp_path)
    assert text.startswith(f"{path}: jobs[0].depends_on[0]")


def test_a_plan_that_is_not_there_is_named(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.json")
    assert absent in refusal({"plan": absent, "run_dir": "run"}, tmp_path)


@pytest.mark.parametrize("name", ["run{x}", "run<x>"])
def test_a_run_directory_that_snakemake_takes_for_a_pattern_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = write_plan(tmp_path, job("a"))
    text = refusal({"plan": str(path), "run_dir": str(tmp_path / name)}, tmp_path)
    assert "run_dir" in text and "brace" in text


def test_an_id_that_snakemake_takes_for_a_pattern_is_refused(tmp_path: Path) -> None:
    path = write_plan(tmp_path, job("a{x}"))
    text = refusal({"plan": str(path), "run_dir": str(tmp_path / "run")}, tmp_path)
    assert "jobs[0].job_id" in text and "brace" in text


# What is taken


def test_reading_a_configuration_writes_nothing(tmp_path: Path) -> None:
    defined(tmp_path, job("a"))
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_relative_paths_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan(tmp_path, job("a"))
    monkeypatch.chdir(tmp_path)
    run = define({"plan": "plan.json", "run_dir": "run", "repo_root": "."}, default_root=Path("/"))
    assert (run.rendered.run_dir, run.rendered.repo_root) == (tmp_path / "run", tmp_path)


def test_the_repository_root_has_a_default(tmp_path: Path) -> None:
    assert defined(tmp_path, job("a")).rendered.repo_root == tmp_path


def test_the_settings_come_from_the_configuration(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a"), mode="sequential", cpu_workers=3)
    assert (run.settings.mode, run.settings.cpu_workers) == ("sequential", 3)


def test_a_snakemake_for_one_job_takes_the_plan_of_the_run_directory(tmp_path: Path) -> None:
    config = {"plan": str(tmp_path / "gone.json"), "run_dir": str(tmp_path / "run")}
    claim(rendered(tmp_path, job("claimed")))
    run = define(config, default_root=tmp_path, subprocess=True)
    assert list(run.rendered.jobs) == ["claimed"]


# The facts


def test_each_resource_class_has_its_jobs_in_topological_order(tmp_path: Path) -> None:
    run = defined(tmp_path, job("b", depends_on=["a"]), job("g", resource="gpu"), job("a"))
    ids = {kind: [f.job_id for f in run.rules(kind)] for kind in ("cpu", "gpu", "io")}
    assert ids == {"cpu": ["a", "b"], "gpu": ["g"], "io": []}


def test_a_job_without_a_file_between_still_depends_through_the_marker(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a"), job("b", depends_on=["a"]))
    assert facts(run, "b").inputs == [str(run.paths.job("a").completed)]


def test_the_outputs_of_a_rule_are_its_artifacts_and_its_marker(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a", outputs=[output("o")]))
    assert facts(run, "a").outputs == [
        str(tmp_path / "run/o"),
        str(run.paths.job("a").completed),
    ]


def test_evidence_is_no_output(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a"))
    assert str(run.paths.job("a").status) not in facts(run, "a").outputs


@pytest.mark.parametrize("name", ["a{x}b", "{{x}}", "<results>"])
def test_an_artifact_that_snakemake_takes_for_a_pattern_is_left_to_hloop(
    tmp_path: Path, name: str
) -> None:
    made = {"role": "o", "path": "{run_dir}/" + name}
    run = defined(tmp_path, job("a", outputs=[made]), job("b", inputs=[made], depends_on=["a"]))
    markers = [str(run.paths.job(job_id).completed) for job_id in ("a", "b")]
    assert (facts(run, "a").outputs, facts(run, "b").inputs) == ([markers[0]], [markers[0]])


def test_a_folder_is_left_to_hloop(tmp_path: Path) -> None:
    made = {"role": "o", "path": "{run_dir}/out", "type": "directory"}
    run = defined(tmp_path, job("a", outputs=[made]), job("b", inputs=[made], depends_on=["a"]))
    markers = [str(run.paths.job(job_id).completed) for job_id in ("a", "b")]
    assert (facts(run, "a").outputs, facts(run, "b").inputs) == ([markers[0]], [markers[0]])


def test_the_limit_becomes_whole_minutes_rounded_up(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a", budget={"max_seconds": 61}))
    assert facts(run, "a").runtime == 2


def test_without_a_limit_there_is_no_runtime(tmp_path: Path) -> None:
    assert facts(defined(tmp_path, job("a")), "a").runtime is None


def test_a_plain_id_is_the_name_of_its_rule(tmp_path: Path) -> None:
    assert facts(defined(tmp_path, job("roll-out_1.b")), "roll-out_1.b").name == "roll-out_1.b"


def test_ids_that_no_rule_can_have_get_names_of_their_own(tmp_path: Path) -> None:
    run = defined(tmp_path, job("all"), job("$(id)"), job("a b"))
    assert sorted(f.name for f in run.rules("cpu")) == ["job@0", "job@1", "job@2"]


def test_the_targets_are_the_markers_of_all_jobs(tmp_path: Path) -> None:
    run = defined(tmp_path, job("a"), job("b"))
    assert run.markers == [str(run.paths.job(job_id).completed) for job_id in ("a", "b")]
