"""`hloop profile-compare`: slowdowns, and what cannot be computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hloop.report.profilecompare import kernel_times

HEADER = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
)


def row(name: str, time: int | str, share: float = 100.0) -> str:
    return f'{share},{time},10,1.0,1.0,1,1,0.0,"{name}"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compared(hloop: Any, base: str, cand: str, *options: object) -> Any:
    Path("base.csv").write_text(base)
    Path("cand.csv").write_text(cand)
    return hloop("profile-compare", "base.csv", "cand.csv", *options)


BASE = HEADER + row("gemm<float, 4>", 600, 60.0) + row("relu", 400, 40.0)
MEMORY = HEADER.replace("Instances", "Count").replace("Name", "Operation")
# What `nsys stats --format csv` prints of a profile, shortened.
WHOLE = f"""Generating SQLite file p.sqlite from p.nsys-rep
Processing [p.sqlite] with [/opt/nvidia/reports/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

{HEADER.replace("Instances", "Num Calls")}100.0,9000,3,3000.0,3000.0,3000,3000,0.0,cudaLaunchKernel

Processing [p.sqlite] with [/opt/nvidia/reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

{BASE}
Processing [p.sqlite] with [/opt/nvidia/reports/cuda_gpu_mem_time_sum.py]...

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

{MEMORY}100.0,7000,1,7000.0,7000.0,7000,7000,0.0,[CUDA memset]
"""


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


@pytest.mark.parametrize(
    "report",
    [
        WHOLE,
        WHOLE.replace("\n\n", "\n"),
        WHOLE.replace("\n", "\r\n"),
        BASE.replace(",600,", ',"600",').replace(",400,", ',"0,400",'),
        "".join(",".join(f'"{cell}"' for cell in HEADER[:-1].split(",")) + "\n")
        + BASE.removeprefix(HEADER),
        "Total Time (ns),Name\n1000,relu\n",
        # Four more kernels of 0.0 %, as most are; and shares that no profiler gave.
        BASE + 4 * row("small", 0, 0.0),
        HEADER + row("relu", 500, 10.0) + row("gelu", 500, 40.0),
    ],
)
def test_the_table_of_kernels_is_found(report: str) -> None:
    Path("p.csv").write_text(report)
    assert sum(kernel_times(Path("p.csv")).values()) == 1000


@pytest.mark.parametrize(
    ("base", "cand", "options", "words"),
    [
        (BASE, BASE, (), "how many epochs"),
        (BASE, BASE, ("--epochs", 0), "0 epochs"),
        (BASE, BASE, ("--base-epochs", 1), "--cand-epochs"),
        (HEADER + row("relu", 0), BASE, ("--epochs", 1), "no time in kernels"),
        (BASE, HEADER, ("--epochs", 1), "no time in kernels"),
        ("", BASE, ("--epochs", 1), "no tables of kernels"),
        ("Name,Calls\nrelu,3\n", BASE, ("--epochs", 1), "no tables of kernels"),
        (BASE.replace("(ns)", "(ms)"), BASE, ("--epochs", 1), "no tables of kernels"),
        (WHOLE.split("cuda_gpu_kern_sum")[0], BASE, ("--epochs", 1), "no tables of kernels"),
        (WHOLE + WHOLE, BASE, ("--epochs", 1), "2 tables of kernels"),
        (BASE, BASE + row("gelu", "1.5"), ("--epochs", 1), "the time '1.5'"),
        (BASE, BASE + row("gelu", "-1"), ("--epochs", 1), "the time '-1'"),
        (
            BASE,
            BASE.replace(row("relu", 400, 40.0), row("relu", 100, 10.0)),
            ("--epochs", 1),
            "up to 70.0 %",
        ),
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
