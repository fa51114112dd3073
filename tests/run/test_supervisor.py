"""A real supervisor process: what it starts, gives back, stops and writes down."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import supervised
from hloop.run.journal import read_journal
from supervised import Supervised, is_alive, job, output, rendered, wait_for

GIB = 2**30


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    sup = Supervised(tmp_path)
    yield sup
    sup.end()


# Jobs of a plan


def test_a_plan_job_runs_and_completes(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "echo done")))
    sup.ready("a")
    assert sup.ended("a") == ["completed"]
    assert sup.paths.job("a").stdout.read_text() == "done\n"


def test_the_goodbye_counts_what_the_jobs_came_to(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a"), job("b", "false")), keep_going=True)
    sup.ready("a", "b")
    sup.ended("a", "b")
    goodbye = sup.close()
    assert (goodbye["status"], goodbye["counts"]) == ("failed", {"completed": 1, "failed": 1})


def test_a_failed_job_says_why_with_the_end_of_its_stderr(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "echo the reason >&2; exit 7")))
    sup.ready("a")
    message = sup.until("ended", "a")["message"]
    assert "it exited with 7" in message and message.endswith("the reason")


def test_a_job_whose_input_is_wrong_is_not_started(sup: Supervised) -> None:
    (sup.root / "in").write_text("other")
    wrong = {"role": "i", "path": str(sup.root / "in"), "sha256": "0" * 64}
    sup.open(rendered(sup.root, job("a", inputs=[wrong])))
    sup.ready("a")
    assert sup.ended("a") == ["failed"]
    assert sup.said("started") == []


def test_an_attempt_that_never_started_took_no_time(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", command=["no-such-program"])))
    sup.ready("a")
    sup.ended("a")
    assert b'"wall_ns":0' in sup.paths.job("a").status.read_bytes()


def test_a_log_that_exists_already_is_kept_and_fails_the_job(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "echo new")))
    wait_for(sup.paths.journal.exists, "the journal")
    sup.paths.job("a").root.mkdir(parents=True)
    sup.paths.job("a").stdout.write_text("old")
    sup.ready("a")
    assert "stdout.log: File exists" in sup.until("ended", "a")["message"]
    assert sup.paths.job("a").stdout.read_text() == "old"


def test_a_real_time_signal_is_named(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "kill -40 $$")))
    sup.ready("a")
    assert "ended by SIGRTMIN+6" in sup.until("ended", "a")["message"]


def test_a_limit_of_decades_holds_up_nothing(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", budget={"max_seconds": 1e9, "stall_seconds": 1e9})))
    sup.ready("a")
    assert sup.ended("a") == ["completed"]


def test_a_fifo_in_the_place_of_a_log_holds_up_nothing(sup: Supervised) -> None:
    log = sup.paths.job("a").stderr
    sup.open(rendered(sup.root, job("a", f"rm {log}; mkfifo {log}; exit 3")))
    sup.ready("a")
    assert sup.ended("a") == ["failed"]


def test_two_hundred_jobs_that_are_ready_at_once_all_complete(sup: Supervised) -> None:
    names = [f"job_{index}" for index in range(200)]
    sup.open(rendered(sup.root, *map(job, names)))
    sup.ready(*names)
    assert set(sup.ended(*names)) == {"completed"}


def test_hundreds_of_jobs_that_cannot_start_all_fail(sup: Supervised) -> None:
    # More than Python lets functions call each other.
    names = [f"job_{index}" for index in range(1100)]
    sup.open(
        rendered(sup.root, *(job(name, command=["no-such-program"]) for name in names)),
        keep_going=True,
    )
    sup.ready(*names)
    assert set(sup.ended(*names)) == {"failed"}


def test_jobs_ready_together_are_told_in_plan_order(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("b"), job("a"), job("c")), cpu_workers=1)
    sup.ready("c", "a", "b")
    sup.ended("a", "b", "c")
    assert sup.said("started") == ["b", "a", "c"]


def test_a_dependant_waits_for_the_verdict_on_what_it_depends_on(sup: Supervised) -> None:
    plan = rendered(
        sup.root,
        job("a", outputs=[output("never_made")]),
        job("b", depends_on=["a"]),
    )
    sup.open(plan)
    sup.ready("a", "b")
    sup.until("skipped", "b")
    assert sup.said("started") == ["a"]


def test_the_slot_is_free_before_a_large_output_is_read(sup: Supervised) -> None:
    big = output("big")
    plan = rendered(
        sup.root,
        job("first", f"truncate -s {GIB} {big['path']}", "gpu", outputs=[big]),
        job("second", "true", "gpu"),
    )
    sup.open(plan)
    sup.ready("first", "second")
    sup.ended("first", "second")
    lines = [(entry["event"], entry.get("job")) for entry in read_journal(sup.paths.journal)]
    assert lines.index(("job_started", "second")) < lines.index(("job_ended", "first"))


def test_the_killed_reader_of_a_large_output_fails_that_job_alone(sup: Supervised) -> None:
    big = output("big")
    plan = rendered(
        sup.root,
        job("a", f"truncate -s {GIB} {big['path']}", outputs=[big]),
        job("b"),
    )
    sup.open(plan, keep_going=True)
    sup.ready("a")
    sup.pid("a")
    wait_for(lambda: sup.events("job_gone"), "the job to end")
    (worker,) = wait_for(sup.children, "the reader")
    os.kill(worker, signal.SIGKILL)
    sup.ready("b")
    assert sup.ended("a", "b") == ["failed", "completed"]
    assert "the process that reads large files died" in sup.until("ended", "a")["message"]


# Rules' jobs, which no plan holds


def test_a_rule_job_runs_where_and_as_it_is_told(sup: Supervised) -> None:
    folder = sup.root / "folder"
    folder.mkdir()
    sup.open()
    sup.rule("r", "echo $GREETING > here", cwd=str(folder), environment={"GREETING": "hello"})
    sup.ended("r")
    assert (folder / "here").read_text() == "hello\n"


def test_rule_jobs_that_need_every_device_take_turns(sup: Supervised) -> None:
    trace = sup.root / "trace"
    sup.open()
    for index in range(4):
        sup.rule(f"r{index}", f"printf + >> {trace}; sleep 0.05; printf - >> {trace}", gpu=2)
    sup.ended("r0", "r1", "r2", "r3")
    assert trace.read_text() == "+-" * 4


def test_a_rule_job_is_shown_its_device(sup: Supervised) -> None:
    sup.open()
    sup.rule("r", f"echo $CUDA_VISIBLE_DEVICES > {sup.root}/seen", gpu=1)
    device = sup.until("started", "r")["devices"]
    sup.ended("r")
    assert (sup.root / "seen").read_text() == f"{device[0]}\n"


def test_an_environment_of_300_kilobytes_reaches_the_job(sup: Supervised) -> None:
    sup.open()
    environment = {f"VARIABLE_{index}": "x" * 100_000 for index in range(3)}
    sup.rule("r", f"printf %s $VARIABLE_2 > {sup.root}/seen", environment=environment)
    assert sup.ended("r") == ["completed"]
    assert (sup.root / "seen").stat().st_size == 100_000


def test_a_command_with_a_zero_byte_fails_its_job_alone(sup: Supervised) -> None:
    sup.open(keep_going=True)
    sup.rule("bad", "true \0")
    sup.rule("good")
    assert sup.ended("bad", "good") == ["failed", "completed"]


def test_a_job_that_will_be_retried_has_not_failed_the_run(sup: Supervised) -> None:
    sup.open()
    sup.rule("first try", "false", retry=True)
    sup.ended("first try")
    sup.rule("second try")
    assert sup.ended("second try") == ["completed"]


def test_what_snakemake_rejects_stops_the_rest(sup: Supervised) -> None:
    sup.open()
    sup.rule("a")
    sup.ended("a")
    sup.send({"do": "rejected", "job": "a"})
    sup.rule("b")
    assert sup.until("skipped", "b")["reason"] == "a was rejected by Snakemake"


# Giving back


def test_after_a_failure_waiting_jobs_are_given_back_with_the_reason(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "false"), job("b")), cpu_workers=1)
    sup.ready("a", "b")
    assert sup.until("skipped", "b")["reason"] == "a failed"


def test_no_job_starts_in_the_slot_of_one_that_failed(sup: Supervised) -> None:
    jobs = (job("a", "false"), job("b"), job("c", resource="gpu"))
    sup.open(rendered(sup.root, *jobs), mode="sequential")
    sup.ready("a", "b", "c")
    sup.until("skipped", "b")
    sup.until("skipped", "c")
    assert sup.said("started") == ["a"]


def test_a_job_that_is_handed_over_after_a_failure_is_given_back(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "false"), job("b")))
    sup.ready("a")
    sup.ended("a")
    sup.ready("b")
    assert sup.until("skipped", "b")["reason"] == "a failed"


def test_keep_going_gives_back_only_what_depends_on_the_failure(sup: Supervised) -> None:
    plan = rendered(sup.root, job("a", "false"), job("below", depends_on=["a"]), job("beside"))
    sup.open(plan, keep_going=True)
    sup.ready("a")
    sup.ended("a")
    sup.ready("below", "beside")
    sup.until("skipped", "below")
    assert sup.ended("beside") == ["completed"]


def test_jobs_that_are_not_asked_for_are_skipped_in_the_report(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a"), job("b")), wanted=["a"])
    sup.ready("a")
    sup.ended("a")
    sup.close()
    assert sup.statuses() == {"a": "completed", "b": "skipped"}


def test_a_skipped_job_stands_once_in_the_journal(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "false"), job("b")))
    sup.ready("a")
    sup.ended("a")
    sup.ready("b")
    sup.until("skipped", "b")
    sup.close()
    assert len(sup.events("job_skipped")) == 1


# Stopping


def test_a_stop_cancels_what_runs_and_gives_back_the_rest(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60"), job("b")), cpu_workers=1)
    sup.ready("a", "b")
    sup.pid("a")
    sup.stop()
    sup.until("skipped", "b")
    assert sup.ended("a") == ["cancelled"]


def test_a_job_that_is_handed_over_after_a_stop_is_given_back(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    sup.stop()
    sup.ready("a")
    assert sup.until("skipped", "a")["reason"] == "the run was stopped: SIGINT"


def test_a_rule_job_after_a_stop_is_given_back(sup: Supervised) -> None:
    sup.open()
    sup.stop()
    sup.rule("r")
    sup.until("skipped", "r")
    assert sup.said("started") == []


def test_a_stop_before_the_run_is_open_holds(sup: Supervised) -> None:
    sup.stop()
    sup.open(rendered(sup.root, job("a")))
    sup.ready("a")
    sup.until("skipped", "a")
    assert sup.close()["status"] == "interrupted"


def test_a_stop_after_the_last_job_cuts_nothing_short(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    sup.ready("a")
    sup.ended("a")
    sup.stop()
    assert sup.close()["status"] == "completed"


def test_a_stop_while_an_input_is_read_gives_the_job_back(sup: Supervised) -> None:
    with (sup.root / "in").open("wb") as file:
        file.truncate(GIB)
    large = {"role": "i", "path": str(sup.root / "in"), "sha256": "0" * 64}
    sup.open(rendered(sup.root, job("a", inputs=[large])))
    sup.ready("a")
    sup.stop()
    sup.until("skipped", "a")
    assert sup.close()["counts"] == {"skipped": 1}


def test_a_stop_while_an_output_is_read_cancels_the_job(sup: Supervised) -> None:
    big = output("big")
    sup.open(rendered(sup.root, job("a", f"truncate -s {GIB} {big['path']}", outputs=[big])))
    sup.ready("a")
    wait_for(lambda: sup.paths.journal.exists() and sup.events("job_gone"), "the job to end")
    sup.stop()
    assert sup.ended("a") == ["cancelled"]


def test_a_job_that_ignores_term_is_killed_at_the_end_of_its_grace(sup: Supervised) -> None:
    set_up = sup.root / "set_up"
    script = f"trap '' TERM; touch {set_up}; while :; do sleep 0.05; done"
    sup.open(rendered(sup.root, job("a", script)), grace_seconds=0.3)
    sup.ready("a")
    wait_for(set_up.exists, "the job to ignore TERM")
    sup.stop()
    sup.ended("a")
    assert sup.events("job_gone")[0]["signal"] == "SIGKILL"


def test_without_a_grace_period_no_term_is_sent(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "exec sleep 60")), grace_seconds=0)
    sup.ready("a")
    sup.pid("a")
    sup.stop()
    sup.ended("a")
    assert sup.events("job_gone")[0]["signal"] == "SIGKILL"


def test_a_stopped_job_is_woken_to_end(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60")))
    sup.ready("a")
    os.kill(sup.pid("a"), signal.SIGSTOP)
    sup.stop()
    sup.ended("a")
    assert sup.events("job_gone")[0]["signal"] == "SIGTERM"


def test_closing_while_a_job_runs_stops_it(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60")))
    sup.ready("a")
    sup.pid("a")
    assert sup.close()["status"] == "interrupted"
    assert sup.statuses() == {"a": "cancelled"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_stops_the_run(sup: Supervised, number: int) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60")))
    sup.ready("a")
    sup.pid("a")
    sup.process.send_signal(number)
    assert sup.ended("a") == ["cancelled"]
    assert sup.events("stopping")[0]["reason"] == signal.Signals(number).name


def test_a_signal_that_ends_the_jobs_as_well_is_a_stop_and_no_failure(sup: Supervised) -> None:
    # As from `scancel` or systemd, to all processes at once.
    sup.open(rendered(sup.root, job("a", "exec sleep 60")))
    sup.ready("a")
    pid = sup.pid("a")
    sup.process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not is_alive(pid), "the job to end")
    sup.process.send_signal(signal.SIGTERM)
    sup.process.send_signal(signal.SIGCONT)
    assert sup.ended("a") == ["cancelled"]


# The end of the other side

DEAF = "trap '' TERM; while :; do sleep 0.05; done"
TREE = "echo $$ >> pids; (setsid sh -c 'echo $$ >> pids; exec sleep 60' &); " + DEAF


def pids_of(sup: Supervised, count: int) -> list[int]:
    path = sup.root / "pids"
    return wait_for(
        lambda: path.exists() and len(words := path.read_text().split()) == count and words,
        "the processes of the jobs",
    )


def test_the_end_of_snakemake_ends_every_process_of_every_job(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", TREE), job("b", TREE, "gpu")), grace_seconds=0.3)
    sup.ready("a", "b")
    pids = pids_of(sup, 4)
    assert sup.hang_up() == 0
    assert [pid for pid in pids if is_alive(int(pid))] == []


def test_the_end_of_snakemake_still_leaves_a_report(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60"), job("b", depends_on=["a"])))
    sup.ready("a")
    sup.pid("a")
    sup.hang_up()
    assert sup.report()["status"] == "interrupted"
    assert sup.statuses() == {"a": "cancelled", "b": "skipped"}


def test_the_end_of_snakemake_before_the_run_is_open_ends_the_supervisor(sup: Supervised) -> None:
    assert sup.hang_up() == 0


def test_a_reader_that_does_not_read_holds_up_no_job(sup: Supervised) -> None:
    names = [f"job_{index}" for index in range(100)]
    failing = (job(name, command=["no-such-program-" + "x" * 10_000]) for name in names)
    sup.open(rendered(sup.root, *failing, job("last")), keep_going=True)
    sup.ready(*names, "last")
    # What the supervisor has to say of the first hundred is more than a socket holds.
    wait_for(
        lambda: sup.paths.journal.exists() and len(sup.events("job_ended")) == 101,
        "every job to end",
    )


def test_sigkill_of_the_supervisor_ends_the_jobs(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", f"echo $$ > pids; {DEAF}")))
    sup.ready("a")
    (pid,) = pids_of(sup, 1)
    sup.kill()
    wait_for(lambda: not is_alive(int(pid)), "the job to end")


# Trouble


def test_a_job_that_no_plan_holds_is_a_bug_that_is_told(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    sup.ready("b")
    assert "KeyError: 'b'" in sup.until("trouble")["message"]
    assert sup.process.wait() == 1


def test_a_job_that_is_handed_over_twice_is_a_bug_that_is_told(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a")))
    sup.ready("a")
    sup.ended("a")
    sup.ready("a")
    assert "a is handed over twice" in sup.until("trouble")["message"]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor that can write no file beyond 3,000 bytes, as if the disk were full."""
    limit = (3000, 3000)
    sup = Supervised(tmp_path, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    yield sup
    sup.end()


def test_a_journal_that_cannot_be_written_ends_the_run_and_is_told(full_disk: Supervised) -> None:
    names = [f"job_{index}" for index in range(50)]
    full_disk.open(rendered(full_disk.root, *map(job, names)))
    full_disk.ready(*names)
    assert "File too large" in full_disk.until("trouble")["message"]
    assert full_disk.process.wait() == 1


CLAIM = """
import sys
from pathlib import Path
from hloop.errors import RunDirectoryError
from hloop.run.claiming import claim
from supervised import job, rendered
plan = rendered(Path(sys.argv[1]), job("a"))
print("prepared", flush=True)
sys.stdin.read()
try:
    claim(plan)
    print("claimed")
except RunDirectoryError as error:
    print(error.problems[0].code)
"""


def test_of_ten_runs_that_want_one_directory_one_gets_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(supervised.__file__).parent)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(10)
    ]
    for run in runs:
        assert run.stdout and run.stdout.readline() == "prepared\n"
    for run in runs:
        assert run.stdin
        run.stdin.close()
    fates = []
    for run in runs:
        with run:
            assert run.stdout
            fates.append(run.stdout.read().strip())
    assert sorted(fates) == ["claimed"] + ["run_dir_used"] * 9
