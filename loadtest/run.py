#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the server beside its peers, on loopback, and compares them round by round."""

import argparse
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lib import measure, page, plans, report, resume, tools  # noqa: E402
from lib.measure import REPOSITORY, Failed  # noqa: E402
from lib.rounds import Measurement, Settings, progress  # noqa: E402
from lib.scenario import Scenario  # noqa: E402
from lib.servers import missing_flag, missing_program  # noqa: E402

# What the command line may say otherwise than the plan; kept in machine.json, so that --resume does the same.
OVERRIDES = ("only", "rounds", "rounds_max", "seconds", "rates", "realtime", "seed")


def _at_least(least: int):
    def convert(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return convert


def _rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = [0.0]
    if min(rates) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of rates such as 28000,40000")
    return rates


def listing(cpus: tuple[int, int]) -> str:
    """The kept plans: name, how long it takes at most, hypothesis."""
    lines = []
    for path in sorted(plans.FOLDER.glob("*.toml")):
        try:
            plan = plans.load(path, cpus)
            lines.append(f"  {path.name:26} {plan.minutes:3g} min  {plan.hypothesis}")
        except Failed as why:
            lines.append(f"  {path.name:26} wrong: {why}")
    return "\n".join(lines)


def parse_arguments(kept: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        usage="%(prog)s PLAN [--out DIR] [...]\n       %(prog)s --resume FOLDER\n       %(prog)s --list",
        epilog=f"plans in loadtest/plans, and how long they take at most:\n{kept}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("plan", nargs="?", type=Path, metavar="PLAN", help="what to measure, such as loadtest/plans/quick.toml")
    add("--out", type=Path, metavar="DIR",
        help="where the run is kept, new or empty; default loadtest/results/<UTC time>-<plan>")  # fmt: skip
    add("--resume", type=Path, metavar="FOLDER", help="go on with a run that was stopped, as it was begun")
    add("--list", action="store_true", help="the kept plans")
    add("--build-dir", type=Path, default=REPOSITORY / "build" / "release", help="default build/release")
    instead = parser.add_argument_group("instead of what the plan says")
    add = instead.add_argument
    add("--only", action="append", metavar="VARIANT", help="measure these variants only; repeatable")
    add("--rounds", type=_at_least(1), metavar="N", help="rounds, and no more without --rounds-max")
    add("--rounds-max", type=_at_least(1), metavar="N", help="while an interval is too wide, add rounds up to this")
    add("--seconds", type=_at_least(1), metavar="N", help="of each run")
    add("--rates", type=_rates, metavar="R,...", help="of the cells that have `busy`, in their order; no calibration")
    add("--realtime", type=int, choices=range(100), metavar="0..99",
        help="SCHED_FIFO priority of the open-loop client; 0: none; default 10")  # fmt: skip
    add("--seed", type=_at_least(0), metavar="N", help="of the order of runs; default 1")
    arguments = parser.parse_args()
    if [bool(arguments.plan), bool(arguments.resume), arguments.list].count(True) != 1:
        parser.error("it takes a plan, or --resume FOLDER, or --list")
    if arguments.resume:
        for name in ("out", *OVERRIDES):
            if getattr(arguments, name) is not None:
                flag = "--" + name.replace("_", "-")
                parser.error(f"--resume goes on as the run was begun: {flag} has no place beside it")
    arguments.build_dir = arguments.build_dir.resolve()
    return arguments


def overridden(scenario: Scenario, overrides: dict) -> Scenario:
    rounds = overrides["rounds"] or min(scenario.rounds, overrides["rounds_max"] or scenario.rounds)
    rounds_max = overrides["rounds_max"] or overrides["rounds"] or scenario.rounds_max
    if rounds_max < rounds:
        raise Failed(f"--rounds-max {rounds_max}: it must be at least --rounds {rounds}")
    seconds = overrides["seconds"] or scenario.seconds
    cells = tuple(replace(cell, seconds=0) if overrides["seconds"] else cell for cell in scenario.cells)
    if overrides["rates"]:
        names = [cell.name for cell in cells if cell.busy]
        if len(names) != len(overrides["rates"]):
            given = len(overrides["rates"])
            raise Failed(f"--rates has {given} rates; {scenario.name} needs {len(names)}: {', '.join(names)}")
        rates = dict(zip(names, overrides["rates"]))
        cells = tuple(replace(cell, rate=rates.get(cell.name, cell.rate)) for cell in cells)
    for name in overrides["only"] or ():
        if name not in [variant.name for variant in scenario.variants]:
            raise Failed(f"--only {name}: {scenario.name} has none; it has "
                         + ", ".join(variant.name for variant in scenario.variants))  # fmt: skip
    return replace(scenario, rounds=rounds, rounds_max=rounds_max, seconds=seconds, cells=cells)


def available(scenario: Scenario, overrides: dict, build_dir: Path) -> Scenario:
    """The scenario without what cannot run here, each left out by name; Failed when nothing is left."""
    cells = []
    for cell in scenario.cells:
        if cell.tool in tools.HINTS and not tools.find(cell.tool):
            why = f"{cell.tool} is not installed; get it with: {tools.HINTS[cell.tool]}"
        else:
            why = missing_program(build_dir, cell.tool) if cell.tool == "bwos-load" else None
        if why:
            progress(f"{scenario.name}: left out: {cell.name}: {why}")
        else:
            cells.append(cell)
    if not cells:
        raise Failed("no tool to measure with")
    if any(cell.client_cpu is not None for cell in cells) and len(os.sched_getaffinity(0)) < 2:
        raise Failed("server and client need a CPU each, and there is one")
    kept = []
    for variant in scenario.variants:
        if overrides["only"] and variant.name not in overrides["only"]:
            continue
        why = missing_program(build_dir, variant.program) or missing_flag(build_dir, variant)
        if why:
            progress(f"{scenario.name}: left out: {variant.name}: {why}")
        else:
            kept.append(variant)
    if not kept:
        raise Failed("no server to measure")
    names = [variant.name for variant in kept]
    if any(cell.busy and not cell.rate for cell in cells) and scenario.calibrate_with not in names:
        raise Failed(f"{scenario.calibrate_with} decides the rates: measure it too, or give --rates")
    baseline = scenario.baseline if scenario.baseline in names else None
    return replace(scenario, variants=tuple(kept), cells=tuple(cells), baseline=baseline)


def new_folder(out: Path | None, name: str) -> Path:
    """`out`, or <UTC time>-<plan> with a number behind it where that exists: nothing is overwritten."""
    if out:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failed(f"--out {out}: {error.strerror}") from error
        if any(out.iterdir()):
            raise Failed(f"--out {out}: there is something in it, and nothing is overwritten; --resume goes on with a run")
        return out
    results = REPOSITORY / "loadtest" / "results"
    results.mkdir(exist_ok=True)
    base = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}"
    for number in range(1, 1000):
        folder = results / (base if number == 1 else f"{base}-{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise Failed(f"no free name for {base} in {results}")


def begin(arguments: argparse.Namespace, cpus: tuple[int, int]) -> bool:
    overrides = {name: getattr(arguments, name) for name in OVERRIDES}
    plan = plans.load(arguments.plan, cpus)
    scenario = available(overridden(plan, overrides), overrides, arguments.build_dir)
    folder = new_folder(arguments.out, scenario.name)
    copy = folder / f"{scenario.name}.toml"
    shutil.copyfile(arguments.plan, copy)
    facts = report.machine(arguments.build_dir)
    facts |= {
        "scenario": asdict(scenario),
        "overrides": overrides,
        "commands": {each.name: each.command(arguments.build_dir) for each in scenario.variants},
        "same": resume.fingerprint(scenario, copy, arguments.build_dir, facts),
    }
    progress(f"{scenario.name}: {scenario.question} At most {plan.minutes:g} min -> {folder}")
    return carry_out(scenario, facts, folder, arguments.build_dir)


def go_on(folder: Path, build_dir: Path, cpus: tuple[int, int]) -> bool:
    facts = resume.facts_of(folder)
    name = facts["scenario"]["name"]
    copy = folder / f"{name}.toml"
    scenario = overridden(plans.load(copy, cpus), facts["overrides"])
    scenario = available(scenario, facts["overrides"], build_dir)
    now = report.machine(build_dir)
    resume.check(folder, facts, scenario, resume.fingerprint(scenario, copy, build_dir, now))
    facts.setdefault("resumed", []).append({key: now[key] for key in ("utc", "commit", "load_before")})
    rates = facts.get("rates", {})
    cells = tuple(replace(cell, rate=rates.get(cell.name, cell.rate)) for cell in scenario.cells)
    progress(f"{name}: goes on in {folder}")
    return carry_out(replace(scenario, cells=cells), facts, folder, build_dir)


def carry_out(scenario: Scenario, facts: dict, folder: Path, build_dir: Path) -> bool:
    """False when it was interrupted; what was measured until then is reported."""
    overrides = {key: value for key, value in facts["overrides"].items() if value is not None}
    settings = Settings(build_dir, overrides.get("realtime", 10), overrides.get("seed", 1))
    measurement = Measurement(scenario, settings, folder)
    finished = False
    try:
        report.write_json(folder / "machine.json", facts)
        facts["rates"] = measurement.calibrate()
        report.write_json(folder / "machine.json", facts)
        measurement.run()
        finished = True
    except KeyboardInterrupt:
        progress(f"interrupted: what was measured is kept; go on with --resume {folder}")
    finally:
        measure.stop_all()
        measurement.close()
        if measurement.records:
            text = report.text(measurement.scenario, measurement.records)
            (folder / "report.txt").write_text(text)
            progress("\n" + text + "\n" + page.write_after_run(folder))
        progress(f"kept in {folder}\n")
    if finished:
        measurement.compress()
        facts["finished"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        report.write_json(folder / "machine.json", facts)
    return finished


def interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, interrupt)
    affinity = sorted(os.sched_getaffinity(0))
    cpus = (affinity[0], affinity[-1])
    kept = listing(cpus)
    arguments = parse_arguments(kept)
    if arguments.list:
        print(kept)
        return 0
    measure.raise_descriptor_limit()
    try:
        if arguments.resume:
            return 0 if go_on(arguments.resume, arguments.build_dir, cpus) else 130
        return 0 if begin(arguments, cpus) else 130
    except Failed as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
