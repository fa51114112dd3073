"""2,000 spoilt records, reports, journals and manifests: every reader of them gives an answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from formal_case import FormalCase
from fuzzing import Spoilt, is_answer
from hloop_command import Hloop, Outcome

PER_TEST = 50


# Of what takes long, since it runs git or reads whole folders.
FEW = 25


def seeds(test: int) -> range:
    return range(test * PER_TEST, (test + 1) * PER_TEST)


def options(seed: int) -> list[str]:
    return ["--json"] if seed % 3 == 0 else []


@pytest.mark.parametrize("test", range(22))
def test_a_spoilt_run_is_judged(ask: Hloop, run: Spoilt, test: int) -> None:
    wrong: dict[int, Outcome] = {}
    for seed in seeds(test):
        with run.by(seed):
            answer = ask("verify", run.root, *options(seed))
        if not is_answer(answer):
            wrong[seed] = answer
    assert not wrong


@pytest.mark.parametrize("test", range(17))
def test_a_spoilt_report_is_compared_or_refused(
    ask: Hloop, run: Spoilt, other_run: Path, test: int
) -> None:
    wrong: dict[int, Outcome] = {}
    for seed in seeds(test):
        with run.by(seed, "hloop_run.json"):
            runs = (other_run, run.root) if seed % 2 else (run.root, other_run)
            answer = ask("compare", "--baseline", runs[0], "--candidate", runs[1], *options(seed))
        if not is_answer(answer):
            wrong[seed] = answer
    assert not wrong


def test_a_spoilt_run_is_exported_or_refused(ask: Hloop, run: Spoilt, tmp_path: Path) -> None:
    wrong: dict[int, Outcome] = {}
    for seed in range(FEW):
        with run.by(seed):
            answer = ask("export", run.root, "--crate", tmp_path / "crate", *options(seed))
        if not is_answer(answer):
            wrong[seed] = answer
        shutil.rmtree(tmp_path / "crate", ignore_errors=True)
    assert not wrong


def test_a_spoilt_formal_run_is_counted_or_refused(ask: Hloop, formal_run: Spoilt) -> None:
    wrong: dict[int, Outcome] = {}
    for seed in range(FEW):
        with formal_run.by(seed):
            answer = ask("tally" if seed % 2 else "verify", formal_run.root, *options(seed))
        if not is_answer(answer):
            wrong[seed] = answer
    assert not wrong


def test_a_spoilt_manifest_of_authors_is_checked_or_refused(
    ask: Hloop, case: FormalCase, tmp_path: Path
) -> None:
    inputs, wrong = Spoilt.of(case.inputs), {}
    for seed in range(FEW):
        with inputs.by(seed):
            answer = ask(*case.arguments(), *options(seed))
        if not is_answer(answer):
            wrong[seed] = answer
        shutil.rmtree(case.gate.parent, ignore_errors=True)
    assert not wrong
