"""``hloop benchmark`` with real runs of a tiny workload: order, resume, disagreement."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.plan.contract import schema_problems
from hloop.plan.prepare import read_config
from hloop.report.benchmark import Protocol
from hloop.report.measuring import Benchmark, MeasuredRun
from hloop.run import processes
from hloop.schedule.events import Mode

# A rollout that waits while there is a file `hold`, and fails while there is one `broken`.
ROLLOUT = """
while test -e hold; do sleep 0.02; done
test ! -e broken && echo 1 > "$1"
"""
# The decision is the candidate's number, or, with a file `moody`, the name of the mode.
SELECT = """
chosen=1
if test -e moody; then chosen='"'$(basename "$(dirname "$1")")'"'; fi
echo "{\\"chosen\\": $chosen}" > "$1"
"""
WORKLOAD = {
    "schema": "hloop.workload.v1",
    "plan_id": "tiny",
    "axes": {"seed": [1]},
    "devices": [0],
    "selection_artifact": "{run_dir}/selection.json",
    "stages": {
        "rollout": {
            "over": ["seed"],
            "resource": "gpu",
            "outputs": {"metrics": "{run_dir}/metrics"},
            "command": ["sh", "-c", ROLLOUT, "sh", "<outputs.metrics>"],
        },
        "select": {
            "needs": ["rollout"],
            "resource": "io",
            "inputs": {"metrics": {"each": "rollout", "path": "<rollout.outputs.metrics>"}},
            "outputs": {"selection": "{run_dir}/selection.json"},
            "command": ["sh", "-c", SELECT, "sh", "<outputs.selection>"],
        },
    },
    "benchmark": {"repetitions": 1, "modes": ["sequential", "hloop"], "warmup": False},
}
OPTIONS = ("--config", "tiny.yaml", "--run-dir", "bench", "--devices", "simulated:1")


def new_folder(folder: Path) -> Path:
    (folder / "tiny.yaml").write_text(yaml.safe_dump(WORKLOAD))
    return folder


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hloop", "benchmark", *OPTIONS, *options],
        cwd=folder,
        env={"HLOOP_HTML": "no", **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def benchmark(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    process = start(folder, *options)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def refused(hloop: Any, monkeypatch: Any) -> Callable[..., str]:
    """What a benchmark says that makes no run, in this process."""

    def call(folder: Path, *options: str) -> str:
        monkeypatch.chdir(folder)
        outcome = hloop("benchmark", *OPTIONS, *options)
        assert outcome.code == 2
        said: str = outcome.err
        return said

    return call


def told(process: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """Which run ended how, from the lines on stderr."""
    lines = [line.split() for line in process.stderr.splitlines() if line.endswith(", verified")]
    return [(words[0], " ".join(words[3:-1]).rstrip(",")) for words in lines]


def held_in_the_second_run(folder: Path) -> subprocess.Popen[str]:
    """A benchmark whose first run is over, and whose second one waits for `hold` to go."""
    process = start(folder)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("repetition_00/sequential ")
    (folder / "hold").touch()
    journal = folder / "bench/repetition_00/hloop/journal.jsonl"
    while not (journal.exists() and b"job_started" in journal.read_bytes()):
        assert process.poll() is None
    return process


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a benchmark that is through; nobody changes what lies in it."""
    folder = new_folder(tmp_path_factory.mktemp("finished"))
    process = benchmark(folder)
    assert process.returncode == 0, process.stderr
    return folder


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "bench/summary.json").read_bytes())
    return summary


def test_the_summary_keeps_its_schema(finished: Path):
    assert schema_problems(summary_of(finished), "benchmark-summary") == []


def test_the_protocol_and_what_was_noticed_keep_their_schemas(finished: Path):
    bench = finished / "bench"
    for path, schema in (
        (bench / "protocol.json", "benchmark-protocol"),
        (bench / "repetition_00/hloop.surroundings.json", "surroundings"),
    ):
        assert schema_problems(json.loads(path.read_bytes()), schema) == []


def test_timings_are_those_of_the_reports(finished: Path):
    report = json.loads((finished / "bench/repetition_00/hloop/hloop_run.json").read_bytes())
    assert summary_of(finished)["timings"][0]["hloop"] == report["elapsed_seconds"]


def test_runs_on_simulated_devices_may_not_be_quoted(finished: Path):
    quotable = summary_of(finished)["quotable"]
    assert not quotable["passed"]
    assert "the devices are simulated" in quotable["reasons"]


def test_a_finished_benchmark_is_taken_over_and_summed_up_the_same(finished: Path):
    before = summary_of(finished)
    process = benchmark(finished, "--json")
    assert told(process) == [
        ("repetition_00/sequential", "taken over"),
        ("repetition_00/hloop", "taken over"),
    ]
    assert json.loads(process.stdout) == before


def test_at_its_end_it_has_a_page_and_says_where(finished: Path, monkeypatch: Any):
    page = finished / "bench/report.html"
    page.unlink(missing_ok=True)
    assert "report: " not in benchmark(finished).stdout
    assert not page.exists()
    monkeypatch.setenv("HLOOP_HTML", "yes")
    assert benchmark(finished).stdout.endswith(f"\nreport: {page}\n")
    assert "hloop benchmark" in page.read_text()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("--modes", "hloop,sequential"), "modes"),
        (("--devices", "simulated:2"), "devices"),
        (("--placement", "any"), "placement"),
        (("--cpu-workers", "7"), "cpu_workers"),
    ],
)
def test_another_protocol_in_the_same_folder_is_refused(
    finished: Path, refused: Any, change: tuple[str, ...], found: str
):
    said = refused(finished, *change)
    assert f"protocol.json: {found}: the benchmark in this folder has" in said


def test_another_plan_in_the_same_folder_is_refused(finished: Path, refused: Any, tmp_path: Path):
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({**WORKLOAD, "plan_id": "other"}))
    assert "holds another plan" in refused(finished, "--config", str(tmp_path / "other.yaml"))


def test_preparing_only_writes_the_plan_and_nothing_else(tmp_path: Path):
    process = benchmark(new_folder(tmp_path), "--prepare-only")
    assert process.stdout.startswith("prepared HLoop jobs=2 hash=")
    assert [path.name for path in (tmp_path / "bench").iterdir()] == ["materialized_plan.json"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--modes", "hloop,fast"), "some of sequential, hloop, bulk-sync"),
        (("--devices", "simulated:0"), "simulated:N with N from 1"),
        (("--durations", "nothing"), "it cannot be read"),
        (("--run-dir", "used"), "used/summary.json is there, and no benchmark"),
        (("--run-dir", "a{b}"), "a{b} holds a brace or an angle bracket"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, refused: Any, options: tuple[str, ...], found: str
):
    (new_folder(tmp_path) / "used").mkdir()
    (tmp_path / "used/summary.json").touch()
    assert found in refused(tmp_path, *options)
    assert {path.name for path in tmp_path.rglob("*")} == {"tiny.yaml", "used", "summary.json"}


def test_less_repetitions_than_there_are_would_be_a_choice_among_them(
    finished: Path, refused: Any, tmp_path: Path
):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    (tmp_path / "bench/repetition_01").mkdir()
    assert "repetition_01 is there already" in refused(tmp_path, "--repetitions", "1")


def test_modes_that_decide_otherwise_stop_the_benchmark_and_everything_is_kept(tmp_path: Path):
    (new_folder(tmp_path) / "moody").touch()
    process = benchmark(tmp_path, "--repetitions", "2", "--json")
    assert process.returncode == 1
    assert json.loads(process.stdout) == summary_of(tmp_path)
    assert "repetition_00: the modes did not decide the same" in process.stderr
    assert not (tmp_path / "bench/repetition_01").exists()
    assert (tmp_path / "bench/repetition_00/hloop/selection.json").exists()
    assert summary_of(tmp_path)["decision_parity"] is False


def test_a_run_that_fails_stops_the_benchmark_and_is_made_anew_by_the_next_call(tmp_path: Path):
    (new_folder(tmp_path) / "broken").touch()
    process = benchmark(tmp_path)
    assert process.returncode == 1
    assert "repetition_00/sequential: the run is failed: rollout_1: " in process.stderr
    (tmp_path / "broken").unlink()
    process = benchmark(tmp_path)
    assert process.returncode == 0
    assert "repetition_00/sequential: put aside as sequential.aside-1: " in process.stderr
    assert (tmp_path / "bench/repetition_00/sequential.aside-1/hloop_run.json").exists()


def test_a_run_of_another_plan_is_not_taken_over(tmp_path: Path):
    job = {"job_id": "a", "resource": "cpu", "command": ["true"]}
    plan = {"schema_version": "mimicx.hloop-plan.v1", "plan_id": "other", "jobs": [job]}
    (new_folder(tmp_path) / "plan.json").write_text(json.dumps(plan))
    argv = [sys.executable, "-m", "hloop", "run", "--plan", "plan.json", "--mode", "sequential"]
    run_dir = "bench/repetition_00/sequential"
    subprocess.run([*argv, "--run-dir", run_dir], cwd=tmp_path, check=True, capture_output=True)
    process = benchmark(tmp_path, "--modes", "sequential")
    found = "put aside as sequential.aside-1: it is a run of another plan"
    assert f"repetition_00/sequential: {found}" in process.stderr


def test_an_interrupted_benchmark_goes_on_where_it_was(tmp_path: Path):
    process = held_in_the_second_run(new_folder(tmp_path))
    second = benchmark(tmp_path)
    assert (second.returncode, "another hloop benchmark is at work" in second.stderr) == (2, True)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 2
    there = f"of its 2 runs 1 are complete, in {tmp_path}/bench"
    go_on = "Call the same command again to go on"
    assert f"a signal ended the benchmark; {there}. {go_on}" in err
    (tmp_path / "hold").unlink()
    again = benchmark(tmp_path)
    assert told(again) == [
        ("repetition_00/sequential", "taken over"),
        ("repetition_00/hloop", "completed"),
    ]
    aside = tmp_path / "bench/repetition_00/hloop.aside-1/hloop_run.json"
    assert json.loads(aside.read_bytes())["status"] == "interrupted"


def test_a_signal_between_two_runs_says_what_there_is_and_how_to_go_on(
    tmp_path: Path, refused: Any, monkeypatch: Any
):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hloop.cli.benchmark._measure", interrupted)
    assert refused(new_folder(tmp_path)) == (
        "hloop: a signal ended the benchmark; of its 2 runs 0 are complete, in "
        f"{tmp_path}/bench. Call the same command again to go on\n"
    )


def look(folder: Path) -> tuple[MeasuredRun | None, str]:
    """The run of mode hloop, as a benchmark that goes on takes it over, or why it does not."""
    plan = read_config(folder / "tiny.yaml", repo_root=folder).plan
    modes = (Mode.SEQUENTIAL, Mode.HLOOP)
    protocol = Protocol(modes, repetitions=1, warmup=False, devices="simulated:1")
    going_on = Benchmark(plan, protocol, folder / "bench", folder)
    with going_on.claimed():
        return going_on.existing(protocol.rounds()[0][1])


@pytest.mark.parametrize("of", ["efficiency", "idle_seconds.device 0", "lower_bound.seconds"])
def test_a_run_whose_report_says_other_times_than_its_journal_is_not_taken_over(
    finished: Path, tmp_path: Path, of: str
):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "bench/repetition_00/hloop/hloop_run.json"
    report = json.loads(path.read_bytes())
    *above, name = of.split(".")
    fields = report["scheduling"][above[0]] if above else report["scheduling"]
    fields[name] /= 2
    path.chmod(0o644)
    path.write_text(json.dumps(report))
    measured, why = look(tmp_path)
    assert (measured, "scheduling is not what its journal comes to" in why) == (None, True)


def test_of_a_run_whose_surroundings_are_damaged_it_is_not_known_what_went_on(
    finished: Path, tmp_path: Path
):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    (tmp_path / "bench/repetition_00/hloop.surroundings.json").write_text("{}")
    measured, _ = look(tmp_path)
    assert measured is not None and measured.surroundings is None


def test_a_killed_benchmark_goes_on_and_a_run_that_was_altered_is_made_anew(tmp_path: Path):
    process = held_in_the_second_run(new_folder(tmp_path))
    # What descends from it comes to this process, a subreaper; the run ends by itself.
    process.kill()
    process.communicate()
    metrics = tmp_path / "bench/repetition_00/sequential/metrics"
    metrics.chmod(0o644)
    metrics.write_text("2\n")
    again = start(tmp_path)
    (tmp_path / "hold").unlink()
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert (
        "repetition_00/sequential: put aside as sequential.aside-1: it is not shown to be "
        "complete and unaltered: " in err
    )
    assert {
        path.name for path in (tmp_path / "bench/repetition_00").iterdir() if path.is_dir()
    } == {
        *("sequential", "sequential.aside-1", "hloop", "hloop.aside-1"),
    }
    processes.end_orphans()
