"""However a run ended, nobody is accused: what hloop leaves is unaltered."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hloop.provenance.contents import check_contents
from hloop.provenance.verify import Verdict, verify
from supervised import Supervised, job, output, rendered, wait_for
from tampering import run_small


@pytest.fixture
def sup(tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path)
    yield supervised
    supervised.end()


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} - {"not_formal"}


@pytest.mark.parametrize("mode", ["sequential", "hloop", "bulk-sync"])
def test_a_run_is_complete_and_unaltered_in_every_mode(mode: str, tmp_path: Path) -> None:
    run_small(tmp_path / "root", mode)
    verdict = verify(tmp_path / "root/run")
    assert (codes(verdict), verdict.exit_code) == (set(), 0)


def test_an_exploratory_run_is_never_eligible(tmp_path: Path) -> None:
    run_small(tmp_path / "root")
    verdict = verify(tmp_path / "root/run")
    assert (verdict.eligible, [finding.code for finding in verdict.findings]) == (
        False,
        ["not_formal"],
    )


def test_a_moved_run_is_unaltered(tmp_path: Path) -> None:
    run_small(tmp_path / "root")
    (tmp_path / "root/run").rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to("moved")
    assert verify(tmp_path / "link").exit_code == 0


def test_more_than_one_megabyte_is_read_beside_other_files(sup: Supervised) -> None:
    large = job("large", "head -c 3000000 /dev/zero > run/large", outputs=[output("large")])
    small = job("small", "echo > run/small", outputs=[output("small")])
    sup.open(rendered(sup.root, large, small))
    sup.ready("large", "small")
    sup.ended("large", "small")
    sup.close()
    told: list[tuple[int, int]] = []
    verdict = verify(sup.paths.root, progress=lambda done, total: told.append((done, total)))
    assert (verdict.exit_code, told[-1]) == (0, (3_000_001, 3_000_001))


ENDINGS = {
    "a failure": job("a", "echo why >&2; exit 3"),
    "a signal": job("a", "kill -SEGV $$"),
    "no such program": job("a", command=["no-such-program"]),
    "no output": job("a", outputs=[output("o")]),
    "a link for an output": job("a", "ln -s x run/o", outputs=[output("o")]),
    "a timeout": job("a", "sleep 60", budget={"max_seconds": 0.2}),
    "what it left behind": job("a", "(setsid sleep 60 &) ; exit 1"),
    "a wrong input": job(
        "a", inputs=[{"role": "i", "path": "{repo_root}/supervisor.stderr", "sha256": "0" * 64}]
    ),
    "a FIFO for a log": job("a", "rm run/jobs/a/stdout.log; mkfifo run/jobs/a/stdout.log"),
    "undeclared files": job("a", "mkdir run/more; touch run/more/x run/y; exit 1"),
    "a count": job("a", "echo 7 > $HLOOP_TRANSITIONS; exit 1"),
    "an odd name": job("a", "touch \"$(printf 'run/\\377')\"; exit 1"),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("keep_going", [False, True])
def test_a_run_with_a_failed_job_is_unaltered(
    sup: Supervised, ending: str, keep_going: bool
) -> None:
    plan = rendered(sup.root, ENDINGS[ending], job("after", depends_on=["a"]), job("beside"))
    sup.open(plan, keep_going=keep_going, grace_seconds=0.2)
    sup.ready("a", "beside")
    sup.ended("a")
    sup.close()
    verdict = verify(sup.paths.root)
    assert codes(verdict) <= {"job_not_completed"} and verdict.unaltered is True


def test_a_stopped_run_is_unaltered(sup: Supervised) -> None:
    plan = rendered(sup.root, job("a", "sleep 60"), job("b", "sleep 60", "gpu"), job("c"))
    sup.open(plan)
    sup.ready("a", "b")
    sup.pid("a"), sup.pid("b")
    sup.stop()
    sup.close()
    verdict = verify(sup.paths.root)
    assert (verdict.complete, verdict.unaltered) == (False, True)


def test_a_run_that_snakemake_left_is_unaltered(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60"), job("b")))
    sup.ready("a")
    sup.pid("a")
    sup.hang_up()
    verdict = verify(sup.paths.root)
    assert (verdict.complete, verdict.unaltered) == (False, True)


def test_a_job_whose_outputs_were_rejected_has_not_completed(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "echo > run/o", outputs=[output("o")]), job("b")))
    sup.ready("a")
    sup.ended("a")
    sup.send({"do": "rejected", "job": "a"})
    sup.close()
    (sup.paths.root / "o").unlink()  # As Snakemake does.
    verdict = verify(sup.paths.root)
    assert codes(verdict) == {"job_not_completed"} and verdict.unaltered is True


def test_a_run_whose_supervisor_was_killed_accuses_nobody(sup: Supervised) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60"), job("b")))
    sup.ready("a", "b")
    sup.ended("b")
    sup.pid("a")
    sup.process.send_signal(signal.SIGKILL)
    sup.process.wait()
    verdict = verify(sup.paths.root)
    assert codes(verdict) == {"report_missing", "job_not_completed"}


def test_a_run_that_goes_on_accuses_nobody(
    sup: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    sup.open(rendered(sup.root, job("a", "sleep 60"), job("b", "sleep 60")))
    sup.ready("a")
    sup.pid("a")
    scheduled = sup.paths.job("a").scheduled
    wait_for(scheduled.exists, "the job to be scheduled")

    def meanwhile(*given: Any) -> None:
        """The next job starts after the records were read."""
        sup.ready("b")
        wait_for(sup.paths.job("b").scheduled.exists, "the next job to be scheduled")
        check_contents(*given)

    monkeypatch.setattr("hloop.provenance.verify.check_contents", meanwhile)
    verdict = verify(sup.paths.root)
    assert codes(verdict) == {"report_missing", "job_not_completed"}
    sup.stop()
    sup.close()
