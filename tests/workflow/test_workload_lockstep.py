"""Lockstep, with a simulator in which one misrouted answer changes all that follows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_simulator
import numpy as np
import pytest
from fake_simulator import Fake, Nonsense
from humanoid import lockstep
from humanoid.batched import answerer
from humanoid.lockstep import Request, WorkerError, run_lockstep, run_one_by_one

SEEDS = [5, 3, 8, 13, 2, 21, 1]


def without_pid(rows):
    return [{name: value for name, value in row.items() if name != "pid"} for row in rows]


@pytest.fixture(scope="module")
def one_by_one():
    return without_pid(run_one_by_one(SEEDS, Fake()(), fake_simulator.answer))


@pytest.fixture(scope="module")
def three_workers():
    return run_lockstep(SEEDS, 3, Fake(), fake_simulator.answer)


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_the_rows_are_those_of_one_episode_after_another(one_by_one, workers):
    outcome = run_lockstep(SEEDS, workers, Fake(), fake_simulator.answer)
    assert without_pid(outcome.rows) == one_by_one


def test_one_misrouted_answer_changes_all_that_follows(one_by_one):
    swapped = []

    def answer(requests):
        actions = fake_simulator.answer(requests)
        if len(requests) == 3 and not swapped:
            swapped.append(True)
            actions[0], actions[1] = actions[1], actions[0]
        return actions

    rows = without_pid(run_lockstep(SEEDS, 3, Fake(), answer).rows)
    assert [row == same for row, same in zip(rows, one_by_one, strict=True)][:2] == [False, False]


def test_worker_w_gets_every_nth_seed_from_w(three_workers):
    seen = [list(dict.fromkeys(s for b in three_workers.trace for w, s, _ in b if w == worker))
            for worker in range(3)]  # fmt: skip
    assert seen == [SEEDS[0::3], SEEDS[1::3], SEEDS[2::3]]


def test_each_worker_is_a_process_of_its_own(three_workers):
    pids = {row["pid"] for row in three_workers.rows}
    assert len(pids) == 3 and os.getpid() not in pids


def test_each_round_has_one_request_per_active_worker_in_worker_order(three_workers):
    rounds = [[worker for worker, _, _ in batch] for batch in three_workers.trace]
    assert all(found == sorted(set(found)) for found in rounds)


def test_a_worker_that_is_done_leaves_for_good(three_workers):
    members = [{worker for worker, _, _ in batch} for batch in three_workers.trace]
    assert members[0] == {0, 1, 2} and len(members[-1]) < 3
    assert all(later <= earlier for earlier, later in zip(members, members[1:], strict=False))


def test_every_step_of_every_episode_is_in_the_trace_once(three_workers):
    steps = sorted((seed, step) for batch in three_workers.trace for _, seed, step in batch)
    expected = sorted((row["seed"], n) for row in three_workers.rows for n in range(row["steps"]))
    assert steps == expected


def test_no_delay_of_a_worker_changes_a_batch(three_workers):
    late = run_lockstep(SEEDS, 3, Fake("late"), fake_simulator.answer)
    assert late.trace == three_workers.trace


def test_a_worker_that_raises_ends_the_run_with_its_traceback():
    with pytest.raises(WorkerError, match="(?s)worker 1 raised:.*_trouble.*the floor gave way"):
        run_lockstep(SEEDS, 3, Fake("raise"), fake_simulator.answer)


def test_a_worker_killed_in_mid_round_ends_the_run():
    with pytest.raises(WorkerError, match="worker 1 ended before it was done, with -9"):
        run_lockstep(SEEDS, 3, Fake("die"), fake_simulator.answer)


def test_a_worker_that_hangs_is_not_waited_for_when_another_raises():
    with pytest.raises(WorkerError, match="worker 0 raised"):
        run_lockstep(SEEDS, 3, Fake("hang"), fake_simulator.answer)


def test_an_unknown_message_ends_the_run():
    with pytest.raises(WorkerError, match=r"worker 0 sent what is no message: \('dance', 5\)"):
        run_lockstep(SEEDS, 3, Nonsense(), fake_simulator.answer)


def test_a_policy_that_raises_ends_the_run_and_leaves_no_worker():
    def answer(requests):
        raise ArithmeticError("no action")

    with pytest.raises(ArithmeticError):
        run_lockstep(SEEDS, 3, Fake(), answer)


def test_too_few_actions_are_refused():
    with pytest.raises(ValueError, match="zip"):
        run_lockstep(SEEDS, 3, Fake(), lambda requests: fake_simulator.answer(requests)[1:])


# The whole run, ended from outside while its worker is in the midst of a step.

PARENT = """
import sys
sys.path += sys.argv[1:]
from fake_simulator import Fake, answer
from humanoid.lockstep import run_lockstep
from humanoid.programs import run
run(lambda: run_lockstep([3], 1, Fake("hang"), answer))
"""


@pytest.fixture
def under_way():
    folders = [Path(fake_simulator.__file__).parent, Path(lockstep.__file__).parents[1]]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *map(str, folders)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        yield process, int(process.stdout.readline())


def is_gone(pid):
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}/exe").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_no_worker(under_way, number):
    process, worker = under_way
    process.send_signal(number)
    assert (process.wait(), is_gone(worker)) == (-number, True)


def test_ctrl_c_ends_a_run_and_its_workers_in_one_line(under_way):
    process, worker = under_way
    os.killpg(process.pid, signal.SIGINT)
    assert (process.communicate()[1], process.returncode) == ("-c: interrupted\n", 130)
    assert is_gone(worker)


def test_ctrl_c_is_none_of_a_workers_business(one_by_one):
    rows = run_lockstep(SEEDS, 3, Fake("ctrl-c"), fake_simulator.answer).rows
    assert without_pid(rows) == one_by_one


# As a process, with the humanoid.


@pytest.fixture
def options(pytestconfig, tmp_path):
    resources = pytestconfig.rootpath / "resources"
    return [
        *("--task", "stand_push", "--steps", "30", "--seeds", "3", "1", "2"),
        *("--motion-file", str(resources / "motions" / "stand.npz")),
        *("--checkpoint-file", str(resources / "checkpoints" / "bad.npz")),
        *("--rows-output", str(tmp_path / "rows.jsonl")),
        *("--settings-output", str(tmp_path / "settings.json")),
    ]


@pytest.fixture
def rows_of(run, command, options, tmp_path):
    def rows_of(*more):
        result = run([*command("rollout"), *options, *more])
        assert result.returncode == 0, result.stderr
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert all(len(row.pop("latency_ms")) == row["steps"] for row in rows)
        return rows

    return rows_of


def trace(tmp_path):
    return ["--workers", "2", "--trace-output", str(tmp_path / "trace.jsonl")]


def test_with_the_policy_sum_the_batched_rows_are_those_of_one_by_one(rows_of, tmp_path):
    noise = ["--noise", "0.001"]
    assert rows_of(*noise) == rows_of(*noise, *trace(tmp_path))


def test_a_batch_of_matrix_products_gives_other_rows(rows_of, tmp_path):
    product = ["--policy", "matmul"]
    assert rows_of(*product) != rows_of(*product, *trace(tmp_path))


def test_an_episode_of_many_is_the_episode_alone(run, command, rows_of, options, tmp_path):
    rewards = rows_of()[1]["reward"]
    alone = [*options[:4], *options[8:12], "--seed", "1"]
    outputs = ["--metrics-output", f"{tmp_path}/m", "--step-metrics-output", f"{tmp_path}/s"]
    assert run([*command("rollout"), *alone, *outputs]).returncode == 0
    lines = (tmp_path / "s").read_text().splitlines()
    assert [float(line.split(",")[1]) for line in lines[1:]] == rewards


def test_the_noise_of_an_action_is_that_of_its_task_seed_and_step_in_any_batch():
    def noise(task, *requests):
        answer = answerer(task, np.zeros_like, noise=0.5)
        return answer([Request(seed, step, bytes(8 * 17)) for seed, step in requests])

    keys = [("stand", 1, 1), ("stand", 1, 2), ("stand", 2, 1), ("squat", 1, 1)]
    alone = [noise(task, (seed, step))[0] for task, seed, step in keys]
    assert len(set(alone)) == 4
    assert noise("stand", (2, 1), (1, 2), (1, 1)) == alone[2::-1]


def test_the_noise_of_actions_changes_the_rows(rows_of):
    assert rows_of() != rows_of("--noise", "0.001")


def test_the_settings_say_what_was_run(rows_of, tmp_path):
    rows_of(*trace(tmp_path))
    settings = json.loads((tmp_path / "settings.json").read_text())
    names = ("schedule", "workers", "seeds", "policy", "noise")
    assert [settings[name] for name in names] == ["lockstep-v1", 2, [3, 1, 2], "sum", 0.0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--seeds", "1", "1"], "argument --seeds: a seed stands there twice"),
        (["--workers", "4", "--trace-output", "t"], "--workers: there are more of them"),
        (["--workers", "2"], "--workers and --trace-output go together"),
        (["--metrics-output", "m"], "--metrics-output: not allowed with --seeds"),
        (["--noise", "nan"], "argument --noise"),
        (["--seed", "1"], "not allowed with argument"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run, command, options, more, message):
    result = run([*command("rollout"), *options, *more])
    assert (result.returncode, message in result.stderr) == (2, True)


def test_the_digest_of_the_code_is_that_of_what_sha256sum_prints(pytestconfig, rollout_program):
    scripts = pytestconfig.rootpath / "workflow" / "scripts"
    command = (
        f"sha256sum $(LC_ALL=C ls -1 humanoid/*.py) rollout.py | sha256sum; {sys.executable} -V"
    )
    printed = subprocess.check_output(["sh", "-c", command], cwd=scripts, text=True)
    assert printed.split()[0] == rollout_program.code_digest()
