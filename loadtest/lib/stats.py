# SPDX-License-Identifier: Apache-2.0
"""Medians, bootstrap intervals, and ratios within a round.

A machine changes its speed over minutes, so figures of different rounds are never divided."""

import math
import operator
import random
from dataclasses import dataclass
from statistics import fmean, median

RESAMPLES = 2000
SEED = 20230710  # any; fixed, so that a report can be made again from its CSV
ROUNDS_LEAST = 3  # below, there is no interval: the values are shown as what they are, and nothing is judged by them


def quantile(values: list[float], q: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % bootstrap interval over `count` rounds, of fewer than ROUNDS_LEAST with their range."""

    median: float
    low: float
    high: float
    count: int

    @property
    def is_range(self) -> bool:
        return self.count < ROUNDS_LEAST

    def spread(self, form: str = "{:.3f}") -> str:
        """`[low, high]` is an interval, `(low to high)` a range."""
        low, high = form.format(self.low), form.format(self.high)
        return f"({low} to {high})" if self.is_range else f"[{low}, {high}]"

    def wider_than(self, share: float) -> bool:
        """True when the interval reaches further than this share of the median either way."""
        return max(self.high - self.median, self.median - self.low) > share * self.median


def estimate(values: list[float], seed: int = SEED) -> Estimate | None:
    if not values:
        return None
    if len(values) < ROUNDS_LEAST:
        return Estimate(median(values), min(values), max(values), len(values))
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


EXACT_MAX = 40  # values in all samples, up to which the rank tests count all ways to divide them: milliseconds


def _rank_sums(n: int, ranks: list[int]) -> dict[int, int]:
    """The sums that any n of these ranks can have, and how many ways each."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]  # of each count of ranks
    for rank in ranks:
        for count in range(n, 0, -1):
            for total, number in ways[count - 1].items():
                ways[count][total + rank] = ways[count].get(total + rank, 0) + number
    return ways[n]


def van_elteren(strata: list[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """The rank test of two samples in several strata at once (van Elteren, 1960): the rank sums of each stratum's
    second sample, less what is expected, divided by the stratum's size plus one and added. Its sign says whether the
    second samples are the larger ones; and the two-sided p: how often values that are independent and, within a
    stratum, of one source, whatever its distribution, have sums as far off. Exact over all divisions of the ranks
    within each stratum, ties sharing their mean rank; with many values the normal approximation, corrected for ties
    and continuity: such a sum is bounded, so that its tails are the lighter ones."""
    strata = [(ours, theirs) for ours, theirs in strata if ours and theirs]
    scale = math.lcm(*(len(ours) + len(theirs) + 1 for ours, theirs in strata))
    off, variance, step, divisions = 0, 0.0, 0, 1
    sums, exact = {0: 1}, sum(len(ours) + len(theirs) for ours, theirs in strata) <= EXACT_MAX
    for ours, theirs in strata:
        n, m, both = len(theirs), len(ours), sorted([*ours, *theirs])
        size, weight = n + m, scale // (n + m + 1)
        places: dict[float, list[int]] = {}
        for place, value in enumerate(both, start=1):
            places.setdefault(value, []).append(place)
        twice = {value: of[0] + of[-1] for value, of in places.items()}  # mean ranks, doubled: whole numbers
        expected = n * (size + 1)
        off += weight * (sum(twice[value] for value in theirs) - expected)
        ties = sum(len(of) ** 3 - len(of) for of in places.values())
        variance += weight**2 * n * m / 3 * (size + 1 - ties / (size * (size - 1)))
        step = math.gcd(step, weight)
        divisions *= math.comb(size, n)
        if exact:
            more: dict[int, int] = {}
            for total, number in _rank_sums(n, [twice[value] for value in both]).items():
                for before, times in sums.items():
                    after = before + weight * (total - expected)
                    more[after] = more.get(after, 0) + number * times
            sums = more
    if exact:
        return off, sum(number for total, number in sums.items() if abs(total) >= abs(off)) / divisions
    p = math.erfc(max(0.0, abs(off) - step) / math.sqrt(2 * variance)) if variance else 1.0
    return off, p


def mann_whitney(ours: list[float], theirs: list[float]) -> float:
    """The two-sided p of the rank test by Mann and Whitney (1947): how often samples of one source, whatever its
    distribution, have mean ranks as far apart as these. That of van Elteren with a single stratum."""
    return van_elteren([(ours, theirs)])[1]


def student(t: float, degrees: int) -> float:
    """How often Student's t of so many degrees of freedom is as far from 0 (Abramowitz and Stegun, 26.7.3 and 4)."""
    angle, odd = math.atan(abs(t) / math.sqrt(degrees)), degrees % 2
    cosine, total = math.cos(angle), 0.0
    term = cosine**odd
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    inside = (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total
    return max(0.0, 1 - inside)


OUTLIER = 6.0  # guessed: 4 standard deviations of a normal distribution, whose level it leaves as it is


def by_whole_rounds(strata: list[tuple[dict[int, float], dict[int, float]]]) -> float:
    """The two-sided p of Student's t over whole rounds: each value as its distance from the median of its stratum, in
    median distances and at most OUTLIER of them, and of these each round's mean. What the strata of a round have in
    common, such as the machine's speed, makes them no more certain than that one round is. 1 with fewer than two
    rounds of either."""
    scores: tuple[dict[int, list[float]], ...] = ({}, {})
    for both in strata:
        values = [value for of in both for value in of.values()]
        middle = median(values)
        away = [abs(value - middle) for value in values]
        spread = median(away) or fmean(away) or 1.0
        for side, of in zip(scores, both):
            for number, value in of.items():
                side.setdefault(number, []).append(max(-OUTLIER, min(OUTLIER, (value - middle) / spread)))
    ours, theirs = ([fmean(each) for each in side.values()] for side in scores)
    if min(len(ours), len(theirs)) < 2:
        return 1.0
    off, degrees = fmean(theirs) - fmean(ours), len(ours) + len(theirs) - 2
    within = sum((value - fmean(side)) ** 2 for side in (ours, theirs) for value in side)
    if not within:
        return 0.0 if off else 1.0
    return student(off / math.sqrt(within / degrees * (1 / len(ours) + 1 / len(theirs))), degrees)


def holm(values: list[float]) -> list[float]:
    """p values made fit for many tests at once (Holm, 1979): rejecting those below a level errs in none of them with at
    least that certainty."""
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
