"""How runs end: failures, limits, signals and deaths; and that the report tells the truth."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hloop.files import hash_file


def statuses(workspace) -> dict[str, str]:
    return {job_id: job["status"] for job_id, job in workspace.jobs().items()}


@pytest.fixture
def failing(workspace, make_job):
    """A failure beside a job that runs longer, one after the failure, and one on its own."""
    workspace.plan(
        make_job("bad", "echo the reason >&2; exit 7"),
        make_job("after_bad", depends_on=["bad"]),
        make_job("long", "sleep 0.5"),
        make_job("waits", resource="gpu", depends_on=["long"]),
    )
    return workspace


def test_a_failure_skips_what_has_not_started(failing):
    assert failing.hloop_run().returncode == 1
    assert statuses(failing) == {
        "bad": "failed",
        "long": "completed",
        "after_bad": "skipped",
        "waits": "skipped",
    }


def test_keep_going_runs_what_does_not_depend_on_the_failure(failing):
    assert failing.hloop_run("--keep-going").returncode == 1
    assert statuses(failing) == {
        "bad": "failed",
        "long": "completed",
        "after_bad": "skipped",
        "waits": "completed",
    }


def test_a_failed_job_keeps_its_exit_status_and_the_end_of_its_stderr(failing):
    failing.hloop_run()
    bad = failing.jobs()["bad"]
    assert (bad["returncode"], bad["failure"]["reason"]) == (7, "exit_code")
    assert bad["failure"]["stderr_tail"] == "the reason"


def test_the_records_of_a_failed_job_survive(failing):
    failing.hloop_run()
    folder = failing.root / "run/jobs/bad"
    assert json.loads((folder / "attempt_status.json").read_text())["status"] == "failed"
    assert (folder / "stderr.log").read_text() == "the reason\n"


def test_a_job_that_a_signal_ended_says_which(workspace, make_job):
    workspace.plan(make_job("one", "kill -SEGV $$"))
    workspace.hloop_run()
    one = workspace.jobs()["one"]
    assert (one["returncode"], one["signal"]) == (None, "SIGSEGV")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": ["no-such-program"]}, "could_not_start"),
        ({"cwd": "{repo_root}/nowhere"}, "could_not_start"),
        (
            {"outputs": [{"role": "o", "path": "{run_dir}/o"}]},
            "output_missing",
        ),
        (
            {
                "command": ["ln", "-s", "/etc/hostname", "{run_dir}/o"],
                "outputs": [{"role": "o", "path": "{run_dir}/o"}],
            },
            "output_not_a_file",
        ),
        (
            {
                "command": ["touch", "{run_dir}/o"],
                "outputs": [{"role": "o", "path": "{run_dir}/o", "sha256": "0" * 64}],
            },
            "output_digest",
        ),
        (
            {"inputs": [{"role": "i", "path": "{repo_root}/plan.json", "sha256": "0" * 64}]},
            "input_digest",
        ),
    ],
)
def test_a_job_fails_for_the_reason_that_holds(workspace, make_job, fields, reason):
    workspace.plan(make_job("one", **fields))
    assert workspace.hloop_run().returncode == 1
    one = workspace.jobs()["one"]
    assert (one["status"], one["failure"]["reason"]) == ("failed", reason)


def test_a_job_over_its_limit_is_timed_out_with_its_whole_tree(workspace, make_job):
    script = "(sleep 60; echo) & setsid sleep 60 & sleep 60"
    workspace.plan(make_job("slow", script, budget={"max_seconds": 0.5}))
    assert workspace.hloop_run("--grace-seconds", "1").returncode == 1
    slow = workspace.jobs()["slow"]
    assert (slow["status"], slow["failure"]["reason"]) == ("timed_out", "timeout")


def test_what_was_stopped_is_not_tried_again(workspace, make_job):
    script = "echo x >> tries; exec sleep 60"
    workspace.plan(
        make_job("slow", script, budget={"max_seconds": 1}),
        make_job("idle", script, budget={"stall_seconds": 1}),
        make_job("nan", f"echo nan; {script}", budget={"fail_on": ["nan"]}),
    )
    workspace.run(*workspace.snakemake_argv("--retries", "2", "--keep-going"))
    assert (workspace.root / "tries").read_text() == "x\n" * 3


def test_a_job_that_ignores_term_is_killed_after_the_grace_period(workspace, make_job):
    script = "trap '' TERM; while :; do sleep 0.1; done"
    workspace.plan(make_job("deaf", script, budget={"max_seconds": 0.3}))
    workspace.hloop_run("--grace-seconds", "1")
    assert workspace.jobs()["deaf"]["signal"] == "SIGKILL"


def test_a_silent_idle_job_is_stalled(workspace, make_job):
    workspace.plan(make_job("idle", "sleep 60", budget={"stall_seconds": 1}))
    workspace.hloop_run()
    assert statuses(workspace) == {"idle": "stalled"}


def test_a_job_that_writes_or_computes_is_not_stalled(workspace, make_job):
    writes = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.25; done"
    computes = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
    workspace.plan(
        make_job("writes", writes, budget={"stall_seconds": 1}),
        make_job("computes", computes, budget={"stall_seconds": 1}),
    )
    workspace.hloop_run()
    assert statuses(workspace) == {"writes": "completed", "computes": "completed"}


# Processes in the background that are hard to end: one ignores TERM, one is a daemon, one halts.

HARD = {
    "deaf": "(trap '' INT TERM HUP; while :; do sleep 0.1; done) &",
    "daemon": "setsid sh -c 'sleep 60 <&- >/dev/null 2>&1 &'",
    "halts": "sh -c 'kill -STOP $$; sleep 60' &",
}


def test_what_a_finished_job_left_running_is_stopped_before_its_outputs_are_read(
    workspace, make_job
):
    script = "\n".join(
        [*HARD.values(), "(while echo x >> run/o; do sleep 0.01; done) &", "sleep 1"]
    )
    workspace.plan(make_job("leaves", script, outputs=[{"role": "o", "path": "{run_dir}/o"}]))
    assert workspace.hloop_run("--grace-seconds", "1").returncode == 0
    job = workspace.root / "run/jobs/leaves"
    output = json.loads((job / "attempt_status.json").read_text())["outputs"][0]
    assert json.loads((job / "run_record.json").read_text())["stopped_leftovers"] is True
    assert output["sha256"] == hash_file(workspace.root / "run/o").sha256


# Signals

FRONTS = ("hloop", "snakemake")
SNAKEMAKE, SUPERVISOR = "--snakefile", "hloop.run.supervisor"


@pytest.fixture
def running(workspace, make_job, waiting):
    """Start a run with a job for each kind of process that is hard to end, and wait until all
    are under way."""

    def start(front: str, grace_seconds: int = 1) -> subprocess.Popen[str]:
        jobs = [make_job(name, f"{script}\nsleep 60") for name, script in HARD.items()]
        workspace.plan(*jobs, make_job("later", depends_on=["deaf"]))
        argv = workspace.hloop_argv("--grace-seconds", grace_seconds)
        if front == "snakemake":
            argv = workspace.snakemake_argv("--hloop-grace-seconds", grace_seconds)
        process = workspace.start(argv)
        journal = workspace.root / "run/journal.jsonl"
        waiting(
            lambda: journal.exists() and journal.read_text().count('"job_started"') == 3,
            "three jobs to start",
        )
        return process

    return start


def ending(workspace) -> tuple[str, dict[str, str]]:
    return workspace.report()["status"], statuses(workspace)


def locks(workspace) -> list[Path]:
    found = (workspace.root.glob(pattern) for pattern in (".snakemake/locks/*", "run/.lock"))
    return [path for paths in found for path in paths]


CANCELLED = "interrupted", {**dict.fromkeys(HARD, "cancelled"), "later": "skipped"}


def alone(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)


def group(process: subprocess.Popen[str], number: int) -> None:
    os.killpg(process.pid, number)


def thrice(process: subprocess.Popen[str], number: int) -> None:
    for _ in range(3):
        os.killpg(process.pid, number)
        time.sleep(0.2)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(
    ("number", "send"),
    [
        *((number, alone) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        *((number, group) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        (signal.SIGINT, thrice),
    ],
)
def test_a_signal_stops_every_job_and_the_report_says_so(workspace, running, front, number, send):
    process = running(front)
    send(process, number)
    assert workspace.finish(process).returncode == 1
    assert ending(workspace) == CANCELLED
    assert locks(workspace) == []


def test_without_a_grace_period_every_job_is_killed_at_once(workspace, running):
    process = running("hloop", grace_seconds=0)
    process.send_signal(signal.SIGTERM)
    workspace.finish(process)
    assert {workspace.jobs()[name]["signal"] for name in HARD} == {"SIGKILL"}


def test_a_snakemake_that_is_stopped_is_woken_up_to_stop_its_jobs(workspace, running):
    process = running("hloop")
    for pid in matching(workspace, SNAKEMAKE):
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    workspace.finish(process)
    assert ending(workspace) == CANCELLED


def test_a_run_under_nohup_goes_on_when_the_terminal_is_closed(workspace, make_job, waiting):
    started, go = workspace.root / "started", workspace.root / "go"
    workspace.plan(make_job("a", f"touch {started}; while ! [ -e {go} ]; do sleep 0.05; done"))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = workspace.start(workspace.hloop_argv())
    finally:
        signal.signal(signal.SIGHUP, before)
    waiting(started.exists, "the job to start")
    group(process, signal.SIGHUP)
    go.touch()
    assert workspace.finish(process).returncode == 0


def test_a_run_stops_in_order_where_nobody_reads_any_more_what_it_says(workspace, running):
    # As after Ctrl-C in `snakemake … | tee log`.
    process = running("snakemake")
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert (ending(workspace), locks(workspace)) == (CANCELLED, [])


# Deaths


def matching(workspace, *parts: str) -> list[int]:
    """The processes of this test whose command line holds one of ``parts``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            mine = workspace.marker.encode() in (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if mine and any(part in command for part in parts):
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("front", "killed"),
    [
        ("hloop", ["hloop run"]),
        *((front, [SNAKEMAKE]) for front in FRONTS),
        *((front, [SNAKEMAKE, SUPERVISOR]) for front in FRONTS),
    ],
)
def test_whoever_is_killed_no_job_lives_on_or_counts_as_done(
    workspace, running, waiting, front, killed
):
    process = running(front)
    for pid in matching(workspace, *killed):
        os.kill(pid, signal.SIGKILL)
    assert workspace.finish(process).returncode != 0
    if (front, killed) == ("snakemake", [SNAKEMAKE, SUPERVISOR]):
        workspace.run("hloop", "recover", "run")
    waiting((workspace.root / "run/hloop_run.json").exists, "the report")
    assert ending(workspace) == CANCELLED


def test_a_supervisor_that_is_stopped_is_woken_up_when_snakemake_is_killed(workspace, running):
    process = running("hloop")
    for number, part in ((signal.SIGSTOP, SUPERVISOR), (signal.SIGKILL, SNAKEMAKE)):
        for pid in matching(workspace, part):
            os.kill(pid, number)
    workspace.finish(process)
    assert ending(workspace) == CANCELLED


@pytest.mark.parametrize("front", FRONTS)
def test_the_jobs_die_with_their_supervisor_and_have_failed(workspace, running, front):
    process = running(front)
    for pid in matching(workspace, SUPERVISOR):
        os.kill(pid, signal.SIGKILL)
    assert workspace.finish(process).returncode == 1
    assert workspace.jobs()["daemon"]["failure"]["reason"] == "supervisor_died"
    assert ending(workspace) == (
        "failed",
        {**dict.fromkeys(HARD, "failed"), "later": "skipped"},
    )


def test_a_missing_external_input_is_named_before_the_run(workspace, make_job):
    absent = {"role": "i", "path": "{repo_root}/absent", "sha256": "0" * 64}
    workspace.plan(make_job("one", inputs=[absent]))
    result = workspace.hloop_run()
    assert result.returncode == 2
    assert "absent does not exist" in result.stdout
    assert not (workspace.root / "run").exists()


def test_a_plan_that_is_not_right_runs_nothing(workspace, make_job):
    workspace.plan(make_job("a", depends_on=["b"]), make_job("b", depends_on=["a"]))
    result = workspace.hloop_run()
    assert result.returncode == 2
    assert "a -> b -> a" in result.stdout
    assert not (workspace.root / "run").exists()


def test_odd_job_ids_and_file_names_work(workspace, make_job):
    path = "{run_dir}/a b/ü 'x' #1%.txt"
    workspace.plan(
        make_job("with-dash.and.dot", **{"command": ["touch", path]},
                 outputs=[{"role": "o", "path": path}]),
        make_job("2nd", depends_on=["with-dash.and.dot"],
                 inputs=[{"role": "o", "path": path}]),
    )  # fmt: skip
    result = workspace.hloop_run()
    assert result.returncode == 0, result.stdout
    assert (workspace.root / "run/a b/ü 'x' #1%.txt").exists()


def test_a_run_whose_report_cannot_be_written_has_not_succeeded(workspace, make_job):
    workspace.plan(make_job("a", "rm run/journal.jsonl"))
    result = workspace.run(*workspace.snakemake_argv())
    assert "the run report cannot be written" in result.stdout
    assert result.returncode == 1


def test_a_record_that_the_job_itself_has_put_there_is_named(workspace, make_job):
    workspace.plan(make_job("a", "touch run/jobs/a/attempt_status.json"))
    workspace.hloop_run()
    assert workspace.jobs()["a"]["failure"]["message"] == (
        "its record cannot be written: ${RUN_DIR}/jobs/a/attempt_status.json: File exists"
    )


@pytest.fixture
def full_disk(workspace, make_job):
    """Run forty jobs where no file can grow beyond 16 KiB, as if the disk were full."""

    def run(argv: list[object]) -> subprocess.CompletedProcess[str]:
        workspace.plan(*(make_job(f"job_{index}") for index in range(40)))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, hard))
        try:
            process = workspace.start(argv)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return workspace.finish(process)

    return run


def test_on_a_full_disk_snakemake_fails_and_says_why(workspace, full_disk):
    result = full_disk(workspace.snakemake_argv())
    assert result.returncode == 1
    assert "the supervisor died: OSError: [Errno 27] File too large" in result.stdout
    assert "the run report cannot be written" in result.stdout


def test_on_a_full_disk_hloop_run_could_not_answer(workspace, full_disk):
    result = full_disk(workspace.hloop_argv())
    assert result.returncode == 2
    assert "left no report" in result.stdout and "a bug in hloop" not in result.stdout
