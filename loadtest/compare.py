#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets two kept runs side by side: what differs beyond noise, by a rank test, and in what else the runs differ."""

import argparse
import math
import sys
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lib import kept, report, stats  # noqa: E402
from lib.measure import Failed  # noqa: E402

METRICS = ("requests_per_s", "server_cpu_us", "p50_us", "p99_us", "p999_us", "slow_p50_us", "slow_p99_us",
           "bytes_per_connection", "rss_growth_kib")  # fmt: skip
LEVEL = 0.05
TOO_FEW = "too few rounds to tell"  # no order of these values would give a p below the level, all rows being tested
# Flags and CPUs of the servers are among the commands.
NOT_COMPARED = ("utc", "load_before", "client_machine.load_before", "finished", "resumed", "scenario.targets",
                "scenario.question", "scenario.variants")  # fmt: skip
UNSET = ("", "None", "False", "0", "not recorded")


def samples(run: kept.Run, metrics=METRICS) -> dict[tuple[str, str, str], list[float]]:
    """The values of all rounds by cell, variant and metric; and their ratios to the run's baseline."""
    found, baseline = {}, run.scenario.baseline
    for cell in run.scenario.cells:
        for variant in run.scenario.variants:
            for metric in metrics:
                if cell.rate and metric == "requests_per_s":
                    continue  # what was asked for
                found[cell.name, variant.name, metric] = run.values(cell.name, variant.name, metric)
                if baseline and variant.name != baseline:
                    ratios = run.ratios(cell.name, variant.name, baseline, metric)
                    found[cell.name, variant.name, f"{metric} / {baseline}"] = ratios
    return {key: values for key, values in found.items() if values}


def _form(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def rows(of_a: dict, of_b: dict, everything: bool) -> tuple[list[list[str]], list[str]]:
    """A table with its heading, of what differs or of everything; and the verdicts on everything."""
    keys = [key for key in of_a if key in of_b]
    adjusted = stats.holm([stats.mann_whitney(of_a[key], of_b[key]) for key in keys])
    table, verdicts = [["cell", "variant", "metric", "A", "B", "B / A", "rounds", "p", ""]], []
    for key, p in zip(keys, adjusted):
        a, b = of_a[key], of_b[key]
        least = 2 / math.comb(len(a) + len(b), len(a)) * len(keys)
        verdict = "differs" if p < LEVEL else TOO_FEW if least >= LEVEL else "within noise"
        verdicts.append(verdict)
        if everything or p < LEVEL:
            middle_a, middle_b = median(a), median(b)
            ratio = f"{middle_b / middle_a:.3f}" if middle_a else "-"
            table.append([*key, _form(middle_a), _form(middle_b), ratio, f"{len(a)} {len(b)}", f"{p:.2g}", verdict])
    return table, verdicts


def _leaves(value, path: str = "") -> dict[str, str]:
    """A record as dotted paths to texts; entries of a list go by their names."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "name" in each for each in value):
        value = {each["name"]: each for each in value}
    if not isinstance(value, dict):
        return {path: " ".join(map(str, value)) if isinstance(value, list) else str(value)}
    found = {}
    for key, each in value.items():
        found |= _leaves(each, f"{path}.{key}" if path else str(key))
    return found


def differences(a: dict, b: dict) -> list[str]:
    """In what the two machine.json differ, apart from when it was."""
    of_a, of_b = _leaves(a), _leaves(b)
    lines = []
    for path in dict.fromkeys([*of_a, *of_b]):
        one, other = of_a.get(path, "not recorded"), of_b.get(path, "not recorded")
        if one != other and not (one in UNSET and other in UNSET) and not path.startswith(NOT_COMPARED):
            lines.append(f"  {path}: {one or 'none'} | {other or 'none'}")
    return lines


def text(a: kept.Run, b: kept.Run, everything: bool = False, metrics=METRICS) -> str:
    of_a, of_b = samples(a, metrics), samples(b, metrics)
    table, verdicts = rows(of_a, of_b, everything)
    if not verdicts:
        raise Failed(f"{a.folder} and {b.folder} have no cell, variant and metric in common")
    count = len(verdicts)
    parts = [f"A: {a.folder}\nB: {b.folder}",
             f"{verdicts.count('differs')} of {count} medians differ beyond noise: Mann-Whitney U of the rounds, "
             f"two-sided, p after Holm's\ncorrection over all {count} below {LEVEL}. Rows with \" / \" are ratios "
             "within rounds: they alone are free of a machine\nthat changed its speed between the runs."]  # fmt: skip
    if TOO_FEW in verdicts:
        parts.append(f"{verdicts.count(TOO_FEW)} of them have {TOO_FEW}")
    if len(table) > 1:
        parts.append("\n".join(line.rstrip() for line in report.as_columns(table).splitlines()))
    for one, other, name in ((of_a, of_b, "A"), (of_b, of_a, "B")):
        alone = sorted(
            {f"{cell} {variant}" for cell, variant, _ in one} - {f"{cell} {variant}" for cell, variant, _ in other}
        )
        if alone:
            parts.append(f"only in {name}: {', '.join(alone)}")
    lines = differences(a.facts, b.facts)
    parts.append(
        "The runs themselves differ in (A | B):\n" + "\n".join(lines)
        if lines
        else "The runs differ in nothing recorded."
    )
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a", type=Path, metavar="RUN_A", help="a folder, as loadtest/results/<run>")
    parser.add_argument("b", type=Path, metavar="RUN_B")
    parser.add_argument("--metric", action="append", choices=METRICS, help="this one alone, repeatable; the fewer are "
                        "tested at once, the smaller a difference is found")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="list what is within noise too")
    arguments = parser.parse_args()
    try:
        print(text(kept.load(arguments.a), kept.load(arguments.b), arguments.all, arguments.metric or METRICS), end="")
    except (Failed, OSError) as why:
        print(f"compare.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
