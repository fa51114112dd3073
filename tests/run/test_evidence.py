"""The records that a supervisor leaves of each attempt, and what they refer to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical
from hloop.provenance.records import LAYERS
from supervised import Supervised, job, output, rendered, wait_for


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    sup = Supervised(tmp_path)
    yield sup
    sup.end()


def record(path: Path) -> Any:
    """Read a record; not canonical is an error."""
    return canonical.loads(path.read_bytes())


def ran(sup: Supervised, *jobs: dict[str, Any], **fields: Any) -> None:
    """Run a plan of these jobs to its end."""
    sup.open(rendered(sup.root, *jobs), **fields)
    sup.ready(*(entry["job_id"] for entry in jobs))
    sup.ended(*(entry["job_id"] for entry in jobs))
    sup.close()


def resolves(sup: Supervised, reference: dict[str, Any]) -> bool:
    """Whether the bytes that a reference names are those it tells of."""
    path = Path(reference["path"].replace("${RUN_DIR}", str(sup.paths.root)))
    data = path.read_bytes()
    return hashlib.sha256(data).hexdigest() == reference["sha256"]


# The chain


def test_every_layer_refers_to_the_one_before(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    types = [
        [entry["type"] for entry in record(path)["upstream"]]
        for path in (sup.paths.manifest, paths.scheduled, paths.record, paths.status)
    ]
    assert types == [
        ["mimicx.hloop-plan.v1"],
        ["hloop/manifest/v1", "mimicx.hloop-plan.v1"],
        ["hloop/scheduled_job/v1"],
        ["hloop/scheduled_job/v1", "hloop/run_record/v1"],
    ]


def test_every_reference_is_to_a_lower_layer(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    for path in (sup.paths.manifest, paths.scheduled, paths.record, paths.status):
        found = record(path)
        layer = LAYERS[found["_type"]]
        assert all(LAYERS[entry["type"]] < layer for entry in found["upstream"])


def test_every_reference_holds(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    references = [
        entry
        for path in (sup.paths.manifest, paths.scheduled, paths.record, paths.status)
        for entry in record(path)["upstream"]
    ]
    assert all(resolves(sup, entry) for entry in references)


def test_the_report_refers_to_every_attempt_the_manifest_and_the_journal(sup: Supervised) -> None:
    ran(sup, job("a"), job("b", "false"), keep_going=True)
    report = sup.report()
    references = [entry["attempt_status"] for entry in report["jobs"]]
    references += [report["evidence"]["manifest"], report["evidence"]["journal"]]
    assert len(references) == 4 and all(resolves(sup, entry) for entry in references)


def test_the_goodbye_names_the_head(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    sup.ready("a")
    sup.ended("a")
    head = sup.close()["head"]
    assert head == "sha256:" + hashlib.sha256(sup.paths.report.read_bytes()).hexdigest()


# What was scheduled


def test_what_is_scheduled_is_on_disk_when_the_process_starts(sup: Supervised) -> None:
    ran(sup, job("a", "ls jobs/a", cwd="{run_dir}"))
    assert "scheduled_job.json" in sup.paths.job("a").stdout.read_text().split()


def test_the_device_and_the_slot_are_scheduled(sup: Supervised) -> None:
    ran(sup, job("g", resource="gpu", cuda_visible_devices="1"))
    found = record(sup.paths.job("g").scheduled)
    assert (found["slot"], found["device"]["logical"], found["gpu_uuid"]) == ("device 1", 1, None)


def test_limits_are_frozen_in_milliseconds(sup: Supervised) -> None:
    ran(sup, job("a", budget={"max_seconds": 60, "stall_seconds": 0.0125}))
    found = record(sup.paths.job("a").scheduled)
    assert (found["hard_timeout_ms"], found["stall_limit_ms"]) == (60000, 13)


def test_the_waves_of_bulk_sync_are_scheduled(sup: Supervised) -> None:
    first, second = job("a"), job("b", depends_on=["a"])
    sup.open(rendered(sup.root, first, second), mode="bulk-sync")
    for name in ("a", "b"):
        sup.ready(name)
        sup.ended(name)
    waves = [record(sup.paths.job(name).scheduled)["wave"] for name in ("a", "b")]
    assert waves == [0, 1]


def test_the_environment_is_the_plans_and_hloops_and_no_other(sup: Supervised) -> None:
    ran(sup, job("g", resource="gpu", environment={"COLOUR": "{run_dir}/red"}))
    found = record(sup.paths.job("g").scheduled)["environment"]
    assert found == {
        "COLOUR": "${RUN_DIR}/red",
        "HLOOP_DEVICE_ID": "0",
        "MIMICX_DEVICE_ID": "0",
        "HLOOP_JOB_ID": "g",
        "HLOOP_TRANSITIONS": "${RUN_DIR}/jobs/g/transitions",
    }


def test_no_record_speaks_of_eligibility(sup: Supervised) -> None:
    ran(sup, job("a"))
    assert b"eligib" not in sup.paths.job("a").scheduled.read_bytes()


def test_inputs_and_scripts_are_scheduled_with_their_digests(sup: Supervised) -> None:
    (sup.root / "in").write_text("data")
    (sup.root / "tool.sh").write_text("cat in\n")
    digest = hashlib.sha256(b"data").hexdigest()
    source = {"role": "data", "path": "in", "sha256": digest}
    ran(sup, job("a", command=["sh", "tool.sh"], inputs=[source]))
    found = record(sup.paths.job("a").scheduled)
    assert found["input_digests"] == [
        {"role": "data", "path": "${REPO_ROOT}/in", "type": "file", "sha256": digest, "size": 4}
    ]
    assert [entry["path"] for entry in found["code_digests"]] == ["${REPO_ROOT}/tool.sh"]


# What ran


def test_the_process_is_named_by_its_start_and_boot(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "cut -d' ' -f22 /proc/$$/stat")))
    sup.ready("a")
    sup.ended("a")
    process = record(sup.paths.job("a").record)["process"]
    assert process == {
        "pid": sup.pid("a"),
        "session": sup.pid("a"),
        "start_ticks": int(sup.paths.job("a").stdout.read_text()),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }


def test_the_times_are_in_order_and_the_reports(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    ran_record = record(paths.record)
    moments = [
        record(sup.paths.manifest)["created"],
        record(paths.scheduled)["scheduled"],
        ran_record["started"],
        ran_record["ended"],
        record(paths.status)["recorded"],
    ]
    offsets = [moment["offset_ns"] for moment in moments]
    assert offsets == sorted(offsets) and offsets[0] >= 0
    (entry,) = sup.report()["jobs"]
    assert [entry["start_offset_ns"], entry["end_offset_ns"]] == offsets[2:4]


def test_jobs_that_ran_at_the_same_time_name_each_other(sup: Supervised) -> None:
    both = "touch $0.up; until [ -e {run_dir}/a.up ] && [ -e {run_dir}/b.up ]; do sleep 0.01; done"
    jobs = [
        job(name, command=["sh", "-c", both, f"{{run_dir}}/{name}"], depends_on=[])
        for name in ("a", "b")
    ]
    ran(sup, *jobs, job("c", depends_on=["a", "b"]))
    found = {n: record(sup.paths.job(n).record)["concurrent_with"] for n in ("a", "b", "c")}
    assert found == {"a": ["b"], "b": ["a"], "c": []}


def test_logs_are_recorded_with_their_digests(sup: Supervised) -> None:
    ran(sup, job("a", "echo out; echo err >&2; exit 1"))
    logs = {entry["role"]: entry["sha256"] for entry in record(sup.paths.job("a").record)["logs"]}
    assert logs == {
        "stdout": hashlib.sha256(b"out\n").hexdigest(),
        "stderr": hashlib.sha256(b"err\n").hexdigest(),
    }


def test_a_device_is_looked_at_before_and_after(sup: Supervised) -> None:
    ran(sup, job("g", resource="gpu"))
    found = record(sup.paths.job("g").record)
    assert found["device_at_start"] == found["device_at_end"]
    assert found["device_at_start"]["simulated"] is True


def test_a_checkpoint_is_recorded_by_its_role(sup: Supervised) -> None:
    made = {**output("model.pt"), "checkpoint": "policy"}
    ran(sup, job("a", "printf net > model.pt", cwd="{run_dir}", outputs=[made]))
    assert record(sup.paths.job("a").record)["checkpoints"] == [
        {
            "role": "policy",
            "path": "${RUN_DIR}/model.pt",
            "type": "file",
            "sha256": hashlib.sha256(b"net").hexdigest(),
            "size": 3,
        }
    ]


# How it ended


def test_a_completed_job_has_all_its_outputs(sup: Supervised) -> None:
    ran(sup, job("a", "printf x > o", cwd="{run_dir}", outputs=[output("o")]))
    (entry,) = record(sup.paths.job("a").status)["outputs"]
    assert (entry["role"], entry["path"], entry["size"]) == ("o", "${RUN_DIR}/o", 1)


def test_a_directory_is_an_output(sup: Supervised) -> None:
    made = {**output("d"), "type": "directory"}
    script = "mkdir -p d/empty; printf x > d/x"
    ran(sup, job("a", script, cwd="{run_dir}", outputs=[made]))
    status = record(sup.paths.job("a").status)
    assert status["status"] == "completed"
    assert [entry["type"] for entry in status["outputs"]] == ["directory"]


def test_a_failed_job_says_why_and_has_no_outputs(sup: Supervised) -> None:
    ran(sup, job("a", "printf x > o; exit 7", cwd="{run_dir}", outputs=[output("o")]))
    found = record(sup.paths.job("a").status)
    assert (found["status"], found["returncode"], found["outputs"]) == ("failed", 7, [])
    assert found["failure"]["reason"] == "exit_code"


def test_a_job_that_could_not_start_has_a_status_and_no_run_record(sup: Supervised) -> None:
    ran(sup, job("a", command=["no-such-program"]))
    paths = sup.paths.job("a")
    found = record(paths.status)
    assert [entry["type"] for entry in found["upstream"]] == ["hloop/scheduled_job/v1"]
    assert found["failure"]["reason"] == "could_not_start" and not paths.record.exists()


def test_a_job_that_was_never_scheduled_builds_on_the_manifest(sup: Supervised) -> None:
    ran(sup, job("a", inputs=[{"role": "i", "path": "gone", "sha256": "0" * 64}]))
    paths = sup.paths.job("a")
    found = record(paths.status)
    assert [entry["type"] for entry in found["upstream"]] == ["hloop/manifest/v1"]
    assert found["failure"]["reason"] == "input_missing" and not paths.scheduled.exists()


def test_an_input_that_the_job_changed_fails_it(sup: Supervised) -> None:
    (sup.root / "in").write_text("data")
    source = {"role": "i", "path": "in", "sha256": hashlib.sha256(b"data").hexdigest()}
    ran(sup, job("a", "echo more >> in", inputs=[source]))
    found = record(sup.paths.job("a").status)
    assert found["failure"]["reason"] == "input_changed"


def test_an_output_outside_the_run_directory_is_refused(sup: Supervised) -> None:
    script = "mkdir ../elsewhere; ln -s ../elsewhere out; echo x > out/o"
    outside = {"role": "o", "path": "{run_dir}/out/o"}
    sup.open(
        rendered(sup.root, job("a", f"rmdir out; {script}", cwd="{run_dir}", outputs=[outside]))
    )
    sup.ready("a")
    sup.ended("a")
    found = record(sup.paths.job("a").status)
    assert found["failure"]["reason"] == "output_outside_run_directory"


@pytest.mark.parametrize(
    ("text", "count"), [("12345\n", 12345), ("1e5", None), ("-1", None), ("9" * 40, None)]
)
def test_a_job_reports_its_transitions(sup: Supervised, text: str, count: int | None) -> None:
    ran(sup, job("a", f"printf '{text}' > $HLOOP_TRANSITIONS"))
    assert record(sup.paths.job("a").status)["transitions"] == count


def test_a_fifo_for_the_transitions_holds_nothing_up(sup: Supervised) -> None:
    ran(sup, job("a", "mkfifo $HLOOP_TRANSITIONS"))
    assert record(sup.paths.job("a").status)["transitions"] is None


def test_a_stopped_job_has_all_its_records(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "echo up; sleep 60")), grace_seconds=0)
    sup.ready("a")
    wait_for(lambda: sup.paths.job("a").stdout.exists(), "the job")
    wait_for(lambda: sup.paths.job("a").stdout.read_text(), "its first line")
    sup.stop()
    assert sup.ended("a") == ["cancelled"]
    paths = sup.paths.job("a")
    assert record(paths.status)["status"] == "cancelled"
    assert [entry["size"] for entry in record(paths.record)["logs"]] == [3, 0]


def test_the_marker_of_a_completed_job_names_its_record(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    digest = hashlib.sha256(paths.status.read_bytes()).hexdigest()
    assert paths.completed.read_text() == f"sha256:{digest}\n"


def test_a_failed_job_has_no_marker(sup: Supervised) -> None:
    ran(sup, job("a", "false"))
    assert not sup.paths.job("a").completed.exists()


def test_a_record_that_is_there_already_fails_the_job_and_is_kept(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    wait_for(sup.paths.manifest.exists, "the manifest")
    paths = sup.paths.job("a")
    paths.root.mkdir(parents=True)
    paths.scheduled.write_text("older")
    sup.ready("a")
    assert "scheduled_job.json: File exists" in sup.until("ended", "a")["message"]
    assert paths.scheduled.read_text() == "older"


# The whole run


def test_records_are_read_only_and_have_one_name(sup: Supervised) -> None:
    ran(sup, job("a"))
    paths = sup.paths.job("a")
    for path in (sup.paths.manifest, paths.scheduled, paths.record, paths.status):
        found = os.stat(path)
        assert (found.st_mode & 0o777, found.st_nlink) == (0o444, 1)


def test_what_no_output_declares_is_listed_by_its_topmost_name(sup: Supervised) -> None:
    script = "mkdir -p d/deep more; touch d/o d/other d/deep/x more/y z"
    ran(sup, job("a", script, cwd="{run_dir}", outputs=[{"role": "o", "path": "{run_dir}/d/o"}]))
    assert sup.report()["evidence"]["undeclared"] == [
        "${RUN_DIR}/d/deep/",
        "${RUN_DIR}/d/other",
        "${RUN_DIR}/more/",
        "${RUN_DIR}/z",
    ]


def test_the_manifest_says_what_the_run_was_told(sup: Supervised) -> None:
    ran(sup, job("a"), mode="sequential", cpu_workers=3)
    found = record(sup.paths.manifest)
    told = (found["mode"], found["limits"]["cpu"], found["session_id"], found["run_kind"])
    assert told == ("sequential", 3, "session", "interface_sanity_only")


def test_no_record_names_the_machines_folders_but_the_manifest(sup: Supervised) -> None:
    ran(sup, job("a", "exit 3", outputs=[output("o")]))
    paths = sup.paths.job("a")
    for path in (paths.scheduled, paths.record, paths.status):
        assert str(sup.root).encode() not in path.read_bytes()


def test_the_report_is_json_that_covers_the_journal_to_its_last_line(sup: Supervised) -> None:
    ran(sup, job("a"))
    lines = sup.paths.journal.read_bytes().splitlines()
    assert json.loads(lines[-1])["event"] == "run_ended"
    assert resolves(sup, sup.report()["evidence"]["journal"])
