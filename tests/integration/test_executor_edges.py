"""What happens at the edges of the executor: bad messages, deaths, retries, caches, signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hloop.run.page import SWITCH

DEVICES = ("--hloop-devices", "simulated:2")


def supervisor_of(workspace) -> int | None:
    """The pid of the supervisor that this test's Snakemake started."""
    for entry in Path("/proc").iterdir():
        try:
            mine = workspace.marker.encode() in (entry / "environ").read_bytes()
            if mine and b"hloop.run.supervisor" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return None


# Errors that are Snakemake's


@pytest.mark.parametrize("line", ["message: '{params.nothing}'", "group: 'g'"])
def test_a_text_that_cannot_be_formatted_ends_the_run_with_its_error(workspace, line):
    workspace.write(
        "Snakefile",
        f"rule one:\n    output: 'o'\n    {line}\n    benchmark: 'b'\n"
        "    shell: 'touch {output} {params.nothing}'\n",
    )
    result = workspace.snakemake()
    assert result.returncode == 1
    assert "'Params' object has no attribute 'nothing'" in result.stdout


def test_an_output_that_no_rule_makes_fails_its_job_alone(workspace):
    workspace.write(
        "Snakefile",
        "rule all:\n    input: 'made', 'not_made'\n"
        "rule bodiless:\n    output: 'not_made'\n"
        "rule one:\n    output: 'made'\n    shell: 'sleep 0.5; touch {output}'\n",
    )
    result = workspace.snakemake("--latency-wait", "0")
    assert result.returncode == 1
    assert "the supervisor failed" not in result.stdout
    assert (workspace.root / "made").exists()


# Retries

MISSES_ONCE = """
rule all:
    input: "flaky", "other"

rule flaky:
    output: "flaky"
    retries: 2
    shell: "echo x >> tries; [ $(wc -l < tries) -lt 2 ] || touch {output}"

rule other:
    output: "other"
    shell: "sleep 1; touch {output}"
"""


@pytest.mark.parametrize("options", [(), ("--keep-going",)])
def test_a_job_that_forgets_its_output_once_is_tried_again(workspace, options):
    workspace.write("Snakefile", MISSES_ONCE)
    result = workspace.snakemake("--latency-wait", "0", *options)
    assert result.returncode == 0, result.stdout


FAILS_ALWAYS = """
rule all:
    input: "bad", "good"

rule bad:
    output: "bad"
    retries: 2
    shell: "echo x >> tries; false"

rule good:
    output: "good"
    shell: "sleep 0.5; touch {output}"
"""


def test_with_keep_going_the_rest_runs_on_beside_a_job_that_is_retried(workspace):
    workspace.write("Snakefile", FAILS_ALWAYS)
    assert workspace.snakemake("--keep-going").returncode == 1
    assert (workspace.root / "tries").read_text() == "x\n" * 3
    assert (workspace.root / "good").exists()


def test_an_interrupted_job_is_not_started_again(workspace, waiting):
    workspace.write(
        "Snakefile",
        "rule one:\n    output: 'o'\n    retries: 5\n"
        "    shell: 'echo x >> tries; sleep 60; touch {output}'\n",
    )
    argv = ("snakemake", "--executor", "hloop", "--cores", "1", "--scheduler", "greedy")
    process = workspace.start(argv)
    waiting((workspace.root / "tries").exists, "the job to start")
    process.send_signal(signal.SIGINT)
    assert workspace.finish(process).returncode == 1
    assert (workspace.root / "tries").read_text() == "x\n"


# The supervisor's death


def test_jobs_after_the_death_of_the_supervisor_fail_and_nothing_hangs(workspace, waiting):
    workspace.write(
        "Snakefile",
        "rule all:\n    input: 'first', 'second'\n"
        "rule one:\n    output: '{name}'\n    threads: 1\n"
        "    shell: 'touch started_{wildcards.name}; sleep 60; touch {output}'\n",
    )
    options = ("--cores", "1", "--scheduler", "greedy", "--keep-going")
    process = workspace.start(("snakemake", "--executor", "hloop", *options))
    waiting(lambda: list(workspace.root.glob("started_*")), "a job to start")
    os.kill(supervisor_of(workspace), signal.SIGKILL)
    result = workspace.finish(process)
    assert result.returncode == 1
    assert result.stdout.count("failed: the supervisor died") == 2


# Signals

WAITS_FOR_GO = """
rule one:
    output: "o"
    shell: "touch started; while ! [ -e go ]; do sleep 0.05; done; touch {output}"
"""


def start_and_wait(workspace, waiting):
    """Start this folder's Snakefile, of which a job waits for a file ``go``."""
    argv = ("snakemake", "--executor", "hloop", "--cores", "1", "--scheduler", "greedy")
    process = workspace.start(argv)
    waiting((workspace.root / "started").exists, "the job to start")
    return process


def test_a_signal_that_is_ignored_stays_ignored(workspace, waiting):
    # As under nohup.
    workspace.write(
        "Snakefile",
        "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + WAITS_FOR_GO,
    )
    process = start_and_wait(workspace, waiting)
    process.send_signal(signal.SIGHUP)
    workspace.write("go", "")
    result = workspace.finish(process)
    assert result.returncode == 0, result.stdout


SIGNALLED_AT_THE_START = """
import os, signal
from hloop.run.settings import RunSettings

resolve = RunSettings.resolve

def signalled(*args):
    os.kill(os.getpid(), signal.{name})
    return resolve(*args)

RunSettings.resolve = signalled

rule one:
    output: "o"
    shell: "touch {{output}}"
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_before_there_is_a_supervisor_ends_snakemake_in_order(workspace, name):
    workspace.write("Snakefile", SIGNALLED_AT_THE_START.format(name=name))
    assert workspace.snakemake().returncode == 1
    left = [*workspace.root.glob("o"), *workspace.root.glob(".snakemake/locks/*")]
    assert left == []


def test_a_run_goes_on_where_nobody_reads_any_more_what_it_says(workspace, waiting):
    workspace.write(
        "Snakefile",
        "rule two:\n    input: 'o'\n    output: 'p'\n    shell: 'touch {output}'\n" + WAITS_FOR_GO,
    )
    process = start_and_wait(workspace, waiting)
    process.stdout.close()
    workspace.write("go", "")
    assert process.wait(60) == 0


def test_jobs_that_an_error_in_snakemake_stops_say_so(workspace):
    workspace.write(
        "Snakefile",
        "rule all:\n    input: 'long', 'bad'\n"
        "rule long:\n    output: 'long'\n    shell: 'sleep 60'\n"
        "rule quick:\n    output: 'quick'\n    shell: 'touch {output}'\n"
        "rule bad:\n    input: 'quick'\n    output: 'bad'\n"
        "    message: '{params.nothing}'\n    shell: 'touch {output}'\n",
    )
    result = workspace.snakemake()
    assert (
        "the run was stopped: an error in Snakemake, of which its own log tells" in result.stdout
    )


# What hloop does not do


@pytest.mark.parametrize(
    ("option", "body"),
    [
        ("--debug", "run:\n        breakpoint()"),
        ("--edit-notebook", "notebook: 'n.ipynb'"),
        ("--draft-notebook", "notebook: 'n.ipynb'"),
    ],
)
def test_what_needs_a_terminal_or_an_editor_is_refused(workspace, option, body):
    workspace.write(
        "Snakefile", f"rule one:\n    output: 'o'\n    log: notebook='n.ipynb'\n    {body}\n"
    )
    result = workspace.run("snakemake", "--executor", "hloop", "--cores", "1", option, "o")
    assert result.returncode == 1
    assert "Use --executor local for this" in result.stdout


# Snakemake's cache of outputs

CACHED = {
    "shell": "    shell: 'echo x >> tries; echo made > {output}'\n",
    "run": (
        "    run:\n"
        "        with open('tries', 'a') as tries, open(output[0], 'w') as made:\n"
        "            tries.write('x\\n')\n"
        "            made.write('made\\n')\n"
    ),
}


@pytest.mark.parametrize("asked", [(), ("one",)], ids=["all rules", "by name"])
@pytest.mark.parametrize("kind", CACHED)
def test_outputs_come_from_the_cache_the_second_time(workspace, kind, asked):
    (workspace.root / "cache").mkdir()
    workspace.write(
        "Snakefile", f"rule one:\n    output: 'folder/o'\n    cache: True\n{CACHED[kind]}"
    )
    cache = {"SNAKEMAKE_OUTPUT_CACHE": str(workspace.root / "cache")}
    for _ in range(2):
        result = workspace.snakemake("--forceall", "--cache", *asked, env=cache)
        assert result.returncode == 0, result.stdout
    assert (workspace.root / "folder/o").read_text() == "made\n"
    assert (workspace.root / "tries").read_text() == "x\n"


def test_a_cache_that_cannot_be_written_fails_the_job(workspace):
    workspace.write("Snakefile", f"rule one:\n    output: 'o'\n    cache: True\n{CACHED['shell']}")
    cache = {"SNAKEMAKE_OUTPUT_CACHE": str(workspace.root / "absent")}
    result = workspace.snakemake("--cache", env=cache)
    assert result.returncode == 1
    assert "its outputs cannot be cached" in result.stdout


# As the built-in executor does it

ENVIRONMENT = """
import os
os.environ["FROM_SNAKEFILE"] = "seen"

rule one:
    output: "o"
    threads: 2
    resources: tmpdir="temporary"
    shell: "env -0 | sort -z > {output}"
"""


def environment_under(workspace, executor: str) -> dict[str, str]:
    result = workspace.snakemake("--forceall", executor=executor)
    assert result.returncode == 0, result.stdout
    entries = (workspace.root / "o").read_text().rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


def test_a_shell_command_has_the_environment_that_it_has_with_the_local_executor(workspace):
    workspace.write("Snakefile", ENVIRONMENT)
    ours, theirs = (environment_under(workspace, name) for name in ("hloop", "local"))
    ours.pop("HLOOP_ATTEMPT")
    # hloop's own switch, which the tests set, is not for jobs.
    theirs.pop(SWITCH)
    assert ours == theirs
