"""Jobs that a real supervisor watches: limits, patterns, signs of life, logs, the heartbeat."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_double
import pytest
from hloop.devices.resolve import Device, DeviceTable
from hloop.files import RunPaths
from hloop.plan.contract import schema_problems
from hloop.run.jobtrees import JobTrees
from hloop.run.timers import Timers
from hloop.run.watchdog import Watchdog
from supervised import Supervised, job, output, rendered, wait_for

NAN = r"\b(nan|NaN)\b"


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    sup = Supervised(tmp_path)
    yield sup
    sup.end()


def ran(sup: Supervised, script: str, *, options: Any = (), **fields: Any) -> dict[str, Any]:
    """Run one job, ``a``; give its record of the attempt's status."""
    sup.open(rendered(sup.root, job("a", script, **fields)), **dict(options))
    sup.ready("a")
    sup.ended("a")
    return read(sup.paths.job("a").status)


def read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_bytes())
    return record


def last_sign(sup: Supervised) -> Any:
    return read(sup.paths.job("a").record)["last_sign_of_life"]


# Limits


def test_a_job_over_its_time_says_when_it_showed_life_last(sup: Supervised) -> None:
    script = "sleep 0.6; echo up; exec sleep 60"
    found = ran(sup, script, budget={"max_seconds": 1.2})
    assert found["status"] == "timed_out" and found["failure"]["reason"] == "timeout"
    assert found["failure"]["message"].endswith(" s before: stdout grew")


def test_the_record_has_the_last_sign_of_life(sup: Supervised) -> None:
    ran(sup, "sleep 0.6; echo up; exec sleep 60", budget={"max_seconds": 1.2})
    record = read(sup.paths.job("a").record)
    sign = record["last_sign_of_life"]
    assert sign["what"] == "stdout grew"
    assert record["started"]["offset_ns"] < sign["moment"]["offset_ns"]
    assert sign["moment"]["offset_ns"] <= record["ended"]["offset_ns"]


def test_a_job_without_limits_has_no_last_sign_of_life(sup: Supervised) -> None:
    ran(sup, "echo up")
    assert last_sign(sup) is None


@pytest.mark.parametrize(
    ("watch", "outputs", "status"),
    [
        ({"watch": ["a[[]1]/**/events.*"]}, [], "completed"),
        ({}, [output("a[1]") | {"type": "directory"}], "completed"),
        ({}, [], "stalled"),
    ],
)
def test_a_file_that_grows_where_it_is_looked_for_keeps_a_job_from_being_stalled(
    sup: Supervised, watch: dict[str, Any], outputs: list[dict[str, Any]], status: str
) -> None:
    # One program, since each start uses CPU time; and it prints nothing.
    script = (
        "import os, time\n"
        "os.makedirs('a[1]/b')\n"
        "with open('a[1]/b/events.1', 'w') as file:\n"
        "    for _ in range(8): print(file=file, flush=True); time.sleep(0.3)\n"
    )
    fields = {"command": ["python3", "-c", script], "cwd": "{run_dir}", "outputs": outputs}
    found = ran(sup, "", **fields, budget={"stall_seconds": 1.5} | watch)
    assert found["status"] == status


def test_a_run_that_was_suspended_and_goes_on_is_not_stalled(sup: Supervised) -> None:
    script = "import time\nfor _ in range(2): print(flush=True); time.sleep(1.2)"
    command = ["python3", "-c", script]
    sup.open(rendered(sup.root, job("a", command=command, budget={"stall_seconds": 2})))
    sup.ready("a")
    pids = [sup.process.pid, sup.pid("a")]
    wait_for(lambda: sup.paths.job("a").stdout.stat().st_size, "a first line")
    time.sleep(0.7)  # The line was seen, and the next one is not there yet.
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in pids:  # The job has no time to show anything before it is looked at.
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
    assert sup.ended("a") == ["completed"]


def test_a_silent_job_is_stalled_with_its_last_sign(sup: Supervised) -> None:
    script = "sleep 0.3; mkdir tb; echo > tb/events.1; exec sleep 60"
    budget = {"stall_seconds": 1, "watch": ["{run_dir}/tb/*"]}
    found = ran(sup, script, cwd="{run_dir}", budget=budget)
    assert found["status"] == "stalled"
    assert found["failure"]["message"].endswith("the watched file tb/events.1 changed")


def test_a_timeout_does_not_heed_the_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hloop.plan.model import Job, ResourceClass
    from hloop.plan.render import RenderedJob
    from hloop.run import journal
    from hloop.run.attempt import Attempt, Phase

    stopped: list[str] = []
    timers = Timers()
    trees = JobTrees(timers, 0, set, lambda _: None)
    watchdog = Watchdog(timers, trees, lambda *what: stopped.append(what[2].reason), 1 << 30)
    entry = Job("a", ResourceClass.CPU, ("true",), budget={"max_seconds": 0.01})
    attempt = Attempt("a", RenderedJob(entry, ("true",), "/", {}, (), ()), "token", Phase.RUNNING)
    attempt.started = journal.Instant.now()
    paths = RunPaths(tmp_path)
    paths.job("a").root.mkdir(parents=True)
    watchdog.watch(attempt, paths)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(journal, "utc_now", lambda: "1970-01-01T00:00:00.000000Z")
    time.sleep(0.02)
    timers.run_due()
    assert stopped == ["timeout"]


# What a job prints


def test_a_pattern_in_stdout_stops_the_job(sup: Supervised) -> None:
    found = ran(sup, "echo loss=1; echo loss=nan; exec sleep 60", budget={"fail_on": [NAN]})
    assert (found["status"], found["failure"]["reason"]) == ("failed", "fail_on")
    assert "line 2 of its stdout is 'loss=nan'" in found["failure"]["message"]


def test_a_pattern_in_stderr_stops_the_job(sup: Supervised) -> None:
    found = ran(sup, "echo CUDA error >&2; exec sleep 60", budget={"fail_on": ["x", "CUDA error"]})
    assert "line 1 of its stderr" in found["failure"]["message"]


def test_a_pattern_in_the_last_line_fails_a_job_that_ended_well(sup: Supervised) -> None:
    found = ran(sup, "echo fine; printf 'loss=nan'", budget={"fail_on": [NAN]})
    assert (found["status"], found["failure"]["reason"]) == ("failed", "fail_on")


def test_what_depends_on_it_does_not_run(sup: Supervised) -> None:
    plan = rendered(
        sup.root,
        job("a", "printf nan", budget={"fail_on": [NAN]}),
        job("b", depends_on=["a"]),
    )
    sup.open(plan)
    sup.ready("a", "b")
    sup.until("skipped", "b")
    assert sup.said("started") == ["a"]


def test_a_job_without_a_match_completes(sup: Supervised) -> None:
    assert ran(sup, "echo nano", budget={"fail_on": [NAN]})["status"] == "completed"


def test_a_job_that_failed_by_itself_has_its_own_reason(sup: Supervised) -> None:
    found = ran(sup, "echo nan; exit 3", budget={"fail_on": [NAN]})
    assert found["failure"]["reason"] == "exit_code"


def test_a_stop_while_a_log_is_searched_cancels_the_job(sup: Supervised) -> None:
    script = "yes 'a line of a log' | head -c 400000000"
    sup.open(rendered(sup.root, job("a", script, budget={"fail_on": [NAN]})))
    sup.ready("a")
    wait_for(lambda: sup.events("job_gone"), "the end of the job")
    sup.stop()
    assert sup.ended("a") == ["cancelled"]


def test_others_start_while_a_log_is_searched(sup: Supervised) -> None:
    script = "yes 'a line of a log' | head -c 400000000"
    sup.open(rendered(sup.root, job("a", script, budget={"fail_on": [NAN]}), job("b")))
    sup.ready("a")
    wait_for(lambda: sup.events("job_gone"), "the end of the job")
    sup.ready("b")
    sup.ended("b")
    assert sup.said("ended") == ["b"]
    sup.stop()


# Who ended it


@pytest.mark.parametrize(
    ("script", "reason"), [("kill -9 $$", "signal"), ("sh -c 'kill -9 $$'; exit $?", "exit_code")]
)
def test_a_sigkill_of_unknown_origin_is_said_to_be_one(
    sup: Supervised, script: str, reason: str
) -> None:
    found = ran(sup, script)
    assert found["failure"]["reason"] == reason
    assert found["failure"]["message"].endswith("; who sent it is unknown")


def test_a_sigkill_of_ours_is_told_as_what_it_was_for(sup: Supervised) -> None:
    found = ran(sup, "exec sleep 60", options={"grace_seconds": 0}, budget={"max_seconds": 0.3})
    assert (found["signal"], found["failure"]["reason"]) == ("SIGKILL", "timeout")


# Logs


def test_a_log_without_a_newline_is_cut_and_the_job_goes_on(sup: Supervised) -> None:
    script = "printf first; head -c 20000000 /dev/zero | tr '\\0' x; printf last"
    found = ran(sup, script, options={"max_log_bytes": 1 << 20})
    assert found["status"] == "completed"
    text = sup.paths.job("a").stdout.read_bytes()
    assert len(text) <= 1 << 20 and text.startswith(b"firstx") and text.endswith(b"xlast")
    stdout, stderr = read(sup.paths.job("a").record)["logs"]
    assert text.count(b"x") + stdout["cut_bytes"] == 20_000_000
    assert stderr["cut_bytes"] == 0


def test_a_growing_log_takes_little_more_space_than_its_bound(sup: Supervised) -> None:
    script = "while :; do head -c 1000000 /dev/zero; sleep 0.05; done"
    sup.open(rendered(sup.root, job("a", script)), max_log_bytes=1 << 20, grace_seconds=0)
    sup.ready("a")
    log = sup.paths.job("a").stdout
    wait_for(lambda: log.exists() and log.stat().st_size > 10 << 20, "ten megabytes")
    assert log.stat().st_blocks * 512 < 8 << 20
    sup.stop()
    assert sup.ended("a") == ["cancelled"]


def test_what_two_writers_append_to_a_log_stays(sup: Supervised) -> None:
    ran(sup, "echo one >> /dev/stderr; echo two >&2; echo three >> /dev/stderr; echo four >&2")
    assert sup.paths.job("a").stderr.read_text() == "one\ntwo\nthree\nfour\n"


def test_a_record_with_all_this_is_one_by_its_schema(sup: Supervised) -> None:
    ran(
        sup,
        "head -c 200000 /dev/zero; exec sleep 60",
        options={"max_log_bytes": 1 << 16},
        budget={"max_seconds": 0.5},
        outputs=[output("never")],
    )
    assert schema_problems(read(sup.paths.job("a").record), "run-record") == []


# The heartbeat


def beats(sup: Supervised) -> list[dict[str, Any]]:
    return [event for event in sup.events("heartbeat") if event["jobs"]]


def test_a_heartbeat_tells_of_each_running_job(sup: Supervised) -> None:
    script = "echo up; mkdir tb; echo > tb/x; while :; do sleep 0.1; done"
    fields: dict[str, Any] = {"cwd": "{run_dir}", "budget": {"watch": ["tb/*"]}}
    sup.open(rendered(sup.root, job("a", script, **fields)), heartbeat_seconds=1)
    sup.ready("a")
    first, second = wait_for(lambda: beats(sup)[1:] and beats(sup)[:2], "two heartbeats")
    (entry,) = second["jobs"]
    assert (entry["job"], entry["alive"], entry["log_bytes"]) == ("a", True, 3)
    assert (first["jobs"][0]["log_growth_bytes"], entry["log_growth_bytes"]) == (3, 0)
    assert entry["rss_bytes"] > 0 and entry["cpu_ns"] >= 0 and entry["processes"] >= 1
    assert entry["watched_mtime"].endswith("Z") and second["time"].endswith("Z")
    sup.stop()
    sup.ended("a")


def test_the_whole_tree_of_a_job_is_counted(sup: Supervised) -> None:
    script = "sh -c 'setsid sleep 60 &'; sleep 60 & exec sleep 60"
    sup.open(rendered(sup.root, job("a", script)), heartbeat_seconds=1, grace_seconds=0)
    sup.ready("a")
    wait_for(
        lambda: any(beat["jobs"][0]["processes"] == 3 for beat in beats(sup)), "three processes"
    )
    sup.stop()
    sup.ended("a")


def test_without_a_heartbeat_there_is_none(sup: Supervised) -> None:
    ran(sup, "sleep 1.2")
    assert sup.events("heartbeat") == []


def test_a_run_with_heartbeats_has_its_report(sup: Supervised) -> None:
    ran(sup, "sleep 1.2", options={"heartbeat_seconds": 1})
    assert sup.close()["status"] == "completed" and sup.events("heartbeat")


# Devices, through the double of NVML

THERE = "GPU-11111111-1111-1111-1111-111111111111"
GONE = "GPU-22222222"
NVML = f"gpu {THERE} 80000 5 00000000:0F:00.0 0 A GPU\n"


class OnDevices:
    """A run on two devices, of which NVML finds the first one only."""

    def __init__(self, root: Path):
        self.state = root / "state"
        self.state.write_text(NVML)
        nvml_double.build(root)
        self.sup = Supervised(root, nvml_double.environment(root, self.state))

    def begin(self, *jobs: Any) -> Supervised:
        devices = tuple(
            Device(index, uuid, uuid, "A GPU", 80000, False)
            for index, uuid in enumerate((THERE, GONE))
        )
        self.sup.open(
            rendered(self.sup.root, *jobs),
            table=DeviceTable(devices, "the test", None),
            lease_dir=self.sup.root / "leases",
            heartbeat_seconds=1,
            keep_going=True,
            grace_seconds=0,
        )
        return self.sup

    def beat(self, device: int = 0) -> dict[str, Any]:
        """What the last heartbeat says of a device."""
        found = wait_for(lambda: self.sup.events("heartbeat"), "a heartbeat")[-1]["devices"]
        entry: dict[str, Any] = found[device]
        return entry


@pytest.fixture
def on_devices(tmp_path: Path) -> Iterator[OnDevices]:
    found = OnDevices(tmp_path)
    yield found
    found.sup.end()


def gpu(job_id: str, script: str, device: int = 0) -> dict[str, Any]:
    return job(job_id, script, "gpu") | {"cuda_visible_devices": str(device)}


def test_a_heartbeat_tells_of_devices(on_devices: OnDevices) -> None:
    on_devices.begin(job("a"))
    wait_for(lambda: on_devices.beat()["memory_used_bytes"] == 5 << 20, "the memory in use")
    # The double does not know of utilisation.
    assert on_devices.beat()["problem"] == "Function Not Found"


def test_a_heartbeat_tells_that_a_device_is_lost(on_devices: OnDevices) -> None:
    sup = on_devices.begin(gpu("b", "true", 1), job("a", "exec sleep 60"))
    sup.ready("a")
    wait_for(lambda: sup.events("device_lost"), "the loss")
    sup.ready("b")
    assert sup.ended("b") == ["failed"]
    assert [event["device"] for event in sup.events("device_lost")] == [1]
    assert on_devices.beat(1)["problem"] == "Not Found"
    sup.stop()
    sup.ended("a")


def test_a_device_that_is_lost_under_a_job_gets_no_other(on_devices: OnDevices) -> None:
    go = on_devices.sup.root / "go"
    script = f"while [ ! -e '{go}' ]; do sleep 0.05; done"
    sup = on_devices.begin(gpu("a", script), gpu("b", "true"))
    sup.ready("a", "b")
    sup.until("started", "a")
    on_devices.state.write_text(f"{NVML}fail nvmlDeviceGetMemoryInfo 15\n")
    assert sup.ended("b") == ["failed"]
    go.touch()
    assert sup.ended("a") == ["completed"]
    failure = read(sup.paths.job("b").status)["failure"]
    assert failure == {"reason": "device_lost", "message": "device 0 is lost: GPU is lost"}


def test_nvml_that_hangs_holds_up_nothing(on_devices: OnDevices) -> None:
    sup = on_devices.begin(gpu("a", "exec sleep 60"), job("b", "exec sleep 60"), job("c"))
    sup.ready("a")
    sup.until("started", "a")
    on_devices.state.write_text(f"{NVML}fail nvmlDeviceGetMemoryInfo -1\n")
    wait_for(lambda: on_devices.beat()["problem"] != "Function Not Found", "the heartbeat")
    sup.ready("b", "c")
    assert sup.ended("c") == ["completed"]
    sup.stop()
    assert sup.ended("a", "b") == ["cancelled", "cancelled"]
    silence = "NVML did not answer within 1 s"
    assert on_devices.beat()["problem"] == silence
    assert read(sup.paths.job("a").record)["device_at_end"]["problem"] == silence


def test_a_job_gets_a_device_of_which_nvml_says_nothing(on_devices: OnDevices) -> None:
    on_devices.state.write_text(f"{NVML}fail nvmlDeviceGetHandleByUUID -1\n")
    sup = on_devices.begin(gpu("a", "true"))
    sup.ready("a")
    assert sup.ended("a") == ["completed"]
