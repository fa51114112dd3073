"""The tamper matrix: every way to change a run is found, each by its code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical
from supervised import Supervised, job, rendered
from tampering import JOBS, PER_JOB, Copy, run_small

STATUS, RECORD, SCHEDULED = "attempt_status", "run_record", "scheduled_job"
MAKE_STATUS = "jobs/make/attempt_status.json"
RECORDS = (
    "plan.json",
    "manifest.json",
    "journal.jsonl",
    *(f"jobs/{job_id}/{name}" for job_id in JOBS for name in PER_JOB),
)
CANONICAL = ("manifest.json", *(f"jobs/make/{name}" for name in PER_JOB))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original") / "repository"
    run_small(root)
    return root


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Copy:
    return Copy.of(original, tmp_path / "copy")


def test_a_copy_of_a_run_is_complete_and_unaltered(copy: Copy) -> None:
    verdict = copy.verify(expect_head=copy.head())
    assert (verdict.complete, verdict.unaltered, verdict.exit_code) == (True, True, 0)


def test_sealing_a_run_that_is_as_it_was_changes_nothing(copy: Copy) -> None:
    before = copy.head()
    copy.seal()
    assert copy.head() == before


# Files


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_gone_is_missed(copy: Copy, name: str) -> None:
    copy.path(name).unlink()
    assert "record_missing" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_was_cut_is_seen(copy: Copy, name: str) -> None:
    copy.change(name, lambda data: data[:-7])
    assert "record_changed" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_was_appended_to_is_seen(copy: Copy, name: str) -> None:
    copy.change(name, lambda data: data + b"\n")
    assert "record_changed" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_flipped_bit_is_seen(copy: Copy, name: str) -> None:
    copy.change(name, lambda data: data[:9] + bytes([data[9] ^ 4]) + data[10:])
    assert "record_changed" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_behind_a_link_is_refused(copy: Copy, name: str, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(copy.path(name), moved)
    copy.path(name).symlink_to(moved)
    assert copy.codes() >= {"not_a_plain_file"}


@pytest.mark.parametrize("name", RECORDS)
def test_a_fifo_in_place_of_a_record_is_refused(copy: Copy, name: str) -> None:
    copy.path(name).unlink()
    os.mkfifo(copy.path(name))
    assert "not_a_plain_file" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_folder_in_place_of_a_record_is_refused(copy: Copy, name: str) -> None:
    copy.path(name).unlink()
    copy.path(name).mkdir()
    assert "not_a_plain_file" in copy.codes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_second_name_of_a_record_is_seen(copy: Copy, name: str, tmp_path: Path) -> None:
    os.link(copy.path(name), tmp_path / "second")
    assert copy.codes() == {"hard_link"}


@pytest.mark.parametrize("name", ["jobs", "jobs/make", "deep", "deep/er", "folder"])
def test_a_folder_behind_a_link_is_refused(copy: Copy, name: str, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(copy.path(name), moved)
    copy.path(name).symlink_to(moved)
    assert "not_a_plain_file" in copy.codes()


@pytest.mark.parametrize("name", PER_JOB)
def test_swapped_records_are_seen(copy: Copy, name: str) -> None:
    first, second = copy.path(f"jobs/make/{name}"), copy.path(f"jobs/other/{name}")
    data = first.read_bytes()
    copy.write(f"jobs/make/{name}", second.read_bytes())
    copy.write(f"jobs/other/{name}", data)
    copy.seal()
    assert "wrong_job" in copy.codes()


@pytest.mark.parametrize("name", PER_JOB)
def test_a_record_copied_into_another_job_is_seen(copy: Copy, name: str) -> None:
    copy.write(f"jobs/make/{name}", copy.path(f"jobs/other/{name}").read_bytes())
    copy.seal()
    assert "wrong_job" in copy.codes()


def test_an_older_scheduled_job_is_seen(copy: Copy, tmp_path: Path) -> None:
    run_small(tmp_path / "older")
    name = copy.record("make", SCHEDULED)
    copy.write(name, (tmp_path / "older/run" / name).read_bytes())
    # The forger makes the chain above it fit, and must leave what is below.
    for above in ("jobs/make/run_record.json", MAKE_STATUS, "hloop_run.json"):
        copy.edit(above, lambda document: _fit(copy, document))
    assert "record_changed" in copy.codes()


def _fit(copy: Copy, document: Any) -> None:
    references = document.get("upstream") or [
        entry["attempt_status"] for entry in document["jobs"]
    ]
    for reference in references:
        copy.renew(reference)


def test_a_whole_job_of_another_run_is_seen(copy: Copy, tmp_path: Path) -> None:
    run_small(tmp_path / "another")
    shutil.rmtree(copy.path("jobs/make"))
    shutil.copytree(tmp_path / "another/run/jobs/make", copy.path("jobs/make"))
    copy.edit("hloop_run.json", lambda document: _fit(copy, document))
    assert "record_changed" in copy.codes()


# The form of a record, in a chain that fits otherwise


def duplicate_key(data: bytes) -> bytes:
    return b'{"_type":"hloop/attempt_status/v1",' + data[1:]


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "a key twice": duplicate_key,
    "a float": lambda data: data.replace(b'"offset_ns":', b'"offset_ns":1.5,"x":', 1),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data[:-1] + b"\r\n",
    "blanks": lambda data: json.dumps(json.loads(data)).encode() + b"\n",
    "other order": lambda data: (
        json.dumps(
            dict(reversed(json.loads(data).items())), separators=(",", ":"), ensure_ascii=False
        ).encode()
        + b"\n"
    ),
    "escapes": lambda data: data.replace(b"hloop", b"\\u0068loop", 1),
    "a number beyond 2^53": lambda data: data.replace(
        b'"offset_ns":', b'"offset_ns":90071992547409930', 1
    ),
    "a number of 5000 digits": lambda data: data.replace(
        b'"offset_ns":', b'"offset_ns":' + b"9" * 5000, 1
    ),
    "NaN": lambda data: b'{"_type":NaN}\n',
    "deep nesting": lambda data: b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "no UTF-8": lambda data: data.replace(b"hloop", b"hl\xffop", 1),
    "no JSON": lambda data: b"hello\n",
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CANONICAL)
def test_what_is_not_canonical_is_refused(copy: Copy, name: str, form: str) -> None:
    copy.change(name, FORMS[form])
    copy.seal()
    codes = copy.codes()
    assert "not_canonical" in codes and "record_changed" not in codes


@pytest.mark.parametrize("name", ["plan.json", "hloop_run.json"])
@pytest.mark.parametrize(
    "form", ["a key twice", "a byte order mark", "NaN", "deep nesting", "no UTF-8", "nothing"]
)
def test_a_plan_or_report_that_is_no_json_is_refused(copy: Copy, name: str, form: str) -> None:
    how = FORMS[form]
    if form == "a key twice":
        copy.change(name, lambda data: b'{"plan_id": "x", ' + data[1:])
    else:
        copy.change(name, how)
    copy.seal()
    assert "not_canonical" in copy.codes()


@pytest.mark.parametrize("name", CANONICAL)
@pytest.mark.parametrize("document", [None, [], {}, 1, "text", {"_type": "hloop/other/v1"}])
def test_a_record_of_another_type_is_refused(copy: Copy, name: str, document: Any) -> None:
    copy.store(name, document)
    copy.seal()
    assert "wrong_type" in copy.codes()


def rename(document: Any) -> None:
    document["Upstream"] = document.pop("upstream")


SHAPES: dict[str, Callable[[Any], object]] = {
    "a key renamed": rename,
    "a key added": lambda document: document.update(more=1),
    "an eligibility": lambda document: document.update(eligible=True),
    "a digest in upper case": lambda document: document["upstream"][0].update(
        sha256=document["upstream"][0]["sha256"].upper()
    ),
    "a digest of another algorithm": lambda document: document["upstream"][0].update(
        sha256="md5:" + "0" * 32
    ),
    "a size below nothing": lambda document: document["upstream"][0].update(size=-1),
    "true for a number": lambda document: document["upstream"][0].update(size=True),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CANONICAL)
def test_what_breaks_the_schema_is_refused(copy: Copy, name: str, shape: str) -> None:
    copy.edit(name, SHAPES[shape])
    if "digest" not in shape and "number" not in shape and "size" not in shape:
        copy.seal()
    assert "schema" in copy.codes()


# References


def to_first(**fields: Any) -> Callable[[Any], object]:
    return lambda document: document["upstream"][0].update(fields)


REFERENCES: dict[str, tuple[Callable[[Any], object], str]] = {
    "out of the run directory": (to_first(path="${RUN_DIR}/../manifest.json"), "path_escapes"),
    "through the folder": (to_first(path="${RUN_DIR}/jobs/../manifest.json"), "path_escapes"),
    "not normalised": (to_first(path="${RUN_DIR}//manifest.json"), "path_escapes"),
    "with a dot": (to_first(path="${RUN_DIR}/./manifest.json"), "path_escapes"),
    "absolute": (to_first(path="/etc/passwd"), "path_escapes"),
    "the repository": (to_first(path="${REPO_ROOT}/manifest.json"), "path_escapes"),
    "a null character": (to_first(path="${RUN_DIR}/\0"), "path_escapes"),
    "another place": (to_first(path="${RUN_DIR}/plan.json"), "reference_place"),
    "another job": (to_first(path="${RUN_DIR}/jobs/other/scheduled_job.json"), "wrong_job"),
    "the size": (lambda document: add(document["upstream"][0], "size", 1), "record_changed"),
    "the digest": (to_first(sha256="0" * 64), "record_changed"),
    "downstream": (to_first(type="hloop/attempt_status/v1"), "reference_downstream"),
    "the report": (to_first(type="mimicx.hloop-run.v1"), "reference_downstream"),
    "a file": (to_first(type="file"), "reference_type"),
    "an unknown type": (to_first(type="hloop/scheduled_job/v2"), "reference_type"),
    "twice": (
        lambda document: document["upstream"].append(document["upstream"][0]),
        "reference_type",
    ),
}


def add(document: Any, key: str, number: int) -> None:
    document[key] += number


@pytest.mark.parametrize("case", REFERENCES)
@pytest.mark.parametrize("name", [RECORD, SCHEDULED])
def test_a_reference_that_leads_elsewhere_is_refused(copy: Copy, name: str, case: str) -> None:
    how, code = REFERENCES[case]
    path = copy.record("make", name)
    copy.edit(path, how)
    copy.seal(leave=path)
    assert code in copy.codes()


@pytest.mark.parametrize("name", ["manifest.json", *(f"jobs/make/{name}" for name in PER_JOB)])
def test_a_record_that_refers_to_nothing_is_refused(copy: Copy, name: str) -> None:
    copy.edit(name, lambda document: document["upstream"].clear())
    copy.seal()
    assert "reference_type" in copy.codes()


# Inputs and outputs


def test_a_changed_input_is_seen(copy: Copy) -> None:
    (copy.repo_root / "in.txt").write_bytes(b"another text.......\n"[:19])
    assert copy.codes() == {"input_changed"}


def test_an_input_that_is_not_here_leaves_it_undecided(copy: Copy) -> None:
    (copy.repo_root / "in.txt").unlink()
    verdict = copy.verify()
    assert (verdict.complete, verdict.unaltered, verdict.exit_code) == (True, None, 2)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def exchange(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


CONTENTS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "another size": ("other", grow, "output_changed"),
    "the same size": ("other", exchange, "output_changed"),
    "gone": ("other", Path.unlink, "output_missing"),
    "in a directory": ("folder/x", exchange, "output_changed"),
    "gone from a directory": ("folder/x", Path.unlink, "output_changed"),
    "more in a directory": ("folder/more", Path.touch, "output_changed"),
    "an empty directory gone": ("folder/empty", Path.rmdir, "output_changed"),
    "an executable bit": ("folder/x", lambda path: path.chmod(0o644), "output_changed"),
    "a log": ("jobs/make/stdout.log", grow, "output_changed"),
    "a log gone": ("jobs/make/stderr.log", Path.unlink, "output_missing"),
    "an input made here": ("deep/er/copy", exchange, "output_changed"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_a_changed_output_is_seen(copy: Copy, case: str) -> None:
    name, how, code = CONTENTS[case]
    how(copy.path(name))
    assert copy.codes() == {code}


def test_times_that_were_put_back_hide_nothing(copy: Copy) -> None:
    copy.put_back_mtime("other", exchange)
    assert copy.codes() == {"output_changed"}


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_an_output_that_is_no_file_any_more_is_refused(
    copy: Copy, make: Callable[[Path], object]
) -> None:
    copy.path("other").unlink()
    make(copy.path("other"))
    assert copy.codes() == {"not_a_plain_file"}


def test_an_output_behind_a_link_is_refused(copy: Copy, tmp_path: Path) -> None:
    shutil.move(copy.path("other"), tmp_path / "elsewhere")
    copy.path("other").symlink_to(tmp_path / "elsewhere")
    assert copy.codes() == {"not_a_plain_file"}


def test_a_wrong_size_beside_the_right_digest_is_seen(copy: Copy) -> None:
    name = copy.record("other", STATUS)
    copy.edit(name, lambda document: add(document["outputs"][0], "size", 1))
    copy.edit(
        "hloop_run.json", lambda report: add(_job(report, "other")["outputs"][0], "size_bytes", 1)
    )
    copy.seal()
    assert copy.codes() == {"output_changed"}


def _job(report: Any, job_id: str) -> Any:
    return next(entry for entry in report["jobs"] if entry["job_id"] == job_id)


def test_an_input_that_its_maker_did_not_leave_is_seen(copy: Copy) -> None:
    name = copy.record("read", SCHEDULED)
    copy.edit(name, lambda document: document["input_digests"][1].update(sha256="0" * 64))
    copy.edit(
        "hloop_run.json", lambda report: _job(report, "read")["inputs"][1].update(sha256="0" * 64)
    )
    copy.seal()
    assert copy.codes() == {"input_changed"}


@pytest.mark.parametrize(
    "name",
    [
        *("extra", "extra/deep", "folder2/x", "deep/extra", "deep/er/extra"),
        *("jobs/extra", "jobs/make/extra", "jobs/make/attempt_status.json.bak"),
        *("formal/fidelity_gate.json", "rules/all/attempt_status.json"),
        b"not \xff UTF-8".decode(errors="surrogateescape"),
    ],
)
def test_an_extra_file_is_seen(copy: Copy, name: str) -> None:
    copy.path(name).parent.mkdir(parents=True, exist_ok=True)
    copy.path(name).touch()
    assert copy.codes() == {"unexpected_file"}


@pytest.mark.parametrize("target", ["nowhere", ".", "extra", "/"])
def test_an_extra_link_is_seen(copy: Copy, target: str) -> None:
    copy.path("extra").symlink_to(target)
    assert copy.codes() == {"unexpected_file"}


# A chain that fits from the bottom to the top, with another story


def both(name: str, key: str, value: Any) -> Callable[[Copy], None]:
    """Change a field of a job's record, and the same in the report."""

    def change(copy: Copy) -> None:
        copy.edit(copy.record("make", name), lambda document: document.update({key: value}))
        copy.edit("hloop_run.json", lambda report: _job(report, "make").update({key: value}))

    return change


def scheduled(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit(
        copy.record("make", SCHEDULED), lambda document: document.update(fields)
    )


def status(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit(MAKE_STATUS, lambda document: document.update(fields))


def record(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit(
        copy.record("make", RECORD), lambda document: document.update(fields)
    )


def manifest(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit("manifest.json", lambda document: document.update(fields))


def report(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit("hloop_run.json", lambda document: document.update(fields))


def claim(**fields: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.edit(
        "hloop_run.json", lambda document: _job(document, "make").update(fields)
    )


def change_plan(copy: Copy) -> None:
    copy.edit("plan.json", lambda plan: plan["jobs"][0].update(seed=4))


def end_before_start(copy: Copy) -> None:
    def change(document: Any) -> None:
        document["ended"]["offset_ns"] = document["started"]["offset_ns"] - 1

    copy.edit(copy.record("make", RECORD), change)


def sign_after_the_end(copy: Copy) -> None:
    def change(document: Any) -> None:
        moment = {**document["ended"], "offset_ns": document["ended"]["offset_ns"] + 1}
        document["last_sign_of_life"] = {"what": "stdout grew", "moment": moment}

    copy.edit(copy.record("make", RECORD), change)


def schedule_late(copy: Copy) -> None:
    def change(document: Any) -> None:
        document["scheduled"]["offset_ns"] += 10**12

    copy.edit(copy.record("make", SCHEDULED), change)


def schedule_early(copy: Copy) -> None:
    ended = copy.load(copy.record("make", RECORD))["ended"]["offset_ns"]

    def change(document: Any) -> None:
        document["scheduled"]["offset_ns"] = ended - 1

    copy.edit(copy.record("read", SCHEDULED), change)


def on_one_device(copy: Copy) -> None:
    def change(document: Any) -> None:
        document["device"]["uuid"] = "GPU-1"

    for job_id in ("make", "other"):
        copy.edit(copy.record(job_id, SCHEDULED), change)


def exit_with_1(copy: Copy) -> None:
    for name in (RECORD, STATUS):
        both(name, "returncode", 1)(copy)


def complete_with_failure(copy: Copy) -> None:
    failure = {"reason": "x", "message": "y"}
    status(failure=failure)(copy)
    claim(failure={**failure, "stderr_tail": ""})(copy)


def other_checkpoint(copy: Copy) -> None:
    copy.edit(
        copy.record("make", RECORD), lambda document: add(document["checkpoints"][0], "size", 1)
    )


def more_environment(copy: Copy) -> None:
    copy.edit(
        copy.record("make", SCHEDULED), lambda document: document["environment"].update(X="1")
    )


def other_device(copy: Copy) -> None:
    copy.edit(copy.record("make", SCHEDULED), lambda document: document["device"].update(name="X"))


def swap_devices(copy: Copy) -> None:
    """Both gpu jobs on the other's device, wherever that is said."""
    first, second = (copy.load(copy.record(job_id, SCHEDULED)) for job_id in ("make", "other"))
    names = ("HLOOP_DEVICE_ID", "MIMICX_DEVICE_ID")
    for job_id, other in (("make", second), ("other", first)):
        fields = {key: other[key] for key in ("device", "slot", "gpu_uuid")}

        def change(
            document: Any, fields: Any = fields, environment: Any = other["environment"]
        ) -> None:
            document.update(fields)
            document["environment"] |= {name: environment[name] for name in names}

        copy.edit(copy.record(job_id, SCHEDULED), change)


def fail_first(copy: Copy) -> None:
    """A job failed, and the one that depends on it ran."""
    failure = {"reason": "exit_code", "message": "it exited with 1"}
    copy.edit(copy.record("make", RECORD), lambda document: document.update(returncode=1))
    status(status="failed", returncode=1, outputs=[], failure=failure)(copy)
    claim(status="failed", returncode=1, failure={**failure, "stderr_tail": ""})(copy)
    report(status="failed")(copy)


def fail_first_unseen(copy: Copy) -> None:
    fail_first(copy)
    report(status="completed")(copy)


def other_input(copy: Copy) -> None:
    """An input that is not the one that the plan asks for, in every record and on the disk."""
    data = b"another text\n"
    (copy.repo_root / "in.txt").write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()

    def change(document: Any) -> None:
        document["input_digests"][0].update(sha256=sha256, size=len(data))

    copy.edit(copy.record("make", SCHEDULED), change)
    copy.edit(
        "hloop_run.json",
        lambda document: _job(document, "make")["inputs"][0].update(
            sha256=sha256, size_bytes=len(data)
        ),
    )


def rules_report(copy: Copy) -> Any:
    said = copy.load("hloop_run.json")
    moment = copy.load("manifest.json")["created"]
    kept = {key: said[key] for key in ("session_id", "run_kind", "executor", "evidence")}
    own = {"_type": "hloop/rules_run/v1", "status": "completed", "rules": []}
    return {**own, **kept, "began": moment, "ended": moment}


STORIES: dict[str, tuple[Callable[[Copy], None], str]] = {
    "completed with exit 1": (exit_with_1, "self_report_mismatch"),
    "an exit that only the run record has": (record(returncode=1), "self_report_mismatch"),
    "completed with a signal": (status(signal="SIGKILL"), "self_report_mismatch"),
    "completed with a failure": (complete_with_failure, "self_report_mismatch"),
    "a failure that only the report has": (
        claim(failure={"reason": "x", "message": "y", "stderr_tail": ""}),
        "self_report_mismatch",
    ),
    "a failed run that says completed": (fail_first_unseen, "self_report_mismatch"),
    "another wall time": (status(wall_ns=1), "self_report_mismatch"),
    "a timeout that was none": (both(STATUS, "status", "timed_out"), "self_report_mismatch"),
    "a failure in the report alone": (claim(status="failed"), "self_report_mismatch"),
    "an end before the start": (end_before_start, "time_order"),
    "a sign of life after the end": (sign_after_the_end, "time_order"),
    "a scheduled job after the start": (schedule_late, "time_order"),
    "a scheduled job before its dependency": (schedule_early, "dependency_order"),
    "a device twice": (on_one_device, "device_overlap"),
    "another companion": (both(RECORD, "concurrent_with", ["last"]), "self_report_mismatch"),
    "no companion": (both(RECORD, "concurrent_with", []), "self_report_mismatch"),
    "a companion that is no job": (
        both(RECORD, "concurrent_with", ["nobody", "other"]),
        "self_report_mismatch",
    ),
    "companions that only the report has": (claim(concurrent_with=[]), "self_report_mismatch"),
    "a sequential run that overlaps": (manifest(mode="sequential"), "limit_exceeded"),
    "a wave outside of bulk-sync": (scheduled(wave=0), "wave_overlap"),
    "bulk-sync without waves": (manifest(mode="bulk-sync"), "wave_overlap"),
    "another plan": (change_plan, "plan_mismatch"),
    "another candidate": (scheduled(candidate_id="b"), "plan_mismatch"),
    "another seed": (scheduled(seed=4), "plan_mismatch"),
    "another command": (scheduled(command=["true"]), "plan_mismatch"),
    "another folder": (scheduled(cwd="/"), "plan_mismatch"),
    "another limit": (scheduled(hard_timeout_ms=30_499), "plan_mismatch"),
    "another resource": (scheduled(resource="cpu"), "plan_mismatch"),
    "another environment": (scheduled(environment={}), "plan_mismatch"),
    "no device": (scheduled(device=None), "plan_mismatch"),
    "another slot": (scheduled(slot="device 1"), "plan_mismatch"),
    "no inputs": (scheduled(input_digests=[]), "plan_mismatch"),
    "no outputs": (status(outputs=[]), "plan_mismatch"),
    "another input than the plan's": (other_input, "plan_mismatch"),
    "another variable": (more_environment, "plan_mismatch"),
    "another device": (other_device, "plan_mismatch"),
    "the device of another": (swap_devices, "plan_mismatch"),
    "a dependency that failed": (fail_first, "dependency_order"),
    "another checkpoint": (other_checkpoint, "self_report_mismatch"),
    "no checkpoint": (record(checkpoints=[]), "plan_mismatch"),
    "a gate in an exploratory run": (
        scheduled(fidelity_gate={"path": "x", "digest": "sha256:" + "0" * 64}),
        "gate_mismatch",
    ),
    "another plan's digests": (
        lambda copy: copy.edit(
            "manifest.json", lambda document: document["plan"].update(plan_id="x")
        ),
        "plan_mismatch",
    ),
    "no plan": (manifest(plan=None), "plan_mismatch"),
    "the report of a run without a plan": (
        lambda copy: copy.write("hloop_run.json", canonical.dumps(rules_report(copy))),
        "self_report_mismatch",
    ),
    "another mode in the report": (report(mode="sequential"), "self_report_mismatch"),
    "another host in the report": (report(host={}), "self_report_mismatch"),
    "another digest in the report": (
        report(plan_semantic_hash="0" * 64),
        "self_report_mismatch",
    ),
    "another candidate in the report": (report(candidate_ids=["z"]), "self_report_mismatch"),
    "another beginning of the report": (
        report(started_at="2026-01-01T00:00:00.000000Z"),
        "self_report_mismatch",
    ),
    "another end of the report": (
        report(completed_at="2026-01-01T00:00:00.000000Z"),
        "self_report_mismatch",
    ),
    "a shorter run in the report": (report(elapsed_seconds=0.001), "self_report_mismatch"),
    "a shorter makespan in the report": (
        lambda copy: copy.edit(
            "hloop_run.json",
            lambda document: document["scheduling"].update(makespan_seconds=0.001),
        ),
        "self_report_mismatch",
    ),
    "waves in the report": (report(waves=[["make"]]), "self_report_mismatch"),
    "another selection": (
        lambda copy: copy.edit(
            "hloop_run.json", lambda report: report["selection"].update(value={"a": 2})
        ),
        "self_report_mismatch",
    ),
    "no selection in the report": (report(selection=None), "self_report_mismatch"),
    "a selection that no plan asks for": (
        lambda copy: copy.edit("plan.json", lambda plan: plan.update(selection_artifact=None)),
        "self_report_mismatch",
    ),
    "no device in the report": (claim(device=None), "self_report_mismatch"),
    "another offset in the report": (claim(start_offset_ns=1), "self_report_mismatch"),
    "another duration in the report": (claim(elapsed_seconds=0.5), "self_report_mismatch"),
    "another command in the report": (claim(command=["true"]), "self_report_mismatch"),
    "another seed in the report": (claim(seed=9), "self_report_mismatch"),
    "another input in the report": (claim(inputs=[]), "self_report_mismatch"),
    "a job less in the report": (
        lambda copy: copy.edit("hloop_run.json", lambda report: report["jobs"].pop()),
        "self_report_mismatch",
    ),
    "a job twice in the report": (
        lambda copy: copy.edit(
            "hloop_run.json", lambda report: report["jobs"].append(report["jobs"][0])
        ),
        "self_report_mismatch",
    ),
    "no evidence in the report": (
        lambda copy: copy.edit("hloop_run.json", lambda report: report.pop("evidence")),
        "reference_type",
    ),
    "no attempt in the report": (claim(attempt_status=None), "unexpected_file"),
    "a formal run without a gate": (manifest(run_kind="formal"), "gate_mismatch"),
}


@pytest.mark.parametrize("story", STORIES)
def test_another_story_contradicts_itself(copy: Copy, story: str) -> None:
    how, code = STORIES[story]
    how(copy)
    copy.seal()
    codes = copy.codes()
    assert code in codes and "record_changed" not in codes


def test_a_run_that_hides_its_plan_is_not_complete(copy: Copy) -> None:
    shutil.rmtree(copy.path("jobs"))
    manifest(plan=None, upstream=[])(copy)
    copy.write("hloop_run.json", canonical.dumps(rules_report(copy)))
    copy.seal()
    assert copy.codes() >= {"unexpected_file"}


def test_a_story_of_fewer_workers_contradicts_itself(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path)
    try:
        supervised.open(rendered(tmp_path, job("a", "sleep 0.3"), job("b", "sleep 0.3")))
        supervised.ready("a", "b")
        supervised.ended("a", "b")
        supervised.close()
    finally:
        supervised.end()
    copy = Copy(tmp_path)
    assert copy.codes() == set()
    limits = {"cpu": 1, "io": 2}
    manifest(limits=limits)(copy)
    copy.edit("hloop_run.json", lambda document: document["scheduling"].update(limits=limits))
    copy.seal(jobs=("a", "b"))
    assert copy.codes() == {"limit_exceeded"}


def test_a_story_of_other_waves_contradicts_itself(tmp_path: Path) -> None:
    run_small(tmp_path / "root", "bulk-sync")
    copy = Copy(tmp_path / "root")
    waves = [["make"], ["read", "last"], ["other"]]
    for wave, job_ids in enumerate(waves):
        for job_id in job_ids:
            name = copy.record(job_id, SCHEDULED)
            copy.edit(name, lambda document, wave=wave: document.update(wave=wave))
    report(waves=waves)(copy)
    copy.seal()
    assert copy.codes() == {"wave_overlap"}


def test_a_story_that_is_not_true_is_not_complete(copy: Copy) -> None:
    exit_with_1(copy)
    copy.seal()
    assert copy.verify().complete is False


# The head


def test_a_chain_made_anew_has_another_head(copy: Copy) -> None:
    before = copy.head()
    copy.edit("manifest.json", lambda document: document.update(session_id="another"))
    report(session_id="another")(copy)
    copy.seal()
    assert copy.codes() == set()
    assert copy.codes(expect_head=before) == {"head_mismatch"}


def test_without_the_report_nothing_has_the_head_that_was_kept(copy: Copy) -> None:
    before = copy.head()
    copy.path("hloop_run.json").unlink()
    verdict = copy.verify(expect_head=before)
    assert (verdict.unaltered, verdict.exit_code) == (False, 1)


def test_without_a_report_there_is_no_answer(copy: Copy) -> None:
    copy.path("hloop_run.json").unlink()
    verdict = copy.verify()
    assert (verdict.complete, verdict.unaltered, verdict.exit_code) == (False, None, 2)


# A plan that has no order, or is none


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["jobs"][0].update(depends_on=["last"]),
        lambda plan: plan["jobs"][0].update(depends_on=["nobody"]),
        lambda plan: plan["jobs"][0].update(job_id="../../etc"),
        lambda plan: plan["jobs"].append(plan["jobs"][0]),
        lambda plan: plan.update(jobs=[]),
        lambda plan: plan.update(jobs=7),
        lambda plan: plan["jobs"][0].update(command=["{run_dri}"]),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(copy: Copy, change: Callable[[Any], None]) -> None:
    copy.edit("plan.json", change)
    copy.seal()
    assert "schema" in copy.codes()


@pytest.mark.parametrize("job_id", ["../../../etc", "..", "", "a/b", "\0", "\ud800"])
def test_a_job_that_only_the_report_names_leads_nowhere(copy: Copy, job_id: str) -> None:
    copy.path("plan.json").unlink()
    copy.change(
        "hloop_run.json",
        lambda data: data.replace(
            b'"job_id": "make"', b'"job_id": ' + json.dumps(job_id).encode()
        ),
    )
    assert "record_missing" in copy.codes()
