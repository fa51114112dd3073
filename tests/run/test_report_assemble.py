"""The run report of every ending, made from synthetic journals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hloop.files import data_dir
from hloop.run.report import assemble
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from synthetic_run import DEVICES, PLAN, SyntheticRun

SCHEMA = json.loads((data_dir("schemas") / "hloop-run.schema.json").read_text())


def jobs_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {job["job_id"]: job for job in report["jobs"]}


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {job["job_id"]: job["status"] for job in report["jobs"]}


def undescribed(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """Give the fields of a document that its schema does not name."""
    found = []
    if isinstance(value, dict) and ("properties" in schema or "patternProperties" in schema):
        any_key = schema.get("patternProperties", {}).get("")
        for key, item in value.items():
            sub = schema.get("properties", {}).get(key, any_key)
            inside = f"{where}.{key}"
            found += [inside] if sub is None else undescribed(item, sub, inside)
    if isinstance(value, list) and "items" in schema:
        for item in value:
            found += undescribed(item, schema["items"], where)
    return found


@pytest.fixture
def run(tmp_path: Path) -> SyntheticRun:
    return SyntheticRun(tmp_path / "repo")


@pytest.fixture
def completed(run: SyntheticRun) -> dict[str, Any]:
    run.run_all()
    return run.write()


def failed_run(run: SyntheticRun) -> dict[str, Any]:
    run.run("rollout_a", 10, 110, "failed")
    run.run("rollout_b", 10, 210)
    for job_id in ("diagnose_a", "diagnose_b", "select"):
        run.add("job_skipped", 111, job=job_id, reason="rollout_a failed")
    run.end(220, "failed")
    return run.write()


def interrupted_run(run: SyntheticRun) -> dict[str, Any]:
    run.run("rollout_a", 10, 110)
    run.started("rollout_b", 10)
    run.add("stopping", 120, reason="SIGINT")
    run.gone("rollout_b", 130, returncode=None)
    run.ended("rollout_b", 131, "cancelled")
    run.end(140, "interrupted")
    return run.write()


def test_a_completed_run_is_completed(completed: dict[str, Any]) -> None:
    assert completed["status"] == "completed"


def test_jobs_stand_in_topological_order_and_not_in_plan_order(completed: dict[str, Any]) -> None:
    assert list(jobs_of(completed)) == [
        *("rollout_a", "rollout_b"),
        *("diagnose_a", "diagnose_b"),
        "select",
    ]


def test_candidate_ids_are_sorted_and_keep_their_doubles(completed: dict[str, Any]) -> None:
    assert completed["candidate_ids"] == ["a", "a", "b", "b"]


def test_a_run_is_measured_from_its_start_to_its_end(completed: dict[str, Any]) -> None:
    assert (completed["elapsed_seconds"], completed["completed_at"]) == (
        0.28,
        "2026-01-02T03:04:05.280000Z",
    )


def test_a_job_is_measured_until_its_processes_are_gone(completed: dict[str, Any]) -> None:
    job = jobs_of(completed)["rollout_a"]
    names = ("start_offset_ns", "end_offset_ns", "elapsed_seconds", "cpu_seconds", "max_rss_bytes")
    assert [job[name] for name in names] == [10_000_000, 110_000_000, 0.1, 0.0015, 4096]


def test_a_gpu_job_names_its_slot_and_its_device(completed: dict[str, Any]) -> None:
    job = jobs_of(completed)["rollout_b"]
    assert (job["slot"], job["device"]) == ("device 1", DEVICES[1])


def test_outputs_carry_their_digests_and_what_is_not_default_of_their_comparison(
    run: SyntheticRun, completed: dict[str, Any]
) -> None:
    digest = run.events[4]["outputs"][0]["sha256"]
    assert jobs_of(completed)["rollout_a"]["outputs"][0] == {
        "role": "metrics",
        "path": "${RUN_DIR}/a/metrics.json",
        "sha256": digest,
        "size_bytes": 32,
        "compare": "json",
        "ignore": ["/when"],
    }


def test_an_output_compared_by_bytes_says_nothing_of_it(completed: dict[str, Any]) -> None:
    assert "compare" not in jobs_of(completed)["diagnose_a"]["outputs"][0]


def test_the_selection_is_read_from_its_file(run: SyntheticRun, completed: dict[str, Any]) -> None:
    made = jobs_of(completed)["select"]["outputs"][0]["sha256"]
    assert completed["selection"] == {"sha256": made, "value": {"selected": ["b"]}}


def test_the_report_on_disk_is_the_report(run: SyntheticRun, completed: dict[str, Any]) -> None:
    assert json.loads(run.paths.report.read_bytes()) == completed


def test_no_path_of_the_run_or_the_repository_is_left(
    run: SyntheticRun, completed: dict[str, Any]
) -> None:
    assert str(run.root) not in run.paths.report.read_text()


def test_paths_inside_a_shell_command_are_portable(completed: dict[str, Any]) -> None:
    assert (
        jobs_of(completed)["select"]["command"][2]
        == "cat ${RUN_DIR}/*/report.json > ${RUN_DIR}/selection.json"
    )


def test_logs_are_named_for_jobs_that_started(completed: dict[str, Any]) -> None:
    assert jobs_of(completed)["select"]["stderr_log"] == "${RUN_DIR}/jobs/select/stderr.log"


def test_messages_name_the_folders_by_whole_components(run: SyntheticRun) -> None:
    folder = run.paths.root
    run.run_all()
    run.ended("select", 279, "failed", f"{folder}/x, {folder}. and {folder}s; {run.root}/y")
    failure = jobs_of(run.write())["select"]["failure"]
    assert failure["message"] == "${RUN_DIR}/x, ${RUN_DIR}. and ${REPO_ROOT}/runs; ${REPO_ROOT}/y"


def test_a_failed_job_fails_the_run(run: SyntheticRun) -> None:
    assert failed_run(run)["status"] == "failed"


def test_what_a_failure_kept_from_starting_is_skipped_and_says_why(run: SyntheticRun) -> None:
    job = jobs_of(failed_run(run))["diagnose_a"]
    assert (job["status"], job["failure"]["message"]) == ("skipped", "rollout_a failed")


def test_a_failed_job_tells_reason_and_end_of_stderr(run: SyntheticRun) -> None:
    failure = jobs_of(failed_run(run))["rollout_a"]["failure"]
    assert failure == {"reason": "exit_code", "message": "it broke", "stderr_tail": "the end"}


def test_outputs_that_were_not_made_are_listed_without_a_digest(run: SyntheticRun) -> None:
    outputs = jobs_of(failed_run(run))["rollout_a"]["outputs"]
    assert [entry["sha256"] for entry in outputs] == [None, None, None]


def test_keep_going_fails_the_run_though_other_jobs_complete(run: SyntheticRun) -> None:
    run.run("rollout_a", 10, 110, "failed")
    run.run("rollout_b", 10, 210)
    run.run("diagnose_b", 212, 262)
    run.add("job_skipped", 263, job="diagnose_a", reason="rollout_a failed")
    run.add("job_skipped", 263, job="select", reason="rollout_a failed")
    run.end(270, "failed")
    report = run.write()
    assert (report["status"], statuses(report)["diagnose_b"]) == ("failed", "completed")


def test_an_interrupted_run_is_interrupted(run: SyntheticRun) -> None:
    assert interrupted_run(run)["status"] == "interrupted"


def test_a_job_that_was_stopped_names_the_signal(run: SyntheticRun) -> None:
    job = jobs_of(interrupted_run(run))["rollout_b"]
    assert (job["status"], job["signal"], job["returncode"]) == ("cancelled", "SIGKILL", None)


def test_jobs_that_the_journal_never_names_are_skipped_with_a_reason(run: SyntheticRun) -> None:
    job = jobs_of(interrupted_run(run))["select"]
    assert (job["status"], job["failure"]["message"]) == (
        "skipped",
        "the run ended before the job was ready",
    )


def test_a_job_that_could_not_start_has_no_times_and_no_log(run: SyntheticRun) -> None:
    run.ended("rollout_a", 10, "failed")
    run.end(20, "failed")
    job = jobs_of(run.write())["rollout_a"]
    names = ("status", "started_at", "ended_at", "elapsed_seconds", "log")
    assert [job[name] for name in names] == ["failed", None, None, None, None]


def test_a_completed_job_whose_outputs_were_refused_has_failed(run: SyntheticRun) -> None:
    run.run_all()
    run.ended("select", 279, "failed")
    report = run.write()
    assert (report["status"], statuses(report)["select"]) == ("failed", "failed")


def test_a_run_that_calls_itself_completed_is_not_while_a_job_is_not(run: SyntheticRun) -> None:
    run.run("rollout_a", 10, 110)
    run.started("rollout_b", 10)
    run.end(120, "completed")
    assert run.write()["status"] == "interrupted"


def test_a_run_that_died_after_a_failure_is_failed(run: SyntheticRun) -> None:
    run.run("rollout_a", 10, 110, "failed")
    run.started("rollout_b", 10)
    assert run.write()["status"] == "failed"


def test_a_run_that_died_ends_with_its_last_event(run: SyntheticRun) -> None:
    run.run("rollout_a", 10, 110)
    report = run.write()
    assert (report["elapsed_seconds"], report["completed_at"]) == (
        0.111,
        "2026-01-02T03:04:05.111000Z",
    )


def test_a_job_that_was_there_when_the_run_died_overlaps_with_the_others(
    run: SyntheticRun,
) -> None:
    run.started("rollout_b", 10)
    run.started("rollout_a", 20)
    assert jobs_of(run.write())["rollout_a"]["concurrent_with"] == ["rollout_b"]


def test_jobs_of_no_plan_are_left_out(run: SyntheticRun) -> None:
    run.add("job_skipped", 1, job="some_rule", reason="none")
    assert "some_rule" not in jobs_of(run.write())


def test_waves_are_those_of_bulk_sync(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "repo", start={"mode": "bulk-sync"})
    run.add("wave_started", 9, index=0, jobs=["rollout_a", "rollout_b"])
    run.add("wave_started", 211, index=1, jobs=["diagnose_a", "diagnose_b"])
    assert run.write()["waves"] == [["rollout_a", "rollout_b"], ["diagnose_a", "diagnose_b"]]


def test_other_modes_have_no_waves(completed: dict[str, Any]) -> None:
    assert "waves" not in completed


@pytest.mark.parametrize("ending", [failed_run, interrupted_run])
def test_the_report_of_every_ending_satisfies_its_schema(run: SyntheticRun, ending: Any) -> None:
    assert list(Draft202012Validator(SCHEMA).iter_errors(ending(run))) == []


def test_the_report_of_a_completed_run_satisfies_its_schema(completed: dict[str, Any]) -> None:
    assert list(Draft202012Validator(SCHEMA).iter_errors(completed)) == []


def test_the_report_of_a_run_under_another_executor_satisfies_its_schema(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "repo", start={"mode": "external", "executor": "local"})
    run.run_all()
    assert list(Draft202012Validator(SCHEMA).iter_errors(run.write())) == []


def test_the_schema_describes_every_field_that_is_written(completed: dict[str, Any]) -> None:
    assert undescribed(completed, SCHEMA) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("not JSON", None),
        ("[NaN]", None),
        ("[1e999]", None),
        ('"\\ud800"', "\ud800"),
        ('{"é": 1}', {"é": 1}),
    ],
)
def test_a_selection_of_any_content_is_kept_in_valid_json(
    run: SyntheticRun, text: str, value: object
) -> None:
    run.run_all(**{"selection.json": text})
    run.write()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    report = json.loads(run.paths.report.read_bytes(), parse_constant=refuse)
    assert report["selection"]["value"] == value


def test_what_a_failed_job_left_is_no_selection(run: SyntheticRun) -> None:
    run.run_all()
    run.ended("select", 279, "failed")
    assert run.write()["selection"] is None


def test_a_plan_without_a_selection_has_none(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "repo", replace(PLAN, selection_artifact=None))
    run.run_all()
    report = run.write()
    assert (report["selection"], report["selection_artifact"]) == (None, None)


def test_a_report_is_replaced_by_a_later_one(run: SyntheticRun) -> None:
    run.run("rollout_a", 10, 110)
    run.write()
    run.end(120, "interrupted")
    run.write()
    assert json.loads(run.paths.report.read_bytes())["elapsed_seconds"] == 0.12


def test_a_journal_cut_at_any_line_gives_a_valid_report_and_completes_no_unfinished_job(
    run: SyntheticRun,
) -> None:
    run.run_all()
    wrong = []
    validator = Draft202012Validator(SCHEMA)
    for length in range(1, len(run.events)):
        events = run.events[:length]
        report = assemble(run.rendered, events)
        ended = {event["job"] for event in events if event["event"] == "job_ended"}
        completed = {name for name, status in statuses(report).items() if status == "completed"}
        if completed != ended or report["status"] != "interrupted":
            wrong.append(length)
        wrong += [f"{length}: {error.message}" for error in validator.iter_errors(report)]
    assert wrong == []


ENDINGS = ("completed", "failed", "timed_out", "stalled", "cancelled")
JOB_IDS = [job.job_id for job in PLAN.jobs]


@st.composite
def journals(draw: st.DrawFn) -> list[tuple[str, int, int, str]]:
    """Jobs, some left out, each with a start, an end (None: never) and an outcome."""
    chosen = draw(st.lists(st.sampled_from(JOB_IDS), unique=True))
    return [
        (job_id, start, start + draw(st.integers(0, 30)), draw(st.sampled_from(ENDINGS)))
        for job_id in chosen
        for start in [draw(st.integers(1, 30))]
    ]


@given(spans=journals(), cut=st.integers(0, 30), verdict=st.sampled_from(["", *ENDINGS[:2]]))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_journal_cut_anywhere_gives_a_valid_report(
    tmp_path_factory: pytest.TempPathFactory,
    spans: list[tuple[str, int, int, str]],
    cut: int,
    verdict: str,
) -> None:
    run = SyntheticRun(tmp_path_factory.mktemp("run") / "repo")
    for job_id, start, end, status in spans:
        run.run(job_id, start, end, status)
    head, *tail = run.events
    tail.sort(key=lambda event: event["offset_ns"])
    run.events[:] = [head, *tail][: max(1, len(tail) - cut)]
    if verdict:
        run.end(100, verdict)
    report = assemble(run.rendered, run.events)
    errors = [error.message for error in Draft202012Validator(SCHEMA).iter_errors(report)]
    ended = {
        event["job"]
        for event in run.events
        if event["event"] == "job_ended" and event["status"] == "completed"
    }
    completed = {name for name, status in statuses(report).items() if status == "completed"}
    assert (errors, completed) == ([], ended)
