"""The checks of a comparison: each fails for what it is about, and for nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import ReportError
from hloop.files import data_dir
from hloop.plan.contract import schema_problems
from hloop.plan.model import CompareMode
from hloop.report.compare import compare
from jsonschema import Draft202012Validator
from synthetic_run import PLAN, STARTED, Mutation, SyntheticRun, make_pair

PARITY = json.loads((data_dir("schemas") / "hloop-parity.schema.json").read_text())

Pair = tuple[SyntheticRun, SyntheticRun]


def compare_runs(first: SyntheticRun, second: SyntheticRun) -> dict[str, Any]:
    """Compare two runs and hold the result against its schema."""
    parity = compare(first.paths.root, second.paths.root)
    Draft202012Validator(PARITY).validate(parity)
    return parity


def not_passed(parity: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in parity["checks"] if not check["passed"]}


def job_of(report: dict[str, Any], job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(job for job in report["jobs"] if job["job_id"] == job_id)
    return found


def in_job(job_id: str, mutate: Callable[[dict[str, Any]], object]) -> Mutation:
    return lambda report: mutate(job_of(report, job_id)) and None


def test_two_runs_with_the_same_results_agree_in_every_check(pair: Pair) -> None:
    assert not_passed(compare_runs(*pair)) == {}


def test_the_checks_are_those_of_the_run_of_each_job_and_the_selection(pair: Pair) -> None:
    jobs = ("rollout_a", "rollout_b", "diagnose_a", "diagnose_b", "select")
    assert [check["name"] for check in compare_runs(*pair)["checks"]] == [
        *("experiment_digest", "candidate_ids", "job_ids"),
        *(
            f"jobs.{job_id}.{what}"
            for job_id in jobs
            for what in ("command", "inputs", "outputs", "outcome")
        ),
        "selection",
    ]


def test_reports_may_be_named_as_files(pair: Pair) -> None:
    assert compare(pair[0].paths.report, pair[1].paths.report)["passed"]


HASH = "f" * 64

TAMPERINGS: dict[str, tuple[Mutation, str]] = {
    "experiment digest": (
        lambda report: report.update(experiment_digest="sha256:" + HASH),
        "experiment_digest",
    ),
    "candidate ids": (lambda report: report["candidate_ids"].pop(), "candidate_ids"),
    "a job is missing": (lambda report: report["jobs"].pop(), "job_ids"),
    "command hash": (
        in_job("diagnose_a", lambda job: job.update(command_semantic_hash=HASH)),
        "jobs.diagnose_a.command",
    ),
    "command": (
        in_job("select", lambda job: job["command"].append("--more")),
        "jobs.select.command",
    ),
    "input digest": (
        in_job("select", lambda job: job["inputs"][1].update(sha256=HASH)),
        "jobs.select.inputs",
    ),
    "input role": (
        in_job("select", lambda job: job["inputs"][1].update(role="other")),
        "jobs.select.inputs",
    ),
    "an input is missing": (
        in_job("select", lambda job: job["inputs"].pop()),
        "jobs.select.inputs",
    ),
    "output digest, bytes": (
        in_job("diagnose_b", lambda job: job["outputs"][0].update(sha256=HASH)),
        "jobs.diagnose_b.outputs",
    ),
    "output digest, csv": (
        in_job("rollout_a", lambda job: job["outputs"][1].update(sha256=HASH)),
        "jobs.rollout_a.outputs",
    ),
    "output path": (
        in_job("select", lambda job: job["outputs"][0].update(path="${RUN_DIR}/other")),
        "jobs.select.outputs",
    ),
    "status": (
        in_job("rollout_a", lambda job: job.update(status="timed_out")),
        "jobs.rollout_a.outcome",
    ),
    "exit status": (
        in_job("rollout_a", lambda job: job.update(returncode=1)),
        "jobs.rollout_a.outcome",
    ),
    "signal": (
        in_job("rollout_a", lambda job: job.update(signal="SIGTERM")),
        "jobs.rollout_a.outcome",
    ),
    "selection's value": (
        lambda report: report["selection"]["value"].update(selected=["a"]),
        "selection",
    ),
    "selection's digest": (lambda report: report["selection"].update(sha256=HASH), "selection"),
    "no selection": (lambda report: report.update(selection=None), "selection"),
}


@pytest.mark.parametrize("side", [0, 1], ids=["baseline", "candidate"])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_with_one_field_fails_exactly_its_check(
    pair: Pair, tampering: str, side: int
) -> None:
    mutate, expected = TAMPERINGS[tampering]
    pair[side].edit(mutate)
    assert list(not_passed(compare_runs(*pair))) == [expected]


MISSING: dict[str, tuple[Mutation, str]] = {
    "plan hash": (
        lambda report: (
            [report.pop(name) for name in ("experiment_digest", "plan_semantic_hash")] and None
        ),
        "plan_semantic_hash",
    ),
    "candidate ids": (lambda report: report.pop("candidate_ids"), "candidate_ids"),
    "command hash": (
        in_job("select", lambda job: job.pop("command_semantic_hash")),
        "jobs.select.command",
    ),
    "inputs": (in_job("select", lambda job: job.pop("inputs")), "jobs.select.inputs"),
    "an input's digest": (
        in_job("select", lambda job: job["inputs"][0].pop("sha256")),
        "jobs.select.inputs",
    ),
    "outputs": (in_job("select", lambda job: job.pop("outputs")), "jobs.select.outputs"),
    "an output's digest": (
        in_job("select", lambda job: job["outputs"][0].update(sha256=None)),
        "jobs.select.outputs",
    ),
    "outcome": (
        in_job("select", lambda job: [job.pop(name) for name in ("status", "returncode")]),
        "jobs.select.outcome",
    ),
    "selection": (lambda report: report.update(selection=None), "selection"),
}


@pytest.mark.parametrize("missing", MISSING)
def test_what_both_reports_lack_is_unknown_and_does_not_pass(pair: Pair, missing: str) -> None:
    mutate, expected = MISSING[missing]
    for run in pair:
        run.edit(mutate)
    assert not_passed(compare_runs(*pair)) == {expected: "unknown"}


def test_a_plan_without_a_selection_has_no_such_check(tmp_path: Path) -> None:
    plan = replace(PLAN, selection_artifact=None)
    parity = compare_runs(*make_pair(tmp_path / "repo", plan))
    assert (parity["passed"], parity["checks"][-1]["name"]) == (True, "jobs.select.outcome")


def test_a_run_from_another_checkout_agrees(tmp_path: Path) -> None:
    runs = make_pair(tmp_path / "here")[0], make_pair(tmp_path / "there")[1]
    assert not_passed(compare_runs(*runs)) == {}


def failed_pair(tmp_path: Path) -> Pair:
    first = SyntheticRun(tmp_path / "repo", name="first")
    second = SyntheticRun(tmp_path / "repo", name="second", start_time=STARTED + timedelta(days=1))
    for run in (first, second):
        run.run("rollout_a", 10, 110, "failed")
        run.add("job_skipped", 111, job="diagnose_a", reason="rollout_a failed")
        run.end(120, "failed")
        run.write()
    return first, second


def test_two_runs_that_failed_alike_agree_in_how_every_job_ended(tmp_path: Path) -> None:
    outcomes = {
        check["verdict"]
        for check in compare_runs(*failed_pair(tmp_path))["checks"]
        if check["name"].endswith(".outcome")
    }
    assert outcomes == {"same"}


def test_outputs_that_neither_run_made_are_unknown(tmp_path: Path) -> None:
    found = not_passed(compare_runs(*failed_pair(tmp_path)))
    assert found["jobs.rollout_a.outputs"] == "unknown"


def test_another_reason_of_failure_is_another_outcome(tmp_path: Path) -> None:
    runs = failed_pair(tmp_path)
    runs[1].edit(
        lambda report: job_of(report, "rollout_a")["failure"].update(reason="output_missing"),
    )
    assert not_passed(compare_runs(*runs))["jobs.rollout_a.outcome"] == "differs"


# The content of outputs


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"a/metrics.json": '{"when": "later", "reward": 1.50}'}, {}),
        (
            {"a/metrics.json": '{"reward": 1.25, "when": "first"}'},
            {"jobs.rollout_a.outputs": "differs", "jobs.diagnose_a.inputs": "differs"},
        ),
        ({"a/steps.csv": "step,error,clock\n1,0.50,99\n2,nan,98\n"}, {}),
        (
            {"a/steps.csv": "step,error,clock\n1,0.75,10\n2,,11\n"},
            {"jobs.rollout_a.outputs": "differs"},
        ),
        ({"a/notes.txt": "something else"}, {}),
        (
            {"a/report.json": '{"terminated":true}'},
            {"jobs.diagnose_a.outputs": "differs", "jobs.select.inputs": "differs"},
        ),
    ],
    ids=[
        "json but for what is ignored",
        "json",
        "csv but for what is ignored, NaN and digits",
        "csv",
        "none",
        "bytes",
    ],
)
def test_outputs_are_compared_by_their_mode_and_so_are_the_inputs_made_of_them(
    pair: Pair, changed: dict[str, str], expected: dict[str, str]
) -> None:
    pair[1].rewrite(**changed)
    assert not_passed(compare_runs(*pair)) == expected


def files_of(parity: dict[str, Any], name: str) -> list[dict[str, Any]]:
    check = next(check for check in parity["checks"] if check["name"] == name)
    found: list[dict[str, Any]] = check["files"]
    return found


def test_what_is_not_compared_is_listed(pair: Pair) -> None:
    pair[1].rewrite(**{"a/notes.txt": "other"})
    entry = files_of(compare_runs(*pair), "jobs.rollout_a.outputs")[2]
    assert (entry["path"], entry["verdict"]) == ("${RUN_DIR}/a/notes.txt", "not_compared")


def test_a_csv_that_differs_tells_the_largest_difference_per_column(pair: Pair) -> None:
    pair[1].rewrite(**{"b/steps.csv": "step,error,clock\n1,0.5,10\n2,1.75,11\n"})
    entry = files_of(compare_runs(*pair), "jobs.rollout_b.outputs")[1]
    assert entry["columns"] == [
        {"column": "step", "max_abs_difference": 0, "differing_cells": 0, "first_row": None},
        {"column": "error", "max_abs_difference": 1, "differing_cells": 2, "first_row": 1},
    ]


def test_a_json_that_differs_names_where(pair: Pair) -> None:
    pair[1].rewrite(**{"a/metrics.json": '{"reward": 2}'})
    entry = files_of(compare_runs(*pair), "jobs.rollout_a.outputs")[0]
    assert entry["pointers"] == [{"pointer": "/reward", "baseline": "1.5", "candidate": "2"}]


@pytest.mark.parametrize("side", [0, 1], ids=["baseline", "candidate"])
def test_a_file_that_changed_after_its_run_does_not_pass(pair: Pair, side: int) -> None:
    pair[1].rewrite(**{"a/metrics.json": '{"reward": 1.5}'})
    (pair[side].paths.root / "a/metrics.json").write_text('{"reward": 1.5 }')
    found = not_passed(compare_runs(*pair))
    assert found == {"jobs.rollout_a.outputs": "unknown", "jobs.diagnose_a.inputs": "unknown"}


def test_a_file_that_is_gone_does_not_pass(pair: Pair) -> None:
    pair[1].rewrite(**{"a/metrics.json": '{"reward": 1.5}'})
    (pair[0].paths.root / "a/metrics.json").unlink()
    entry = files_of(compare_runs(*pair), "jobs.rollout_a.outputs")[0]
    assert (entry["verdict"], entry["reason"]) == ("unknown", "the baseline's file is not there")


def test_files_with_equal_digests_are_not_read(pair: Pair) -> None:
    shutil.rmtree(pair[0].paths.root / "a")
    assert not_passed(compare_runs(*pair)) == {}


def test_two_reports_that_want_an_output_compared_differently_do_not_agree(pair: Pair) -> None:
    pair[1].edit(
        in_job("diagnose_a", lambda job: job["outputs"][0].update(compare="none", sha256=HASH)),
    )
    found = not_passed(compare_runs(*pair))
    assert found["jobs.diagnose_a.outputs"] == "differs"


def test_a_selection_follows_the_mode_of_its_output(tmp_path: Path) -> None:
    select = PLAN.jobs[0]
    output = replace(select.outputs[0], compare=CompareMode.JSON, ignore=("/when",))
    plan = replace(PLAN, jobs=(replace(select, outputs=(output,)), *PLAN.jobs[1:]))
    runs = make_pair(tmp_path / "repo", plan)
    runs[1].rewrite(**{"selection.json": '{"selected": ["b"], "when": "later"}'})
    assert not_passed(compare_runs(*runs)) == {}


# Reports of the original


def published(report: dict[str, Any]) -> dict[str, Any]:
    """Cut a report down to what the original writes."""
    keys = ["job_id", "candidate_id", "resource", "cuda_visible_devices", "seed", "budget"]
    keys += ["command", "command_semantic_hash", "inputs", "outputs", "returncode"]
    keys += ["elapsed_seconds", "log"]
    top = ["schema_version", "plan_id", "plan_semantic_hash", "started_at", "completed_at"]
    top += ["elapsed_seconds", "status", "candidate_ids", "selection"]
    artifact = ("role", "path", "sha256", "size_bytes")
    jobs = [{key: job[key] for key in keys} for job in report["jobs"]]
    for job in jobs:
        for kind in ("inputs", "outputs"):
            job[kind] = [{key: entry[key] for key in artifact} for entry in job[kind]]
        job["command"] = [f"/elsewhere/{item}" for item in job["command"]]
    return {**{key: report[key] for key in top}, "mode": "e0", "jobs": jobs}


def make_published(run: SyntheticRun) -> None:
    document = json.loads(run.paths.report.read_bytes())
    run.paths.report.write_text(json.dumps(published(document)))


def test_a_report_of_the_original_satisfies_the_schema(pair: Pair) -> None:
    document = published(json.loads(pair[0].paths.report.read_bytes()))
    assert schema_problems(document, "hloop-run") == []


def test_a_report_of_the_original_is_compared_by_its_plan_hash(pair: Pair) -> None:
    make_published(pair[0])
    parity = compare_runs(*pair)
    assert (parity["passed"], parity["checks"][0]["name"]) == (True, "plan_semantic_hash")


def test_two_reports_of_the_original_can_be_compared(pair: Pair) -> None:
    for run in pair:
        make_published(run)
    assert compare_runs(*pair)["passed"]


def test_against_the_original_the_rules_of_comparison_are_those_of_hloop(pair: Pair) -> None:
    pair[1].rewrite(**{"a/metrics.json": '{"reward": 1.5}'})
    make_published(pair[0])
    assert not_passed(compare_runs(*pair)) == {}


def test_between_reports_of_the_original_only_bytes_count(pair: Pair) -> None:
    pair[1].rewrite(**{"a/notes.txt": "other"})
    for run in pair:
        make_published(run)
    assert not_passed(compare_runs(*pair)) == {"jobs.rollout_a.outputs": "differs"}


# What cannot be answered


def code_of(baseline: Path, candidate: Path) -> str:
    with pytest.raises(ReportError) as raised:
        compare(baseline, candidate)
    return raised.value.problems[0].code


def test_a_report_compared_with_itself_is_refused(pair: Pair) -> None:
    assert code_of(pair[0].paths.root, pair[0].paths.report) == "same_report"


def test_a_copy_of_a_report_is_refused(pair: Pair, tmp_path: Path) -> None:
    shutil.copytree(pair[0].paths.root, tmp_path / "copy")
    assert code_of(pair[0].paths.root, tmp_path / "copy") == "same_report"


def test_a_copy_that_is_only_laid_out_differently_is_refused(pair: Pair, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(json.loads(pair[0].paths.report.read_bytes())))
    assert code_of(pair[0].paths.root, copy) == "same_report"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no JSON", "not_json"),
        ('{"a": 1, "a": 2}', "not_json"),
        ("[" * 100_000, "not_json"),
        ("{}", "foreign_schema"),
        ("[]", "foreign_schema"),
        ('{"schema_version": "mimicx.hloop-plan.v1"}', "foreign_schema"),
        ('{"schema_version": "mimicx.hloop-run.v1"}', "no_jobs"),
        ('{"schema_version": "mimicx.hloop-run.v1", "jobs": [{}]}', "job_ids"),
        (
            '{"schema_version": "mimicx.hloop-run.v1", "jobs": '
            '[{"job_id": "a"}, {"job_id": "a"}]}',
            "job_ids",
        ),
        ('{"schema_version": "mimicx.hloop-run.v1", "jobs": 1}', "wrong_type"),
        ('{"schema_version": "mimicx.hloop-run.v1", "jobs": [1]}', "wrong_type"),
    ],
)
def test_what_is_no_run_report_is_refused(
    pair: Pair, tmp_path: Path, text: str, code: str
) -> None:
    (tmp_path / "report.json").write_text(text)
    assert code_of(pair[0].paths.root, tmp_path / "report.json") == code


def test_a_folder_without_a_report_is_refused(pair: Pair, tmp_path: Path) -> None:
    assert code_of(tmp_path, pair[0].paths.root) == "unreadable"
