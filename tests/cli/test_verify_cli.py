"""``hloop verify`` as a command: what it prints and how it exits."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from hloop.cli.verify import print_findings
from hloop.provenance.findings import Finding
from supervised import wait_for
from tampering import Copy, run_small


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verified") / "repository"
    run_small(root)
    return root


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Copy:
    return Copy.of(original, tmp_path / "copy")


def test_a_run_that_holds_exits_with_0_and_prints_the_head_last(hloop: Any, copy: Copy) -> None:
    outcome = hloop("verify", copy.root, "--repo-root", copy.repo_root)
    assert outcome.code == 0
    assert outcome.out.splitlines()[:3] == ["complete: yes", "unaltered: yes", "eligible: no"]
    report = copy.paths.report.read_bytes()
    assert outcome.out.splitlines()[-1] == f"head: sha256:{hashlib.sha256(report).hexdigest()}"


def test_a_changed_output_exits_with_1_and_says_what_to_do(hloop: Any, copy: Copy) -> None:
    copy.path("other").write_text("forged")
    outcome = hloop("verify", copy.root, "--repo-root", copy.repo_root)
    assert outcome.code == 1
    assert "unaltered: no" in outcome.out
    assert "\noutput_changed: an output or a log is not what its job left\n" in outcome.out
    assert "  -> Ask for the run directory" in outcome.out


def test_an_input_that_is_not_here_exits_with_2(hloop: Any, copy: Copy, tmp_path: Path) -> None:
    outcome = hloop("verify", copy.root, "--repo-root", tmp_path / "nowhere")
    assert outcome.code == 2
    assert "unaltered: cannot be decided" in outcome.out


def test_another_head_than_the_expected_exits_with_1(hloop: Any, copy: Copy) -> None:
    outcome = hloop("verify", copy.root, "--expect-head", "sha256:" + "0" * 64)
    assert outcome.code == 1
    assert "head_mismatch" in outcome.out


def test_the_expected_head_exits_with_0(hloop: Any, copy: Copy) -> None:
    assert hloop("verify", copy.root, "--expect-head", copy.head()).code == 0


@pytest.mark.parametrize(
    "head", ["x", "0" * 64, "sha256:" + "A" * 64, "sha256:" + "0" * 64 + "\n"]
)
def test_a_head_that_is_none_is_refused(hloop: Any, copy: Copy, head: str) -> None:
    outcome = hloop("verify", copy.root, "--expect-head", head)
    assert outcome.code == 2
    assert "is no head" in outcome.err


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None])
def test_what_is_no_run_directory_is_refused(hloop: Any, tmp_path: Path, make: Any) -> None:
    make(tmp_path / "it")
    outcome = hloop("verify", tmp_path / "it")
    assert outcome.code == 2
    assert "is no run directory" in outcome.err


def test_json_holds_the_verdict_and_every_finding(hloop: Any, copy: Copy) -> None:
    copy.path("extra").touch()
    outcome = hloop("verify", copy.root, "--repo-root", copy.repo_root, "--json")
    assert outcome.code == 1
    document = outcome.document
    assert {key: document[key] for key in ("complete", "unaltered", "eligible", "head")} == {
        "complete": True,
        "unaltered": False,
        "eligible": False,
        "head": copy.head(),
    }
    assert document["findings"][0] == {
        "code": "unexpected_file",
        "where": "${RUN_DIR}/extra",
        "found": "nothing accounts for it",
        "expected": "",
        "action": "Find out who wrote it; a file that a job leaves must be a declared output",
    }
    assert document["counts"] == {"jobs": 4, "completed": 4, "records": 16}


def test_what_is_found_alike_in_many_places_is_one_line(hloop: Any, copy: Copy) -> None:
    for number in range(12):
        copy.path(f"extra{number:02}").touch()
    out = hloop("verify", copy.root).out
    places = ", ".join(f"${{RUN_DIR}}/extra{number:02}" for number in range(3))
    assert f"\n  {places} and 9 more: nothing accounts for it\n" in out


def test_many_findings_of_a_kind_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings([Finding("unexpected_file", str(n), f"found {n}") for n in range(12)])
    assert "found 9\n  and 2 more; --json gives all" in capsys.readouterr().out


def test_a_name_with_control_characters_is_printed_without_them(hloop: Any, copy: Copy) -> None:
    copy.path("\x1b[31mred\n").touch()
    out = hloop("verify", copy.root).out
    assert "\\x1b[31mred\\n" in out and "\x1b" not in out


def test_on_a_terminal_a_bar_shows_that_it_takes_a_while(
    hloop: Any, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hloop.cli import verify as command
    from hloop.provenance import contents

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    read = contents.hash_file

    def slowly(*arguments: Any, **options: Any) -> Any:
        wait_for(shown.getvalue, "the bar")
        return read(*arguments, **options)

    monkeypatch.setattr(command, "BAR_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(contents, "hash_file", slowly)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    assert hloop("verify", copy.root).code == 0
    assert "bytes" in shown.getvalue()


def test_a_quick_run_shows_no_bar(hloop: Any, copy: Copy) -> None:
    assert hloop("verify", copy.root).err == ""
