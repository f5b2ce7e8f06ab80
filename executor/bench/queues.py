#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operation of each queue costs its owner, and what a thief takes of the throughput, in ratios.

Every round runs fifo_queue_bench and lifo_queue_bench once, each with its benchmarks in random order. Alone: the owner's
time for a put or a get, and its ratio to a sequential ring or stack, within a round. With a thief on the other CPU, which may take so many % of the entries (the
last number in the name; before it, for the FIFO queue, how many in one steal): the share that it got, the owner's time,
and what the total throughput, owner's and thief's operations together, has lost against the queue without a thief.

    cmake --preset release -DBWOS_BENCH=ON && ninja -C build/release fifo_queue_bench lifo_queue_bench
    python3 executor/bench/queues.py [--build-dir build/release] [--rounds 9] [--case fifo] [--out FILE]
"""
import json
import subprocess
import sys

import report
from report import stats

# What is measured, against what, and the most that the ratio may be.
CASES = {
    "fifo": ("fifo_queue_bench", "ring", {"fifo_8x1024": 1.05, "fifo_128x64": 1.15}),
    "lifo": ("lifo_queue_bench", "stack", {"lifo_8x1024": 1.25, "lifo_128x64": 1.35}),
}
LIMIT_S = 300


def run(program):
    """name: (ns an operation, stolen share)."""
    command = [program, "--benchmark_format=json", "--benchmark_min_time=0.05",
               "--benchmark_enable_random_interleaving=true", "--benchmark_repetitions=3"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if result.returncode != 0:
        sys.exit(f"{program} ended with {result.returncode}: {result.stderr.strip()[-200:]}")
    found = {}
    for each in json.loads(result.stdout)["benchmarks"]:
        if each.get("aggregate_name") == "median":
            name = each["run_name"].removesuffix("/real_time")
            found[name] = (each["per_op"] * 1e9, each.get("stolen_%", 0.0) / 100)
    return found


def estimate(values, form="{:.2f}"):
    own = stats.estimate(values)
    return f"{form.format(own.median)} {own.spread(form)}"


def table(case, runs):
    _, bound, limits = CASES[case]
    lines = []
    for name in sorted(runs[0]):
        kind, what = name.split("/", 1)
        times = [each[name][0] for each in runs]
        line = f"  {name:34} {estimate(times):22} ns"
        if kind == "thief":
            alone = "alone/" + what.split("/")[0]
            stolen = [each[name][1] for each in runs]
            # The thief's operations are time that passes, too: of both, one of so many.
            lost = [1 - each[alone][0] / (each[name][0] * (1 - each[name][1] / 2)) for each in runs]
            line += f"   stolen {estimate([100 * s for s in stolen], '{:.1f}')} %"
            line += f"   throughput lost {estimate([100 * part for part in lost], '{:.1f}')} %"
        elif what != bound:
            ratios = [each[name][0] / each[f"{kind}/{bound}"][0] for each in runs if f"{kind}/{bound}" in each]
            if ratios:
                line += f"   {bound}: {estimate(ratios)}"
            if kind == "alone" and what in limits:
                met = stats.estimate(ratios).high <= limits[what] + 0.03
                line += f"   limit {limits[what]}: {'met' if met else 'missed'}"
        lines.append(line)
    return "\n".join(lines)


def main():
    options = report.parser(__doc__, CASES, rounds=9).parse_args()
    cases = options.case or list(CASES)
    folder = report.folder_of(options, CASES[cases[0]][0])
    runs = {case: [] for case in cases}
    for number in range(options.rounds):
        for case in cases:
            runs[case].append(run(folder / CASES[case][0]))
        report.progress("queues", number + 1, options.rounds)
    text = [*report.head("Queues"), f"{options.rounds} rounds, each the median of 3; medians with 95 % intervals"]
    text += [f"\n{case}\n{table(case, runs[case])}" for case in cases]
    print("\n".join(text))
    if options.out:
        options.out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
