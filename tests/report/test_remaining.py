from __future__ import annotations

import pytest
from hloop.plan.model import Job, Plan, ResourceClass
from hloop.report.remaining import Outlook

S = 10**9
GPU, CPU = ResourceClass.GPU, ResourceClass.CPU
PLAN = Plan(
    "p",
    (
        Job("a", GPU, ("x",), cuda_visible_devices="0"),
        Job("b", GPU, ("x",), cuda_visible_devices="1"),
        Job("c", CPU, ("x",), depends_on=("a",)),
    ),
)
KNOWN = {"a": 10 * S, "b": 4 * S, "c": 2 * S}


def start(mode="hloop"):
    return {
        "mode": mode,
        "devices": [{"logical": 0}, {"logical": 1}],
        "limits": {"cpu": 1, "io": 1},
        "placement": "pinned",
    }


@pytest.mark.parametrize(("mode", "seconds"), [("hloop", 12), ("sequential", 16)])
def test_the_rest_is_what_the_engine_makes_of_it(mode, seconds):
    assert Outlook(PLAN, KNOWN).left_ns(start(mode), (), {}, {}) == seconds * S


def test_a_job_that_runs_takes_what_is_left_of_it():
    left = Outlook(PLAN, KNOWN).left_ns(start(), {"b"}, {"a": 7 * S}, {})
    assert left == 5 * S


def test_a_job_that_runs_longer_than_expected_may_end_at_any_moment():
    left = Outlook(PLAN, KNOWN).left_ns(start(), {"b"}, {"a": 70 * S}, {})
    assert left == 2 * S


def test_what_is_not_known_is_what_its_class_took():
    left = Outlook(PLAN, {"c": 2 * S}).left_ns(start(), {"b"}, {}, {"b": 6 * S})
    assert left == 8 * S


def test_without_any_time_nothing_is_said():
    assert Outlook(PLAN, {}).left_ns(start(), (), {}, {}) is None


def test_nothing_is_said_of_what_another_executor_will_do():
    assert Outlook(PLAN, KNOWN).left_ns(start("external"), (), {}, {}) is None


def test_where_all_is_over_nothing_is_left():
    assert Outlook(PLAN, KNOWN).left_ns(start(), {"a", "b", "c"}, {}, {}) == 0
