"""The records of jobs that no plan holds, where they are asked for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop import canonical
from hloop.files import JobPaths
from hloop.provenance.records import RULES_RUN
from hloop.run.aftermath import close_run
from hloop.run.opening import RunOpening
from supervised import Supervised, job, rendered, wait_for


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    sup = Supervised(tmp_path)
    yield sup
    sup.end()


class Rules:
    """Jobs of rules in a run without a plan, each called by the name of its folder."""

    def __init__(self, sup: Supervised):
        self.sup = sup

    def hand_over(self, name: str, script: str = "true", **record: Any) -> None:
        """Hand a job over; ``inputs`` and ``outputs`` are names, of a folder with a slash."""
        fields = {key: record.pop(key) for key in ("gpu", "retry", "environment") if key in record}
        declared = {
            kind: [
                {
                    "role": str(number),
                    "path": str(self.sup.root / name),
                    "directory": name.endswith("/"),
                }
                for number, name in enumerate(record.pop(kind, ()))
            ]
            for kind in ("inputs", "outputs")
        }
        others = {
            key: [str(self.sup.root / name) for name in record.pop(key, ())]
            for key in ("temporary", "not_covered")
        }
        argv = ["sh", "-c", script]
        self.sup.rule(
            f"rules/{name}",
            script,
            record={"rule": name.partition("-")[0], "argv": argv, **declared, **others},
            **fields,
        )

    def run(self, name: str, script: str = "true", **record: Any) -> str:
        """Run a job to its end and give its status."""
        self.hand_over(name, script, **record)
        return self.sup.ended(f"rules/{name}")[0]

    def paths(self, name: str) -> JobPaths:
        return JobPaths(self.sup.paths.root / "rules" / name)

    def record(self, name: str, kind: str) -> Any:
        return canonical.loads(getattr(self.paths(name), kind).read_bytes())

    def entries(self) -> dict[str, dict[str, Any]]:
        """End the run; the entries of its report, by name."""
        self.sup.close()
        return {entry["name"]: entry for entry in self.sup.report()["rules"]}


@pytest.fixture
def rules(sup: Supervised) -> Rules:
    sup.open(rules=sup.root)
    return Rules(sup)


# The records


def test_each_layer_refers_to_the_one_before(rules: Rules) -> None:
    rules.run("a-1-1")
    types = [
        [entry["type"] for entry in rules.record("a-1-1", kind)["upstream"]]
        for kind in ("scheduled", "record", "status")
    ]
    assert types == [
        ["hloop/manifest/v1"],
        ["hloop/scheduled_job/v1"],
        ["hloop/scheduled_job/v1", "hloop/run_record/v1"],
    ]


def test_a_record_is_called_by_its_folder(rules: Rules) -> None:
    rules.run("a-1-1")
    names = [rules.record("a-1-1", kind)["job_id"] for kind in ("scheduled", "record", "status")]
    assert names == ["a-1-1"] * 3


def test_inputs_and_outputs_have_digests(rules: Rules) -> None:
    (rules.sup.root / "in").write_text("data")
    rules.run("a-1-1", "printf made > out", inputs=["in"], outputs=["out"])
    (read,) = rules.record("a-1-1", "scheduled")["input_digests"]
    (made,) = rules.record("a-1-1", "status")["outputs"]
    assert read["sha256"] == hashlib.sha256(b"data").hexdigest()
    assert (made["path"], made["sha256"]) == (
        "${REPO_ROOT}/out",
        hashlib.sha256(b"made").hexdigest(),
    )


def test_what_is_scheduled_is_on_disk_when_the_process_starts(rules: Rules) -> None:
    rules.run("a-1-1", "ls run/rules/a-1-1 > seen", outputs=["seen"])
    assert (rules.sup.root / "seen").read_text() == "scheduled_job.json\n"


def test_the_environment_that_snakemake_sends_is_in_no_record(rules: Rules) -> None:
    rules.run("a-1-1", gpu=2, environment={"TOKEN": "canary"})
    rules.sup.close()
    found = [path for path in rules.sup.paths.root.rglob("*") if path.is_file()]
    assert not any(b"canary" in path.read_bytes() for path in found)
    assert rules.record("a-1-1", "scheduled")["environment"]["HLOOP_DEVICE_ID"] == "0,1"


def test_a_job_with_one_device_names_it(rules: Rules) -> None:
    rules.run("a-1-1", gpu=1)
    assert rules.record("a-1-1", "record")["device_at_start"]["logical"] == 0


def test_there_is_no_completion_marker(rules: Rules) -> None:
    rules.run("a-1-1")
    assert sorted(path.name for path in rules.paths("a-1-1").root.iterdir()) == [
        "attempt_status.json",
        "run_record.json",
        "scheduled_job.json",
    ]


def test_each_attempt_has_records_of_its_own(rules: Rules) -> None:
    assert rules.run("a-1-1", "exit 1", retry=True) == "failed"
    assert rules.run("a-1-2") == "completed"
    assert [rules.record(name, "status")["status"] for name in ("a-1-1", "a-1-2")] == [
        "failed",
        "completed",
    ]


def test_without_being_asked_for_nothing_is_written(sup: Supervised) -> None:
    sup.open()
    sup.rule("rules/a-1-1")
    assert sup.ended("rules/a-1-1") == ["completed"]
    assert not sup.paths.root.exists()


# What rules declare and plans cannot


def test_an_input_that_the_job_changes_fails_it(rules: Rules) -> None:
    (rules.sup.root / "in").write_text("data")
    rules.run("a-1-1", "echo more >> in", inputs=["in"])
    assert rules.record("a-1-1", "status")["failure"]["reason"] == "input_changed"


def test_a_folder_that_others_write_into_is_left_out(rules: Rules) -> None:
    (rules.sup.root / "in").mkdir()
    assert rules.run("a-1-1", "touch in/new", inputs=["in/"]) == "completed"
    assert rules.entries()["a-1-1"]["not_covered"] == ["${REPO_ROOT}/in"]


def test_a_folder_that_holds_a_socket_is_left_out(rules: Rules) -> None:
    (rules.sup.root / "in").mkdir()
    os.mkfifo(rules.sup.root / "in" / "fifo")
    assert rules.run("a-1-1", inputs=["in/"]) == "completed"
    assert rules.record("a-1-1", "scheduled")["input_digests"] == []
    assert rules.entries()["a-1-1"]["not_covered"] == ["${REPO_ROOT}/in"]


def test_an_output_may_be_a_link(rules: Rules) -> None:
    (rules.sup.root / "in").write_text("data")
    assert rules.run("a-1-1", "ln -s in out", inputs=["in"], outputs=["out"]) == "completed"
    (made,) = rules.record("a-1-1", "status")["outputs"]
    assert made["sha256"] == hashlib.sha256(b"data").hexdigest()


def test_an_output_that_is_missing_fails_the_job(rules: Rules) -> None:
    rules.run("a-1-1", outputs=["out"])
    assert rules.record("a-1-1", "status")["failure"]["reason"] == "output_missing"


def test_a_temporary_output_may_be_gone_already(rules: Rules) -> None:
    assert rules.run("a-1-1", outputs=["out"], temporary=["out"]) == "completed"
    assert rules.record("a-1-1", "status")["outputs"] == []


def test_a_name_that_is_not_utf8_stops_nothing(rules: Rules) -> None:
    rules.hand_over("a-1-1", "true", not_covered=["odd\udcff"])
    assert rules.sup.ended("rules/a-1-1") == ["completed"]
    assert rules.entries()["a-1-1"]["not_covered"] == ["${REPO_ROOT}/odd\\udcff"]


# What starts when


def test_a_missing_input_fails_the_job_and_stops_the_run(rules: Rules) -> None:
    assert rules.run("a-1-1", inputs=["gone"], retry=True) == "failed"
    rules.hand_over("b-2-1")
    assert "a-1-1 failed" in rules.sup.until("skipped", "rules/b-2-1")["reason"]


def test_an_attempt_that_is_retried_has_not_failed_the_run(rules: Rules) -> None:
    rules.run("a-1-1", "exit 1", retry=True)
    assert rules.run("b-2-1") == "completed"


def test_a_device_is_free_before_the_outputs_are_read(rules: Rules) -> None:
    rules.hand_over("a-1-1", "head -c 50000000 /dev/zero > out", outputs=["out"], gpu=2)
    rules.hand_over("b-2-1", gpu=2)
    rules.sup.ended("rules/a-1-1", "rules/b-2-1")
    names = [message["name"] for message in rules.sup.messages if message["say"] != "closed"]
    assert names.index("rules/b-2-1") < len(names) - 1 - names[::-1].index("rules/a-1-1")


# The report


def test_the_report_is_canonical_and_refers_to_each_attempt(rules: Rules) -> None:
    rules.run("a-1-1")
    head = rules.sup.close()["head"]
    data = rules.sup.paths.report.read_bytes()
    (entry,) = canonical.loads(data)["rules"]
    digest = hashlib.sha256(rules.paths("a-1-1").status.read_bytes()).hexdigest()
    assert head == "sha256:" + hashlib.sha256(data).hexdigest()
    assert entry["attempt_status"]["sha256"] == digest


def test_a_run_whose_last_attempts_completed_has_completed(rules: Rules) -> None:
    rules.run("a-1-1", "exit 1", retry=True)
    rules.run("a-1-2")
    rules.sup.close()
    assert rules.sup.report()["status"] == "completed"


def test_a_run_with_a_failure_has_failed(rules: Rules) -> None:
    rules.run("a-1-1", "exit 1")
    rules.sup.close()
    assert rules.sup.report()["status"] == "failed"


def test_outputs_that_snakemake_did_not_take_are_rejected(rules: Rules) -> None:
    rules.run("a-1-1")
    rules.sup.send({"do": "rejected", "job": "rules/a-1-1"})
    assert rules.entries()["a-1-1"]["failure"]["reason"] == "rejected"
    assert rules.sup.report()["status"] == "failed"


def test_a_stopped_run_says_so(rules: Rules) -> None:
    rules.hand_over("a-1-1", "sleep 60")
    rules.sup.pid("rules/a-1-1")
    rules.sup.stop()
    assert rules.entries()["a-1-1"]["status"] == "cancelled"
    assert rules.sup.report()["status"] == "interrupted"


def test_a_run_whose_snakemake_died_has_a_report(rules: Rules) -> None:
    rules.hand_over("a-1-1", "sleep 60")
    rules.sup.pid("rules/a-1-1")
    rules.sup.hang_up()
    assert rules.sup.report()["status"] == "interrupted"


def test_a_run_whose_supervisor_died_is_closed_in_its_place(rules: Rules) -> None:
    rules.hand_over("a-1-1", "sleep 60")
    rules.sup.pid("rules/a-1-1")
    rules.sup.kill()
    root = rules.sup.root
    opening = RunOpening(str(root / "run"), str(root), "hloop", "0", "session", ())
    assert (close_run("why", {"rules/a-1-1"}, None, opening) or {})["counts"] == {"failed": 1}
    assert rules.record("a-1-1", "status")["failure"]["reason"] == "supervisor_died"


def test_what_completed_as_its_supervisor_died_unheard_is_rejected(rules: Rules) -> None:
    rules.run("a-1-1")
    rules.run("b-2-1")
    rules.sup.kill()
    root = rules.sup.root
    opening = RunOpening(str(root / "run"), str(root), "hloop", "0", "session", ())
    # The plan's job of that name is another.
    close_run("why", {"rules/a-1-1", "b-2-1"}, None, opening)
    report = json.loads(rules.sup.paths.report.read_bytes())
    statuses = {entry["name"]: entry["status"] for entry in report["rules"]}
    assert statuses == {"a-1-1": "failed", "b-2-1": "completed"}


def test_beside_a_plan_they_stand_in_its_run(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")), rules=sup.root)
    Rules(sup).run("a-1-1")
    sup.ready("a")
    sup.ended("a")
    sup.close()
    report = sup.report()
    assert [entry["name"] for entry in report["rules"]] == ["a-1-1"]
    assert (report["status"], [entry["job_id"] for entry in report["jobs"]]) == (
        "completed",
        ["a"],
    )


def test_a_supervisor_that_dies_beside_a_plan_leaves_both_to_be_closed(sup: Supervised) -> None:
    plan = rendered(sup.root, job("a", "sleep 60"))
    sup.open(plan, rules=sup.root)
    Rules(sup).hand_over("a-1-1", "sleep 60")
    sup.ready("a")
    sup.pid("rules/a-1-1"), sup.pid("a")
    wait_for(lambda: len(sup.events("job_started")) == 1, "the journal")
    sup.kill()
    opening = RunOpening(str(sup.paths.root), str(sup.root), "hloop", "0", "session", ())
    close_run("why", {"rules/a-1-1", "a"}, plan, opening)
    report = json.loads(sup.paths.report.read_bytes())
    reasons = [entry["failure"]["reason"] for entry in (*report["jobs"], *report["rules"])]
    assert reasons == ["supervisor_died"] * 2


def test_the_report_says_its_type(rules: Rules) -> None:
    rules.sup.close()
    assert rules.sup.report()["_type"] == RULES_RUN
