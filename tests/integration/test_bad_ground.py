"""A whole run where something is wrong with the machine: it ends, and says the truth."""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def broken(workspace, make_job):
    """Run two jobs where Python code has broken one of the run's processes, and give how it
    ended.

    ``part`` stands in the command line of the process that is broken.
    """

    def run(part: str, code: str) -> subprocess.CompletedProcess[str]:
        workspace.plan(make_job("a"), make_job("b", "sleep 60"))
        # Python imports it at its start, wherever it is found first.
        lines = f"import sys\nif any({part!r} in word for word in sys.orig_argv):\n"
        lines += "".join(f"    {line}\n" for line in code.splitlines())
        workspace.write("broken/sitecustomize.py", lines)
        environment = {"PYTHONPATH": str(workspace.root / "broken")}
        return workspace.run(*workspace.hloop_argv(), env=environment)

    return run


def test_an_error_in_the_supervisor_fails_the_run(workspace, broken):
    result = broken(
        "hloop.run.supervisor",
        "from hloop.run import planrun\n"
        "def bug(*_args): raise ZeroDivisionError('a bug')\n"
        "planrun.PlanRun.gone = bug",
    )
    assert result.returncode == 1
    failure = workspace.jobs()["b"]["failure"]
    assert failure["reason"] == "supervisor_died"
    assert "ZeroDivisionError: a bug" in failure["message"]


def test_an_error_in_the_thread_that_listens_fails_the_run(workspace, broken):
    result = broken(
        "snakemake",
        "from hloop.run import client\n"
        "def bug(*_args): raise ZeroDivisionError('a bug')\n"
        "client.SupervisorClient._receive = bug",
    )
    assert result.returncode == 1
    assert workspace.report()["status"] in ("failed", "interrupted")
    assert workspace.jobs()["b"]["status"] != "completed"


@pytest.mark.parametrize("where", ["bug", "lambda self: setattr(self, '_on_death', bug)"])
def test_an_error_while_all_jobs_are_given_back_ends_snakemake(workspace, broken, where):
    result = broken(
        "snakemake",
        "from hloop.run import client\n"
        "def bug(*_args): raise ZeroDivisionError('a bug')\n"
        "client.SupervisorClient._receive = bug\n"
        f"client.SupervisorClient._end_leftovers = {where}",
    )
    assert result.returncode == 1
    assert workspace.jobs()["b"]["status"] == "cancelled"


def test_a_supervisor_that_cannot_be_started_is_told(workspace, broken):
    result = broken(
        "snakemake",
        "import errno, os\n"
        "from hloop.run import client\n"
        "def refuse(*_args, **_fields):\n"
        "    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))\n"
        "client.subprocess = type(sys)('subprocess')\n"
        "client.subprocess.Popen, client.subprocess.DEVNULL = refuse, None",
    )
    assert result.returncode == 2
    assert "the supervisor cannot be started: [Errno 11] Resource temp" in result.stdout


def test_a_pandas_that_is_broken_is_told_by_whoever_needs_it(workspace, make_job):
    workspace.plan(make_job("a"))
    workspace.write("broken/pandas.py", "raise ImportError('half an installation')")
    environment = {"PYTHONPATH": str(workspace.root / "broken")}
    result = workspace.run(*workspace.snakemake_argv(), env=environment)
    assert result.returncode == 1
    assert "ImportError: half an installation" in result.stdout
    assert "Exception in thread" not in result.stdout


def test_a_run_whose_metadata_nobody_keeps_imports_no_pandas(workspace, make_job):
    workspace.plan(make_job("a"))
    imported = workspace.root / "imported"
    workspace.write("noting/pandas.py", f"open({str(imported)!r}, 'w').close()")
    environment = {"PYTHONPATH": str(workspace.root / "noting")}
    assert workspace.run(*workspace.hloop_argv(), env=environment).returncode == 0
    assert not imported.exists()


def test_a_snakemake_that_cannot_be_imported_is_told(workspace, make_job):
    workspace.plan(make_job("a"))
    workspace.write("broken/snakemake.py", "raise ImportError('half an installation')")
    result = workspace.run(
        *workspace.hloop_argv(), env={"PYTHONPATH": str(workspace.root / "broken")}
    )
    assert result.returncode == 2
    assert "ImportError: half an installation" in result.stdout
    assert not (workspace.root / "run").exists()


def test_a_disk_without_room_for_a_temporary_file_is_told(workspace, make_job):
    workspace.plan(make_job("a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        process = workspace.start(workspace.hloop_argv())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    result = workspace.finish(process)
    assert result.returncode == 2
    assert result.stdout == (
        "hloop: File too large. hloop doctor looks at disks, limits and the installation\n"
    )


# A disk of 1 MiB. Where nobody but the machine's owner may mount one, a limit of that size on each
# file stands in for it.
MOUNT = "mount -t tmpfs -o size=1m small small"
MAY_MOUNT = not subprocess.call(
    ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=1m small /mnt"],
    stderr=subprocess.DEVNULL,
)
BEFORE, SAYS = (
    (["unshare", "-rm"], "No space left on device")
    if MAY_MOUNT
    else (["prlimit", f"--fsize={1 << 20}"], "SIGXFSZ")
)


def on_a_full_disk(workspace, make_job, filling: str) -> subprocess.CompletedProcess[str]:
    """Run two jobs, of which the first fills the disk that the run directory is on. Then make
    room, recover the run and resume it."""
    workspace.plan(
        make_job("full", f"[ -e go ] || exec {filling}", outputs=[]),
        make_job("other", depends_on=["full"]),
    )
    (workspace.root / "small").mkdir()
    hloop = f"{sys.executable} -m hloop"
    script = f"""
        {MOUNT if MAY_MOUNT else "true"}
        {hloop} run --plan plan.json --run-dir small/run --devices simulated:1; echo first: $?
        rm -f small/filler; : > small/run/jobs/full/stdout.log; touch go
        {hloop} recover small/run; echo recover: $?
        {hloop} run --resume small/run; echo resume: $?
        {hloop} verify small/run; echo verify: $?
    """
    return subprocess.run(
        [*BEFORE, "sh", "-c", script],
        cwd=workspace.root,
        env=workspace.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "filling", ["head -c 2000000 /dev/zero", "dd if=/dev/zero of=small/filler count=4000"]
)
def test_a_run_on_a_full_disk_fails_and_goes_on_when_there_is_room(workspace, make_job, filling):
    done = on_a_full_disk(workspace, make_job, filling)
    lines = done.stdout.splitlines()
    assert {"first: 1", "first: 2"} & set(lines), done.stdout
    assert {"recover: 0", "resume: 0", "verify: 0"} <= set(lines), done.stdout
    assert SAYS in done.stdout and "Traceback" not in done.stdout


def test_a_tmpdir_that_is_not_there_is_not_needed(workspace, make_job):
    workspace.plan(make_job("a"))
    argv = workspace.hloop_argv()
    result = workspace.run(*argv, env={"TMPDIR": str(workspace.root / "gone")})
    assert result.returncode == 0, result.stdout


def redirected(workspace, to: str) -> subprocess.CompletedProcess[str]:
    """Run ``plan.json`` by a shell that redirects what ``hloop run`` prints."""
    command = shlex.join([sys.executable, "-m", *map(str, workspace.hloop_argv())])
    return subprocess.run(
        ["sh", "-c", f"exec {command} {to}"],
        cwd=workspace.root,
        env=workspace.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_a_run_whose_output_is_closed_is_a_run(workspace, make_job):
    workspace.plan(make_job("a", "echo said"))
    assert redirected(workspace, ">&- 2>&- <&-").returncode == 0
    assert workspace.report()["status"] == "completed"
    assert Path(workspace.root, "run/jobs/a/stdout.log").read_text() == "said\n"


def test_a_run_that_cannot_say_how_it_ended_gives_no_answer(workspace, make_job):
    workspace.plan(make_job("a"))
    result = redirected(workspace, ">/dev/full")
    assert (result.returncode, workspace.report()["status"]) == (2, "completed")
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr


def test_a_run_directory_that_a_job_removes_is_missed(workspace, make_job):
    workspace.plan(make_job("a", "rm -r run"))
    result = workspace.hloop_run()
    assert result.returncode == 2
    assert "the run report cannot be written" in result.stdout
