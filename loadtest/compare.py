#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets two kept runs side by side: what differs beyond noise, over all cells and cell by cell, by rank tests, and in
what else the runs differ."""

import argparse
import itertools
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
                "scenario.tolerance", "scenario.question", "scenario.variants")  # fmt: skip
UNSET = ("", "None", "False", "0", "not recorded")


Samples = dict[tuple[str, str, str], dict[int, float]]


def samples(run: kept.Run, metrics=METRICS, cells=None, variants=None) -> Samples:
    """The values by cell, variant and metric, each by round; and their ratios to the run's baseline."""
    found, baseline = {}, run.scenario.baseline
    for cell in run.scenario.cells:
        for variant in run.scenario.variants:
            for metric in metrics:
                if cell.rate and metric == "requests_per_s":
                    continue  # what was asked for
                if (cells and cell.name not in cells) or (variants and variant.name not in variants):
                    continue
                found[cell.name, variant.name, metric] = ours = run.by_round(cell.name, variant.name, metric)
                if baseline and variant.name != baseline:
                    theirs = run.by_round(cell.name, baseline, metric)
                    found[cell.name, variant.name, f"{metric} / {baseline}"] = {
                        number: value / theirs[number] for number, value in ours.items() if theirs.get(number)
                    }
    return {key: values for key, values in found.items() if values}


def _form(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def needed(tests: int, cells: int = 1) -> int:
    """Rounds in each run with which one of so many tests, each of so many cells, can differ at all."""
    return next(n for n in itertools.count(2) if 2 / math.comb(2 * n, n) ** cells * tests < LEVEL)


def _word(metric: str, more: bool) -> str:
    if metric.startswith("requests_per_s"):
        return "faster" if more else "slower"
    if metric.startswith("server_cpu"):
        return "dearer" if more else "cheaper"
    if metric.startswith(("bytes", "rss")):
        return "larger" if more else "smaller"
    return "slower" if more else "faster"


def overall(of_a: Samples, of_b: Samples) -> list[list[str]]:
    """A table with its heading: each variant and metric over all cells at once, and what B is."""
    strata: dict[tuple[str, str], list] = {}
    for key in of_a:
        if key in of_b:
            strata.setdefault(key[1:], []).append((of_a[key], of_b[key]))
    found = []
    for pairs in strata.values():
        off, p = stats.van_elteren([(list(a.values()), list(b.values())) for a, b in pairs])
        # Cells of one round may have its luck in common; one cell alone has nobody to share it with.
        found.append((off, max(p, stats.by_whole_rounds(pairs)) if len(pairs) > 1 else p))
    table = [["variant", "metric", "cells", "rounds", "B / A", "least", "most", "p", ""]]
    for (key, pairs), (off, _), p in zip(strata.items(), found, stats.holm([p for _, p in found])):
        least = 2 / math.prod(math.comb(len(a) + len(b), len(a)) for a, b in pairs) * len(strata)
        rounds = [len(set().union(*side)) for side in zip(*pairs)]
        if p < LEVEL:
            verdict = _word(key[1], off > 0)
        elif least >= LEVEL or (len(pairs) > 1 and min(rounds) < 2):
            verdict = f"too few rounds, {needed(len(strata), len(pairs))} needed"
        else:
            verdict = "no difference beyond noise"
        ratios = [median(b.values()) / median(a.values()) for a, b in pairs if median(a.values())]
        shown = [f"{of(ratios):.3f}" if ratios else "-" for of in (median, min, max)]
        table.append([*key, str(len(pairs)), " ".join(map(str, rounds)), *shown, f"{p:.2g}", verdict])
    return table


def rows(of_a: Samples, of_b: Samples, everything: bool) -> tuple[list[list[str]], list[str]]:
    """A table with its heading, of the cells' medians that differ or of all; and the verdicts on all."""
    keys = [key for key in of_a if key in of_b]
    pairs = [(list(of_a[key].values()), list(of_b[key].values())) for key in keys]
    adjusted = stats.holm([stats.mann_whitney(a, b) for a, b in pairs])
    table, verdicts = [["cell", "variant", "metric", "A", "B", "B / A", "rounds", "p", ""]], []
    for key, (a, b), p in zip(keys, pairs, adjusted):
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


def _columns(table: list[list[str]]) -> str:
    return "\n".join(line.rstrip() for line in report.as_columns(table).splitlines())


def _known(flag: str, asked, a: list, b: list) -> None:
    """Failed, where one was asked for that the runs do not both have."""
    names = [each.name for each in a if each.name in {other.name for other in b}]
    for name in asked or ():
        if name not in names:
            raise Failed(f"{flag} {name}: not in both runs; they have {', '.join(names) or 'none in common'}")


def text(a: kept.Run, b: kept.Run, everything: bool = False, metrics=METRICS, cells=None, variants=None) -> str:
    _known("--cell", cells, a.scenario.cells, b.scenario.cells)
    _known("--variant", variants, a.scenario.variants, b.scenario.variants)
    of_a, of_b = (samples(run, metrics, cells, variants) for run in (a, b))
    table, verdicts = rows(of_a, of_b, everything)
    if not verdicts:
        raise Failed(f"{a.folder} and {b.folder} have no cell, variant and metric in common")
    count, summary = len(verdicts), overall(of_a, of_b)
    parts = [f"A: {a.folder}\nB: {b.folder}",
             "What B is, over all cells: B / A is the median of the cells' ratios, then the least and the most; van "
             "Elteren's rank\ntest of the rounds by cell and, of several cells, a t-test of whole rounds: the larger p,"
             f" two-sided, after Holm's\ncorrection over all {len(summary) - 1} below {LEVEL}. Rows with \" / \" are "
             "ratios within rounds: they alone are free of a machine\nthat changed its speed between the runs.",
             _columns(summary),
             f"Cell by cell, {verdicts.count('differs')} of {count} medians differ beyond noise: Mann-Whitney U of the "
             f"rounds, two-sided, p after Holm's\ncorrection over all {count} below {LEVEL}."]  # fmt: skip
    if TOO_FEW in verdicts:
        parts.append(f"{verdicts.count(TOO_FEW)} of them have {TOO_FEW}: {needed(count)} in each run are needed where "
                     f"{count} are tested at once,\nfewer with --cell, --variant or --metric.")  # fmt: skip
    if len(table) > 1:
        parts.append(_columns(table))
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
    parser.add_argument("--cell", action="append", metavar="NAME", help="this one alone, repeatable; likewise")
    parser.add_argument("--variant", action="append", metavar="NAME", help="this one alone, repeatable; likewise")
    parser.add_argument("--all", action="store_true", help="list the cells' medians that are within noise too")
    given = parser.parse_args()
    try:
        a, b = kept.load(given.a), kept.load(given.b)
        print(text(a, b, given.all, given.metric or METRICS, given.cell, given.variant), end="")
    except (Failed, OSError) as why:
        print(f"compare.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
