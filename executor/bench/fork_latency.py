#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What waits in fork-join, and for how long, on two workers.

  leaves   20 leaves of 2 ms, which one task forks: the time until all have ended, to that of two workers of whom none
           ever waits.
  waiting  A worker forks eight entries and then is in a leaf for 20 ms: from that moment until another one begins the
           first of them. That one ends a stolen task at that moment, or has slept for 5 ms when the first is forked.
  burst    A task forks 1,000 of a microsecond each while the other worker has slept for 25 ms: from the first fork
           until all have ended, to the same on oneTBB.
  wake     A worker forks, and goes on computing, while the other one has slept for 5 ms: until that begins what was
           forked, to a bare futex (from before FUTEX_WAKE until FUTEX_WAIT has returned in the other thread).
  beside   Events due each millisecond beside handlers of some 5 ms, as many at a time as there are workers: each
           event's delay from its due time, and the handlers' durations. Handlers that fork, handlers that call, and
           handlers that fork where options::slice is so long that none gives way.

Every round runs all sides of a case once, one after the other, so that a machine that changes its speed changes it for
all of them. Samples are left out, and counted, during which the hypervisor took processor time away (steal in
/proc/stat), but for "beside", where that would be all of a round. Of oneTBB, whose idle workers spin and so take the
processor from themselves, the least of a round's repetitions counts, of the others the median. Threads are pinned, a
processor each, unless --unpinned: then the kernel's choice where to run who is woken is part of what is measured.

    cmake --preset release -DBWOS_BENCH=ON && ninja -C build/release executor/bench/all
    python3 executor/bench/fork_latency.py [--rounds 9] [--case waiting] [--samples 1000] [--out FILE]
"""
import math
import os
import sys

import report
from report import stats

WORKERS = 2
LIMIT_S = 120  # of one run: whoever takes longer has failed
OURS = ("coroutines", "task_group", "parallel_for")
ONETBB = "oneTBB task_group"
FUTEX = "bare futex"
EVENTS = {  # as the cases of bwos_beside.cpp are called
    "timer_epoll": "timer, epoll",
    "timer_none": "timer, no reactor",
    "post_epoll": "post, epoll",
    "post_none": "post, no reactor",
}
HANDLERS = {
    "idle": "none",
    "beside_calls": "call",
    "beside_forks": "fork",
    "beside_forks_unsliced": "fork, no slice",
}


def ours(case, flavours):
    return {each: ("bwos", each, case) for each in flavours}


SIDES = {  # case: its sides: (program, flavour, case)
    "leaves": {**ours("leaves", OURS), ONETBB: ("tbb", "task_group", "leaves")},
    "waiting": {
        **ours("waiting", ("coroutines", "task_group")),
        **{f"{name}, asleep": side for name, side in ours("waiting_parked", ("coroutines", "task_group")).items()},
    },
    "burst": {
        **ours("burst", OURS),
        "plain calls": ("bwos", "calls", "burst"),
        ONETBB: ("tbb", "task_group", "burst"),
    },
    "wake": {**ours("wake", ("coroutines", "task_group")), FUTEX: ("bwos", "futex", "wake")},
    "beside": {(event, what): ("bwos", what, event) for event in EVENTS for what in HANDLERS},
}
TITLES = {
    "leaves": "Leaves: 20 of 2 ms, forked by one task",
    "waiting": "Waiting: behind a leaf of 20 ms, from its begin until another worker takes the first; of all samples",
    "burst": "Burst: 1,000 tasks of a microsecond, forked by one task while the other worker sleeps",
    "wake": "Wake: from a fork until a sleeper begins what was forked",
    "beside": "Beside: events due each millisecond, beside handlers of some 5 ms at a time on each worker",
}
LEAVES_MAX = 1.12  # targets, from the issue that asked for this
WAITING_MEDIAN_MAX_US, WAITING_99_MAX_US = 100, 1_000
BURST_MAX = 1.0
WAKE_MAX = 1.2
COUNTS = {"leaves": 3, "burst": 5, "wake": 100, "beside": 1_000}  # samples of a round
QUICK = {"leaves": 1, "waiting": 2, "burst": 1, "wake": 2, "beside": 20}


class Taken:
    """The samples of one side: by name a list for each round."""

    def __init__(self):
        self.rounds, self.left_out = {}, 0

    def add(self, lines):
        for line in lines:
            self.rounds.setdefault(line["name"], []).append(line["us"])
            self.left_out += line["left_out"]

    def all(self, name):
        return [us for each in self.rounds[name] for us in each]

    def of_rounds(self, name, of):
        """By round; None where no sample is left."""
        return [of(each) if each else None for each in self.rounds[name]]


class Others:
    """What other programs take of the processors from here on."""

    def __init__(self):
        self.begun = self.look()

    @staticmethod
    def look():
        """Seconds that have passed, that the processors were busy, and that this program and its children took."""
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
        mine = os.times()
        busy = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
        return mine.elapsed, busy, sum(mine[:4])

    def share(self):
        wall, busy, mine = (now - then for now, then in zip(self.look(), self.begun))
        return max(0.0, busy - mine) / (wall * os.cpu_count())


def measure(folder, case, count, rounds, environment):
    taken, absent = {}, {}
    for number in range(rounds):
        for side, (program, flavour, name) in SIDES[case].items():
            if side in absent:
                continue
            path = folder / f"fork_join_{program}_latency"
            lines = report.run(path, [flavour, name, count, WORKERS], LIMIT_S, environment)
            if isinstance(lines, str):
                absent[side] = lines
                taken.pop(side, None)
            else:
                taken.setdefault(side, Taken()).add(lines)
        report.progress(case, number + 1, rounds)
    return taken, absent


def verdict(low, high, most):
    """Of an interval."""
    return "met" if high <= most else "MISSED" if low > most else "undecided"


def held_to(own, most):
    return f"   target {most:g}: {verdict(own.low, own.high, most) if not own.is_range else 'too few rounds'}"


def tail(values):
    """The 99 % quantile, its 95 % interval by the ranks that a binomial count of smaller ones has, and the largest."""
    ordered, count = sorted(values), len(values)
    text = f"99 % {stats.quantile(values, 0.99):.1f} us"
    middle, reach = 0.99 * count, 1.96 * math.sqrt(count * 0.99 * 0.01)
    if middle + reach > count:
        judged = "too few samples"
    else:
        low, high = ordered[int(middle - reach)], ordered[math.ceil(middle + reach) - 1]
        text += f" [{low:.1f}, {high:.1f}]"
        judged = verdict(low, high, WAITING_99_MAX_US)
    return f"{text}   target {WAITING_99_MAX_US}: {judged};   max {ordered[-1]:.1f} us"


def ratios(mine, theirs):
    return [a / b for a, b in zip(mine, theirs) if a is not None and b is not None]


def figure(values, form="{:.1f}", scale=1.0):
    own = stats.estimate([each / scale for each in values if each is not None])
    return f"{form.format(own.median)} {own.spread(form)}" if own else "no sample"


def typical(side, taken, name):
    """A figure for each round."""
    return taken[side].of_rounds(name, min if side == ONETBB else stats.median)


def leaves(taken):
    for side, own in taken.items():
        walls = typical(side, taken, "leaves")
        ratio = stats.estimate(ratios(walls, own.of_rounds("ideal", stats.median)))
        line = f"  {side:20} {figure(walls, '{:.2f}', 1e3):24} ms"
        if ratio:
            line += f"   to the ideal {ratio.median:.3f} {ratio.spread()}"
            line += held_to(ratio, LEAVES_MAX) if side in OURS else ""
        yield line, own.left_out


def waiting(taken):
    for side, own in taken.items():
        (name,) = own.rounds
        values = own.all(name)
        if not values:
            yield f"  {side:20} no sample", own.left_out
            continue
        middle = stats.estimate(values)
        line = f"  {side:20} {len(values)} samples: median {middle.median:.1f} us {middle.spread('{:.1f}')}"
        yield f"{line}{held_to(middle, WAITING_MEDIAN_MAX_US)};   {tail(values)}", own.left_out


def burst(taken):
    peer = typical(ONETBB, taken, "burst") if ONETBB in taken else None
    for side, own in taken.items():
        values = typical(side, taken, "burst")
        line = f"  {side:20} {figure(values):28} us"
        if peer and side != ONETBB:
            ratio = stats.estimate(ratios(values, peer))
            medians = stats.estimate(ratios(values, taken[ONETBB].of_rounds("burst", stats.median)))
            if ratio:
                line += f"   to oneTBB's {ratio.median:.2f} {ratio.spread('{:.2f}')}"
                line += f", to its medians {medians.median:.2f}"
                line += held_to(ratio, BURST_MAX) if side in OURS else ""
        yield line, own.left_out


def wake(taken):
    for side, own in taken.items():
        values = typical(side, taken, "wake")
        line = f"  {side:20} median {figure(values):24} us, 99 % {stats.quantile(own.all('wake'), 0.99):.1f} of all"
        if side != FUTEX and FUTEX in taken:
            ratio = stats.estimate(ratios(values, typical(FUTEX, taken, "wake")))
            if ratio:
                line += f"   to the futex's {ratio.median:.2f} {ratio.spread('{:.2f}')}" + held_to(ratio, WAKE_MAX)
        yield line, own.left_out


def beside(taken):
    form = "  {:18} {:15} {:26} {:28} {:26} {:20} {:20}"
    names = ("event", "handlers", "p50, us", "p99, us", "poster's p99, us", "handler p50, ms", "p99, ms")
    yield form.format(*names).rstrip(), 0
    for (event, what), own in taken.items():
        def column(name, q, scale=1.0, form="{:.0f}"):
            values = own.of_rounds(name, lambda each: stats.quantile(each, q))
            return figure(values, form, scale) if any(each is not None for each in values) else ""

        yield form.format(
            EVENTS[event], HANDLERS[what], column("event", 0.5), column("event", 0.99), column("poster", 0.99),
            column("handler", 0.5, 1e3, "{:.2f}"), column("handler", 0.99, 1e3, "{:.2f}"),
        ).rstrip(), own.left_out


TABLES = {"leaves": leaves, "waiting": waiting, "burst": burst, "wake": wake, "beside": beside}


def table(case, taken, absent, others):
    lines = [f"\n{TITLES[case]} (other programs took {100 * others:.0f} % of the processors)"]
    for line, left_out in TABLES[case](taken):
        lines.append(line + (f"   ({left_out} left out)" if left_out else ""))
    return "\n".join(lines + [f"  {side}: {why}" for side, why in absent.items()])


def main():
    parser = report.parser(__doc__, SIDES, rounds=9)
    parser.add_argument("--samples", type=int, default=1_000, help="of \"waiting\", in all rounds (default: 1000)")
    parser.add_argument("--unpinned", action="store_true", help="leave it to the kernel where threads run")
    parser.add_argument("--quick", action="store_true", help="few samples: only to see that it works")
    options = parser.parse_args()
    folder = report.folder_of(options, "fork_join_bwos_latency")
    if options.samples < 1:
        sys.exit(f"--samples is {options.samples}, must be at least 1")
    environment = dict(os.environ)
    environment.pop("FORK_LATENCY_UNPINNED", None)
    if options.unpinned:
        environment["FORK_LATENCY_UNPINNED"] = "1"
    counts = {**COUNTS, "waiting": math.ceil(options.samples / options.rounds)}
    counts = QUICK if options.quick else counts
    text = [
        *report.head("Latencies of fork-join"),
        f"{WORKERS} workers, threads {'not pinned' if options.unpinned else 'pinned'}; {options.rounds} rounds;"
        " medians of rounds with 95 % intervals; ratios: within a round",
    ]
    print("\n".join(text), flush=True)
    failed = False
    for case in options.case or SIDES:
        others = Others()
        taken, absent = measure(folder, case, counts[case], options.rounds, environment)
        text.append(table(case, taken, absent, others.share()))
        print(text[-1], flush=True)
        failed = failed or any(why != "is not built" for why in absent.values())
    if options.out:
        options.out.write_text("\n".join(text) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
