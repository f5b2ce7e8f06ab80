# SPDX-License-Identifier: Apache-2.0
"""What the drivers of fork_join/ share: their flags, a side's run, and the head of a report."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "loadtest"))
from lib import stats  # noqa: E402, F401


def parser(description, cases, rounds):
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release",
                        help="where the programs are built (default: build/release)")
    result.add_argument("--rounds", type=int, default=rounds, help=f"of all sides in turn (default: {rounds})")
    result.add_argument("--case", action="append", choices=cases, help="only this one; again for more")
    result.add_argument("--out", type=pathlib.Path, help="the report's file")
    return result


def folder_of(options, program):
    """Where the sides' programs are; ends the driver where `program` is missing."""
    folder = options.build_dir / "executor" / "bench"
    if not (folder / program).exists():
        sys.exit(f"{folder}/{program} is missing: build with -DBWOS_BENCH=ON, or name --build-dir")
    if options.rounds < 1:
        sys.exit(f"--rounds is {options.rounds}, must be at least 1")
    return folder


def run(path, arguments, limit_s, environment=None):
    """A side's run: the lines that it has printed, or why there are none."""
    if not path.exists():
        return "is not built"
    command = [path, *map(str, arguments)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=environment)
    except subprocess.TimeoutExpired:
        return f"took more than {limit_s} s"
    if result.returncode == 3:
        return "has no such case"
    if result.returncode != 0:
        return f"ended with {result.returncode}: {result.stderr.strip()[-200:]}"
    return [json.loads(line) for line in result.stdout.splitlines()]


def progress(what, number, rounds):
    end = "\n" if number == rounds else ""
    print(f"\r{what}: round {number} of {rounds}", end=end, file=sys.stderr, flush=True)


def head(title):
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    cpu = {}
    for line in open("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        cpu.setdefault(key.strip(), value.strip())
    model = f"{cpu.get('model name', '?')} (family {cpu.get('cpu family', '?')}, model {cpu.get('model', '?')})"
    return [
        f"{title}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, commit {commit.stdout.strip()}",
        f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}; load {os.getloadavg()[0]:.1f} at the start",
    ]
