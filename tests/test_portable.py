"""Paths in records: written by the two folders' names, by components."""

from pathlib import Path

import pytest
from hloop.portable import Portable

PORTABLE = Portable(run_dir=Path("/r/a"), repo_root=Path("/q"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/r/a", "${RUN_DIR}"),
        ("/r/a/x.json", "${RUN_DIR}/x.json"),
        ("--out=/r/a/x", "--out=${RUN_DIR}/x"),
        ("-I/r/a/include", "-I${RUN_DIR}/include"),
        ("cat '/r/a/x' > /r/a/y", "cat '${RUN_DIR}/x' > ${RUN_DIR}/y"),
        ("/q/lib:/r/a/lib", "${REPO_ROOT}/lib:${RUN_DIR}/lib"),
    ],
)
def test_paths_in_a_text_become_portable(text: str, expected: str) -> None:
    assert PORTABLE.text(text) == expected


@pytest.mark.parametrize("text", ["/r/ab", "/r/a-1/x", "/r/a.bak", "/x/r/a", "x/r/a", "r/a"])
def test_a_path_that_only_shares_letters_stays(text: str) -> None:
    assert PORTABLE.text(text) == text


def test_the_inner_of_two_nested_folders_wins() -> None:
    portable = Portable(run_dir=Path("/q/runs/a"), repo_root=Path("/q"))
    assert portable.text("/q/runs/a/x /q/y") == "${RUN_DIR}/x ${REPO_ROOT}/y"


def test_the_root_of_the_file_system_is_never_replaced_in_a_text() -> None:
    assert Portable(run_dir=Path("/r"), repo_root=Path("/")).text("/x /r") == "/x ${RUN_DIR}"
