# SPDX-License-Identifier: Apache-2.0
"""Medians, bootstrap intervals, and ratios within a round.

A machine changes its speed over minutes, so figures of different rounds are never divided."""

import math
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


EXACT_MAX = 40  # values in both samples, up to which the rank test counts all ways to divide them: milliseconds


def mann_whitney(ours: list[float], theirs: list[float]) -> float:
    """The two-sided p of the rank test by Mann and Whitney (1947): how often samples of one source, whatever its
    distribution, have mean ranks as far apart as these. Exact over all divisions of the ranks, ties sharing their mean
    rank; with many values the normal approximation, corrected for ties and continuity."""
    both = sorted([*ours, *theirs])
    n, m, size = len(ours), len(theirs), len(both)
    if not n or not m:
        return 1.0
    places: dict[float, list[int]] = {}
    for place, value in enumerate(both, start=1):
        places.setdefault(value, []).append(place)
    twice = {value: of[0] + of[-1] for value, of in places.items()}  # mean ranks, doubled: whole numbers
    expected = n * (size + 1)
    off = abs(sum(twice[value] for value in ours) - expected)
    if size <= EXACT_MAX:
        ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]  # of each count of values: rank sum, how often
        for value in both:
            for count in range(n, 0, -1):
                for total, number in ways[count - 1].items():
                    total += twice[value]
                    ways[count][total] = ways[count].get(total, 0) + number
        return sum(number for total, number in ways[n].items() if abs(total - expected) >= off) / math.comb(size, n)
    ties = sum(len(of) ** 3 - len(of) for of in places.values())
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    return math.erfc(max(0.0, off / 2 - 0.5) / math.sqrt(2 * variance)) if variance else 1.0


def holm(values: list[float]) -> list[float]:
    """p values made fit for many tests at once (Holm, 1979): rejecting those below a level errs in none of them with at
    least that certainty."""
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
