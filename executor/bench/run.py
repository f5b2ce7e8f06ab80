#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers questions about the executor: builds what takes part, runs all sides in rounds, and keeps what was measured.

A question is a plan in executor/bench/questions, as loadtest/README.md describes them: it begins with what is expected.
In each round every side runs once in each cell, in shuffled order; ratios are of the same round, with 95 % intervals.
What is kept in executor/bench/results/<UTC time>-<question> is what a load test leaves: a page with figures and tables,
machine, commit, commands, raw output."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "loadtest"))

from lib import plans  # noqa: E402
from lib.measure import Failed  # noqa: E402
from lib.scenario import Scenario, running  # noqa: E402
from lib.servers import BENCH  # noqa: E402

QUESTIONS = ROOT / "executor" / "bench" / "questions"
RESULTS = ROOT / "executor" / "bench" / "results"
BUSY = 0.5  # guessed: of the CPUs; with more to do, a machine is not to be measured on
INTERRUPTED = 130
QUICK = "BWOS_BENCH_QUICK"  # in the environment: programs do little, to show that they work


def read_all() -> dict[str, Scenario]:
    affinity = sorted(os.sched_getaffinity(0))
    cpus = (affinity[0], affinity[-1])
    return {path.stem: plans.load(path, cpus) for path in sorted(QUESTIONS.glob("*.toml"))}


def parse_arguments(known: dict[str, Scenario]) -> argparse.Namespace:
    names = "\n".join(f"  {name:16} {each.minutes:3g} min  {each.hypothesis}" for name, each in known.items())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit status: 0 all was measured; 1 something could not be; 2 a bad flag; 130 interrupted\n\n"
        f"questions, how long each takes at most, and what is expected:\n{names}",
    )  # fmt: skip
    add = parser.add_argument
    add("question", nargs="*", metavar="QUESTION", help="which ones; default: all")
    add("--build-dir", type=Path, default=ROOT / "build" / "release",
        help="configured with -DBWOS_BENCH=ON; default build/release")  # fmt: skip
    add("--rounds", metavar="N", help="in place of what the question says")
    add("--only", action="append", metavar="SIDE", help="these sides only; repeatable")
    add("--out", type=Path, metavar="DIR", help="where one question's run is kept, new or empty")
    add("--resume", type=Path, metavar="FOLDER", help="go on with a run that was stopped, as it was begun")
    add("--busy", action="store_true", help="measure though others keep this machine busy")
    add("--quick", action="store_true", help="a round of little work, to see that all of it works; kept only with --out")
    arguments = parser.parse_args()
    for name in arguments.question:
        if name not in known:
            parser.error(f"{name!r} is no question; there are {', '.join(known)}")
    if arguments.out and len(arguments.question) != 1:
        parser.error("--out is of one question's run: name one question")
    if arguments.resume and (arguments.question or arguments.out or arguments.rounds or arguments.only):
        parser.error("--resume goes on as the run was begun: no other flag has a place beside it")
    return arguments


def build(build_dir: Path, scenarios: list[Scenario], only: list[str] | None) -> None:
    """What does not build is left out later, as it is not there; here it is told why."""
    if not shutil.which("cmake"):
        print("there is no cmake: what is built is measured", file=sys.stderr)
        return
    sides = [each for one in scenarios for each in one.variants if not only or each.name in only]
    for name in dict.fromkeys(each.program for each in sides):
        target = name.removeprefix(BENCH)
        done = subprocess.run(["cmake", "--build", build_dir, "--target", target], capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        if done.returncode and "unknown target" not in said:
            why = next((line for line in said.splitlines() if re.search(r"\berror\b", line)), said[-300:])
            print(f"{target} does not build: {why}", file=sys.stderr)


def loaded() -> str | None:
    cpus = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    if load <= BUSY * cpus:
        return None
    return f"others keep this machine busy: a load of {load:.1f} in the last minute, on {cpus} CPUs"


def minutes(one: Scenario, rounds: int | None, only: list[str] | None) -> float:
    chosen = [each for each in one.variants if not only or each.name in only]
    runs = sum(one.rounds_of(cell, rounds or one.rounds) * len(running(chosen, cell)) for cell in one.cells)
    return one.minutes * runs / one.runs(one.rounds)


def measure(build_dir: Path, words: list[str], quick: bool) -> int:
    """By the load test's own program."""
    environment = os.environ | ({QUICK: "1"} if quick else {})
    command = [sys.executable, str(ROOT / "loadtest" / "run.py"), "--build-dir", str(build_dir), *words]
    with subprocess.Popen(command, env=environment) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the terminal has told the child as well: it reports what there is
                pass


def main() -> int:
    try:
        known = read_all()
    except Failed as why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    arguments = parse_arguments(known)
    if (why := loaded()) and not arguments.busy and not arguments.quick:
        print(f"error: {why}: wait, or measure all the same with --busy", file=sys.stderr)
        return 1
    if arguments.resume:
        return measure(arguments.build_dir, ["--resume", str(arguments.resume)], arguments.quick)
    chosen = {name: known[name] for name in arguments.question or known}
    rounds = "1" if arguments.quick else arguments.rounds
    given = ["--rounds", rounds] if rounds else []
    given += [word for name in arguments.only or () for word in ("--only", name)]
    if not arguments.quick:
        whole = int(rounds) if rounds and rounds.isdigit() else None
        print(f"about {sum(minutes(each, whole, arguments.only) for each in chosen.values()):.0f} min, and building", flush=True)
    build(arguments.build_dir, list(chosen.values()), arguments.only)
    failed = False
    with tempfile.TemporaryDirectory() as passing:
        results = Path(passing) if arguments.quick else RESULTS
        for name in chosen:
            out = arguments.out or results / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}"
            words = [*given, "--out", str(out), str(QUESTIONS / f"{name}.toml")]
            status = measure(arguments.build_dir, words, arguments.quick)
            if status in (2, INTERRUPTED):
                return status
            failed |= status != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
