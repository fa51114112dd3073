"""The comparison with other tools: their formats, and what the jobs themselves see."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hloop.plan.load import plan_from_document
from hloop.schedule.events import Placement
from measuring import Failed, run
from peers import formats, witness
from peers.__main__ import in_turns, measure, measure_all
from peers.kept import Kept
from peers.tables import further_job, markdown, summaries, summary
from peers.tools import Peer
from peers.workloads import SCRIPT, Work, Workload, noop, paper, plan_document, start, unbalanced
from source_tree import ROOT

SEEN = Path("/seen")
PAIR = Workload(
    "pair",
    "two rollouts on one device, and what comes of them",
    (
        Work("a", "gpu", "0", (), 1),
        Work("b", "gpu", "0", (), 1),
        Work("c", "cpu", "0", ("a", "b")),
    ),
)


def job(*arguments: object, **environment: str) -> list[str]:
    """Run the job, and give the line that it leaves: name, device, held, begin, end."""
    folder = Path(str(arguments[0]))
    subprocess.run(
        ["bash", SCRIPT, *map(str, arguments)], env={"PATH": os.environ["PATH"], **environment}
    ).check_returncode()
    return (folder / "jobs").read_text().splitlines()[-1].split()


@pytest.fixture
def held_device(tmp_path: Path) -> Iterator[str]:
    """A device whose file another process has locked."""
    with (tmp_path / "device.0").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield "0"


def test_a_job_sees_that_another_one_has_its_device(tmp_path, held_device):
    assert job(tmp_path, "late", "gpu", 0, CUDA_VISIBLE_DEVICES=held_device)[2] == "shared"


def test_a_job_sees_that_it_has_its_device_for_itself(tmp_path, held_device):
    assert job(tmp_path, "apart", "gpu", 0, CUDA_VISIBLE_DEVICES="1")[2] == "alone"


def test_a_job_holds_its_device_until_its_end(tmp_path):
    job(tmp_path, "first", "gpu", 0, CUDA_VISIBLE_DEVICES="0")
    assert job(tmp_path, "second", "gpu", 0, CUDA_VISIBLE_DEVICES="0")[2] == "alone"


def test_the_device_of_a_plan_is_the_one_that_hloop_tells(tmp_path):
    line = job(tmp_path, "told", "gpu", 0, HLOOP_DEVICE_ID="1", CUDA_VISIBLE_DEVICES="4,5")
    assert line[1] == "1"


def test_a_cpu_job_has_no_device(tmp_path):
    assert job(tmp_path, "cpu", "cpu", 0, CUDA_VISIBLE_DEVICES="0")[1:3] == ["-", "-"]


def write_jobs(folder: Path, *lines: str) -> None:
    (folder / "jobs").write_text("".join(line + "\n" for line in lines))


def test_what_the_jobs_saw_is_counted(tmp_path):
    write_jobs(tmp_path, "b 0 alone 10.5 12.0", "a 1 shared 11.0 13.5", "c - - 13.5 14.0")
    assert witness.read(tmp_path, PAIR.jobs) == witness.Seen(10.5, 3.5, shared=1, moved=1)


@pytest.mark.parametrize("names", ["ab", "abcc"])
def test_a_peer_that_runs_not_every_job_once_is_told(tmp_path, names):
    write_jobs(tmp_path, *(f"{name} 1 alone 10 11" for name in names))
    with pytest.raises(ValueError, match="expected 3 jobs to run once each"):
        witness.read(tmp_path, PAIR.jobs)


def test_the_makefile_chains_the_jobs_of_a_device():
    prefix = f"\tCUDA_VISIBLE_DEVICES=1 bash {SCRIPT} /seen"
    assert formats.makefile(PAIR, SEEN).splitlines() == [
        ".PHONY: all a b c",
        "all: a b c",
        "a:",
        f"{prefix} a gpu 0",
        "b: | a",
        f"{prefix} b gpu 0",
        "c: a b",
        f"\tbash {SCRIPT} /seen c cpu 0",
    ]


def test_snakemake_is_asked_for_a_device_of_two_or_for_the_pinned_one():
    counted = formats.snakefiles(PAIR, SEEN, formats.by_class)["Snakefile"]
    named = formats.snakefiles(PAIR, SEEN, formats.by_device)["Snakefile"]
    assert ("resources: gpu=1" in counted, "resources: gpu1=1" in named) == (True, True)


def test_snakemake_has_as_many_devices_as_all_others():
    assert formats.snakemake_resources(formats.by_class) == ["gpu=2", "io=1"]
    assert formats.snakemake_resources(formats.by_device) == ["gpu0=1", "gpu1=1", "io=1"]


def test_snakemake_is_told_what_depends_on_what():
    after = json.loads(formats.snakefiles(PAIR, SEEN, formats.by_device)["after.json"])
    assert after == {"gpu1/a": [], "gpu1/b": [], "cpu/c": ["gpu1/a", "gpu1/b"]}


@pytest.mark.parametrize("workload", [paper(), unbalanced(), noop(3)], ids=lambda w: w.name)
def test_the_plans_are_valid(workload):
    plan = plan_from_document(plan_document(workload, SEEN))
    assert len(plan.jobs) == len(workload.jobs)


def test_the_bound_of_uneven_pins_is_the_work_of_the_fuller_device():
    assert unbalanced().bound(Placement.PINNED) == 3.3


def test_the_bound_without_pins_is_half_of_all_work():
    assert unbalanced().bound(Placement.ANY) == 2.25


def prepare(workload: Workload, folder: Path, seen: Path) -> list[str]:
    """A peer for tests: a shell that runs one job after another."""
    commands = [formats.pinned_command(job, seen) for job in workload.jobs]
    return ["sh", "-e", "-c", "\n".join(commands)]


SHELL = Peer("shell", "0", "pins", Placement.PINNED, prepare)
FLAT = Peer("flat", "0", "pins", Placement.PINNED, prepare, flat_only=True)


def test_a_run_that_shares_nothing_is_seen_as_that():
    sample = measure(SHELL, PAIR)
    assert (sample["shared"], sample["moved"]) == (0, 0)


def test_a_peer_for_flat_plans_is_not_given_another():
    assert [peer.name for _, _, peer in in_turns([SHELL, FLAT], [PAIR], 1)] == ["shell"]


def test_in_each_repetition_another_peer_is_first():
    runs = in_turns([SHELL, replace(SHELL, name="other")], [PAIR], 2)
    assert [peer.name for _, _, peer in runs] == ["shell", "other", "other", "shell"]


# What is kept

ABSENT = replace(
    SHELL, name="absent", prepare=lambda *_: ["sh", "-c", "echo first; echo so >&2; exit 3"]
)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A comparison of one run of a peer that fails and one of a peer that does not."""
    found = Kept(tmp_path / "peers.json", {"jobs": 3})
    measure_all([ABSENT, SHELL], [PAIR], 1, found)
    return found


def again(tmp_path: Path, **conditions: object) -> Kept:
    return Kept(tmp_path / "peers.json", {"jobs": 3, **conditions})


def test_a_peer_that_fails_is_left_out_and_the_others_are_measured(kept):
    assert [sample["peer"] for sample in kept.samples] == ["shell"]


def test_why_a_peer_failed_is_told(kept):
    assert [entry["reason"] for entry in kept.failures] == ["sh ended with 3: so"]


def test_what_was_measured_is_not_measured_again(kept, tmp_path, capsys):
    capsys.readouterr()
    measure_all([SHELL], [PAIR], 2, again(tmp_path))
    (told,) = capsys.readouterr().err.splitlines()
    assert told.endswith("repetition 2/2, pair: shell")


def test_samples_of_other_conditions_are_refused(kept, tmp_path):
    with pytest.raises(SystemExit, match="jobs 3, now 4"):
        again(tmp_path, jobs=4)


def test_a_peer_that_was_missing_may_come_later(kept, tmp_path):
    assert again(tmp_path, other="other 1").samples == kept.samples


def test_a_command_that_takes_too_long_has_failed_with_all_that_it_started(tmp_path):
    argv = ["sh", "-c", "sleep 60 & sleep 60"]
    with pytest.raises(Failed, match="sh ended with -9"):
        run(argv, tmp_path, limit=0.2)


# What is made of it


def sample(makespan: float, shared: int = 0, **about: object) -> dict[str, object]:
    return {
        "makespan": makespan,
        "command": 7.0,
        "cpu": 1.1,
        "shared": shared,
        "moved": 0,
        **about,
    }


def test_one_run_that_shared_is_enough_to_be_told():
    samples = [sample(6.6, shared) for shared in (0, 2, 0)]
    found = summary(unbalanced(), Placement.PINNED, samples)
    assert (found["shared_jobs"], found["shared_runs"], found["runs"]) == (2, 1, 3)


def test_the_makespan_is_held_against_the_bound_of_the_placement():
    samples = [sample(seconds) for seconds in (3.3, 6.6, 9.9)]
    assert summary(unbalanced(), Placement.PINNED, samples)["over_bound"] == [2.0, 1.0, 3.0]


def test_jobs_per_second_fall_as_the_makespan_grows():
    samples = [sample(seconds) for seconds in (1.0, 2.0, 4.0)]
    assert summary(noop(8), Placement.PINNED, samples)["jobs_per_second"] == [4.0, 2.0, 8.0]


def table_of(*samples: dict[str, object]) -> str:
    plans = {"start": start(), "noop": noop(11), "paper": paper(), "unbalanced": unbalanced()}
    measured = summaries([SHELL, FLAT], plans.values(), samples)
    about = {"version": "1", "devices": "pins"}
    result = {
        "repetitions": 1,
        "machine": "a machine",
        "load": ["0.1", "0.2"],
        "peers": {peer.name: {**about, "flat_only": peer.flat_only} for peer in (SHELL, FLAT)},
        "missing": {"late": "not installed"},
        "workloads": measured,
        "cpu_seconds_per_further_job": further_job(measured, 11),
        "failures": [],
    }
    return markdown(result, plans)


def test_a_row_of_the_table():
    text = table_of(sample(6.502, 2, peer="shell", workload="paper"))
    assert "| shell | 6.50 | 2.000 | 2.6 | 65 | 7.0 | 2 (in 1 of 1) | 0 |" in text.splitlines()


def test_a_row_of_the_table_of_no_ops():
    one = sample(0.1, peer="shell", workload="start", cpu=1.0)
    many = sample(5.5, peer="shell", workload="noop", cpu=2.0)
    row = "| shell | 2.0 | 181.8 | 100.0 | 7.0 | 1.00 | 7.00 | 0 | 0 |"
    assert row in table_of(one, many).splitlines()


def test_a_peer_that_cannot_run_a_plan_has_a_row_that_says_so():
    text = table_of(sample(6.5, peer="shell", workload="paper"))
    assert "| flat | cannot: jobs depend on each other | | | | | | |" in text.splitlines()


def test_a_missing_peer_is_told_with_its_reason():
    assert "Missing: late (not installed)." in table_of().splitlines()


def test_the_docs_quote_the_tables_as_they_are_printed():
    every = [sample(6.5, peer="shell", workload=name) for name in ("paper", "unbalanced", "noop")]
    heads = [line for line in table_of(*every).splitlines() if line.startswith("| |")]
    page = (ROOT / "docs/peers.md").read_text().splitlines()
    assert [line for line in page if line.startswith(("| | makespan", "| | jobs/s"))] == heads


def test_the_start_is_no_cost_of_a_further_job():
    measured = {
        "start": {"shell": {"cpu_seconds": 2.0}},
        "noop": {"shell": {"cpu_seconds": 3.0}, "late": {"cpu_seconds": 1.0}},
    }
    assert further_job(measured, 101) == {"shell": 0.01}


def test_the_cpu_of_what_outlives_a_command_is_counted(tmp_path):
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    assert run([sys.executable, "-c", leave], tmp_path).cpu >= 0.3
