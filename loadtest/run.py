#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the server beside its peers, on loopback, and compares them round by round."""

import argparse
import os
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lib import measure, page, report, tools  # noqa: E402
from lib.measure import REPOSITORY, Failed  # noqa: E402
from lib.rounds import Measurement, Settings, progress  # noqa: E402
from lib.scenarios import Scenario, all_scenarios  # noqa: E402
from lib.servers import missing_flag, missing_program  # noqa: E402


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
    if len(rates) != 2 or min(rates) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not two rates such as 28000,40000")
    return rates


def parse_arguments(scenarios: dict[str, Scenario]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="scenarios:\n" + "\n".join(f"  {each.name:14} {each.question}" for each in scenarios.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--scenario", action="append", choices=scenarios, help="repeat it for several; default: all")
    add("--only", action="append", metavar="VARIANT", help="measure these variants only; repeatable")
    add("--rounds", type=_at_least(1), default=10, help="default 10")
    add("--rounds-max", type=_at_least(1), default=30, help="while an interval is too wide, add rounds up to this; 30")
    add("--seconds", type=_at_least(1), default=3, help="of each run; default 3")
    add("--quick", action="store_true", help="2 rounds of 1 s: shows that all works, measures nothing")
    add("--rates", type=_rates, metavar="R60,R80", help="of the skew scenarios, instead of calibrating; grpc-skew takes the first")
    add("--realtime", type=int, choices=range(100), default=10, metavar="0..99",
        help="SCHED_FIFO priority of the open-loop client; 0: none; default 10")  # fmt: skip
    add("--seed", type=int, default=1, help="of the order of runs; default 1")
    add("--build-dir", type=Path, default=REPOSITORY / "build" / "release", help="default build/release")
    add("--out", type=Path, default=REPOSITORY / "loadtest" / "results", help="default loadtest/results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 2, 1
        arguments.rounds_max = 2
    return arguments


def available(scenario: Scenario, arguments: argparse.Namespace) -> Scenario:
    """The scenario without what cannot run here, each left out by name; Failed when nothing is left."""
    cells = []
    for cell in scenario.cells:
        if cell.tool in tools.HINTS and not tools.find(cell.tool):
            why = f"{cell.tool} is not installed; get it with: {tools.HINTS[cell.tool]}"
        else:
            why = missing_program(arguments.build_dir, cell.tool) if cell.tool == "bwos-load" else None
        if why:
            progress(f"{scenario.name}: left out: {cell.name}: {why}")
        else:
            cells.append(cell)
    if not cells:
        raise Failed("no tool to measure with")
    cells = tuple(cells)
    if any(cell.client_cpu is not None for cell in scenario.cells) and len(os.sched_getaffinity(0)) < 2:
        raise Failed("server and client need a CPU each, and there is one")
    kept = []
    for variant in scenario.variants:
        why = missing_program(arguments.build_dir, variant.program) or missing_flag(arguments.build_dir, variant)
        if arguments.only and variant.name not in arguments.only:
            continue
        if why:
            progress(f"{scenario.name}: left out: {variant.name}: {why}")
        else:
            kept.append(variant)
    if not kept:
        raise Failed("no server to measure")
    names = [variant.name for variant in kept]
    if arguments.rates and scenario.calibrate_with:
        cells = tuple(replace(cell, rate=rate) for cell, rate in zip(cells, arguments.rates))
    elif scenario.calibrate_with and scenario.calibrate_with not in names:
        raise Failed(f"{scenario.calibrate_with} decides the rates: measure it too, or give --rates")
    baseline = scenario.baseline if scenario.baseline in names else None
    return replace(scenario, variants=tuple(kept), cells=cells, baseline=baseline)


def new_folder(out: Path, name: str) -> Path:
    """<UTC time>-<scenario>, with a number behind it where that exists: nothing is overwritten."""
    out.mkdir(parents=True, exist_ok=True)
    base = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}"
    for number in range(1, 1000):
        folder = out / (base if number == 1 else f"{base}-{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise Failed(f"no free name for {base} in {out}")


def measure_scenario(scenario: Scenario, arguments: argparse.Namespace) -> bool:
    """False when it was interrupted; what was measured until then is reported."""
    scenario = available(scenario, arguments)
    folder = new_folder(arguments.out, scenario.name)
    settings = Settings(arguments.build_dir, arguments.seconds, arguments.rounds, arguments.rounds_max,
                        arguments.realtime, arguments.seed)  # fmt: skip
    facts = report.machine(arguments.build_dir)
    facts["scenario"] = asdict(scenario)
    facts["commands"] = {each.name: each.command(arguments.build_dir) for each in scenario.variants}
    report.write_json(folder / "machine.json", facts)
    progress(f"{scenario.name}: {scenario.question} -> {folder}")
    measurement = Measurement(scenario, settings, folder)
    finished = False
    try:
        facts["rates"] = measurement.calibrate()
        report.write_json(folder / "machine.json", facts)
        measurement.run()
        finished = True
    except KeyboardInterrupt:
        progress("interrupted: what was measured is kept")
    finally:
        measure.stop_all()
        measurement.close()
        if measurement.records:
            text = report.text(measurement.scenario, measurement.records)
            (folder / "report.txt").write_text(text)
            progress("\n" + text + "\n" + page.write_after_run(folder))
        progress(f"kept in {folder}\n")
    return finished


def interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, interrupt)
    cpus = sorted(os.sched_getaffinity(0))
    scenarios = all_scenarios((cpus[0], cpus[-1]))
    arguments = parse_arguments(scenarios)
    arguments.build_dir = arguments.build_dir.resolve()
    measure.raise_descriptor_limit()
    failed = []
    for name in arguments.scenario or scenarios:
        try:
            if not measure_scenario(scenarios[name], arguments):
                return 130
        except Failed as why:
            progress(f"{name}: left out: {why}\n")
            failed.append(name)
    if failed:
        progress("left out: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
