"""Durations, and every reason why they may not be held against each other."""

from __future__ import annotations

from typing import Any

import pytest
from hloop.report.compare import compare
from synthetic_run import Mutation, SyntheticRun

Pair = tuple[SyntheticRun, SyntheticRun]


def speed_of(pair: Pair) -> dict[str, Any]:
    found: dict[str, Any] = compare(pair[0].paths.root, pair[1].paths.root)["speed"]
    return found


def test_two_runs_alike_in_everything_may_be_claimed(pair: Pair) -> None:
    assert speed_of(pair) == {
        "baseline_seconds": 0.28,
        "candidate_seconds": 0.28,
        "speedup": 1.0,
        "claimable": True,
        "reasons": [],
    }


def test_the_speed_up_is_baseline_over_candidate(pair: Pair) -> None:
    pair[1].edit(lambda report: report.update(elapsed_seconds=0.07))
    assert speed_of(pair)["speedup"] == 4


def job(index: int, **fields: Any) -> Mutation:
    return lambda report: report["jobs"][index].update(fields)


REASONS: dict[str, tuple[Mutation, str]] = {
    "status": (
        lambda report: report.update(status="failed"),
        "the candidate is failed, not completed",
    ),
    "mode": (
        lambda report: report.update(mode="bulk-sync"),
        "mode differs: hloop against bulk-sync",
    ),
    "executor": (
        lambda report: report.update(executor="local"),
        "executor differs: hloop against local",
    ),
    "placement digest": (
        lambda report: report.update(placement_digest="sha256:" + "d" * 64),
        f"placement_digest differs: sha256:{'c' * 64} against sha256:{'d' * 64}",
    ),
    "placement": (
        lambda report: report["scheduling"].update(placement="any"),
        "scheduling.placement differs: pinned against any",
    ),
    "limits": (
        lambda report: report["scheduling"].update(limits={"cpu": 3, "io": 1}),
        "scheduling.limits differs: cpu 2, io 1 against cpu 3, io 1",
    ),
    "device": (
        lambda report: report["jobs"][0]["device"].update(uuid="GPU-c"),
        "jobs ran on other devices: rollout_a",
    ),
    "host": (
        lambda report: report["host"].update(hostname="node2"),
        "host.hostname differs: node1 against node2",
    ),
    "versions": (
        lambda report: report["versions"].update(snakemake="9.28"),
        "versions.snakemake differs: 9.27.1 against 9.28",
    ),
    "simulated": (
        lambda report: report["devices"][1].update(simulated=True),
        "the candidate ran on simulated devices",
    ),
    "other overlaps": (
        job(2, concurrent_with=[]),
        "other jobs overlapped: diagnose_a and rollout_b",
    ),
    "no overlaps recorded": (
        lambda report: report["jobs"][2].pop("concurrent_with"),
        "which jobs overlapped is not recorded in both reports",
    ),
    "same time": (
        lambda report: report.update(started_at="2026-01-02T03:04:05.2Z"),
        "the two runs overlapped in time on one host",
    ),
    "host not recorded": (
        lambda report: report.pop("host"),
        "host is not recorded in both reports",
    ),
    "no duration": (
        lambda report: report.update(elapsed_seconds=0),
        "a duration is missing or zero",
    ),
    "resumed": (
        lambda report: report["evidence"].update(resumed=[report["evidence"]["journal"]]),
        "the candidate was resumed, and its duration holds the pause",
    ),
    "a check": (
        lambda report: report["candidate_ids"].pop(),
        "the runs did not do the same; checks that do not pass: 1",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_one_difference_gives_exactly_its_reason(pair: Pair, case: str) -> None:
    mutate, reason = REASONS[case]
    pair[1].edit(mutate)
    speed = speed_of(pair)
    assert (speed["claimable"], speed["reasons"]) == (False, [reason])


def test_another_boot_of_the_same_host_is_no_reason(pair: Pair) -> None:
    pair[1].edit(lambda report: report["host"].update(boot_id="another"))
    assert speed_of(pair)["claimable"]


def test_jobs_that_overlap_in_a_sequential_run_are_a_reason(pair: Pair) -> None:
    for run in pair:
        run.edit(lambda report: report.update(mode="sequential"))
    assert speed_of(pair)["reasons"] == [
        f"jobs overlapped in the {side}, which is sequential: "
        "rollout_a and rollout_b, diagnose_a and rollout_b"
        for side in ("baseline", "candidate")
    ]


def test_jobs_that_shared_a_device_are_a_reason(pair: Pair) -> None:
    for run in pair:
        run.edit(lambda report: report["jobs"][1].update(device=report["jobs"][0]["device"]))
    assert (
        "jobs of the baseline shared a device: rollout_a and rollout_b"
        in (speed_of(pair)["reasons"])
    )


def test_the_original_names_modes_in_its_own_way(pair: Pair) -> None:
    pair[1].edit(lambda report: report.update(mode="e0"))
    assert speed_of(pair)["claimable"]
