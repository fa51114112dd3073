"""Every reason why the numbers of a benchmark may not be quoted, each alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hloop.report.benchmark import Protocol
from hloop.report.measuring import MeasuredRun
from hloop.report.quoting import reasons_against
from hloop.schedule.events import Mode
from measured_runs import runs_of

S, H = Mode.SEQUENTIAL, Mode.HLOOP
PROTOCOL = Protocol((S, H), repetitions=2, wanted=2)


def runs() -> list[MeasuredRun]:
    return runs_of(PROTOCOL, {S: [2.0, 3.0], H: [1.0, 1.5]})


def test_a_benchmark_as_it_should_be_may_be_quoted():
    assert reasons_against(PROTOCOL, runs()) == []


def simulated(run: MeasuredRun) -> None:
    run.report["devices"][0]["simulated"] = True


def other_host(run: MeasuredRun) -> None:
    run.report["host"]["hostname"] = "other"


def other_version(run: MeasuredRun) -> None:
    run.report["versions"]["hloop"] = "0.2.0"


def other_device(run: MeasuredRun) -> None:
    run.report["devices"][0]["uuid"] = "GPU-b"


def other_placement(run: MeasuredRun) -> None:
    run.report["scheduling"]["placement"] = "any"


def other_limits(run: MeasuredRun) -> None:
    run.report["scheduling"]["limits"] = {"cpu": 8, "io": 2}


def dirty(run: MeasuredRun) -> None:
    run.manifest["code_digests"]["git"]["dirty"] = True


def no_git(run: MeasuredRun) -> None:
    run.manifest["code_digests"]["git"] = None


def git_does_not_answer(run: MeasuredRun) -> None:
    run.manifest["code_digests"]["git"].update(problem="it is asleep", dirty=True)


def other_commit(run: MeasuredRun) -> None:
    run.manifest["code_digests"]["git"]["commit"] = "e" * 40


def other_script(run: MeasuredRun) -> None:
    run.manifest["code_digests"]["scripts"] = [{"path": "a.py", "sha256": "1" * 64}]


def other_package(run: MeasuredRun) -> None:
    run.manifest["environment"]["packages"]["numpy"] = "3"


def overlapping(run: MeasuredRun) -> None:
    run.report["started_at"] = "2026-01-01T00:00:19+00:00"


def other_run(run: MeasuredRun) -> None:
    assert run.surroundings is not None
    run.surroundings["other_runs"] = [{"pid": 7, "run_dir": None}]


def other_load(run: MeasuredRun) -> None:
    assert run.surroundings is not None
    run.surroundings["other_cpu_seconds"] = 0.06 * 10 * 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (simulated, "the devices are simulated"),
        (other_host, "host.hostname (warmup/sequential against repetition_01/sequential)"),
        (other_version, "not the same in all runs: versions.hloop ("),
        (other_device, "not the same in all runs: devices ("),
        (other_placement, "not the same in all runs: placement ("),
        (other_limits, "not the same in all runs: limits ("),
        (dirty, "changes or files that are not committed"),
        (no_git, "in no git repository"),
        (git_does_not_answer, "is not known: it is asleep"),
        (other_commit, "not the same in all runs: the git commit ("),
        (other_script, "not the same in all runs: the scripts ("),
        (other_package, "not the same in all runs: the installed packages ("),
        (overlapping, "repetition_01/sequential began before repetition_01/hloop had ended"),
        (other_run, "other runs of hloop went on at the same time as repetition_01/sequential"),
        (other_load, "other programs used up to 6% of the CPUs during repetition_01/sequential"),
    ],
)
def test_a_reason_against_it(change: Callable[[MeasuredRun], None], reason: str):
    measured = runs()
    change(measured[-1])
    assert any(reason in found for found in reasons_against(PROTOCOL, measured))


def test_another_boot_of_the_same_machine_is_no_reason():
    measured = runs()
    measured[-1].report["host"]["boot_id"] = "2"
    assert reasons_against(PROTOCOL, measured) == []


def test_load_during_the_warm_up_is_no_reason():
    measured = runs()
    other_load(measured[0])
    assert reasons_against(PROTOCOL, measured) == []


def test_what_is_not_known_of_the_machine_is_a_reason():
    *measured, last = runs()
    found = reasons_against(PROTOCOL, [*measured, replace(last, surroundings=None)])
    assert found[0].startswith("what else the machine did is not known of repetition_01/seq")


def test_repetitions_that_are_missing_are_a_reason():
    assert reasons_against(PROTOCOL, runs()[:4]) == ["1 of 2 repetitions are complete"]


def test_fewer_repetitions_than_the_configuration_asks_for_are_a_reason():
    found = reasons_against(replace(PROTOCOL, wanted=5), runs())
    assert found == ["2 repetitions, and the configuration asks for 5"]


def test_runs_without_a_decision_are_a_reason():
    found = reasons_against(PROTOCOL, [replace(run, decision=None) for run in runs()])
    assert found == ["no selection shows that the modes decide the same"]


def test_runs_that_decide_otherwise_are_a_reason():
    *measured, last = runs()
    found = reasons_against(PROTOCOL, [*measured, replace(last, decision="e" * 64)])
    assert found == ["the runs do not all decide the same"]
