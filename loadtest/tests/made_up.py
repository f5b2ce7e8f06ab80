# SPDX-License-Identifier: Apache-2.0
"""A run's folder with figures that are made up."""

import csv
import json
import random
from dataclasses import asdict
from pathlib import Path

from lib.rounds import COLUMNS
from lib.scenario import Cell, Scenario, Target
from lib.servers import Variant

SCENARIO = Scenario(
    "s",
    "Is it?",
    (Variant("ours", "bwos-server"), Variant("floor", "epoll_floor")),
    (Cell("c64"), Cell("64", connections=256)),
    "floor",
    (Target("server_cpu_us", "ours", "floor", 1.15, ("c64",)), Target("server_cpu_us", "ours", "floor", 1.05, ("64",))),
)


def record(number: int, cell: str, variant: str, cpu: float, **more) -> dict:
    return {
        "scenario": "s", "round": number, "order": 1, "cell": cell, "variant": variant, "tool": "wrk", "seconds": 1,
        "requests": 1000, "requests_per_s": 5e5 / cpu, "server_cpu_us": cpu, "client_cpu_us": 1.0, "p50_us": 20 * cpu,
        "p90_us": 40 * cpu, "p99_us": 100 * cpu, "max_us": 300 * cpu, "server_rss_kib": 2000, "errors": 0,
    } | more  # fmt: skip


def records(scenario: Scenario = SCENARIO, rounds: int = 8, seed: int = 1, slower: float = 1.0, **more) -> list[dict]:
    """The first variant costs 1.1 times what the last does, and that is steadier than the machine."""
    source, made = random.Random(seed), []
    for number in range(1, rounds + 1):
        machine = slower * source.uniform(5, 5.5)
        for cell in scenario.cells:
            for variant in scenario.variants:
                cost = 1.1 if variant is scenario.variants[0] else 1.0
                made.append(
                    record(number, cell.name, variant.name, machine * cost * source.uniform(0.99, 1.01), **more)
                )
    return made


def write(folder: Path, made: list[dict], scenario: Scenario = SCENARIO, **facts) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"utc": "2026-11-22T00:00:00Z", "command": ["run.py", "--scenario", "s"], "commit": ["0123456789ab"],
             "cpu": "A CPU", "cpus": [0, 1, 2, 3], "kernel": "6.1", "scenario": asdict(scenario),
             "commands": {each.name: ["./" + each.program, "--x"] for each in scenario.variants}} | facts  # fmt: skip
    (folder / "machine.json").write_text(json.dumps(facts))
    with (folder / "runs.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, COLUMNS)
        out.writeheader()
        out.writerows(made)
    return folder
