from __future__ import annotations

import pytest
from drawn_runs import completed_run, failed_run, waves_run
from hloop.report.load import load_report
from hloop.report.rundata import read_run, run_band, timeline_data
from hloop.report.runpage import run_page
from hloop.report.timeline import band, stages_of


def drawn(run):
    return run_band(load_report(run.paths.root), "")


def job(name, **fields):
    return {"job_id": name, "resource": "gpu", "status": "completed", **fields}


def test_every_lane_is_idle_as_long_as_the_report_says(tmp_path):
    run = completed_run(tmp_path)
    report = load_report(run.paths.root).document
    lanes = {lane["name"]: pytest.approx(lane["idle"]) for lane in drawn(run)["lanes"]}
    idle = report["scheduling"]["idle_seconds"]
    # A worker that no job used is not drawn.
    assert {name: idle[name] for name in lanes} == lanes


def test_devices_come_first_and_are_there_without_a_job(tmp_path):
    names = [lane["name"] for lane in drawn(completed_run(tmp_path))["lanes"]]
    assert names == ["device 0", "device 1", "cpu 0", "io 0"]


def test_a_job_that_never_started_has_no_lane(tmp_path):
    jobs = {entry["id"]: entry["lane"] for entry in drawn(failed_run(tmp_path))["jobs"]}
    assert (jobs["select"], jobs["rollout_b"]) == (None, 1)


def test_a_wave_is_from_its_first_start_to_its_last_end(tmp_path):
    waves = drawn(waves_run(tmp_path))["waves"]
    assert [(wave["start"], wave["end"]) for wave in waves] == [
        (0.01, 0.21),
        (0.22, 0.27),
        (0.28, 0.29),
    ]


def test_jobs_without_slots_are_dealt_into_rows_where_none_overlap():
    jobs = [
        job("a", start_offset_ns=0, end_offset_ns=10),
        job("b", start_offset_ns=5, end_offset_ns=20),
        job("c", start_offset_ns=10, end_offset_ns=20),
    ]
    lanes = [entry["lane"] for entry in band("", jobs, {}, {}, mode="external")["jobs"]]
    assert lanes == [0, 1, 0]


def test_a_job_whose_end_is_not_known_is_drawn_to_the_end_of_the_run():
    jobs = [job("a", slot="device 0", start_offset_ns=0, end_offset_ns=None)]
    drawn = band("", jobs, {}, {}, mode="hloop", end_seconds=3.0)
    assert drawn["jobs"][0]["end"] == 3.0


def test_stages_are_called_by_what_their_jobs_have_in_common():
    jobs = [job("rollout_stand_1"), job("rollout_step_2"), job("diagnose_x", resource="cpu")]
    assert stages_of(jobs, {"diagnose_x": ["rollout_stand_1"]}) == {
        "rollout_stand_1": "rollout",
        "rollout_step_2": "rollout",
        "diagnose_x": "diagnose_x",
    }


def test_too_many_stages_become_those_of_the_classes():
    chain = {f"{letter}step": [f"{chr(ord(letter) - 1)}step"] for letter in "bcdefghijklm"}
    jobs = [job("astep"), *(job(name) for name in chain)]
    assert len(set(stages_of(jobs, chain).values())) == 1


def test_an_artifact_that_many_jobs_read_is_there_once(tmp_path):
    data = timeline_data(read_run(completed_run(tmp_path).paths.root, with_verdict=False), ".")
    paths = [path for _, path, _, _ in data["artifacts"]]
    assert len(paths) == len(set(paths))


def test_a_run_without_a_report_is_shown_as_far_as_its_journal_goes(tmp_path):
    run = completed_run(tmp_path)
    run.paths.report.unlink()
    data = read_run(run.paths.root, with_verdict=False)
    assert (data.has_report, data.document["status"]) == (False, "completed")


def test_a_run_whose_plan_is_gone_has_no_dependencies(tmp_path):
    run = completed_run(tmp_path)
    run.paths.plan.unlink()
    assert read_run(run.paths.root, with_verdict=False).depends_on == {}


def test_a_page_says_that_a_run_was_resumed(tmp_path):
    run = completed_run(tmp_path)
    reference = {"path": "${RUN_DIR}/x", "type": "t", "sha256": "a" * 64, "size": 1}
    run.edit(lambda report: report["evidence"].update(resumed=[reference]))
    page = run_page(read_run(run.paths.root, with_verdict=False), tmp_path)
    assert "Resumed, 2 sessions" in page
