"""`hloop profile-compare`: slowdowns, and what cannot be computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HEADER = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
)


def row(name: str, time: int) -> str:
    return f'50.0,{time},10,1.0,1.0,1,1,0.0,"{name}"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(hloop: Any, base: str, cand: str, *options: object) -> Any:
    Path("base.csv").write_text(base)
    Path("cand.csv").write_text(cand)
    return hloop("profile-compare", "base.csv", "cand.csv", *options)


BASE = HEADER + row("gemm<float, 4>", 600) + row("relu", 400)


@pytest.mark.parametrize(
    ("total", "options", "code"),
    [
        (1000, ("--epochs", 1), 0),
        (1200, ("--epochs", 1), 0),
        (1201, ("--epochs", 1), 1),
        (1201, ("--epochs", 1, "--threshold", 0.5), 0),
        (1001, ("--epochs", 3, "--threshold", 0), 1),
        (2400, ("--base-epochs", 1, "--cand-epochs", 2), 0),
        (2402, ("--base-epochs", 1, "--cand-epochs", 2), 1),
        (900, ("--base-epochs", 2, "--cand-epochs", 1), 1),
    ],
)
def test_only_a_slowdown_strictly_above_the_threshold_fails(
    hloop: Any, total: int, options: tuple[object, ...], code: int
) -> None:
    assert compared(hloop, BASE, HEADER + row("relu", total), *options).code == code


def test_kernels_that_are_new_or_gone_are_listed(hloop: Any) -> None:
    outcome = compared(hloop, BASE, HEADER + row("relu", 9) + row("fused", 9), "--epochs", 1)
    assert {"new kernel: fused", "gone kernel: gemm<float, 4>"} < set(outcome.out.splitlines())


def test_lines_before_the_table_are_skipped(hloop: Any) -> None:
    cand = "Processing [p.sqlite] with [cuda_gpu_kern_sum.py]...\n\n" + BASE
    assert compared(hloop, BASE, cand, "--epochs", 1, "--json").document["slowdown"] == 0


@pytest.mark.parametrize(
    ("base", "cand", "options", "words"),
    [
        (BASE, BASE, (), "how many epochs"),
        (BASE, BASE, ("--epochs", 0), "0 epochs"),
        (BASE, BASE, ("--base-epochs", 1), "--cand-epochs"),
        (HEADER + row("relu", 0), BASE, ("--epochs", 1), "no time in kernels"),
        (HEADER, BASE, ("--epochs", 1), "no time in kernels"),
        ("", BASE, ("--epochs", 1), "no column"),
        ("Name,Calls\nrelu,3\n", BASE, ("--epochs", 1), "no column"),
        (BASE, BASE[:-1], ("--epochs", 1), "cut off"),
        (BASE, BASE[:-4], ("--epochs", 1), "cut off"),
        (BASE, BASE[:-20], ("--epochs", 1), "of 9 columns"),
        (BASE, HEADER + row("relu", 1).replace(",1,", ",?,", 1), ("--epochs", 1), "the time"),
        (BASE, BASE, ("--epochs", 1, "--base-epochs", 1), "goes without"),
        (BASE, BASE, ("--epochs", 1, "--threshold", "nan"), "0 or more"),
    ],
)
def test_what_cannot_be_computed_is_no_answer(
    hloop: Any, base: str, cand: str, options: tuple[object, ...], words: str
) -> None:
    outcome = compared(hloop, base, cand, *options)
    assert (outcome.code, words in outcome.err) == (2, True)


def test_a_report_that_is_not_there_is_no_answer(hloop: Any) -> None:
    assert hloop("profile-compare", "no", "no", "--epochs", 1).code == 2


def test_a_folder_with_one_report_will_do(hloop: Any) -> None:
    Path("p_cuda_gpu_kern_sum.csv").write_text(BASE)
    assert hloop("profile-compare", ".", ".", "--epochs", 1).code == 0
