"""Whole oracles: runs of both paths, and what comes of them.

Real runs are those of paths that fail or hang, and of the embedded workload."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError
from hloop.files import RunPaths, sha256_bytes
from hloop.plan.contract import schema_problems
from hloop.plan.load import load_checked
from hloop.report.oracle import Question, read_settings, run_oracle
from hloop.report.oraclecheck import NotCovered, read_verdict, require_verdict
from hloop.report.oraclespec import Spec, read_spec
from oracle_case import execute_plainly, write_case
from source_tree import ROOT

BOTH = (Question.EQUALITY, Question.REPRODUCIBILITY)


def run(root: Path, mode: str, *questions: Question, **changes: Any) -> dict[str, Any]:
    spec = write_case(root, mode, **changes)
    return run_oracle(spec, root / "o", root, questions=questions or (Question.EQUALITY,))


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the paths without Snakemake."""
    monkeypatch.setattr("hloop.report.oracle.execute", execute_plainly)


def no_answer(root: Path, mode: str, **changes: Any) -> str:
    with pytest.raises(HloopError) as raised:
        run(root, mode, workers=[2], **changes)
    assert not (root / "o" / "verdict.json").exists()
    assert raised.value.exit_code == 2
    return str(raised.value)


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("green")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hloop.report.oracle.execute", execute_plainly)
        assert run(root, "agrees", *BOTH, workers=[2])["verdict"] == "GREEN"
    return root


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hloop.report.oracle.execute", execute_plainly)
        assert run(root, "parts", *BOTH)["verdict"] == "FAIL"
    return root


def document(root: Path) -> Any:
    return json.loads((root / "o" / "verdict.json").read_text())


@pytest.mark.parametrize("case", ["green", "parted"])
def test_a_verdict_keeps_its_schema(case: str, request: pytest.FixtureRequest) -> None:
    assert schema_problems(document(request.getfixturevalue(case)), "oracle-verdict") == []


def test_both_questions_have_legs_of_their_own(green: Path) -> None:
    legs = [
        (leg["question"], leg["baseline"], leg["candidate"]) for leg in document(green)["legs"]
    ]
    assert legs == [
        ("equality", "slow", "fast-2"),
        ("reproducibility", "fast-2", "fast-2-again"),
    ]


def test_a_verdict_names_its_runs_by_their_heads(green: Path) -> None:
    for run in document(green)["runs"].values():
        report = RunPaths(green / "o" / run["path"]).report
        assert run["head"] == sha256_bytes(report.read_bytes())


def test_the_first_leg_that_fails_decides_and_no_later_one_runs(parted: Path) -> None:
    verdicts = [leg["verdict"] for leg in document(parted)["legs"]]
    assert verdicts == ["FAIL", "not_run", "not_run", "not_run"]
    assert sorted(document(parted)["runs"]) == ["fast-2", "slow"]


def test_what_differs_is_told_by_seed_field_and_step(parted: Path) -> None:
    assert document(parted)["legs"][0]["rows"]["differences"] == [
        {
            "identity": {"seed": 6},
            "field": "v",
            "where": "v[1]",
            "reason": "2.0 against 4.0",
            "first_step": 2,
            "largest": 2.0,
        }
    ]


def test_a_speed_up_is_quoted_on_green_equality_only(green: Path, parted: Path) -> None:
    quoted = [leg["speedup"] is not None for leg in document(green)["legs"]]
    assert quoted == [True, False]
    assert {leg["speedup"] for leg in document(parted)["legs"]} == {None}


@pytest.mark.usefixtures("plainly")
def test_a_row_twice_in_place_of_another_fails(tmp_path: Path) -> None:
    rows = run(tmp_path, "repeats", workers=[2])["legs"][0]["rows"]
    assert [len(rows[name]) for name in ("missing", "unexpected", "duplicate")] == [1, 0, 1]


@pytest.mark.usefixtures("plainly")
def test_a_path_that_differs_from_run_to_run_fails_reproducibility(tmp_path: Path) -> None:
    verdict = run(tmp_path, "drifts", Question.REPRODUCIBILITY, workers=[2])
    assert verdict["legs"][0]["verdict"] == "FAIL"


def test_a_path_that_fails_gives_no_answer(tmp_path: Path) -> None:
    assert "slow: it exited with 1" in no_answer(tmp_path, "fails")


def test_a_budget_that_is_used_up_gives_no_answer(tmp_path: Path) -> None:
    found = no_answer(tmp_path, "hangs", budget_seconds=4)
    assert "the budget of 4 s was used up by slow" in found


@pytest.mark.usefixtures("plainly")
def test_a_slow_path_without_a_seed_gives_no_answer(tmp_path: Path) -> None:
    assert "the slow path wrote no row for seed 6" in no_answer(tmp_path, "forgets")


@pytest.mark.usefixtures("plainly")
def test_a_path_that_ran_with_another_setting_gives_no_answer(tmp_path: Path) -> None:
    assert "the path wrote that mode was other" in no_answer(tmp_path, "lies")


@pytest.mark.usefixtures("plainly")
def test_code_that_changes_meanwhile_gives_no_answer(tmp_path: Path) -> None:
    found = no_answer(tmp_path, "patches")
    assert "the code or a package that the verdict is bound to changed meanwhile" in found


@pytest.mark.usefixtures("plainly")
def test_a_spec_that_changes_after_freezing_gives_no_answer(tmp_path: Path) -> None:
    assert "the frozen spec changed" in no_answer(tmp_path, "unfreezes")


def test_a_folder_that_is_used_is_refused(green: Path) -> None:
    with pytest.raises(HloopError, match="already used"):
        run_oracle(green / "spec.yaml", green / "o", green)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"code": {"root": "{repo_root}", "files": ["x.py"]}}, "there is no x.py"),
        ({"files": {"checkpoint": "{repo_root}/lost"}}, "lost"),
        ({}, "names no devices"),
    ],
)
def test_an_oracle_that_cannot_begin_leaves_its_folder_unused(
    tmp_path: Path, changes: Any, found: str
) -> None:
    spec = write_case(tmp_path, **changes)
    with pytest.raises(HloopError, match=found):
        run_oracle(spec, tmp_path / "o", tmp_path, devices="simulated:0")
    assert not (tmp_path / "o").exists()


# What a verdict covers


def against(root: Path, **changes: str) -> list[str]:
    verdict = read_verdict(root / "o" / "verdict.json")
    return verdict.against({**verdict.document["legs"][0]["settings"], **changes})


def test_a_green_verdict_covers_what_it_is_bound_to(green: Path) -> None:
    assert against(green, seeds="another") == []


@pytest.mark.parametrize(
    ("name", "value"), [("mode", "x"), ("checkpoint_sha256", "0"), ("code_sha256", "0")]
)
def test_a_green_verdict_covers_nothing_else(green: Path, name: str, value: str) -> None:
    reasons = against(green, **{name: value})
    assert len(reasons) == 1 and reasons[0].startswith(f"{name} is {value}; the verdict is bound")


def test_another_worker_count_is_not_covered(green: Path) -> None:
    assert against(green, workers="8") == ["workers is 8; the verdict is bound to 2"]


def test_what_a_run_does_not_say_is_not_covered(green: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"mode": "agrees", "workers": 2}')
    reasons = read_verdict(green / "o" / "verdict.json").against(read_settings(file))
    assert [reason.split(";")[0] for reason in reasons] == [
        "checkpoint_sha256 is not given",
        "code_sha256 is not given",
    ]


def test_a_fail_covers_nothing(parted: Path) -> None:
    assert against(parted) == ["the verdict is FAIL; the spec says: the slow path it is"]


@pytest.mark.usefixtures("plainly")
def test_reproducibility_alone_covers_nothing(tmp_path: Path) -> None:
    run(tmp_path, "agrees", Question.REPRODUCIBILITY, workers=[2])
    reason = "the verdict does not say that the fast path is equal to the slow one"
    assert against(tmp_path) == [reason]


# A verdict that is not what its spec and its runs lead to


def copied(green: Path, root: Path) -> Path:
    shutil.copytree(green / "o", root / "o")
    for path in (root / "o").rglob("*"):
        path.chmod(0o755)
    return root


def answer_of(root: Path) -> str:
    with pytest.raises(HloopError) as raised:
        read_verdict(root / "o" / "verdict.json")
    return str(raised.value)


def test_a_verdict_may_be_moved_with_its_folder(green: Path, tmp_path: Path) -> None:
    assert against(copied(green, tmp_path)) == []


def test_a_spec_that_was_changed_after_freezing_gives_no_answer(
    green: Path, tmp_path: Path
) -> None:
    spec = copied(green, tmp_path) / "o" / "spec.yaml"
    spec.write_text(spec.read_text().replace("latency_ms", "v"))
    assert "the spec was changed after it was frozen" in answer_of(tmp_path)


def test_a_spec_that_was_changed_with_its_digest_gives_no_answer(
    green: Path, tmp_path: Path
) -> None:
    spec = copied(green, tmp_path) / "o" / "spec.yaml"
    spec.write_text(spec.read_text().replace("wall clock", "wall"))
    change(tmp_path, lambda d: d["spec"].update(sha256=sha256_bytes(spec.read_bytes())[7:]))
    assert "legs[0].settings: its run was made for other settings" in answer_of(tmp_path)


def change(root: Path, edit: Callable[[Any], Any]) -> None:
    verdict = document(root)
    edit(verdict)
    (root / "o" / "verdict.json").write_text(json.dumps(verdict))


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda d: d.update(verdict="GREEN"), "verdict: its legs say otherwise"),
        (lambda d: d["legs"][0].update(verdict="GREEN"), "legs[0]: its rows say otherwise"),
        (lambda d: d["legs"][0]["rows"].update(differences=[]), "legs[0].rows: the rows of its"),
        (lambda d: d["legs"][0]["settings"].update(mode="x"), "legs[0].settings: its run was"),
        (lambda d: d["legs"][0].update(workers=8), "legs[0]: its runs are others"),
        (
            lambda d: d["legs"][0].update(question="reproducibility"),
            "legs[0]: its runs are others",
        ),
        (lambda d: d["legs"][1].update(verdict="GREEN"), "legs[1]: a leg before it failed"),
        (lambda d: d["legs"].pop(0), "legs[0]: no leg before it failed"),
        (lambda d: d["legs"][0].update(baseline="fast-2"), "legs[0]: its runs are others"),
        (lambda d: d["runs"].pop("slow"), "legs[0]: its runs are others"),
        (lambda d: d["runs"]["slow"].update(head="sha256:" + 64 * "0"), "runs.slow.head: the run"),
    ],
)
def test_a_verdict_that_was_changed_gives_no_answer(
    parted: Path, tmp_path: Path, edit: Callable[[Any], Any], found: str
) -> None:
    change(copied(parted, tmp_path), edit)
    assert found in answer_of(tmp_path)


def test_rows_that_were_changed_give_no_answer(parted: Path, tmp_path: Path) -> None:
    folder = copied(parted, tmp_path) / "o"
    (folder / "fast-2/rows.jsonl").write_bytes((folder / "slow/rows.jsonl").read_bytes())
    assert "has not the digest that the run's report gives" in answer_of(tmp_path)


def test_a_verdict_without_its_runs_gives_no_answer(green: Path, tmp_path: Path) -> None:
    shutil.rmtree(copied(green, tmp_path) / "o" / "slow")
    assert "cannot be read" in answer_of(tmp_path)


# hloop run --requires-verdict


def require(green: Path, plan_root: Path, **job: Any) -> None:
    spec: Spec = read_spec(green / "o" / "spec.yaml", green)
    plan = spec.plan("fast", 2, 60)
    plan["jobs"][0] |= job
    file = plan_root / "plan.json"
    file.write_text(json.dumps(plan))
    require_verdict(green / "o" / "verdict.json", load_checked(file, green, plan_root / "run"))


def changed(green: Path, index: int, value: str) -> list[str]:
    command = read_spec(green / "o" / "spec.yaml", green).command("fast", 2)
    return [*command[:index], value, *command[index + 1 :]]


def test_a_run_of_the_fast_path_as_the_verdict_has_it_may_begin(
    green: Path, tmp_path: Path
) -> None:
    require(green, tmp_path)


@pytest.mark.parametrize(("index", "value"), [(2, "other"), (3, "3"), (3, "many")])
def test_a_run_with_another_setting_may_not_begin(
    green: Path, tmp_path: Path, index: int, value: str
) -> None:
    with pytest.raises(NotCovered, match="the verdict is bound to"):
        require(green, tmp_path, command=changed(green, index, value))


def test_a_run_of_the_slow_path_needs_no_verdict(green: Path, tmp_path: Path) -> None:
    require(green, tmp_path, command=changed(green, 3, "0"))


def test_a_program_may_be_written_from_the_folder_that_its_job_runs_in(
    green: Path, tmp_path: Path
) -> None:
    require(green, tmp_path, command=changed(green, 1, "program.py"))
    with pytest.raises(NotCovered, match="no job runs what"):
        require(green, tmp_path, command=changed(green, 1, "program.py"), cwd=str(tmp_path))


def test_a_command_that_is_neither_path_may_not_begin(green: Path, tmp_path: Path) -> None:
    with pytest.raises(NotCovered, match="neither of the two paths"):
        require(green, tmp_path, command=["python", "{repo_root}/program.py", "--fast"])


def test_a_command_within_a_text_for_a_shell_may_not_begin(green: Path, tmp_path: Path) -> None:
    command = ["sh", "-c", "exec python {repo_root}/program.py agrees 2"]
    with pytest.raises(NotCovered, match="neither of the two paths"):
        require(green, tmp_path, command=command)


def test_a_program_by_another_name_may_not_begin(green: Path, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(green / "program.py")
    with pytest.raises(NotCovered, match="neither of the two paths"):
        require(green, tmp_path, command=["python", str(tmp_path / "link.py"), "agrees", "2"])


def test_a_job_with_a_variable_of_its_own_may_not_begin(green: Path, tmp_path: Path) -> None:
    with pytest.raises(NotCovered, match="it sets the variable OMP_NUM_THREADS"):
        require(green, tmp_path, environment={"OMP_NUM_THREADS": "1"})


def test_files_count_where_the_job_finds_them(green: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("others")
    command = changed(green, 4, "checkpoint")
    require(green, tmp_path, command=command)
    with pytest.raises(NotCovered, match="checkpoint_sha256 is"):
        require(green, tmp_path, command=command, cwd=str(tmp_path))


def test_a_job_of_another_python_may_not_begin_where_packages_are_bound(
    plainly: None, tmp_path: Path
) -> None:
    run(tmp_path, "agrees", workers=[2], packages=["pytest"])
    require(tmp_path, tmp_path)
    with pytest.raises(NotCovered, match="it runs /usr/bin/python3; versions of packages"):
        require(tmp_path, tmp_path, command=changed(tmp_path, 0, "/usr/bin/python3"))


def test_a_plan_without_such_a_job_is_refused(green: Path, tmp_path: Path) -> None:
    with pytest.raises(NotCovered, match="no job runs what the verdict is about"):
        require(green, tmp_path, command=["true"])


# The embedded workload, twice


def humanoid(root: Path, policy: str, *questions: Question, **changes: Any) -> dict[str, Any]:
    spec = yaml.safe_load((ROOT / f"config/oracle-{policy}.yaml").read_text())
    spec["settings"]["steps"] = 30
    (root / "spec.yaml").write_text(yaml.safe_dump(spec | changes))
    return run_oracle(
        root / "spec.yaml", root / "o", ROOT, questions=questions, devices="simulated:1"
    )


def test_the_policy_sum_is_green_at_2_and_8_workers_and_its_settings_are_covered(
    tmp_path: Path,
) -> None:
    verdict = humanoid(tmp_path, "sum", Question.EQUALITY)
    legs = [(leg["workers"], leg["verdict"]) for leg in verdict["legs"]]
    assert legs == [(2, "GREEN"), (8, "GREEN")]
    written = read_settings(tmp_path / "o" / "fast-8" / "settings.json")
    assert read_verdict(tmp_path / "o" / "verdict.json").against(written) == []


def test_the_policy_matmul_is_reproducible_and_not_equal_to_itself_one_by_one(
    tmp_path: Path,
) -> None:
    questions = (Question.REPRODUCIBILITY, Question.EQUALITY)
    verdict = humanoid(tmp_path, "matmul", *questions, workers=[2])
    assert [leg["verdict"] for leg in verdict["legs"]] == ["GREEN", "FAIL"]
