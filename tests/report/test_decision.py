"""What counts as a run's decision."""

from __future__ import annotations

import hashlib
from typing import Any

from hloop.report.decision import decision_hash


def report(value: Any, *, sha256: str = "0" * 64, ignore: tuple[str, ...] = ()) -> dict[str, Any]:
    output = {"path": "${RUN_DIR}/selection.json", "ignore": list(ignore)}
    return {
        "selection": {"sha256": sha256, "value": value},
        "selection_artifact": "${RUN_DIR}/selection.json",
        "jobs": [{"job_id": "select", "outputs": [output]}],
    }


def candidates(steps: int, *, accepted: bool = True) -> dict[str, Any]:
    rows = [{"candidate_id": "a", "steps": steps, "accepted": accepted}]
    return {"rows": rows, "selected_candidate_ids": ["a"] if accepted else []}


def test_a_run_without_a_selection_decides_nothing():
    assert decision_hash({"selection": None, "jobs": []}) is None


def test_the_steps_of_a_candidate_are_no_decision():
    assert decision_hash(report(candidates(10))) == decision_hash(report(candidates(11)))


def test_whether_a_candidate_is_accepted_is_one():
    yes, no = (decision_hash(report(candidates(10, accepted=value))) for value in (True, False))
    assert yes != no


def test_a_selection_of_mimicx_has_the_published_digest():
    rows = [
        {"candidate_id": name, "steps": 9, "first_done_step": 9, "accepted": yes}
        for name, yes in (("a", True), ("b", False))
    ]
    value = {"schema": "s", "candidates": rows, "selected_candidate_ids": ["a"]}
    published = (
        b'{"candidate_decisions":[{"accepted":true,"candidate_id":"a"},'
        b'{"accepted":false,"candidate_id":"b"}],"selected_candidate_ids":["a"]}'
    )
    assert decision_hash(report(value)) == hashlib.sha256(published).hexdigest()


def test_the_order_of_candidates_is_no_decision():
    rows = [{"candidate_id": name, "accepted": name == "a"} for name in "ab"]
    first, second = (
        report({"rows": order, "selected_candidate_ids": ["a"]}) for order in (rows, rows[::-1])
    )
    assert decision_hash(first) == decision_hash(second)


def test_the_order_of_keys_is_no_decision():
    assert decision_hash(report({"a": 1, "b": 2})) == decision_hash(report({"b": 2, "a": 1}))


def test_any_value_of_another_selection_is_one():
    assert decision_hash(report({"a": 1})) != decision_hash(report({"a": 2}))


def test_what_the_plan_ignores_is_none():
    first, second = (
        report({"best": 1, "rows": [{"path": path}]}, ignore=("/rows/0/path", "/not/there"))
        for path in ("/one", "/two")
    )
    assert decision_hash(first) == decision_hash(second)


def test_a_decision_is_the_digest_of_its_canonical_json():
    expected = hashlib.sha256(b'{"a":1,"b":[true,null]}').hexdigest()
    assert decision_hash(report({"b": [True, None], "a": 1})) == expected


def test_of_what_is_no_json_the_bytes_decide():
    assert decision_hash(report(None, sha256="1" * 64)) == "1" * 64
