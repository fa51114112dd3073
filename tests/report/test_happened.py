from __future__ import annotations

from hloop.report.happened import Cause, Ran, critical_path, gaps, layers, steps_of


def path(jobs, **settings):
    steps = critical_path(jobs, steps_of(jobs, **settings))
    return [(step.job_id, step.cause, step.gap_ns) for step in steps]


def test_a_path_goes_through_what_a_job_depends_on():
    jobs = [
        Ran("a", "device 0", 5, 30),
        Ran("b", "device 1", 5, 20),
        Ran("c", "cpu 0", 33, 40, ("a", "b")),
    ]
    assert path(jobs) == [("a", Cause.START, 5), ("c", Cause.DEPENDENCY, 3)]


def test_a_path_goes_through_the_job_that_had_the_slot():
    jobs = [
        Ran("a", "device 0", 0, 10),
        Ran("b", "device 0", 12, 30, ()),
        Ran("c", "cpu 0", 12, 20, ("a",)),
    ]
    assert path(jobs) == [("a", Cause.START, 0), ("b", Cause.SLOT, 2)]


def test_what_ended_last_is_what_a_job_waited_for():
    jobs = [
        Ran("a", "device 0", 0, 10),
        Ran("b", "device 1", 0, 25),
        Ran("c", "device 1", 26, 30, ("a",)),
    ]
    assert path(jobs)[-1] == ("c", Cause.SLOT, 1)


def test_a_dependency_goes_before_a_slot_that_was_free_at_the_same_time():
    jobs = [Ran("a", "cpu 0", 0, 10), Ran("b", "cpu 0", 10, 20, ("a",))]
    assert path(jobs)[-1] == ("b", Cause.DEPENDENCY, 0)


def test_in_waves_a_path_goes_through_the_barrier():
    jobs = [
        Ran("a", "device 0", 0, 10, wave=0),
        Ran("b", "device 1", 0, 30, wave=0),
        Ran("c", "device 0", 31, 40, wave=1),
    ]
    assert path(jobs) == [("b", Cause.START, 0), ("c", Cause.BARRIER, 1)]


def test_one_at_a_time_a_path_goes_through_the_job_before():
    jobs = [Ran("a", "device 0", 0, 10), Ran("b", "cpu 0", 11, 20)]
    assert path(jobs, one_at_a_time=True) == [("a", Cause.START, 0), ("b", Cause.TURN, 1)]


def test_a_device_that_another_run_held_is_what_a_job_waited_for():
    jobs = [Ran("a", "device 0", 0, 10), Ran("b", "device 1", 30, 40, ("a",))]
    assert path(jobs, held_ns={"b": 11}) == [("a", Cause.START, 0), ("b", Cause.LEASE, 20)]


def test_a_lease_counts_for_nothing_where_something_else_came_later():
    jobs = [Ran("a", "device 0", 0, 10), Ran("b", "device 0", 30, 40)]
    assert path(jobs, held_ns={"b": 5})[-1] == ("b", Cause.SLOT, 20)


def test_a_job_of_a_new_session_waited_for_that():
    jobs = [Ran("a", "device 0", 0, 10), Ran("b", "cpu 0", 31, 40, ("a",))]
    assert path(jobs, sessions_ns=[30])[-1] == ("b", Cause.SESSION, 21)


def test_a_lease_that_a_job_of_a_new_session_waited_for_came_after_that():
    jobs = [Ran("a", "device 0", 50, 60)]
    assert path(jobs, sessions_ns=[30], held_ns={"a": 31}) == [("a", Cause.LEASE, 50)]


def test_a_new_session_is_not_what_its_later_jobs_waited_for():
    jobs = [Ran("a", "device 0", 31, 40), Ran("b", "cpu 0", 41, 50, ("a",))]
    assert path(jobs, sessions_ns=[30])[-1] == ("b", Cause.DEPENDENCY, 1)


def test_work_and_gaps_of_a_path_are_the_whole_time():
    jobs = [
        Ran("a", "device 0", 4, 10),
        Ran("b", "device 0", 12, 30, ("a",)),
        Ran("c", "cpu 0", 37, 50, ("b",)),
    ]
    spans = {job.job_id: job.end_ns - job.start_ns for job in jobs}
    assert sum(spans[name] + gap for name, _, gap in path(jobs)) == 50


def test_jobs_that_overlapped_what_they_need_do_not_make_a_path_endless():
    jobs = [Ran("a", None, 0, 10, ("b",)), Ran("b", None, 0, 10, ("a",))]
    assert len(path(jobs)) == 1


def test_no_jobs_have_no_path():
    assert path([]) == []


def test_a_slot_is_idle_before_between_and_after_its_jobs():
    assert gaps([(30, 40), (10, 20)], 0, 50) == [(0, 10), (20, 30), (40, 50)]


def test_a_slot_that_two_jobs_shared_is_used_once():
    assert gaps([(0, 30), (10, 20)], 0, 40) == [(30, 40)]


def test_a_layer_is_the_longest_chain_before_a_job():
    needs = {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["elsewhere"]}
    assert layers(needs) == {"a": 0, "b": 1, "c": 2, "d": 0}


def test_a_cycle_has_layers_too():
    assert layers({"a": ["b"], "b": ["a"]}).keys() == {"a", "b"}
