"""The statistics of a benchmark: few measurements, said with how far they can be trusted.

Pure arithmetic. Intervals are bootstrap intervals (Efron, 1979) with a seed and a number of
resamples that never change, so that the same measurements give the same interval anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

SEED = 20250101
RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile bootstrap interval.

    Attributes:
        low, high: its ends, in the unit of the measurements. Of ``RESAMPLES`` medians of
            measurements drawn with replacement, 2.5 % lie below ``low`` and 2.5 % above
            ``high``.
    """

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What several measurements of one thing come to, in their unit.

    Attributes:
        count: how many there are; at least 1.
        standard_deviation: with n - 1; None for a single measurement.
        interval: of the median; None for a single measurement.
    """

    count: int
    median: float
    mean: float
    standard_deviation: float | None
    minimum: float
    maximum: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times longer one thing takes than another.

    Attributes:
        of_medians: the ratio of the two medians.
        paired: the ratios of the measurements that were made together, in their order.
        median_paired: their median.
        interval: of ``median_paired``; None for a single pair.
    """

    of_medians: float
    paired: tuple[float, ...]
    median_paired: float
    interval: Interval | None


def summarize(values: Sequence[float]) -> Sample:
    """Sum up measurements.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("there is no measurement")
    return Sample(
        count=len(values),
        median=median(values),
        mean=fmean(values),
        standard_deviation=stdev(values) if len(values) > 1 else None,
        minimum=min(values),
        maximum=max(values),
        interval=median_interval(values),
    )


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Hold two rows of measurements against each other, pair by pair.

    Args:
        numerators, denominators: above 0, as many as each other; those at one place were made
            together, so that what slows one repetition slows both sides of its ratio.

    Raises:
        ValueError: there are none, or not as many of the one as of the other.
    """
    paired = tuple(above / below for above, below in zip(numerators, denominators, strict=True))
    return Ratio(
        of_medians=median(numerators) / median(denominators) if paired else 0.0,
        paired=paired,
        median_paired=summarize(paired).median,
        interval=median_interval(paired),
    )


def median_interval(values: Sequence[float]) -> Interval | None:
    """Give the bootstrap interval of the median; None for less than two measurements.

    Of the sorted medians of all resamples it takes, by nearest rank, the one that cuts off
    2.5 % below and the one that cuts off as many above.
    """
    count = len(values)
    if count < 2:
        return None
    draw = random.Random(SEED).random
    # The method random() keeps its sequence from one Python to the next, the others need not.
    medians = sorted(
        median([values[int(draw() * count)] for _ in range(count)]) for _ in range(RESAMPLES)
    )
    cut = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(medians[cut], medians[RESAMPLES - 1 - cut])
