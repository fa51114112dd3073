"""``hloop digest``: what a plan must say of a file or a folder that no job makes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hloop.trees import hash_tree


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_file_has_the_digest_that_sha256sum_prints(hloop):
    Path("a").write_text("data")
    digest = hashlib.sha256(b"data").hexdigest()
    assert hloop("digest", "a").out == f"{digest}  a\n"


def test_a_folder_has_the_digest_of_a_directory_artifact(hloop):
    Path("d/empty").mkdir(parents=True)
    Path("d/a").write_text("data")
    (entry,) = hloop("digest", "d", "--json").document["digests"]
    assert entry == {
        "path": "d",
        "type": "directory",
        "sha256": hash_tree("d").sha256,
        "size": 4,
    }


def test_what_is_not_there_is_no_answer(hloop):
    outcome = hloop("digest", "gone")
    assert (outcome.code, outcome.out) == (2, "")
    assert "gone does not exist" in outcome.err
