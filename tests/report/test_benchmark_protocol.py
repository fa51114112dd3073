"""The order of a benchmark's runs, and where each lies."""

from __future__ import annotations

from pathlib import Path

from hloop.report.benchmark import BenchmarkPaths, Protocol, is_benchmark
from hloop.schedule.events import Mode

S, H, B = Mode.SEQUENTIAL, Mode.HLOOP, Mode.BULK_SYNC


def orders(protocol: Protocol) -> list[list[Mode]]:
    return [[planned.mode for planned in runs] for runs in protocol.rounds()]


def test_the_order_of_the_modes_is_rotated_by_repetition():
    protocol = Protocol((S, B, H), repetitions=4, warmup=False)
    assert orders(protocol) == [[S, B, H], [B, H, S], [H, S, B], [S, B, H]]


def test_in_as_many_repetitions_as_there_are_modes_each_mode_is_at_each_place_once():
    by_place = zip(*orders(Protocol((S, B, H), repetitions=3, warmup=False)), strict=True)
    assert all(len(set(modes)) == 3 for modes in by_place)


def test_the_warm_up_comes_first_and_is_no_repetition():
    first, second = Protocol((S, H), repetitions=1).rounds()
    assert [run.repetition for run in (*first, *second)] == [None, None, 0, 0]


def test_each_run_has_a_directory_of_its_own():
    names = [run.name for runs in Protocol((S, H), repetitions=2).rounds() for run in runs]
    assert names == [
        *("warmup/sequential", "warmup/hloop"),
        *("repetition_00/sequential", "repetition_00/hloop"),
        *("repetition_01/hloop", "repetition_01/sequential"),
    ]


def test_a_run_knows_its_place_in_the_repetition():
    runs = Protocol((S, B, H), repetitions=2, warmup=False).rounds()[1]
    assert [(run.position, run.mode) for run in runs] == [(0, B), (1, H), (2, S)]


def test_more_repetitions_do_not_change_the_protocol_of_a_folder():
    few, many = (Protocol((S, H), repetitions=count).to_document("0" * 64) for count in (2, 9))
    assert few == many


def test_what_changes_the_measurements_is_in_the_protocol():
    plain, other = (Protocol((S, H), cpu_workers=workers) for workers in (None, 2))
    assert plain.to_document("0" * 64) != other.to_document("0" * 64)


def test_a_run_whose_job_wrote_a_summary_is_no_benchmark(tmp_path: Path):
    (tmp_path / "summary.json").touch()
    assert is_benchmark(tmp_path)
    (tmp_path / "hloop_run.json").touch()
    assert not is_benchmark(tmp_path)


def test_what_is_put_aside_lies_beside_the_run():
    paths = BenchmarkPaths(Path("/b"))
    planned = Protocol((H,), repetitions=1, warmup=False).rounds()[0][0]
    assert paths.aside(planned, 2) == Path("/b/repetition_00/hloop.aside-2")
