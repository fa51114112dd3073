"""Hashing takes plain files only, and says why it refuses another."""

import os
import socket
from pathlib import Path

import pytest
from hloop.files import FileDigest, FileRefused, hash_file

# What `printf abc | sha256sum` prints.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def refusal(path: Path, *, follow: bool = False) -> str:
    with pytest.raises(FileRefused) as error:
        hash_file(path, follow=follow)
    return error.value.code


def test_the_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert hash_file(tmp_path / "abc") == FileDigest(ABC, 3)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "abc") == "missing"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "not_a_file"


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo") == "not_a_file"


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("abc")
    assert refusal(tmp_path / "link") == "not_a_file"


def test_a_link_is_followed_on_request(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("abc")
    assert hash_file(tmp_path / "link", follow=True).sha256 == ABC


def test_a_link_to_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert refusal(tmp_path / "link", follow=True) == "missing"


@pytest.mark.parametrize("follow", [False, True])
def test_a_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("socket")
        assert refusal(tmp_path / "socket", follow=follow) == "not_a_file"


def test_a_link_to_itself_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    assert refusal(tmp_path / "link", follow=True) == "unreadable"


def test_the_refusal_names_the_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    found = []
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(FileRefused) as error:
            hash_file(path)
        found.append(error.value.problems[0].found.rpartition(" is ")[2])
    assert found == ["a folder", "a FIFO", "a symbolic link", "a device"]
