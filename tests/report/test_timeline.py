from __future__ import annotations

import json

import pytest
from drawn_runs import completed_run, drawn_run, failed_run, paused_run, waves_run
from hloop.report.charts import timeline_chart
from hloop.report.load import load_report
from hloop.report.rundata import read_run, run_band, timeline_data
from hloop.report.runpage import run_page
from hloop.report.timeline import band, stages_of
from hloop.report.whenpage import idle_section
from hloop.run.runlock import RunLock


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


def test_a_gap_goes_with_the_job_that_ended_it_and_what_that_waited_for(tmp_path):
    lane = drawn(waves_run(tmp_path))["lanes"][2]
    assert [(start, end, step and step["cause"]) for start, end, step in lane["gaps"]] == [
        (0.01, 0.22, "barrier"),
        (0.25, 0.29, None),
    ]


def test_what_the_journal_alone_tells_is_what_jobs_waited_for(tmp_path):
    lanes = drawn(paused_run(tmp_path))["lanes"]
    causes = {lane["name"]: lane["gaps"][0][2]["cause"] for lane in lanes[1:3]}
    assert causes == {"device 1": "lease", "cpu 0": "dependency"}


def test_a_run_without_a_journal_is_drawn_all_the_same(tmp_path):
    run = paused_run(tmp_path)
    run.paths.journal.unlink()
    assert drawn(run)["sessions"] == []


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


def test_the_axis_of_a_long_run_counts_in_hours():
    jobs = [job("a", slot="device 0", start_offset_ns=0, end_offset_ns=4 * 3600 * 10**9)]
    chart = timeline_chart([band("", jobs, {}, {}, mode="hloop")]).to_dict()
    x = chart["layer"][0]["encoding"]["x"]
    assert (x["title"], x["scale"]["domain"]) == ("hours", [0, 4])


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


def test_a_run_that_goes_on_is_told_to_and_so_are_its_jobs(tmp_path):
    run = drawn_run(tmp_path)
    run.run("rollout_a", 10, 110)
    run.ready("rollout_b", 9)
    run.started("rollout_b", 10)
    run.paths.journal.write_text("".join(json.dumps(event) + "\n" for event in run.events))
    lock = RunLock.take(run.paths)
    data = read_run(run.paths.root, with_verdict=True)
    lock.release()
    told = [data.document["status"], *(job["status"] for job in data.jobs), data.verdict]
    assert told == ["under way", "completed", "running", "waiting", "waiting", "waiting", None]


def test_a_run_whose_plan_is_gone_has_no_dependencies(tmp_path):
    run = completed_run(tmp_path)
    run.paths.plan.unlink()
    assert read_run(run.paths.root, with_verdict=False).depends_on == {}


def page_of(run):
    return run_page(read_run(run.paths.root, with_verdict=False), run.paths.root)


def test_a_page_says_how_long_the_devices_were_idle_and_why(tmp_path):
    page = page_of(paused_run(tmp_path))
    sentences = (
        "All devices together did nothing for 0.628 s of 0.928 s: 68%.",
        "rollout_b waited for the lease of its device",
    )
    assert [sentence for sentence in sentences if sentence not in page] == []


def test_a_page_of_a_run_without_devices_has_no_part_on_them():
    jobs = [job("a", resource="cpu", slot="cpu 0", start_offset_ns=0, end_offset_ns=9)]
    assert list(idle_section(band("", jobs, {}, {}, mode="hloop"))) == []


def test_what_failed_first_is_told_first(tmp_path):
    run = failed_run(tmp_path)

    def fail_too(report):
        (job,) = (job for job in report["jobs"] if job["job_id"] == "rollout_a")
        job |= {"status": "failed", "end_offset_ns": 10**12}

    run.edit(fail_too)
    page = page_of(run)
    assert page.index("<h3>rollout_b") < page.index("<h3>rollout_a")


def test_a_page_says_that_a_run_was_resumed(tmp_path):
    run = completed_run(tmp_path)
    reference = {"path": "${RUN_DIR}/x", "type": "t", "sha256": "a" * 64, "size": 1}
    run.edit(lambda report: report["evidence"].update(resumed=[reference]))
    assert "Resumed, 2 sessions" in page_of(run)
