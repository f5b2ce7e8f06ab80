# SPDX-License-Identifier: Apache-2.0
"""Finds request rates: those at which a server and its client keep the machine busy to a given share, and
the highest that they keep up with."""

from collections.abc import Callable

from lib.measure import Failed

RATE_FIRST = 2000.0
RATE_MAX = 4e6
STEPS_MAX = 12
TRIES = 4  # of a rate that was not kept up with: one stall of a shared machine makes a run of a second late


def find_rates(busy_at: Callable[[float], float], wanted: list[float], tolerance: float = 0.01) -> dict[float, float]:
    """For each wanted share the rate, by doubling and then bisection. `busy_at` measures one rate;
    it is asked at most once for each."""
    seen: dict[float, float] = {}

    def busy(rate: float) -> float:
        if rate not in seen:
            seen[rate] = busy_at(rate)
        return seen[rate]

    found = {}
    for share in wanted:
        low, high = 0.0, RATE_FIRST
        while busy(high) < share:
            low, high = high, high * 2
            if high > RATE_MAX:
                raise Failed(f"no rate up to {RATE_MAX:,.0f}/s keeps the machine {share:.0%} busy")
        rate = high
        for _ in range(STEPS_MAX):
            if abs(busy(rate) - share) <= tolerance:
                break
            if busy(rate) < share:
                low = rate
            else:
                high = rate
            rate = round((low + high) / 2)
        found[share] = rate
    return found


def find_peak(keeps_up: Callable[[float], bool], tolerance: float = 0.05) -> float:
    """The highest rate kept up with, in one try of several, by doubling and then bisection."""

    def kept_up_with(rate: float) -> bool:
        return any(keeps_up(rate) for _ in range(TRIES))

    low, high = 0.0, RATE_FIRST
    while kept_up_with(high):
        low, high = high, high * 2
        if high > RATE_MAX:
            raise Failed(f"any rate up to {RATE_MAX:,.0f}/s is kept up with")
    if low == 0:
        raise Failed(f"not even {RATE_FIRST:,.0f}/s are kept up with")
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if kept_up_with(middle):
            low = middle
        else:
            high = middle
    return low
