#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the server beside its peers, on this machine or on two, and compares them round by round."""

import argparse
import math
import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lib import hosts, measure, page, plans, report, resume, tools  # noqa: E402
from lib.hosts import Hosts, Lost  # noqa: E402
from lib.measure import REPOSITORY, Failed  # noqa: E402
from lib.rounds import Measurement, Settings, progress  # noqa: E402
from lib.scenario import Cell, Scenario, running  # noqa: E402
from lib.servers import missing_program, missing_variant  # noqa: E402

# What the command line may say otherwise than the plan; kept in machine.json, so that --resume does the same.
# And where it runs.
PLACES = ("server", "client", "ssh", "server_address", "netns", "delay", "installed")
INTERRUPTED = 130  # exit status, as a shell's
OVERRIDES = ("only", "rounds", "rounds_max", "seconds", "rates", "realtime", "seed")


def _whole(least: int, most: int | None = None):
    def convert(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least or (most is not None and int(text) > most):
            valid = f"of {least} or more" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {valid}")
        return int(text)

    return convert


def _rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = [0.0]
    if not all(0 < rate < math.inf for rate in rates):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of rates such as 28000,40000")
    return rates


def _command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a command: {error}") from error
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} is not a command")
    return text


def _delay(text: str) -> float:
    try:
        delay = float(text)
    except ValueError:
        delay = -1
    if not 0 <= delay <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 10000")
    return delay


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
        epilog="exit status: 0 every measurement ended, and what had errors is named; 1 something could not be measured;\n"
        f"2 a bad flag; 130 interrupted\n\nplans in loadtest/plans, and how long they take at most:\n{kept}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("plan", nargs="?", type=Path, metavar="PLAN", help="what to measure, such as loadtest/plans/quick.toml")
    add("--out", type=Path, metavar="DIR",
        help="where the run is kept, new or empty; default loadtest/results/<UTC time>-<plan>")  # fmt: skip
    add("--resume", type=Path, metavar="FOLDER", help="go on with a run that was stopped, as it was begun")
    add("--list", action="store_true", help="the kept plans")
    add("--build-dir", type=Path, default=REPOSITORY / "build" / "release", help="default build/release")
    add("--no-page", action="store_true", help="no report.html and no figures: report.py makes them at any time")
    where = parser.add_argument_group("where it runs, if not all on this machine")
    add = where.add_argument
    add("--server", metavar="USER@HOST",
        help="of the servers, by ssh with a key: our programs are copied there for the run")  # fmt: skip
    add("--client", metavar="USER@HOST", help="of the load tools: wrk, ghz and h2load must be installed there")
    add("--server-address", metavar="ADDR",
        help="at which servers listen and are reached; default: where ssh reached that host")  # fmt: skip
    add("--ssh", type=_command, metavar="COMMAND", help="default ssh; or as: --ssh 'ssh -p 2222'")
    add("--netns", action="store_true", default=None,
        help="two network namespaces on this machine, with a wire between them; root")  # fmt: skip
    add("--delay", type=_delay, metavar="MS", help="of what each end of that wire sends, by netem; default 0")
    add("--installed", action="store_true", default=None,
        help="run the bwos-server that is installed there, from PATH; peers and bwos-load come from the build")  # fmt: skip
    instead = parser.add_argument_group("instead of what the plan says")
    add = instead.add_argument
    add("--only", action="append", metavar="VARIANT", help="measure these variants only; repeatable")
    add("--rounds", type=_whole(1), metavar="N", help="rounds, and no more without --rounds-max")
    add("--rounds-max", type=_whole(1), metavar="N", help="while an interval is too wide, add rounds up to this")
    add("--seconds", type=_whole(1), metavar="N", help="of each run")
    add("--rates", type=_rates, metavar="R,...", help="of the cells that have `busy`, in their order; no calibration")
    add("--realtime", type=_whole(0, 99), metavar="0..99",
        help="SCHED_FIFO priority of the open-loop client; 0: none; default 10")  # fmt: skip
    add("--seed", type=_whole(0), metavar="N", help="of the order of runs; default 1")
    arguments = parser.parse_args()
    if [bool(arguments.plan), bool(arguments.resume), arguments.list].count(True) != 1:
        parser.error("it takes a plan, or --resume FOLDER, or --list")
    if arguments.resume:
        for name in ("out", *OVERRIDES, *PLACES):
            if getattr(arguments, name) is not None:
                flag = "--" + name.replace("_", "-")
                parser.error(f"--resume goes on as the run was begun: {flag} has no place beside it")
    if arguments.netns and (arguments.server or arguments.client):
        parser.error("--netns makes two hosts of this machine: --server and --client have no place beside it")
    if arguments.delay and not arguments.netns:
        parser.error("--delay is of the wire that --netns makes")
    for name in ("server_address", "ssh"):
        if getattr(arguments, name) and not (arguments.server or arguments.client):
            parser.error(f"--{name.replace('_', '-')} is of the way to another host: with --server or --client")
    arguments.build_dir = arguments.build_dir.resolve()
    return arguments


def hosts_at(places: dict) -> AbstractContextManager[Hosts]:
    if places.get("netns"):
        return hosts.in_namespaces(places.get("delay") or 0)
    if places.get("server") or places.get("client"):
        ssh = shlex.split(places.get("ssh") or "ssh")
        return hosts.by_ssh(places.get("server"), places.get("client"), ssh, places.get("server_address"))
    return hosts.local()


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


def missing(cell: Cell, build_dir: Path, on: Hosts) -> str | None:
    """Why the cell cannot be measured there."""
    if cell.tool in tools.HINTS and not on.client.find(cell.tool):
        return f"{cell.tool} is not installed on {on.client.name}; get it with: {tools.HINTS[cell.tool]}"
    if cell.tool in ("idle", "soak") and on.client.prefix:
        return f"the connections of {cell.tool} come from this machine, not from {on.client.name}"
    if cell.tool == "program":
        cpus = len(on.server.facts["cpus"])
        few = cell.axis == "workers" and cell.value > cpus
        return f"{cell.value:g} workers need as many CPUs, and there are {cpus}" if few else None
    why = missing_program(on.client, build_dir, cell.tool) if cell.tool == "bwos-load" else None
    return why or hosts.too_many(on, cell.connections)


def available(
    scenario: Scenario, overrides: dict, installed: bool, build_dir: Path, on: Hosts
) -> tuple[Scenario, list[str]]:
    """The scenario without what cannot run there, and what that is, and why; Failed when nothing is left."""
    left_out = []

    def leave_out(name: str, why: str) -> None:
        left_out.append(f"{name}: {why}")
        progress(f"{scenario.name}: left out: {left_out[-1]}")

    cells = []
    for cell in scenario.cells:
        if why := missing(cell, build_dir, on):
            leave_out(cell.name, why)
        else:
            cells.append(cell)
    if not cells:
        raise Failed("nothing of it can be measured here")
    pinned = any(cell.client_cpu is not None for cell in cells)
    if pinned and on.one_machine and len(on.server.facts["cpus"]) < 2:
        raise Failed("server and client need a CPU each, and there is one")
    kept = []
    for variant in scenario.variants:
        if overrides["only"] and variant.name not in overrides["only"]:
            continue
        variant = replace(variant, installed=variant.installed or (installed and variant.program == "bwos-server"))
        if why := missing_variant(on.server, build_dir, variant):
            leave_out(variant.name, why)
        else:
            kept.append(variant)
    if not kept:
        raise Failed("no server to measure")
    names = [variant.name for variant in kept]
    for cell in [each for each in cells if not running(kept, each)]:
        leave_out(cell.name, f"none of its servers is measured: {', '.join(cell.variants)}")
        cells.remove(cell)
    if not cells:
        raise Failed("nothing of it can be measured with these servers")
    if any(cell.busy and not cell.rate for cell in cells) and scenario.calibrate_with not in names:
        raise Failed(f"{scenario.calibrate_with} decides the rates: measure it too, or give --rates")
    for note in hosts.short_queues(on, max(cell.connections for cell in cells)):
        progress(f"note: {note}")
    baseline = scenario.baseline if scenario.baseline in names else None
    return replace(scenario, variants=tuple(kept), cells=tuple(cells), baseline=baseline), left_out


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


def begin(arguments: argparse.Namespace, on: Hosts) -> int:
    overrides = {name: getattr(arguments, name) for name in OVERRIDES}
    build_dir = arguments.build_dir
    plan = plans.load(arguments.plan, on.cpus)
    scenario, left_out = available(overridden(plan, overrides), overrides, bool(arguments.installed), build_dir, on)
    folder = new_folder(arguments.out, scenario.name)
    copy = folder / f"{scenario.name}.toml"
    shutil.copyfile(arguments.plan, copy)
    facts = report.machine(build_dir, on)
    facts |= {
        "scenario": asdict(scenario),
        "left_out": left_out,
        "overrides": overrides,
        "places": {name: value for name in PLACES if (value := getattr(arguments, name))},
        "commands": {each.name: each.command(build_dir, on.address) for each in scenario.variants},
        "same": resume.fingerprint(scenario, copy, build_dir, on, facts),
    }
    progress(f"{scenario.name}: {scenario.question} At most {plan.minutes:g} min -> {folder}")
    return carry_out(scenario, facts, folder, build_dir, on, not arguments.no_page)


def go_on(arguments: argparse.Namespace, facts: dict, on: Hosts) -> int:
    folder, build_dir = arguments.resume, arguments.build_dir
    name = facts["scenario"]["name"]
    copy = folder / f"{name}.toml"
    scenario = overridden(plans.load(copy, on.cpus), facts["overrides"])
    installed = bool(facts.get("places", {}).get("installed"))
    scenario, _ = available(scenario, facts["overrides"], installed, build_dir, on)
    now = report.machine(build_dir, on)
    resume.check(folder, facts, scenario, resume.fingerprint(scenario, copy, build_dir, on, now))
    facts.setdefault("resumed", []).append({key: now[key] for key in ("utc", "commit", "load_before")})
    rates = facts.get("rates", {})
    cells = tuple(replace(cell, rate=rates.get(cell.name, cell.rate)) for cell in scenario.cells)
    progress(f"{name}: goes on in {folder}")
    return carry_out(replace(scenario, cells=cells), facts, folder, build_dir, on, not arguments.no_page)


def carry_out(scenario: Scenario, facts: dict, folder: Path, build_dir: Path, on: Hosts, with_page: bool) -> int:
    """The exit status. When it is interrupted, what was measured until then is reported."""
    overrides = {key: value for key, value in facts["overrides"].items() if value is not None}
    settings = Settings(build_dir, on, overrides.get("realtime", 10), overrides.get("seed", 1))
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
    except Lost as why:
        progress(f"{why}: what was measured is kept; go on with --resume {folder}")
    finally:
        measure.stop_all()
        measurement.close()
        if measurement.records:
            text = report.text(measurement.scenario, measurement.records)
            progress("\n" + text + ("\n" + page.write_after_run(folder) if with_page else ""))
        progress(f"kept in {folder}\n")
    if not finished:
        return INTERRUPTED
    measurement.pack()
    facts["finished"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    report.write_json(folder / "machine.json", facts)
    shutil.rmtree(folder / "raw")  # only now: one that is not finished goes on with it
    failed = sum(bool(each.get("failed")) for each in measurement.records)
    if failed:
        of = len(measurement.records)
        print(f'error: {failed} of {of} measurements failed: see "left out" above', file=sys.stderr)
    return 1 if failed else 0


def interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)
    affinity = sorted(os.sched_getaffinity(0))
    cpus = (affinity[0], affinity[-1])
    kept = listing(cpus)
    arguments = parse_arguments(kept)
    if arguments.list:
        print(kept)
        return 0
    try:
        if arguments.plan:
            plans.load(arguments.plan, cpus)  # what is wrong in it is told before anything starts
            with hosts_at(vars(arguments)) as on:
                return begin(arguments, on)
        facts = resume.facts_of(arguments.resume)
        with hosts_at(facts.get("places", {})) as on:
            return go_on(arguments, facts, on)
    except (Failed, Lost) as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
