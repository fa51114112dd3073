"""Starting jobs, finding what they started, and that they die with whoever started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hloop.run import processes
from supervised import is_alive, wait_for

# Writes down what a process sees of itself.
LOOK = """
import json, os, resource, sys
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # The one that the list was read through.
        pass
path, *argv = sys.argv[1:]
with open(path, "w") as file:
    json.dump({"argv": argv, "cwd": os.getcwd(), "session": os.getsid(0), "pid": os.getpid(),
               "stdin": os.readlink("/proc/self/fd/0"), "fds": fds, "umask": os.umask(0),
               "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}, file)
"""

# Starts its arguments as a job, and nothing that it inherited is in the way.
STARTER = """
import os, resource, sys
from hloop.run.processes import Lifeline, spawn
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_NOFILE, (99, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
pid = spawn(sys.argv[2:], cwd=sys.argv[1], environment=os.environ, lifeline=Lifeline())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture
def home() -> Iterator[None]:
    """Go back to where the test began: a start changes the folder."""
    before = os.getcwd()
    yield
    os.chdir(before)


@pytest.fixture(scope="session")
def lifeline() -> processes.Lifeline:
    return processes.Lifeline()


def start(argv: Sequence[str], lifeline: processes.Lifeline, cwd: Path, **environment: str) -> int:
    """Start a process and wait for it. Gives its wait status."""
    pid = processes.spawn(
        argv, cwd=str(cwd), environment={**os.environ, **environment}, lifeline=lifeline
    )
    return os.waitpid(pid, 0)[1]


@pytest.fixture
def seen(tmp_path: Path) -> dict[str, Any]:
    """What a job sees of itself, given awkward arguments."""
    script, out = tmp_path / "look.py", tmp_path / "seen.json"
    script.write_text(LOOK)
    argv = [sys.executable, str(script), str(out), "a b", "$HOME", "*", "", "é"]
    starter = [sys.executable, "-c", STARTER, str(tmp_path), *argv]
    subprocess.run(starter, input=b"not for the job", check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_arguments_arrive_as_they_are(seen: dict[str, Any]) -> None:
    assert seen["argv"] == ["a b", "$HOME", "*", "", "é"]


def test_a_job_runs_in_its_folder(seen: dict[str, Any], tmp_path: Path) -> None:
    assert seen["cwd"] == str(tmp_path)


def test_a_job_leads_a_session_of_its_own(seen: dict[str, Any]) -> None:
    assert seen["session"] == seen["pid"]


def test_umask_and_limits_are_inherited(seen: dict[str, Any]) -> None:
    assert (seen["umask"], seen["limit"]) == (0o027, 99)


def test_standard_input_is_empty(seen: dict[str, Any]) -> None:
    assert seen["stdin"] == "/dev/null"


def test_a_broken_pipe_ends_a_job_as_in_a_shell(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    script = f"(yes; echo $? > {tmp_path}/code) | head -1 > /dev/null"
    start(["sh", "-c", script], lifeline, tmp_path)
    assert (tmp_path / "code").read_text() == f"{128 + signal.SIGPIPE}\n"


def test_only_the_standard_descriptors_and_the_lifeline_are_open(seen: dict[str, Any]) -> None:
    others = [target for fd, target in seen["fds"].items() if int(fd) > 2]
    assert len(others) == 1 and others[0].startswith("pipe:")


def test_output_goes_to_the_given_descriptors(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        pid = processes.spawn(
            ["sh", "-c", "echo to out; echo to err >&2"],
            cwd=str(tmp_path),
            environment=os.environ,
            lifeline=lifeline,
            stdout=out.fileno(),
            stderr=err.fileno(),
        )
        os.waitpid(pid, 0)
    texts = [(tmp_path / name).read_text() for name in ("out", "err")]
    assert texts == ["to out\n", "to err\n"]


def test_the_environment_is_the_given_one_and_no_other(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    argv = ["/bin/sh", "-c", "/usr/bin/env > seen"]
    pid = processes.spawn(argv, cwd=str(tmp_path), environment={"ONE": "1"}, lifeline=lifeline)
    os.waitpid(pid, 0)
    names = {line.split("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"ONE"}


# Which program


def program(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\nexit 5\n")
    path.chmod(0o755)
    return path


def test_a_bare_name_is_looked_up_in_the_jobs_own_path(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    folder = program(tmp_path / "bin").parent
    status = start(["tool"], lifeline, tmp_path, PATH=str(folder))
    assert os.waitstatus_to_exitcode(status) == 5


def test_a_relative_program_is_relative_to_the_jobs_folder(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    program(tmp_path)
    status = start(["./tool"], lifeline, tmp_path)
    assert os.waitstatus_to_exitcode(status) == 5


def test_a_program_in_the_folder_is_not_found_by_its_bare_name(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    program(tmp_path)
    with pytest.raises(FileNotFoundError):
        start(["tool"], lifeline, tmp_path)


def test_a_missing_program_is_named(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        start(["no-such-program"], lifeline, tmp_path)
    assert caught.value.filename == "no-such-program"


def test_a_missing_folder_is_named(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        start(["true"], lifeline, tmp_path / "nowhere")
    assert caught.value.filename == str(tmp_path / "nowhere")


def test_a_program_that_is_not_executable_is_refused(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    path = program(tmp_path)
    path.chmod(0o644)
    with pytest.raises(PermissionError):
        start([str(path)], lifeline, tmp_path)


def test_a_failed_start_leaves_no_descriptor(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        start(["/no/such/program"], lifeline, tmp_path)
    assert os.listdir("/proc/self/fd") == before


# Who belongs to whom


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """A process, its child and its grandchild."""
    script = "sh -c 'sleep 60 & echo $! > {0}; wait' & echo $! > {1}; wait"
    paths = [tmp_path / name for name in ("grandchild", "child")]
    process = subprocess.Popen(
        ["sh", "-c", script.format(*paths)],
        env={**os.environ, processes.ATTEMPT_VARIABLE: "token-1"},
        start_new_session=True,
    )
    pids = [
        int(wait_for(lambda path=path: path.exists() and path.read_text().strip(), "the tree"))
        for path in paths
    ]
    yield process.pid, pids[1], pids[0]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_children_are_the_direct_ones(tree: tuple[int, int, int]) -> None:
    assert processes.children(tree[0]) == [tree[1]]


def test_a_process_that_is_gone_has_no_children() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert processes.children(process.pid) == []


def test_descendants_come_parents_first(tree: tuple[int, int, int]) -> None:
    assert processes.with_descendants([tree[0]]) == list(tree)


def test_a_process_is_counted_once(tree: tuple[int, int, int]) -> None:
    assert processes.with_descendants([tree[1], tree[0], tree[1]]) == [tree[1], tree[0], tree[2]]


def test_an_attempt_is_read_from_the_environment_of_any_descendant(
    tree: tuple[int, int, int],
) -> None:
    assert processes.attempt_of(tree[2]) == "token-1"


def test_a_process_of_no_attempt_has_none() -> None:
    process = subprocess.Popen(["sleep", "60"], env={"OTHER": "1"})
    try:
        assert processes.attempt_of(process.pid) is None
    finally:
        process.kill()
        process.wait()


def test_a_process_that_is_gone_is_of_no_attempt_and_no_session() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    found = processes.attempt_of(process.pid), processes.session_of(process.pid)
    assert found == (None, None)


@pytest.mark.parametrize("name", ["worker", "a) b (c"])
def test_cpu_time_grows_with_work(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sh")
    process = subprocess.Popen([str(program), "-c", "while :; do :; done"])
    try:
        wait_for(lambda: processes.usage([process.pid])[0] > 5, "CPU time")
    finally:
        process.kill()
        process.wait()


def test_a_signal_wakes_a_stopped_process() -> None:
    process = subprocess.Popen(["sleep", "60"])
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    processes.send([process.pid], signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_a_signal_to_a_process_that_is_gone_is_lost() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    processes.send([process.pid], signal.SIGTERM)


# The end of whoever started them

SPAWNER = """
import os, sys
from hloop.run import processes
line = processes.Lifeline()
for script in sys.argv[1:]:
    print(processes.spawn(["sh", "-c", script], cwd="/", environment=os.environ, lifeline=line))
sys.stdout.flush()
sys.stdin.read()
"""

CHILD = "trap '' TERM HUP INT; sleep 60 & echo $! > {}; while :; do sleep 0.1; done"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_jobs_die_with_their_starter_whatever_it_dies_of(tmp_path: Path, number: int) -> None:
    scripts = [CHILD.format(tmp_path / name) for name in ("one", "two")]
    starter = subprocess.Popen(
        [sys.executable, "-c", SPAWNER, *scripts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdin and starter.stdout
    with starter.stdin, starter.stdout:
        pids = [int(starter.stdout.readline()) for _ in scripts]
        for name in ("one", "two"):
            path = tmp_path / name
            text = wait_for(lambda path=path: path.exists() and path.read_text(), "its child")
            pids.append(int(text))
        starter.send_signal(number)
        starter.wait(60)
    wait_for(lambda: not any(map(is_alive, pids)), "the jobs and their children to end")


def test_jobs_live_on_when_another_job_ends(
    tmp_path: Path, lifeline: processes.Lifeline, home: None
) -> None:
    pid = processes.spawn(
        ["sleep", "60"], cwd=str(tmp_path), environment=os.environ, lifeline=lifeline
    )
    start(["true"], lifeline, tmp_path)
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_child_that_was_told_to_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from hloop.run.processes import die_with_parent\n"
        "me = os.getpid()\n"
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=lambda: die_with_parent(me))\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin and parent.stdout
    with parent.stdin, parent.stdout:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    wait_for(lambda: not is_alive(child), "the child to end")


def test_orphans_come_to_a_subreaper_and_can_be_ended(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, time\n"
        "from hloop.run import processes\n"
        "processes.become_subreaper()\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 60 &'], check=True)\n"
        "while not processes.children(os.getpid()): time.sleep(0.01)\n"
        "print(*processes.children(os.getpid()))\n"
        "processes.end_orphans()\n"
        "print(processes.children(os.getpid()))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    orphan, left = result.stdout.splitlines()
    assert (is_alive(int(orphan)), left) == (False, "[]")
