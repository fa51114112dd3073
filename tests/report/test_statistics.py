"""The statistics of a benchmark, against numbers made by hand."""

from __future__ import annotations

import math

import pytest
from hloop.report.statistics import RESAMPLES, Interval, median_interval, ratio, summarize


def test_the_median_of_an_odd_number_is_the_one_in_the_middle():
    assert summarize([3.0, 1.0, 2.0]).median == 2.0


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle():
    assert summarize([4.0, 1.0, 2.0, 8.0]).median == 3.0


def test_the_mean():
    assert summarize([1.0, 2.0, 6.0]).mean == 3.0


def test_the_standard_deviation_is_over_n_minus_1():
    # Deviations -2, -1, 3 from 3: squares 4 + 1 + 9 = 14, over 2.
    assert summarize([1.0, 2.0, 6.0]).standard_deviation == pytest.approx(math.sqrt(7))


def test_one_measurement_has_no_spread():
    single = summarize([5.0])
    assert (single.median, single.standard_deviation, single.interval) == (5.0, None, None)


def test_no_measurement_is_refused():
    with pytest.raises(ValueError, match="no measurement"):
        summarize([])


def test_the_ratio_is_that_of_the_medians():
    # Medians 20 and 8. The ratios are 1, 4 and 3.75, and neither their median nor mean is 2.5.
    assert ratio([10.0, 20.0, 30.0], [10.0, 5.0, 8.0]).of_medians == 2.5


def test_paired_ratios_keep_the_pairs():
    assert ratio([10.0, 20.0, 30.0], [10.0, 5.0, 15.0]).paired == (1.0, 4.0, 2.0)


def test_the_median_of_the_paired_ratios():
    assert ratio([10.0, 20.0, 30.0], [10.0, 5.0, 15.0]).median_paired == 2.0


def test_pairs_that_are_slow_on_both_sides_leave_no_doubt_about_their_ratio():
    # The machine was ten times slower in the second repetition, for both.
    assert ratio([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]).interval == Interval(2.0, 2.0)


def test_a_pair_without_a_partner_is_refused():
    with pytest.raises(ValueError):
        ratio([1.0, 2.0], [1.0])


def test_equal_measurements_have_an_interval_without_length():
    assert median_interval([3.0, 3.0, 3.0]) == Interval(3.0, 3.0)


def test_the_interval_is_the_same_each_time():
    values = [5.1, 4.9, 5.3, 5.0, 5.2]
    assert median_interval(values) == median_interval(values)


def test_the_interval_does_not_depend_on_the_unit():
    values = [5.0, 4.0, 7.0, 6.0, 8.0]
    whole = median_interval(values)
    half = median_interval([value / 2 for value in values])
    assert whole is not None and half == Interval(whole.low / 2, whole.high / 2)


def test_of_five_measurements_the_interval_leaves_out_neither_end_by_chance_alone():
    """The median of a resample is the smallest value where at least 3 of 5 draws hit it.

    That has the probability 10 (1/5)^3 (4/5)^2 + 5 (1/5)^4 (4/5) + (1/5)^5 = 0.05792: more
    than 2.5 %, so the interval reaches from the smallest to the largest.
    """
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) == Interval(1.0, 5.0)


def test_of_nine_measurements_the_interval_leaves_out_the_outermost():
    """For nine the probability is P[Binomial(9, 1/9) >= 5] = 0.0014, and at least the second
    smallest P[Binomial(9, 2/9) >= 5] = 0.029: the second smallest and largest are the ends.
    """
    assert median_interval([float(n) for n in range(1, 10)]) == Interval(2.0, 8.0)


def test_there_are_as_many_resamples_as_the_docs_say():
    assert RESAMPLES == 10_000
