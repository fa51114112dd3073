"""One bad plan per rule: each file's name says which code must be found, and no other."""

from pathlib import Path

import pytest
from hloop.errors import PlanError
from hloop.plan.load import load_checked

PLANS = Path(__file__).parents[1] / "data" / "plans"
DOCS = (Path(__file__).parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
BAD = sorted((PLANS / "bad").iterdir())


def code_of(path: Path) -> str:
    """``<code>.yaml`` or ``<code>--<variant>.json``."""
    return path.stem.partition("--")[0]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_plan_breaks_exactly_the_rule_it_is_named_after(path: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as error:
        load_checked(path, tmp_path, tmp_path / "run")
    assert {problem.code for problem in error.value.problems} == {code_of(path)}


@pytest.mark.parametrize("path", sorted((PLANS / "good").iterdir()), ids=lambda path: path.stem)
def test_a_good_plan_breaks_no_rule(path: Path, tmp_path: Path) -> None:
    assert load_checked(path, tmp_path, tmp_path / "run").jobs


def test_every_rule_in_the_docs_has_a_bad_plan() -> None:
    section = DOCS.partition("## What is refused")[2].partition("\n## ")[0]
    codes = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    assert codes == {code_of(path) for path in BAD} | {"unreadable"}


def test_the_plan_in_the_docs_breaks_no_rule(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(DOCS.partition("```yaml\n")[2].partition("```")[0])
    assert load_checked(plan, tmp_path, tmp_path / "run").jobs
