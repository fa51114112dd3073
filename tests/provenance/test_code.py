"""What a manifest says of the code: the state of a git repository, and scripts by name."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hloop.errors import HloopError
from hloop.plan.render import RenderedJob
from hloop.portable import Portable
from hloop.provenance import code
from hloop.provenance.code import Scripts, git_facts
from supervised import job, rendered

Git = Callable[..., bytes]
NOWHERE = Path("/nowhere/run")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, and no configuration but its own."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@pytest.fixture
def git(repository: Path) -> Git:
    def run(*arguments: str) -> bytes:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *who, *arguments], cwd=repository, check=True, stdout=subprocess.PIPE
        ).stdout

    return run


@pytest.fixture
def committed(repository: Path, git: Git) -> Path:
    """A repository with one commit: a text file, and a file that is none."""
    (repository / "a.py").write_text("one\n")
    (repository / "b.bin").write_bytes(bytes(range(256)))
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return repository


def facts(root: Path, run_dir: Path = NOWHERE) -> dict[str, Any]:
    found = git_facts(root, run_dir)
    assert found is not None
    return found


def test_a_clean_repository_is_its_commit(committed: Path, git: Git) -> None:
    assert facts(committed) == {
        "commit": git("rev-parse", "HEAD").decode().strip(),
        "dirty": False,
        "diff_sha256": None,
        "untracked_files": 0,
        "problem": None,
    }


def test_the_digest_of_a_difference_is_over_what_git_prints(committed: Path, git: Git) -> None:
    (committed / "a.py").write_text("two\n")
    (committed / "b.bin").write_bytes(bytes(100))
    found = facts(committed)
    expected = hashlib.sha256(git("diff", "--binary", "HEAD")).hexdigest()
    assert (found["dirty"], found["diff_sha256"]) == (True, expected)


def test_what_is_staged_counts(committed: Path, git: Git) -> None:
    (committed / "new.py").write_text("new\n")
    git("add", "new.py")
    expected = hashlib.sha256(git("diff", "--binary", "HEAD")).hexdigest()
    assert facts(committed)["diff_sha256"] == expected


def test_what_was_staged_and_taken_back_is_no_difference(committed: Path, git: Git) -> None:
    (committed / "a.py").write_text("two\n")
    git("add", "a.py")
    (committed / "a.py").write_text("one\n")
    assert facts(committed)["diff_sha256"] is None


def test_untracked_files_are_counted_one_by_one(committed: Path) -> None:
    (committed / "new").mkdir()
    for name in ("x", "y\nz", "ü"):
        (committed / "new" / name).write_text("")
    found = facts(committed)
    assert (found["dirty"], found["untracked_files"], found["diff_sha256"]) == (True, 3, None)


def test_ignored_files_do_not_matter(committed: Path, git: Git) -> None:
    (committed / ".git/info/exclude").write_text("*.log\n")
    (committed / "x.log").write_text("")
    assert facts(committed)["dirty"] is False


def test_the_run_directory_does_not_matter(committed: Path) -> None:
    run_dir = committed / "runs/first"
    run_dir.mkdir(parents=True)
    (run_dir / "plan.json").write_text("")
    assert facts(committed, run_dir)["dirty"] is False


def test_what_lies_beside_the_run_directory_matters(committed: Path) -> None:
    (committed / "runs/first-1").mkdir(parents=True)
    (committed / "runs/first-1/plan.json").write_text("")
    assert facts(committed, committed / "runs/first")["untracked_files"] == 1


def test_the_run_directory_is_known_by_a_symbolic_link(committed: Path, tmp_path: Path) -> None:
    (committed / "run").mkdir()
    (committed / "run/plan.json").write_text("")
    link = tmp_path / "link"
    link.symlink_to(committed)
    assert facts(link, link / "run")["dirty"] is False


def test_a_folder_of_a_repository_is_the_repository(committed: Path) -> None:
    (committed / "sub").mkdir()
    (committed / "a.py").write_text("two\n")
    assert facts(committed / "sub") == facts(committed)


def test_before_the_first_commit_there_is_none(repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("one\n")
    git("add", ".")
    found = facts(repository)
    assert (found["commit"], found["dirty"], found["problem"]) == (None, True, None)


def test_outside_of_a_repository_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert git_facts(tmp_path, NOWHERE) is None


def test_without_git_there_is_nothing_to_say(
    committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_facts(committed, NOWHERE) is None


def test_a_repository_that_git_cannot_read_is_a_problem(committed: Path) -> None:
    (committed / ".git/config").write_text("[core\n")
    found = facts(committed)
    assert found["dirty"] is True
    assert found["problem"].startswith("git rev-parse: fatal: bad config line 1")


def fake_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


def test_a_repository_of_somebody_else_is_a_problem(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = "fatal: detected dubious ownership in repository at '/r'"
    fake_git(tmp_path, monkeypatch, f'echo "{refusal}\nTo add an exception" >&2; exit 128')
    assert facts(committed)["problem"] == f"git rev-parse: {refusal}"


def test_a_git_that_gives_no_answer_is_a_problem(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    monkeypatch.setattr(code, "TIMEOUT_SECONDS", 0.5)
    waits = f'case "$*" in *status*) exec sleep 60;; *) exec {real} "$@";; esac'
    fake_git(tmp_path, monkeypatch, waits)
    assert facts(committed)["problem"] == "git status gave no answer within 0.5 seconds"


def test_git_is_started_three_times_at_most(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (committed / "a.py").write_text("two\n")
    real = shutil.which("git")
    fake_git(tmp_path, monkeypatch, f'echo >> {tmp_path}/calls; exec {real} "$@"')
    facts(committed)
    assert (tmp_path / "calls").read_text() == "\n" * 3


@pytest.mark.parametrize(
    "key", ["core.fsmonitor", "diff.external", "diff.word.textconv", "diff.word.command"]
)
def test_no_program_of_the_repositorys_configuration_is_run(
    committed: Path, git: Git, tmp_path: Path, key: str
) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    (committed / ".git/info/attributes").write_text("* diff=word\n")
    (committed / "a.py").write_text("two\n")
    git("config", key, str(program))
    facts(committed)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("diff.context", "9"),
        ("diff.algorithm", "histogram"),
        ("diff.renames", "false"),
        ("diff.submodule", "log"),
        ("diff.orderFile", "folder/order"),
        ("diff.interHunkContext", "9"),
        ("diff.relative", "true"),
        ("core.quotePath", "false"),
    ],
)
def test_the_digest_does_not_depend_on_the_users_configuration(
    committed: Path, git: Git, key: str, value: str
) -> None:
    folder = committed / "folder"
    folder.mkdir()
    (committed / "module").mkdir()
    (folder / "order").write_text("ü\n*.py\n")
    numbers = [n * n % 17 for n in range(60)]
    (committed / "ü").write_text("".join(f"{n}\n" for n in numbers))
    git("add", ".")
    git("update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},module")
    git("commit", "-q", "-m", "second")
    (committed / "ü").write_text("".join(f"{n + n // 16}\n" for n in numbers[::-1] + numbers))
    (committed / "a.py").write_text("two\n")
    (committed / "b.bin").rename(committed / "c.bin")
    git("add", "a.py", "b.bin", "c.bin")
    git("update-index", "--cacheinfo", f"160000,{'b' * 40},module")
    before = facts(folder)["diff_sha256"]
    plain = git("diff", "--binary", "HEAD")
    assert before == hashlib.sha256(plain).hexdigest()
    git("config", key, value)
    here = git("-C", "folder", "diff", "--binary", "HEAD")
    assert here != plain, "the configuration changes nothing here"
    assert facts(folder)["diff_sha256"] == before


def test_the_index_is_left_as_it_is(committed: Path) -> None:
    os.utime(committed / "a.py", (1, 1))
    before = (committed / ".git/index").read_bytes()
    facts(committed)
    assert (committed / ".git/index").read_bytes() == before


def test_another_repository_in_the_environment_does_not_matter(
    committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = facts(committed)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/nowhere")
    assert facts(committed) == before


# Scripts


def command(root: Path, *argv: str, **fields: Any) -> RenderedJob:
    plan = rendered(root, job("a", command=list(argv), **fields))
    return plan.jobs["a"]


def scripts(root: Path) -> Scripts:
    return Scripts(Portable(root / "run", root))


def named(root: Path, *argv: str, **fields: Any) -> list[str]:
    return [
        str(Path(path).relative_to(root))
        for path in scripts(root).paths(command(root, *argv, **fields))
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("train.py", "sub/eval.py", "run/made.py", "python"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python3", "train.py"], ["train.py"]),
        (["python3", "{repo_root}/train.py"], ["train.py"]),
        (["python3", "./sub/../train.py", "train.py"], ["train.py"]),
        (["python3", "--config=train.py", "-c=sub/eval.py"], ["train.py", "sub/eval.py"]),
        (["./train.py"], ["train.py"]),
        (["python", "train.py"], ["train.py"]),
        (["python3", "sub", "--in=sub", "", "--", "-", "--x="], []),
        (["python3", "missing.py", "--config=missing.py"], []),
        (["python3", "config=train.py"], []),
        (["python3", "-c", "import x\n" * 9999], []),
        (["python3", "{run_dir}/made.py"], []),
        (["python3", "/etc/passwd", "../root2/train.py"], []),
    ],
)
def test_scripts_are_the_plain_files_of_the_repository_that_a_command_names(
    root: Path, argv: list[str], expected: list[str]
) -> None:
    assert named(root, *argv) == expected


def test_a_relative_path_is_relative_to_the_jobs_folder(root: Path) -> None:
    assert named(root, "python3", "eval.py", "../train.py", cwd="sub") == [
        "sub/eval.py",
        "train.py",
    ]


def test_a_link_out_of_the_repository_is_no_script(root: Path) -> None:
    (root / "link").symlink_to("/bin/sh")
    assert named(root, "./link") == []


def test_a_link_within_the_repository_is_a_script(root: Path) -> None:
    (root / "link.py").symlink_to("train.py")
    assert named(root, "./link.py") == ["link.py"]


def test_a_link_into_the_run_directory_is_no_script(root: Path) -> None:
    (root / "link.py").symlink_to("run/made.py")
    assert named(root, "./link.py") == []


def test_a_declared_input_is_no_script(root: Path) -> None:
    inputs = [{"role": "policy", "path": "train.py", "sha256": None}]
    assert named(root, "python3", "train.py", "sub/eval.py", inputs=inputs) == ["sub/eval.py"]


def test_a_reference_has_the_digest_of_the_bytes(root: Path) -> None:
    (found,) = scripts(root).references([command(root, "python3", "train.py")])
    assert found.to_dict() == {
        "path": "${REPO_ROOT}/train.py",
        "type": "file",
        "sha256": hashlib.sha256(b"train.py").hexdigest(),
        "size": 8,
    }


def test_references_stand_in_the_order_of_their_paths_and_once(root: Path) -> None:
    jobs = [command(root, "python3", "train.py", "sub/eval.py"), command(root, "./train.py")]
    found = [entry.path for entry in scripts(root).references(jobs)]
    assert found == ["${REPO_ROOT}/sub/eval.py", "${REPO_ROOT}/train.py"]


def test_a_script_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(path: str, *, follow: bool) -> Any:
        read.append(path)
        return hash_file(path, follow=follow)

    hash_file = code.hash_file
    monkeypatch.setattr(code, "hash_file", counted)
    ours, jobs = scripts(root), [command(root, "./train.py"), command(root, "sh", "train.py")]
    ours.references(jobs)
    ours.references(jobs[:1])
    assert read == [str(root / "train.py")]


def test_a_script_that_became_another_one_is_read_again(root: Path) -> None:
    ours, jobs = scripts(root), [command(root, "./train.py")]
    (before,) = ours.references(jobs)
    (root / "train.py").write_text("TRAIN.PY")
    os.utime(root / "train.py", (1, 1))
    (after,) = ours.references(jobs)
    assert after.sha256 == hashlib.sha256(b"TRAIN.PY").hexdigest() != before.sha256


def test_a_script_that_is_gone_is_left_out(root: Path) -> None:
    ours, jobs = scripts(root), [command(root, "./train.py")]
    ours.references(jobs)
    (root / "train.py").unlink()
    assert ours.references(jobs) == []


def test_a_script_that_changes_while_it_is_read_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.file_digest

    def meddle(file: Any, name: str) -> Any:
        found = digest(file, name)
        (root / "train.py").write_text("something longer")
        return found

    monkeypatch.setattr(hashlib, "file_digest", meddle)
    with pytest.raises(HloopError, match="changed while it was read"):
        scripts(root).references([command(root, "./train.py")])
