"""A folder has a digest over all that lies in it, or is refused for a stated reason."""

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import hloop.trees
import pytest
from hloop.files import FileDigest, FileRefused
from hloop.trees import hash_tree

# What sha256sum prints for
#   {"_type":"hloop/directory/v1","entries":[]}
# and for
#   {"_type":"hloop/directory/v1","entries":[E]}
# on one line, where ABC is the digest of "abc" and E is
#   {"executable":false,"path":"abc","sha256":"ABC","size":3,"type":"file"},
#   {"path":"empty","type":"directory"},
#   {"path":"link","target":"sub/run","type":"symlink"},
#   {"path":"sub","type":"directory"},
#   {"executable":true,"path":"sub/run","sha256":"ABC","size":3,"type":"file"}
EMPTY = "7d2b4e260178911c5b1ede7a9639e921cbf05bdcfbcfdb0a945369fcbfdcebf3"
GOLDEN = "5404720fc20fa1656ff39127ebf8991cf2a475a0976b3441861af4b8da0bfcca"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of each: a file, an executable, an empty folder, a folder with a file, a link."""
    root = tmp_path / "tree"
    (root / "empty").mkdir(parents=True)
    (root / "sub").mkdir()
    (root / "abc").write_bytes(b"abc")
    (root / "sub" / "run").write_bytes(b"abc")
    (root / "sub" / "run").chmod(0o755)
    (root / "link").symlink_to("sub/run")
    return root


def refusal(path: Path, *, follow: bool = False) -> str:
    with pytest.raises(FileRefused) as error:
        hash_tree(path, follow=follow)
    return error.value.code


def moved_by(tree: Path, change: Callable[[Path], object]) -> bool:
    before = hash_tree(tree).sha256
    change(tree)
    return hash_tree(tree).sha256 != before


# The digest


def test_golden_an_empty_folder(tmp_path: Path) -> None:
    assert hash_tree(tmp_path) == FileDigest(EMPTY, 0)


def test_golden_one_of_each(tree: Path) -> None:
    assert hash_tree(tree) == FileDigest(GOLDEN, 6)


def test_snakemakes_empty_stamp_does_not_count(tree: Path) -> None:
    assert not moved_by(tree, lambda root: (root / ".snakemake_timestamp").touch())


def test_a_stamp_that_holds_something_counts(tree: Path) -> None:
    assert moved_by(tree, lambda root: (root / ".snakemake_timestamp").write_text("x"))


def test_a_stamp_deeper_down_counts(tree: Path) -> None:
    assert moved_by(tree, lambda root: (root / "sub/.snakemake_timestamp").touch())


def test_entries_stand_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    # By UTF-16, as some languages sort, the last two would change places; so would "a/b" and
    # "a-b" where folders are walked one by one.
    names = ["a", "a-b", "a/b", "é", "\uff5e", "\U0001f600"]
    (tmp_path / "a").mkdir()
    for name in names[1:]:
        (tmp_path / name).mkdir()
    entries = ",".join(f'{{"path":"{name}","type":"directory"}}' for name in names)
    record = f'{{"_type":"hloop/directory/v1","entries":[{entries}]}}\n'
    assert hash_tree(tmp_path).sha256 == hashlib.sha256(record.encode()).hexdigest()


def test_the_folder_may_lie_anywhere(tree: Path, tmp_path: Path) -> None:
    before = hash_tree(tree)
    assert hash_tree(tree.rename(tmp_path / "elsewhere")) == before


def test_times_do_not_count(tree: Path) -> None:
    assert not moved_by(tree, lambda root: os.utime(root / "abc", (1, 1)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "abc").write_bytes(b"abd"), id="same size"),
        pytest.param(lambda root: (root / "abc").rename(root / "abd"), id="a name"),
        pytest.param(lambda root: (root / "new").write_bytes(b""), id="an empty file"),
        pytest.param(lambda root: (root / "empty").rmdir(), id="an empty folder"),
        pytest.param(lambda root: (root / "abc").chmod(0o744), id="may be executed"),
        pytest.param(lambda root: (root / "abc").rename(root / "sub" / "abc"), id="a place"),
    ],
)
def test_what_moves_the_digest(tree: Path, change: Callable[[Path], object]) -> None:
    assert moved_by(tree, change)


def test_the_text_of_a_link_counts(tree: Path) -> None:
    def point_elsewhere(root: Path) -> None:
        (root / "link").unlink()
        (root / "link").symlink_to("./sub/run")

    assert moved_by(tree, point_elsewhere)


def test_what_a_link_leads_to_does_not_count(tree: Path, tmp_path: Path) -> None:
    (tree / "out").symlink_to(tmp_path)
    assert not moved_by(tree, lambda _: (tmp_path / "beside").write_bytes(b"x"))


def test_a_link_to_nowhere_is_an_entry(tree: Path) -> None:
    assert moved_by(tree, lambda root: (root / "dangling").symlink_to("nowhere"))


def test_rights_of_others_do_not_count(tree: Path) -> None:
    (tree / "abc").chmod(0o644)
    assert not moved_by(tree, lambda root: (root / "abc").chmod(0o655))


# What is refused


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == "missing"


def test_a_file_is_no_folder(tree: Path) -> None:
    assert refusal(tree / "abc") == "not_a_directory"


@pytest.mark.parametrize("end", ["", "/"])
def test_a_link_to_a_folder_is_refused(tree: Path, end: str) -> None:
    (tree.parent / "link").symlink_to(tree)
    with pytest.raises(FileRefused, match="is a symbolic link"):
        hash_tree(f"{tree.parent}/link{end}")


def test_a_link_to_a_folder_is_followed_on_request(tree: Path) -> None:
    (tree.parent / "link").symlink_to(tree)
    assert hash_tree(tree.parent / "link", follow=True) == hash_tree(tree)


def test_a_link_to_nothing_is_missing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert refusal(tmp_path / "link", follow=True) == "missing"


def test_a_link_to_itself_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    assert refusal(tmp_path / "link", follow=True) == "not_a_directory"


def test_a_fifo_in_it_is_refused_without_waiting_for_a_writer(tree: Path) -> None:
    os.mkfifo(tree / "sub" / "fifo")
    assert refusal(tree) == "special_file"


def test_a_socket_in_it_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("socket")
        assert refusal(tree) == "special_file"


def test_a_name_that_is_not_utf8_is_refused(tree: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tree) + b"/\xff"))).write_bytes(b"")
    assert refusal(tree) == "bad_name"


def test_the_text_of_a_link_that_is_not_utf8_is_refused(tree: Path) -> None:
    os.symlink(b"\xff", os.fsencode(tree) + b"/odd")
    assert refusal(tree) == "bad_name"


def test_a_refused_name_can_be_printed(tree: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tree) + b"/\xff"))).mkdir()
    with pytest.raises(FileRefused) as error:
        hash_tree(tree)
    assert str(error.value).encode()


def test_a_path_that_is_too_long_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / ("x" * 300)) == "unreadable"


# What changes while it is read


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "abc").write_bytes(b"longer"), id="read before"),
        pytest.param(lambda root: (root / "sub" / "run").write_bytes(b"x"), id="read after"),
        pytest.param(lambda root: (root / "sub" / "new").write_bytes(b""), id="added"),
        pytest.param(lambda root: (root / "empty").rmdir(), id="removed"),
        pytest.param(lambda root: (root / "sub" / "run").unlink(), id="removed before its turn"),
        pytest.param(lambda root: (root / "link").unlink(), id="link removed"),
        pytest.param(lambda root: os.replace(root / "abc", root / "link"), id="link replaced"),
        pytest.param(lambda root: root.rename(root.parent / "away"), id="moved away"),
    ],
)
def test_a_change_while_it_is_read_is_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    (tree / "b").write_bytes(b"between abc and sub/run")
    hash_file = hloop.trees.hash_file

    def changing(path: str) -> FileDigest:
        if path.endswith("/b"):
            change(tree)
        return hash_file(path)

    monkeypatch.setattr(hloop.trees, "hash_file", changing)
    assert refusal(tree) == "changed_while_read"


def test_a_folder_that_becomes_a_fifo_does_not_hang(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hash_file = hloop.trees.hash_file

    def changing(path: str) -> FileDigest:
        if path.endswith("/run"):
            os.unlink(path)
            os.mkfifo(path)
        return hash_file(path)

    monkeypatch.setattr(hloop.trees, "hash_file", changing)
    assert refusal(tree) == "changed_while_read"
