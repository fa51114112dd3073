"""The executor's end of the supervisor: what it passes on, and that it notices a death."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hloop.run import processes
from hloop.run.channel import Message
from hloop.run.client import SupervisorClient
from supervised import PATIENCE, is_alive, opening, rule_job, wait_for


class Ear:
    """A client, and what came to its callbacks."""

    def __init__(self, on_message: Callable[[Message], None] | None = None):
        self.messages: queue.Queue[Message] = queue.Queue()
        self.deaths: queue.Queue[str] = queue.Queue()
        self.client = SupervisorClient(on_message or self.messages.put, self.deaths.put)
        self.client.send(opening())

    def rule(self, name: str, script: str, folder: Path) -> None:
        self.client.send(rule_job(name, script, folder))

    def next(self) -> Message:
        return self.messages.get(timeout=PATIENCE)

    def kill_supervisor(self) -> str:
        """Kill it and give what the client says of its death."""

        def supervisors() -> list[int]:
            mine = processes.children(os.getpid())
            return [p for p in mine if b"hloop.run.supervisor" in command_line(p)]

        (pid,) = wait_for(supervisors, "the supervisor")
        os.kill(pid, signal.SIGKILL)
        return self.deaths.get(timeout=PATIENCE)


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    yield ear
    ear.client.close()


def read(path: Path) -> str:
    return str(wait_for(lambda: path.exists() and path.read_text(), path.name))


def test_the_story_of_a_job_is_passed_on(ear: Ear, tmp_path: Path) -> None:
    ear.rule("r", "true", tmp_path)
    assert [ear.next()["say"], ear.next()["say"]] == ["started", "ended"]


def test_closing_gives_the_goodbye() -> None:
    assert Ear().client.close() == {"say": "closed", "status": None}


def test_a_run_that_was_closed_has_not_died() -> None:
    ear = Ear()
    ear.client.close()
    assert ear.deaths.empty()


def test_a_signal_becomes_a_stop_by_its_name(ear: Ear, tmp_path: Path) -> None:
    ear.rule("r", "sleep 60", tmp_path)
    ear.next()
    ear.client.stop_from_signal(signal.SIGTERM)
    assert "the run was stopped: SIGTERM" in ear.next()["message"]


def test_a_supervisor_that_a_job_has_stopped_is_woken_up_to_stop_it(
    ear: Ear, tmp_path: Path
) -> None:
    ear.rule("r", "kill -STOP $PPID; touch done; sleep 60", tmp_path)
    wait_for((tmp_path / "done").exists, "the supervisor to be stopped")
    ear.client.stop_from_signal(signal.SIGTERM)
    while (message := ear.next())["say"] != "ended":
        pass
    assert message["status"] == "cancelled"


def test_a_killed_supervisor_is_noticed(ear: Ear) -> None:
    assert ear.kill_supervisor() == "the supervisor ended with -9"


def test_a_supervisor_that_failed_says_why(ear: Ear) -> None:
    ear.client.send({"do": "ready", "jobs": ["unknown"]})
    assert "AssertionError" in ear.deaths.get(timeout=PATIENCE)


def test_what_is_sent_after_the_death_is_lost_quietly(ear: Ear, tmp_path: Path) -> None:
    ear.kill_supervisor()
    ear.rule("r", "true", tmp_path)


def test_closing_after_the_death_gives_no_goodbye() -> None:
    ear = Ear()
    ear.kill_supervisor()
    assert ear.client.close() is None


def test_with_the_supervisor_dies_also_what_has_nothing_of_its_job_any_more(
    ear: Ear, tmp_path: Path
) -> None:
    script = "env -i setsid sh -c 'echo $$ > escaped; exec sleep 60' & exec sleep 60"
    ear.rule("r", script, tmp_path)
    pids = [ear.next()["pid"], int(read(tmp_path / "escaped"))]
    ear.kill_supervisor()
    assert [pid for pid in pids if is_alive(pid)] == []


def test_a_job_that_kills_the_supervisor_at_once_dies_with_it(ear: Ear, tmp_path: Path) -> None:
    ear.rule("r", "echo $$ > pid; kill -KILL $PPID; exec sleep 60", tmp_path)
    ear.deaths.get(timeout=PATIENCE)
    assert not is_alive(int(read(tmp_path / "pid")))


def test_what_snakemake_has_started_itself_outlives_the_supervisor() -> None:
    before = subprocess.Popen(["sleep", "60"], start_new_session=True)
    time.sleep(0.05)  # What starts within one tick of the clock looks alike.
    ear = Ear()
    beside = subprocess.Popen(["sleep", "60"])
    ear.kill_supervisor()
    alive = is_alive(before.pid), is_alive(beside.pid)
    for process in (before, beside):
        process.kill()
        process.wait()
    ear.client.close()
    assert alive == (True, True)


def test_a_listener_that_fails_ends_the_run_instead_of_hanging(tmp_path: Path) -> None:
    pids = []

    def fail(message: Message) -> None:
        pids.append(message["pid"])
        raise RuntimeError("no room")

    ear = Ear(fail)
    ear.rule("r", "sleep 60", tmp_path)
    assert "RuntimeError: no room" in ear.deaths.get(timeout=PATIENCE)
    assert not is_alive(pids[0])
    ear.client.close()
