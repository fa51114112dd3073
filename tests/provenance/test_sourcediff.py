"""Is a source tree the authors' commit with exactly the reviewed patch?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hloop.errors import HloopError
from hloop.provenance.sourcediff import compare_source


class Repository:
    """A real Git repository, with the authors' commit and a reviewed change to train.py."""

    def __init__(self, root: Path, algorithm: str = "sha1"):
        self.root = root
        root.mkdir()
        self.git("init", "-q", f"--object-format={algorithm}")
        self.write("train.py", "one\ntwo\nthree\n")
        self.write("lib/model.py", "model\n")
        self.write(".gitignore", "*.log\nshadow.py\n__pycache__/\n")
        (root / "run.sh").write_text("echo\n")
        (root / "run.sh").chmod(0o755)
        (root / "link").symlink_to("train.py")
        self.commit = self.commit_all()

    def git(self, *arguments: str) -> bytes:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(self.root), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def commit_all(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        return self.git("rev-parse", "HEAD").decode().strip()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def patch(self) -> bytes:
        self.git("add", "-AN")
        return self.git("diff", "--binary", self.commit)

    def reasons(self, patch: bytes) -> list[str]:
        return [
            problem.found for problem in compare_source(self.root, self.commit, patch).problems
        ]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "source")


@pytest.fixture
def reviewed(repository: Repository) -> bytes:
    """The patch of every kind of change, which the tree holds."""
    repository.write("train.py", "one\n2\nthree\n")
    repository.write("new/file.py", "new\n")
    (repository.root / "lib/model.py").unlink()
    (repository.root / "run.sh").chmod(0o644)
    (repository.root / "link").unlink()
    (repository.root / "link").symlink_to("run.sh")
    (repository.root / "weights.bin").write_bytes(bytes(range(256)))
    return repository.patch()


def test_an_unchanged_tree_is_the_commit_with_an_empty_patch(repository: Repository) -> None:
    assert repository.reasons(b"") == []


def test_a_tree_with_the_reviewed_change_is_the_commit_with_the_patch(
    repository: Repository, reviewed: bytes
) -> None:
    assert repository.reasons(reviewed) == []


def test_the_tree_is_named_as_git_names_it(repository: Repository, reviewed: bytes) -> None:
    commit = repository.commit
    repository.commit_all()
    expected = repository.git("rev-parse", "HEAD^{tree}").decode().strip()
    assert compare_source(repository.root, commit, reviewed).tree == expected


def test_a_repository_of_sha256_objects_will_do(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "source", "sha256")
    repository.write("train.py", "one\n2\nthree\n")
    assert (len(repository.commit), repository.reasons(repository.patch())) == (64, [])


def change(root: Path, name: str) -> None:
    (root / name).write_text("changed\n")


def unlink(root: Path, name: str) -> None:
    (root / name).unlink()


def relink(root: Path, name: str) -> None:
    (root / name).unlink()
    (root / name).symlink_to("elsewhere")


def link_to_same(root: Path, name: str) -> None:
    (root / name).rename(root / ".git/kept")
    (root / name).symlink_to(".git/kept")


def fifo(root: Path, name: str) -> None:
    os.mkfifo(root / name)


@pytest.mark.parametrize(
    ("name", "tamper", "reason"),
    [
        ("lib/model.py", change, "lib/model.py is changed in the source tree, and not in the"),
        ("lib/model.py", unlink, "lib/model.py is gone from the source tree"),
        ("extra.py", change, "extra.py is in the source tree, and neither in the commit nor in"),
        ("shadow.py", change, "shadow.py is in the source tree, and neither"),
        ("run.log", change, "run.log is in the source tree, and neither"),
        ("lib/.git", change, "lib/.git is in the source tree, and neither"),
        ("pipe", fifo, "pipe is in the source tree, and neither"),
        ("run.sh", lambda root, name: (root / name).chmod(0o644), "run.sh is changed"),
        ("train.py", lambda root, name: (root / name).chmod(0o755), "train.py is changed"),
        ("link", relink, "link is changed"),
        ("train.py", link_to_same, "train.py is changed"),
        ("train.py", change, "train.py is changed"),
    ],
)
def test_a_change_that_was_not_reviewed_is_named(
    repository: Repository, name: str, tamper: object, reason: str
) -> None:
    tamper(repository.root, name)  # type: ignore[operator]
    (found,) = repository.reasons(b"")
    assert found.startswith(reason)


def test_a_change_that_is_only_in_the_patch_is_named(
    repository: Repository, reviewed: bytes
) -> None:
    repository.git("reset", "-q", "--hard", repository.commit)
    repository.git("clean", "-qfdx")
    assert [reason.split()[4].rstrip(",") for reason in repository.reasons(reviewed)] == [
        *("lib/model.py", "link", "new/file.py", "run.sh", "train.py", "weights.bin")
    ]


def test_a_patched_file_with_another_change_is_named(
    repository: Repository, reviewed: bytes
) -> None:
    repository.write("train.py", "one\n2\nthree\nfour\n")
    assert repository.reasons(reviewed) == ["train.py is not as the reviewed patch makes it"]


@pytest.mark.parametrize("staged", [True, False])
def test_what_is_staged_or_committed_since_makes_no_difference(
    repository: Repository, reviewed: bytes, staged: bool
) -> None:
    if staged:
        repository.git("add", "-A")
    else:
        commit = repository.commit
        repository.commit_all()
        repository.commit = commit
    assert repository.reasons(reviewed) == []


def test_compiled_files_and_empty_folders_do_not_count(repository: Repository) -> None:
    repository.write("lib/__pycache__/model.cpython-311.pyc", "compiled")
    (repository.root / "empty").mkdir()
    assert repository.reasons(b"") == []


@pytest.mark.parametrize("name", ["lib/__pycache__/model.py", "lib/model.pyc"])
def test_other_files_in_the_cache_and_compiled_files_elsewhere_count(
    repository: Repository, name: str
) -> None:
    repository.write(name, "code")
    assert len(repository.reasons(b"")) == 1


def test_a_changed_line_ending_is_a_change_whatever_git_is_told(repository: Repository) -> None:
    repository.git("config", "core.autocrlf", "true")
    repository.write(".git/info/attributes", "* text=auto eol=crlf\n")
    repository.write("train.py", "one\r\ntwo\r\nthree\r\n")
    assert repository.reasons(b"") == [
        "train.py is changed in the source tree, and not in the reviewed patch"
    ]


def test_nothing_that_the_repository_names_is_run(repository: Repository, reviewed: bytes) -> None:
    ran = repository.root.parent / "ran"
    script = repository.root.parent / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    for key in (
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external"),
        *("core.fsmonitor", "core.pager", "diff.x.textconv", "core.sshCommand"),
    ):
        repository.git("config", key, str(script))
    repository.write(".git/info/attributes", "* filter=x diff=x\n")
    hooks = ("post-index-change", "post-checkout", "pre-commit", "applypatch-msg")
    for hook in hooks:
        (repository.root / ".git/hooks").mkdir(exist_ok=True)
        (repository.root / ".git/hooks" / hook).symlink_to(script)
    assert (repository.reasons(reviewed), ran.exists()) == ([], False)


def test_a_replaced_commit_is_not_followed(repository: Repository) -> None:
    original = repository.commit
    repository.write("train.py", "swapped\n")
    repository.git("replace", original, repository.commit_all())
    repository.commit = original
    assert len(repository.reasons(b"")) == 1


def test_variables_of_git_in_the_environment_have_no_say(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    assert compare_source(repository.root, repository.commit, b"").problems == ()


def test_the_repository_is_left_as_it_is(repository: Repository, reviewed: bytes) -> None:
    def state() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes() if path.is_file() else b""
            for path in (repository.root / ".git").rglob("*")
        }

    before = state()
    repository.reasons(reviewed)
    assert state() == before


def test_a_linked_work_tree_will_do(repository: Repository) -> None:
    other = repository.root.parent / "other"
    repository.git("worktree", "add", "-q", str(other))
    assert compare_source(other, repository.commit, b"").problems == ()


def test_a_name_that_is_no_text_is_told(repository: Repository) -> None:
    (repository.root / os.fsdecode(b"caf\xe9.py")).write_text("x")
    assert repository.reasons(b"")[0].startswith(r"caf\udce9.py is in the source tree")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (b"no patch at all\n", "does not apply to the authors' commit"),
        (b"--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-1\n+2\n", "does not apply"),
        (b"--- a/../up.py\n+++ b/../up.py\n@@ -0,0 +1 @@\n+2\n", "does not apply"),
    ],
)
def test_a_patch_that_does_not_apply_is_a_reason(
    repository: Repository, patch: bytes, words: str
) -> None:
    (found,) = repository.reasons(patch)
    assert words in found


@pytest.mark.parametrize("kind", ["absent", "tree"])
def test_what_is_no_commit_is_a_reason(repository: Repository, kind: str) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}").decode().strip()
    repository.commit = "0" * 40 if kind == "absent" else tree
    (found,) = repository.reasons(b"")
    assert "has no commit" in found


@pytest.mark.parametrize("where", ["nothing", "below"])
def test_a_folder_that_is_not_the_top_of_a_work_tree_is_no_answer(
    repository: Repository, where: str
) -> None:
    folder = repository.root.parent if where == "nothing" else repository.root / "lib"
    with pytest.raises(HloopError, match="Git work tree"):
        compare_source(folder, repository.commit, b"")
