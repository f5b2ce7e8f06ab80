#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fork-join on this library and on others: nanoseconds a task, and ratios.

Every round runs all sides of a case once, one after the other, so that a machine that changes its speed changes it for
all of them. A figure of one worker is CPU time, of several the time that passes. Of sides whose idle workers spin
(libfork, Taskflow, oneTBB), and which so take the processor from themselves, the least of a round's repetitions counts.

    cmake --preset release -DBWOS_BENCH=ON -DLIBFORK_DIR=<folder> -DTASKFLOW_DIR=<folder>
    ninja -C build/release all fork_join_sides
    python3 executor/bench/fork_join.py [--build-dir build/release] [--rounds 9] [--case fib] [--out FILE]
"""
import sys

import report
from report import stats

CASES = {  # name: (n, what it is)
    "fib": (32, "fib(32)"),
    "skynet": (6, "10^6 leaves, ten children each"),
    "uts": (7, "unbalanced tree search, binomial"),
    "queens": (12, "12 queens"),
    "sort": (1 << 21, "merge sort of 2^21 numbers"),
    "product": (512, "product of 512 x 512"),
    "deep": (1_000_000, "calls 10^6 deep"),
}
OURS = ("bwos", "coroutines")
# Per side: (program, flavour), whether its idle workers spin.
SIDES = {
    "bwos": (OURS, False),
    "bwos invoke": (("bwos", "invoke"), False),
    **{f"Chase-Lev, {how}": ((f"chase_lev_{how}", "coroutines"), False) for how in ("fence", "exchange", "membarrier")},
    **{
        f"Chase-Lev, {how}, invoke": ((f"chase_lev_{how}", "invoke"), False)
        for how in ("fence", "exchange", "membarrier")
    },
    "libfork": (("libfork", "lazy"), True),
    "Taskflow": (("taskflow", "runtime"), True),
    "oneTBB": (("tbb", "task_group"), True),
}
REPETITIONS = 3
LIMIT_S = 60  # of one run: whoever takes longer has failed


def run(folder, side, case, workers):
    """A side's run: (ns a task, answer, KiB), or why there is none."""
    (program, flavour), spins = SIDES[side]
    arguments = [flavour, case, CASES[case][0], workers, REPETITIONS]
    runs = report.run(folder / f"fork_join_{program}", arguments, LIMIT_S)
    if isinstance(runs, str):
        return runs
    clock = "cpu_s" if workers == 1 else "wall_s"
    times = sorted(each[clock] * 1e9 / each["tasks"] for each in runs)
    return times[0 if spins else len(times) // 2], runs[0]["answer"], runs[-1]["rss_kib"]


def measure(folder, case, workers, rounds):
    times, answers, memory, absent = {}, {}, {}, {}
    for number in range(rounds):
        for side in SIDES:
            if side in absent:
                continue
            outcome = run(folder, side, case, workers)
            if isinstance(outcome, str):
                absent[side] = outcome
                continue
            times.setdefault(side, []).append(outcome[0])
            answers[side], memory[side] = outcome[1:]
        report.progress(f"{case}, {workers} workers", number + 1, rounds)
    if len(set(answers.values())) != 1:
        sys.exit(f"{case}: the sides come to different answers: {answers}")
    return times, memory, absent


def table(case, workers, times, memory, absent):
    lines = [f"\n{CASES[case][1]}, {workers} worker{'s' if workers > 1 else ''}"]
    for side, values in times.items():
        own = stats.estimate(values)
        scale, unit = (1e6, "ms") if own.median > 1e6 else (1, "ns")
        form = "{:.2f}"
        spread = stats.estimate([each / scale for each in values]).spread(form)
        line = f"  {side:30} {own.median / scale:7.2f} {unit} {spread:16} {memory[side] / 1024:6.1f} MiB"
        for name in ("bwos", "bwos invoke"):
            if side == name or name not in times:
                continue
            # Rounds that one of the two has not: none, as all run in each.
            ratio = stats.estimate([mine / theirs for mine, theirs in zip(times[name], values)])
            line += f"   {name}: {ratio.median:.2f} {ratio.spread('{:.2f}')}"
        lines.append(line)
    lines += [f"  {side}: {why}" for side, why in absent.items() if why != "has no such case"]
    return "\n".join(lines)


def main():
    parser = report.parser(__doc__, CASES, rounds=9)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    folder = report.folder_of(options, "fork_join_bwos")
    text = [
        *report.head("Fork-join"),
        f"{options.rounds} rounds of {REPETITIONS} repetitions; medians with 95 % intervals; 1 worker: CPU time, more:"
        " wall time; ratios: ours by theirs, within a round",
    ]
    for case in options.case or CASES:
        for workers in options.workers:
            text.append(table(case, workers, *measure(folder, case, workers, options.rounds)))
            print(text[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
