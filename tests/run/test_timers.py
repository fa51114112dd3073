"""Things to do later, in their order."""

from __future__ import annotations

import time

from hloop.run.timers import Timers

FAR_NS = 10**18


def test_without_anything_to_do_there_is_no_limit_to_sleep() -> None:
    assert Timers().patience() is None


def test_what_is_due_is_done_in_the_order_of_its_moments() -> None:
    timers, done = Timers(), []
    timers.at(2, lambda: done.append("second"))
    timers.at(1, lambda: done.append("first"))
    timers.run_due()
    assert done == ["first", "second"]


def test_what_is_due_at_the_same_moment_is_done_in_the_order_of_asking() -> None:
    timers, done = Timers(), []
    for name in "abc":
        timers.at(1, lambda name=name: done.append(name))
    timers.run_due()
    assert done == ["a", "b", "c"]


def test_what_is_not_due_is_kept() -> None:
    timers, done = Timers(), []
    timers.at(time.monotonic_ns() + FAR_NS, lambda: done.append("early"))
    timers.run_due()
    assert done == []


def test_what_is_done_is_done_once() -> None:
    timers, done = Timers(), []
    timers.at(1, lambda: done.append(1))
    timers.run_due()
    timers.run_due()
    assert done == [1]


def test_an_action_that_asks_to_be_done_again_waits_for_the_next_turn() -> None:
    timers, done = Timers(), []

    def again() -> None:
        done.append(1)
        timers.at(time.monotonic_ns(), again)

    timers.at(1, again)
    timers.run_due()
    assert done == [1]


def test_what_is_overdue_leaves_no_time_to_sleep() -> None:
    timers = Timers()
    timers.at(1, lambda: None)
    assert timers.patience() == 0


def test_no_sleep_is_longer_than_a_selector_can_sleep() -> None:
    timers = Timers()
    timers.at(time.monotonic_ns() + FAR_NS, lambda: None)
    patience = timers.patience()
    assert patience is not None and 0 < patience < 2**31 / 1000


def test_steps_are_taken_one_in_each_turn() -> None:
    timers, done = Timers(), []
    timers.in_turns(map(done.append, "ab"), lambda: done.append("then"))
    seen = [list(done)]
    while timers.patience() is not None:
        timers.run_due()
        seen.append(list(done))
    assert seen == [["a"], ["a", "b"], ["a", "b", "then"]]


def test_without_steps_it_goes_on_at_once() -> None:
    done: list[str] = []
    Timers().in_turns(iter(()), lambda: done.append("then"))
    assert done == ["then"]
