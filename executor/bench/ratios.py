#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Posts and runs tasks on our pool and on asio::thread_pool, and prints how many times as fast ours is.

Every round runs all sides once, one after the other, so that a machine that changes its speed changes it for all of
them; a ratio is the median of the rounds' ratios, with a 95 % bootstrap interval.

    cmake --preset release && cmake --build --preset release --target post_bench
    python3 executor/bench/ratios.py [--build-dir build/release] [--rounds 15] [--out FILE]
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = "asio"
NAMES = {"native": "bwos::pool, native", "asio_on_bwos": "asio::post on bwos::thread_pool"}
CASES = {  # name: (what it is, unit in ns, name of the unit)
    "tree": ("from inside, each task posts two; a tree of 2^20", 1, "ns"),
    "comb": ("from inside, every other task posts two; a short queue", 1, "ns"),
    "chain": ("from inside, a chain of one", 1, "ns"),
    "outside": ("from one thread outside", 1, "ns"),
    "round_trip": ("round trip from outside to a parked pool", 1000, "us"),
}
# How many times as fast as asio::thread_pool it must be; None: shown only.
TARGETS = {
    ("tree", "native"): 6.0, ("tree", "asio_on_bwos"): 4.0,
    ("comb", "native"): None, ("comb", "asio_on_bwos"): None,
    ("chain", "native"): 2.5, ("chain", "asio_on_bwos"): None,
    ("outside", "native"): 2.0, ("outside", "asio_on_bwos"): 2.0,
    ("round_trip", "native"): 1.0, ("round_trip", "asio_on_bwos"): 1.0,
}


def run_round(command):
    """One run of the benchmark: {(case, side): ns per task}."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    times = {}
    for entry in json.loads(result.stdout)["benchmarks"]:
        if entry.get("error_occurred"):
            sys.exit(f"{entry['name']}: {entry['error_message']}")
        case, side = entry["name"].split("/")[:2]
        times[case, side] = entry["ns/task"]
    return times


def bootstrap(values, draws=4000):
    """The 95 % interval of the median."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def report(rounds):
    lines = [f"{'':34}{'ours':>10}{'asio':>10}   {'times as fast (95 %)':27}target"]
    for case, (meaning, scale, unit) in CASES.items():
        lines.append(f"{case}: {meaning}, {unit}")
        for side, name in NAMES.items():
            ours = statistics.median(r[case, side] for r in rounds) / scale
            peer = statistics.median(r[case, PEER] for r in rounds) / scale
            ratios = [r[case, PEER] / r[case, side] for r in rounds]
            ratio, (low, high) = statistics.median(ratios), bootstrap(ratios)
            target = TARGETS[case, side]
            verdict = "" if target is None else f">= {target:g}  {'met' if ratio >= target else 'MISSED'}"
            figures = f"{ratio:5.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"  {name:32}{ours:10.1f}{peer:10.1f}   {figures:27}{verdict}".rstrip())
    return "\n".join(lines)


def machine():
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}"


def commit():
    def git(*words):
        try:
            return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False).stdout.strip()
        except FileNotFoundError:  # a system without git
            return ""
    return (git("rev-parse", "HEAD") or "unknown") + (" with changes" if git("status", "--porcelain", "-uno") else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path, help="also write the table there, with commit, machine and command")
    parser.add_argument("--quick", action="store_true", help="few tasks: only to see that it works")
    arguments = parser.parse_args()
    program = arguments.build_dir / "executor/bench/post_bench"
    if not program.exists():
        sys.exit(f"{program} is not there: build the target post_bench")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    command = [program, *(["--quick"] if arguments.quick else []), "--benchmark_format=json"]
    rounds = []
    for number in range(arguments.rounds):
        print(f"\rround {number + 1} of {arguments.rounds}", end="", file=sys.stderr, flush=True)
        rounds.append(run_round(command))
    print(file=sys.stderr)
    heading = "\n".join([
        f"commit:  {commit()}", f"machine: {machine()}",
        f"command: {shlex.join(['python3', *sys.argv])}, {arguments.rounds} rounds, 2 workers",
        f"date:    {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"load:    {os.getloadavg()[0]:.1f} (1 min)", "", ""])
    table = report(rounds)
    print(heading + table)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(heading + table + "\n")


main()
