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
    add("--only", action="append", metavar="SIDE", help="these sides only, of the questions that have them; repeatable")
    add("--out", type=Path, metavar="DIR", help="where one question's run is kept, new or empty")
    add("--resume", type=Path, metavar="FOLDER", help="go on with a run that was stopped, as it was begun")
    add("--busy", action="store_true", help="measure though others keep this machine busy")
    add("--quick", action="store_true", help="a round of little work, to see that all of it works; nothing is kept")
    add("--no-build", action="store_true", help="measure what is built already, as it is")
    given = parser.parse_args()
    for name in given.question:
        if name not in known:
            parser.error(f"{name!r} is no question; there are {', '.join(known)}")
    if given.out and len(given.question) != 1:
        parser.error("--out is of one question's run: name one question")
    if given.resume and (given.question or given.out or given.rounds or given.only or given.quick or given.no_build):
        parser.error("--resume goes on as the run was begun: no other flag has a place beside it but --busy")
    if given.quick and given.out:
        parser.error("--quick keeps nothing: --out has no place beside it")
    if given.quick and given.rounds:
        parser.error("--quick is one round: --rounds has no place beside it")
    if given.rounds and not (given.rounds.isascii() and given.rounds.isdigit() and int(given.rounds)):
        parser.error(f"--rounds {given.rounds}: it must be a whole number of 1 or more")
    sides = {name: {each.name for each in known[name].variants} for name in given.question or known}
    for side in given.only or ():
        if not any(side in of for of in sides.values()):
            there = ", ".join(sorted(set().union(*sides.values())))
            parser.error(f"--only {side}: no question has such a side; there are {there}")
    given.question = [name for name, of in sides.items() if not given.only or of.intersection(given.only)]
    return given


def build(build_dir: Path, scenarios: list[Scenario], only: list[str] | None) -> None:
    """What does not build is told, and removed where it was built before: the run then leaves it out."""
    if not shutil.which("cmake") or not (build_dir / "CMakeCache.txt").exists():
        print("no CMake, or nothing that it has configured: what lies there is measured", file=sys.stderr)
        return
    sides = [each for one in scenarios for each in one.variants if not only or each.name in only]
    for name in dict.fromkeys(each.program for each in sides):
        target = name.removeprefix(BENCH)
        done = subprocess.run(["cmake", "--build", build_dir, "--target", target], capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        if done.returncode:
            (build_dir / name).unlink(missing_ok=True)
        if done.returncode and not re.search("unknown target|No rule to make target", said):
            why = next((line for line in said.splitlines() if re.search(r"\berror\b", line)), said[-300:])
            print(f"{target} does not build: {why}", file=sys.stderr)


def unbuilt(build_dir: Path, scenarios: list[Scenario], only: list[str] | None) -> list[str]:
    """Programs that are to be there wherever all is built, and are not."""
    sides = [each for one in scenarios for each in one.variants if not each.needs and (not only or each.name in only)]
    return [name for name in dict.fromkeys(each.program for each in sides) if not (build_dir / name).exists()]


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
    words = [*words, "--rounds", "1", "--no-page"] if quick else words
    command = [sys.executable, str(ROOT / "loadtest" / "run.py"), "--build-dir", str(build_dir), *words]
    with subprocess.Popen(command, env=environment) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the terminal has told the child as well: it reports what there is
                pass


def unmet(build_dir: Path, one: Scenario) -> str | None:
    """What the question needs, where each of its sides needs something, and none is there."""
    if all(each.needs and not (build_dir / each.program).exists() for each in one.variants):
        return one.variants[0].needs
    return None


def answer(given: argparse.Namespace, known: dict[str, Scenario]) -> int:
    chosen = {name: known[name] for name in given.question}
    words = ["--rounds", given.rounds] if given.rounds else []
    if not given.quick:
        rounds = int(given.rounds) if given.rounds else None
        print(f"about {sum(minutes(each, rounds, given.only) for each in chosen.values()):.0f} min, and building", flush=True)
    if why := refusal(given):  # before anything is built, which is a load as well
        print(f"error: {why}", file=sys.stderr)
        return 1
    if given.no_build and (missing := unbuilt(given.build_dir, list(chosen.values()), given.only)):
        print(f"error: not built: {', '.join(missing)}", file=sys.stderr)
        return 1
    if not given.no_build:
        build(given.build_dir, list(chosen.values()), given.only)
    failed = False
    with tempfile.TemporaryDirectory() as passing:
        results = Path(passing) if given.quick else RESULTS
        for name, scenario in chosen.items():
            if given.quick and (needs := unmet(given.build_dir, scenario)):
                print(f"{name}: left out: it needs {needs}")
                continue
            out = given.out or results / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}"
            sides = [each.name for each in scenario.variants if each.name in (given.only or ())]
            only = [word for side in sides for word in ("--only", side)]
            plan = str(QUESTIONS / f"{name}.toml")
            status = measure(given.build_dir, [*words, *only, "--out", str(out), plan], given.quick)
            if status in (2, INTERRUPTED):
                return status
            failed |= status != 0
    return 1 if failed else 0


def refusal(given: argparse.Namespace) -> str | None:
    why = None if given.busy or given.quick else loaded()
    return f"{why}: wait, or measure all the same with --busy" if why else None


def main() -> int:
    try:
        known = read_all()
        given = parse_arguments(known)
        if not given.resume:
            return answer(given, known)
        if why := refusal(given):
            print(f"error: {why}", file=sys.stderr)
            return 1
        return measure(given.build_dir, ["--resume", str(given.resume)], False)
    except Failed as why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
