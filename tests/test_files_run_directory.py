"""Which folder a new run may have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hloop.errors import RunDirectoryError
from hloop.files import RunPaths


def refusal(path: Path) -> str:
    with pytest.raises(RunDirectoryError) as caught:
        RunPaths(path).check_new()
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "new", "new/and/deep"])
def test_a_folder_that_is_new_or_empty_will_do(tmp_path: Path, name: str) -> None:
    RunPaths(tmp_path / name).check_new()


def test_a_folder_that_holds_something_is_used(tmp_path: Path) -> None:
    (tmp_path / "anything").touch()
    assert "already used: it holds 'anything'" in refusal(tmp_path)


def test_a_folder_of_a_finished_run_is_said_to_be_one(tmp_path: Path) -> None:
    RunPaths(tmp_path).report.touch()
    assert "it holds a finished run" in refusal(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in refusal(tmp_path / "file")


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert f"cannot be made: {tmp_path / 'file'} is not a folder" in refusal(tmp_path / "file/run")


def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert "is not a folder" in refusal(tmp_path / "link")


def test_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "anything").touch()
    assert "Choose another run directory, or move this one away" in refusal(tmp_path)


def test_a_name_that_is_too_long_is_said(tmp_path: Path) -> None:
    assert "cannot be made: File name too long" in refusal(tmp_path / ("x" * 300))
