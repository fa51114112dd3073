"""select.py: who is accepted, why, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest


def report(**fields) -> dict[str, object]:
    return {
        "schema_version": "hloop.failure-report.v1",
        "steps": 100,
        "budget_steps": 100,
        "terminated": False,
        "first_done_step": None,
    } | fields


@pytest.fixture
def selection(select_program, monkeypatch, tmp_path):
    """Write the reports, run the program in this process, and give its output's bytes."""

    def selection(pairs, folder="reports") -> bytes:
        (tmp_path / folder).mkdir()
        argv = ["select.py", "--output", str(tmp_path / folder / "selection.json")]
        for number, (candidate, content) in enumerate(pairs):
            path = tmp_path / folder / f"report{number}.json"
            path.write_text(json.dumps(content))
            argv += ["--candidate", candidate, str(path)]
        monkeypatch.setattr(sys, "argv", argv)
        select_program.main()
        return (tmp_path / folder / "selection.json").read_bytes()

    return selection


def decision(selection, content) -> tuple[bool, str]:
    (row,) = json.loads(selection([("a", content)]))["rows"]
    return row["accepted"], row["reason"]


def test_a_rollout_that_never_terminated_and_ran_its_budget_is_accepted(selection):
    assert decision(selection, report()) == (True, "ran all 100 steps and never terminated")


def test_a_rollout_that_terminated_at_its_very_last_step_is_rejected(selection):
    content = report(terminated=True, first_done_step=100)
    assert decision(selection, content) == (False, "terminated at step 100")


def test_a_rollout_that_fell_short_of_its_budget_is_rejected(selection):
    assert decision(selection, report(steps=57)) == (False, "ran 57 of 100 steps")


def test_where_nothing_terminated_the_peak_error_decides_nothing(selection):
    content = report(focus="peak_error", focus_step=20)
    assert decision(selection, content)[0] is True


def test_rows_and_ids_are_sorted(selection):
    value = json.loads(selection([(name, report()) for name in ("c", "a", "b")]))
    assert [row["candidate_id"] for row in value["rows"]] == ["a", "b", "c"]
    assert value["selected_candidate_ids"] == ["a", "b", "c"]


def test_only_the_accepted_are_selected(selection):
    value = json.loads(selection([("a", report(steps=1)), ("b", report())]))
    assert value["selected_candidate_ids"] == ["b"]


def test_the_order_and_the_paths_of_the_reports_do_not_matter(selection):
    first, second = ("a", report(steps=1)), ("b", report())
    assert selection([first, second], "one") == selection([second, first], "two")


# What it refuses


@pytest.fixture
def refused(run, command, tmp_path):
    """Give the sentence with which a report's content is refused."""

    def refused(content: str, *more: str) -> str:
        path = tmp_path / "report.json"
        path.write_text(content)
        argv = [*command("select", output=tmp_path / "selection.json"), "--candidate", "a"]
        result = run([*argv, str(path), *more])
        assert (result.returncode, (tmp_path / "selection.json").exists()) == (2, False)
        assert "Traceback" not in result.stderr
        return result.stderr

    return refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "report.json: is empty"),
        ("{", "report.json: not JSON"),
        ("[]", "report.json: holds list; expected one JSON object"),
        ("{}", "report.json: schema_version is None"),
        (json.dumps(report(steps=float("nan"))), "report.json: holds NaN"),
        (json.dumps(report(terminated="false")), "terminated is 'false'; expected bool"),
        (json.dumps(report(steps=True)), "steps is True; expected int"),
        (json.dumps(report(first_done_step=1.5)), "first_done_step is 1.5; expected int or null"),
        (json.dumps(report(terminated=True)), "terminated is True, but first_done_step is None"),
        (json.dumps(report(first_done_step=9)), "terminated is False, but first_done_step is 9"),
    ],
)
def test_a_report_that_cannot_be_judged_is_refused_by_name(refused, content, message):
    assert message in refused(content)


def test_a_missing_field_is_named(refused):
    content = report()
    del content["terminated"]
    assert "report.json: the field 'terminated' is missing" in refused(json.dumps(content))


def test_a_missing_report_is_refused_by_name(refused, tmp_path):
    missing = str(tmp_path / "none.json")
    assert f"{missing}: does not exist" in refused(
        json.dumps(report()), "--candidate", "b", missing
    )


def test_a_candidate_given_twice_is_refused(refused, tmp_path):
    again = ("--candidate", "a", str(tmp_path / "report.json"))
    assert "the candidate 'a' is given twice" in refused(json.dumps(report()), *again)


def test_no_candidate_at_all_is_refused(run, command, tmp_path):
    result = run(command("select", output=tmp_path / "selection.json"))
    assert result.returncode == 2 and "--candidate" in result.stderr
