# SPDX-License-Identifier: Apache-2.0
"""Medians, bootstrap intervals, and ratios within a round.

A machine changes its speed over minutes, so figures of different rounds are never divided."""

import operator
import random
from dataclasses import dataclass
from statistics import median

RESAMPLES = 2000
SEED = 20230710  # any; fixed, so that a report can be made again from its CSV


def quantile(values: list[float], q: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % bootstrap interval over `count` rounds."""

    median: float
    low: float
    high: float
    count: int

    def wider_than(self, share: float) -> bool:
        """True when the interval reaches further than this share of the median either way."""
        return max(self.high - self.median, self.median - self.low) > share * self.median


def estimate(values: list[float], seed: int = SEED) -> Estimate | None:
    if not values:
        return None
    source = random.Random(seed)
    medians = [median(source.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return Estimate(median(values), quantile(medians, 0.025), quantile(medians, 0.975), len(values))


def by_round(records: list[dict], cell: str, variant: str, metric: str) -> dict[int, float]:
    """The metric of each round's good run; runs with errors gave no figure."""
    return {
        record["round"]: record[metric]
        for record in records
        if record["cell"] == cell
        and record["variant"] == variant
        and not record.get("errors")
        and not record.get("failed")
        and record.get(metric) is not None
    }


def ratios(
    records: list[dict], cell: str, variant: str, versus: str, metric: str, compare=operator.truediv
) -> list[float]:
    """By round; or another comparison, such as their differences."""
    ours = by_round(records, cell, variant, metric)
    theirs = by_round(records, cell, versus, metric)
    return [compare(ours[number], theirs[number]) for number in sorted(ours) if theirs.get(number)]
