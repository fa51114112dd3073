"""Two runs on one machine: real supervisors that share two simulated devices by their leases."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nvml_double
import pytest
from hloop.devices.leases import LeaseFolder
from hloop.devices.resolve import Device, DeviceTable, resolve_devices
from hloop.locks import Lock
from hloop.run import sharing
from hloop.run.asking import PatientObserver
from hloop.run.journal import read_journal
from hloop.run.opening import LeaseOpening, Opening
from hloop.run.sharing import Sharing
from hloop.run.timers import Timers
from hloop.schedule.events import (
    DeviceGranted,
    DeviceLost,
    DeviceWithheld,
    EngineSettings,
    Event,
    Want,
)
from supervised import Supervised, is_alive, job, rendered, wait_for


class Runs:
    """Runs that share a lease folder."""

    def __init__(self, root: Path):
        self.root = root
        self.leases = root / "leases"
        self.all: list[Supervised] = []

    def begin(
        self,
        *jobs: dict[str, Any],
        environment: dict[str, str] | None = None,
        **fields: Any,
    ) -> Supervised:
        """Start a run of these jobs, and hand them all over."""
        folder = self.root / f"run{len(self.all)}"
        folder.mkdir()
        run = Supervised(folder, environment)
        self.all.append(run)
        run.open(rendered(folder, *jobs), lease_dir=self.leases, **fields)
        run.ready(*(entry["job_id"] for entry in jobs))
        return run

    def rules(self) -> Supervised:
        """Start a run without a plan."""
        folder = self.root / f"run{len(self.all)}"
        folder.mkdir()
        run = Supervised(folder)
        self.all.append(run)
        run.open(lease_dir=self.leases)
        return run

    def is_held(self, device: int) -> bool:
        folder = LeaseFolder.open(self.leases)
        try:
            return folder.holder(f"simulated-{device}")[0]
        finally:
            folder.close()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    for run in runs.all:
        run.end()


def gpu(job_id: str, device: int = 0, script: str = "true", **fields: Any) -> dict[str, Any]:
    return job(job_id, script, "gpu", **fields) | {"cuda_visible_devices": str(device)}


def until(path: Path) -> str:
    """A script that waits for a file."""
    return f"while [ ! -e {shlex.quote(str(path))} ]; do sleep 0.02; done"


def intervals(run: Supervised) -> list[tuple[int, int, int]]:
    """Device, start and end of each job, by the clock that all runs of a boot share."""
    events = read_journal(run.paths.journal)
    zero = events[0]["monotonic_ns"]
    ended = {e["job"]: e["offset_ns"] for e in events if e["event"] == "job_gone"}
    return [
        (e["device"]["logical"], zero + e["offset_ns"], zero + ended[e["job"]])
        for e in events
        if e["event"] == "job_started" and e["device"] is not None
    ]


@pytest.mark.parametrize("placement", ["pinned", "any"])
@pytest.mark.parametrize("mode", ["hloop", "bulk-sync"])
def test_two_runs_never_use_a_device_at_the_same_time(
    runs: Runs, mode: str, placement: str
) -> None:
    names = [f"j{number}" for number in range(8)]
    jobs = [gpu(name, number % 2, "sleep 0.1") for number, name in enumerate(names)]
    both = [runs.begin(*jobs, mode=mode, placement=placement) for _ in range(2)]
    for run in both:
        assert set(run.ended(*names)) == {"completed"}
        run.close()
    spans = sorted(span for run in both for span in intervals(run))
    assert len(spans) == 16
    for (device, _, end), (other, start, _) in zip(spans, spans[1:], strict=False):
        assert device != other or end <= start


def test_a_run_that_waits_gets_the_device_although_the_holder_has_more_jobs(runs: Runs) -> None:
    go = runs.root / "go"
    greedy = runs.begin(gpu("a0", script=until(go)), gpu("a1"), gpu("a2"))
    greedy.until("started", "a0")
    patient = runs.begin(gpu("b"))
    patient.until("waiting", "b")
    go.touch()
    patient.ended("b")
    greedy.ended("a0", "a1", "a2")
    (b,) = patient.events("job_started")
    first = greedy.events("job_started")[1]
    zero = [read_journal(run.paths.journal)[0]["monotonic_ns"] for run in (patient, greedy)]
    assert zero[0] + b["offset_ns"] < zero[1] + first["offset_ns"]


def test_a_waiting_job_says_who_has_the_device(runs: Runs) -> None:
    go = runs.root / "go"
    holder = runs.begin(gpu("a", script=until(go)))
    holder.until("started", "a")
    waiting = runs.begin(gpu("b"))
    reason = waiting.until("waiting", "b")["reason"]
    go.touch()
    text = (
        f"device 0 is held by the run {holder.paths.root}, job a (pid {holder.process.pid}, user"
    )
    assert reason.startswith(text)


def test_the_wait_is_written_down_once(runs: Runs) -> None:
    go = runs.root / "go"
    holder = runs.begin(gpu("a", script=until(go)))
    holder.until("started", "a")
    waiting = runs.begin(gpu("b"), gpu("c", 1, "sleep 0.5"))
    waiting.ended("c")
    go.touch()
    waiting.ended("b")
    (event,) = waiting.events("job_waiting")
    (entry,) = event["devices"]
    assert (event["job"], entry["device"], entry["holder"]["job"]) == ("b", 0, "a")


def test_a_wait_is_no_part_of_the_running_time(runs: Runs) -> None:
    go = runs.root / "go"
    holder = runs.begin(gpu("a", script=until(go)))
    holder.until("started", "a")
    waiting = runs.begin(gpu("b"), gpu("c", 1, "sleep 0.5"))
    waiting.ended("c")
    go.touch()
    waiting.ended("b")
    waiting.close()
    c, b = sorted(intervals(waiting), key=lambda span: span[1])
    waited = waiting.report()["scheduling"]["ready_to_start_seconds"]["b"]
    assert b[1] >= c[2] and waited > 0.5


def test_other_jobs_go_on_while_one_waits(runs: Runs) -> None:
    go = runs.root / "go"
    runs.begin(gpu("a", script=until(go))).until("started", "a")
    waiting = runs.begin(gpu("b"), gpu("c", 1), job("d"))
    assert waiting.ended("c", "d") == ["completed", "completed"]
    assert "b" not in waiting.said("started")
    go.touch()
    assert waiting.ended("b") == ["completed"]


def test_with_placement_any_a_job_takes_the_device_that_is_free(runs: Runs) -> None:
    go = runs.root / "go"
    runs.begin(gpu("a", script=until(go))).until("started", "a")
    other = runs.begin(gpu("b"), placement="any")
    assert other.until("started", "b")["devices"] == [1]
    go.touch()


def test_the_lease_of_a_supervisor_that_was_killed_is_free(runs: Runs) -> None:
    killed = runs.begin(gpu("a", script="sleep 600"))
    pid = killed.pid("a")
    waiting = runs.begin(gpu("b"))
    waiting.until("waiting", "b")
    killed.kill()
    assert waiting.ended("b") == ["completed"]
    wait_for(lambda: not is_alive(pid), "the end of the job")


def test_a_job_inherits_no_lease(runs: Runs) -> None:
    run = runs.begin(gpu("a", script="ls -l /proc/self/fd"))
    run.ended("a")
    assert ".lease" not in run.paths.job("a").stdout.read_text()


def test_a_lease_is_held_until_every_process_of_the_job_is_gone(runs: Runs) -> None:
    # The grandchild ignores TERM, and the grace period passes before it is killed.
    script = "(trap '' TERM; sleep 0.1; sleep 600) & sleep 0.2"
    run = runs.begin(gpu("a", script=script), grace_seconds=1)
    run.until("started", "a")
    other = runs.begin(gpu("b"))
    assert run.ended("a") == other.ended("b") == ["completed"]
    ((_, _, end),), ((_, start, _),) = intervals(run), intervals(other)
    assert end <= start


def test_a_lease_that_is_not_used_is_given_back(runs: Runs) -> None:
    run = runs.begin(gpu("a"))
    run.ended("a")
    assert not runs.is_held(0)


def test_a_job_that_cannot_start_gives_its_lease_back(runs: Runs) -> None:
    run = runs.begin(gpu("a", command=["no-such-program"]))
    assert run.ended("a") == ["failed"]
    assert not runs.is_held(0)


def test_rules_that_need_both_devices_do_not_wait_for_each_other(runs: Runs) -> None:
    both = [runs.rules(), runs.rules()]
    log = runs.root / "log"
    script = f"echo begin >> {log}; sleep 0.05; echo end >> {log}"
    names = [f"rules/r-{number}" for number in range(5)]
    for run in both:
        for name in names:
            run.rule(name, script, gpu=2)
    for run in both:
        assert set(run.ended(*names)) == {"completed"}
        run.close()
    assert log.read_text().split() == ["begin", "end"] * 10


def test_a_rule_that_needs_both_devices_is_not_starved_by_small_jobs(runs: Runs) -> None:
    small = [gpu(f"j{number}", number % 2, "sleep 0.2") for number in range(12)]
    busy = runs.begin(*small)
    busy.until("started", "j1")
    wide = runs.rules()
    wide.rule("rules/wide", gpu=2)
    assert wide.ended("rules/wide") == ["completed"]
    assert len(busy.said("ended")) < 12
    busy.ended(*(entry["job_id"] for entry in small))


def test_a_run_that_is_stopped_while_it_waits_ends(runs: Runs) -> None:
    go = runs.root / "go"
    runs.begin(gpu("a", script=until(go))).until("started", "a")
    waiting = runs.begin(gpu("b"))
    waiting.until("waiting", "b")
    waiting.stop()
    waiting.until("skipped", "b")
    assert waiting.close()["status"] == "interrupted"
    go.touch()


def test_a_run_without_lease_folder_leases_nothing(runs: Runs) -> None:
    run = Supervised(runs.root)
    runs.all.append(run)
    run.open(rendered(run.root, gpu("a")))
    run.ready("a")
    run.ended("a")
    assert not runs.leases.exists()


def test_what_holds_a_lease_is_said_in_its_file_only_meanwhile(runs: Runs) -> None:
    go = runs.root / "go"
    run = runs.begin(gpu("a", script=until(go)))
    run.until("started", "a")
    path = runs.leases / "simulated-0.lease"
    during = path.read_bytes()
    go.touch()
    run.ended("a")
    assert b'"job": "a"' in during and path.read_bytes() == b""
    assert os.stat(path).st_mode & 0o777 == 0o666


# Devices that are lost


@pytest.fixture
def one_is_gone(runs: Runs) -> dict[str, Any]:
    """A run on two devices of which NVML finds the second one only."""
    there, gone = "GPU-11111111-1111-1111-1111-111111111111", "GPU-" + "2" * 8
    state = runs.root / "state"
    state.write_text(f"gpu {there} 80000 0 00000000:0F:00.0 0 A GPU\n")
    nvml_double.build(runs.root)
    devices = tuple(
        Device(index, uuid, uuid, "A GPU", 80000, simulated=False)
        for index, uuid in enumerate((gone, there))
    )
    return {
        "table": DeviceTable(devices, "the test", None),
        "environment": nvml_double.environment(runs.root, state),
    }


def test_what_needs_a_lost_device_fails_and_says_so(
    runs: Runs, one_is_gone: dict[str, Any]
) -> None:
    run = runs.begin(gpu("a"), gpu("b", 1), keep_going=True, **one_is_gone)
    assert run.ended("a", "b") == ["failed", "completed"]
    run.close()
    (failed,) = (entry for entry in run.report()["jobs"] if entry["job_id"] == "a")
    assert failed["failure"]["reason"] == "device_lost"
    assert failed["failure"]["message"].startswith("device 0 is lost: ")


def test_the_loss_is_written_down_once(runs: Runs, one_is_gone: dict[str, Any]) -> None:
    run = runs.begin(gpu("a"), gpu("b"), keep_going=True, **one_is_gone)
    run.ended("a", "b")
    (event,) = run.events("device_lost")
    assert event["device"] == 0


def test_with_placement_any_another_device_does(runs: Runs, one_is_gone: dict[str, Any]) -> None:
    run = runs.begin(gpu("a"), placement="any", **one_is_gone)
    assert run.until("started", "a")["devices"] == [1]


def test_the_lease_of_a_lost_device_is_given_back(runs: Runs, one_is_gone: dict[str, Any]) -> None:
    run = runs.begin(gpu("a"), **one_is_gone)
    run.ended("a")
    with contextlib.closing(LeaseFolder.open(runs.leases)) as folder:
        assert folder.holder("GPU-" + "2" * 8) == (False, None)


# Turns, step by step


class Party:
    """One run's leases, without a run: what it wants is said by hand."""

    def __init__(self, folder: Path):
        self.heard: list[str] = []
        self.sharing = Sharing(
            Timers(),
            lambda *_, **__: None,
            lambda _job, text: self.heard.append(text),
            PatientObserver(),
        )
        table = resolve_devices("simulated:2", {})
        leases = LeaseOpening(str(folder))
        settings = EngineSettings(devices=(0, 1))
        self.sharing.open(Opening(settings, table, 1, None, None, None, leases))

    def want(self, *devices: int) -> list[Event]:
        count = len(devices)
        wants = [Want("job", devices, count, count)] if count else []
        return self.sharing.settle(lambda: wants)


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[list[Lock]]:
    """The leases of both devices, in the hands of others."""
    folder = LeaseFolder.open(tmp_path / "leases")
    leases = [folder.try_lease(f"simulated-{device}") for device in (0, 1)]
    locks = [lease for lease in leases if isinstance(lease, Lock)]
    assert len(locks) == 2
    yield locks
    folder.close()


def test_two_jobs_that_need_both_devices_do_not_hold_one_each(
    tmp_path: Path, leased: list[Lock]
) -> None:
    single, first, second = (Party(tmp_path / "leases") for _ in range(3))
    single.want(1)  # Its turn on device 1.
    first.want(0, 1)  # Its turn on device 0 only.
    leased[1].release()
    assert single.want(1) == [DeviceGranted(1)]
    single.want()
    # Device 1 is free now, and this one comes first; but the turn on device 0 is not its.
    assert second.want(0, 1) == []
    leased[0].release()
    assert first.want(0, 1) == [DeviceGranted(0), DeviceGranted(1)]
    for party in (single, first, second):
        party.want()
        party.sharing.close()


def test_what_was_granted_and_not_used_is_given_back(tmp_path: Path) -> None:
    party, other = Party(tmp_path / "leases"), Party(tmp_path / "leases")
    party.want(0)
    assert party.want() == [DeviceWithheld(0)]
    assert other.want(0) == [DeviceGranted(0)]
    for one in (party, other):
        one.want()
        one.sharing.close()


@pytest.mark.parametrize("name", ["simulated-0.lease", "simulated-0.turn"])
@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: (path.with_suffix(".x").touch(), path.hardlink_to(path.with_suffix(".x"))),
    ],
)
def test_a_lease_that_cannot_be_asked_for_is_said_and_then_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], object], name: str
) -> None:
    party = Party(tmp_path / "leases")
    put(tmp_path / "leases" / name)
    assert party.want(0) == []
    (said,) = party.heard
    assert said.startswith(f"the lease of device 0 cannot be taken: {tmp_path}/leases/simulated-0")
    monkeypatch.setattr(sharing, "GIVE_UP_NS", 0)
    assert party.want(0) == [DeviceLost(0, said.replace("the lease of device 0", "its lease"))]
    party.want()
    party.sharing.close()


def test_a_file_system_without_locks_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = Party(tmp_path / "leases")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    party.want(0)
    assert party.heard[0].endswith("/leases/simulated-0: No locks available")
    party.sharing.close()


def test_a_lease_that_can_be_asked_for_again_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = Party(tmp_path / "leases")
    (tmp_path / "leases/simulated-0.lease").mkdir()
    party.want(0)
    (tmp_path / "leases/simulated-0.lease").rmdir()
    monkeypatch.setattr(sharing, "GIVE_UP_NS", 0)
    assert party.want(0) == [DeviceGranted(0)]
    party.want()
    party.sharing.close()


def test_who_has_a_device_and_says_nothing_is_named_only_after_a_while(
    tmp_path: Path, leased: list[Lock], monkeypatch: pytest.MonkeyPatch
) -> None:
    party = Party(tmp_path / "leases")
    party.want(0)
    at_once = list(party.heard)
    monkeypatch.setattr(sharing, "PATIENCE_NS", -1)
    party.want(0)
    assert (at_once, party.heard) == ([], ["device 0 is held by another run"])
    party.want()
    party.sharing.close()
    for lease in leased:
        lease.release()
