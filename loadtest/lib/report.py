# SPDX-License-Identifier: Apache-2.0
"""Tables of a measurement, and what machine and commit it was taken on."""

import json
import operator
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from lib import stats
from lib.hosts import Hosts
from lib.measure import REPOSITORY
from lib.scenario import Scenario, running, told

# Metric, heading, format.
METRICS = [
    ("requests_per_s", "req/s", "{:,.0f}"),
    ("server_cpu_us", "CPU us/req", "{:.2f}"),
    ("server_busy", "its CPU", "{:.0%}"),
    ("client_cpu_us", "client us", "{:.2f}"),
    ("p50_us", "p50 us", "{:,.0f}"),
    ("p99_us", "p99 us", "{:,.0f}"),
    ("p999_us", "p99.9 us", "{:,.0f}"),
    ("slow_p50_us", "slow p50 us", "{:,.0f}"),
    ("slow_p99_us", "slow p99 us", "{:,.0f}"),
    ("late_p99_us", "late p99 us", "{:,.1f}"),
    ("softirq_cpus", "softirq CPUs", "{:.2f}"),
    ("steal_cpus", "steal CPUs", "{:.2f}"),
    ("voluntary_per_request", "switches/req", "{:.3f}"),
    ("server_rss_kib", "RSS KiB", "{:,.0f}"),
    ("bytes_per_connection", "bytes/conn", "{:,.0f}"),
    ("rss_growth_kib", "grown KiB", "{:,.0f}"),
    ("op_ns", "ns an op", "{:,.2f}"),
    ("op_cpu_ns", "CPU ns an op", "{:,.2f}"),
    ("stolen_percent", "stolen %", "{:.1f}"),
    ("idle_percent", "idle %", "{:.1f}"),
    ("longer_percent", "longer %", "{:.1f}"),
    ("shorter_percent", "shorter %", "{:.1f}"),
    ("steals_per_1000", "steals per 1,000", "{:.3f}"),
    ("stolen_per_steal", "stolen a steal", "{:.1f}"),
    ("peak_rss_kib", "peak KiB", "{:,.0f}"),
    ("others_cpus", "others' CPUs", "{:.2f}"),
]
WITH_SPREAD = {"op_ns", "requests_per_s", "server_cpu_us", "p99_us", "bytes_per_connection"}
BUSY_LEAST = 0.95  # of a server's one CPU: below it the client may be the limit, and the row is marked
RATIOS = [("server_cpu_us", "CPU"), ("op_ns", "time"), ("op_cpu_ns", "CPU"), ("p99_us", "p99")]
INTERVALS = f"[95 % bootstrap interval], of fewer than {stats.ROUNDS_LEAST} rounds (their range)"


def as_columns(rows: list[list[str]]) -> str:
    """The first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _with_spread(values: list[float], form: str) -> str:
    """Median and half the interquartile range as a share of it."""
    middle = median(values)
    spread = (stats.quantile(values, 0.75) - stats.quantile(values, 0.25)) / 2
    return form.format(middle) + (f" ±{spread / middle:.1%}" if middle else "")


def _ratio(records, cell, variant, baseline, metric) -> str:
    found = stats.estimate(stats.ratios(records, cell, variant, baseline, metric))
    return f"{found.median:.3f} {found.spread()}" if found else "-"


def cell_rows(scenario: Scenario, records: list[dict], cell: str) -> list[list[str]]:
    """The first one is the heading."""
    among = next(each for each in scenario.cells if each.name == cell)
    names = [variant.name for variant in running(scenario.variants, among)]
    columns = [
        (metric, heading, form)
        for metric, heading, form in METRICS
        if any(stats.by_round(records, cell, name, metric) for name in names)
    ]
    compared = [each for each in RATIOS if scenario.baseline and any(column[0] == each[0] for column in columns)]
    rows = [["variant", "rounds"] + [heading for _, heading, _ in columns]]
    rows[0] += [f"{what} / {scenario.baseline}" for _, what in compared]
    for name in names:
        good = max((len(stats.by_round(records, cell, name, metric)) for metric, _, _ in columns), default=0)
        busy = list(stats.by_round(records, cell, name, "server_busy").values())
        row = [name + (" *" if busy and median(busy) < BUSY_LEAST else ""), str(good)]
        for metric, _, form in columns:
            values = list(stats.by_round(records, cell, name, metric).values())
            if not values:
                row.append("-")
            else:
                row.append(_with_spread(values, form) if metric in WITH_SPREAD else form.format(median(values)))
        row += [_ratio(records, cell, name, scenario.baseline, metric) for metric, _ in compared]
        rows.append(row)
    return rows


def cell_table(scenario: Scenario, records: list[dict], cell: str) -> str:
    return as_columns(cell_rows(scenario, records, cell))


def target_rows(scenario: Scenario, records: list[dict]) -> list[list[str]]:
    """The first one is the heading; the last column is the verdict."""
    rows = [["target", "median", "interval", "limit", "rounds", ""]]
    tolerance = scenario.tolerance
    for target in scenario.targets:
        for cell in target.cells:
            if target.versus:
                compare = operator.sub if target.less else operator.truediv
                values = stats.ratios(records, cell, target.variant, target.versus, target.metric, compare)
                what = f"{target.metric} {target.variant} {'-' if target.less else '/'} {target.versus}, {cell}"
            else:
                values = list(stats.by_round(records, cell, target.variant, target.metric).values())
                what = f"{target.metric} {target.variant}, {cell}"
            found = stats.estimate(values)
            is_ratio = target.versus and not target.less
            form = "{:.3f}" if is_ratio else "{:,.0f}"
            limit = form.format(target.limit) + (f" + {tolerance:g}" if is_ratio and tolerance else "")
            if found is None:
                rows.append([what, "-", "-", limit, "0", "not measured"])
                continue
            verdict = _verdict(found, target.limit + (tolerance if is_ratio else 0))
            rows.append([what, form.format(found.median), found.spread(form), limit, str(found.count), verdict])
    return rows


def _verdict(found: stats.Estimate, most: float) -> str:
    """`most` is the limit and its tolerance: met where the interval ends there at most, missed where it begins above."""
    if found.is_range or found.low <= most < found.high:
        return "undecided"
    return "met" if found.high <= most else "MISSED"


def target_table(scenario: Scenario, records: list[dict]) -> str:
    rows = target_rows(scenario, records)
    return as_columns(rows) if len(rows) > 1 else ""


def load_of(cell) -> str:
    """In words."""
    if cell.tool == "program":
        return " ".join(told(cell))
    load = f"{cell.tool}, {cell.connections} connections"
    if cell.streams > 1:
        load += f" of {cell.streams} streams"
    return load + (f", {cell.rate:,.0f} requests/s" if cell.rate else "")


def left_out(records: list[dict]) -> list[str]:
    """A line for each reason why runs gave no figure."""
    rounds: dict[tuple[str, ...], list[str]] = {}
    for record in records:
        if record.get("failed") or record.get("errors"):
            why = record.get("failed") or f"{record['errors']:.0f} errors"
            rounds.setdefault((record["cell"], record["variant"], why), []).append(str(record["round"]))
    return [f"left out: {' '.join(what[:2])}, round {', '.join(of)}: {what[2]}" for what, of in rounds.items()]


def text(scenario: Scenario, records: list[dict]) -> str:
    parts = [f"{scenario.name}: {scenario.question}"]
    for cell in scenario.cells:
        parts.append(f"{cell.name} ({load_of(cell)}); median, ± half the interquartile range\n"
                     + cell_table(scenario, records, cell.name))  # fmt: skip
    if any(line.split()[1:2] == ["*"] for part in parts[1:] for line in part.splitlines()):
        parts.append(f"* the server kept its CPU less than {BUSY_LEAST:.0%} busy: the client may be the limit")
    if scenario.baseline:
        parts.append(f"ratios of the same round: median {INTERVALS}")
    targets = target_table(scenario, records)
    if targets:
        parts.append(targets)
    lines = left_out(records)
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _output(*command: str) -> str:
    """Nothing, where it cannot run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cmake_cache(build_dir: Path) -> dict:
    try:
        lines = (build_dir / "CMakeCache.txt").read_text().splitlines()
    except OSError:
        return {}
    return {line.partition(":")[0]: line.partition("=")[2] for line in lines}


def _built_with(cache: dict) -> dict:
    """Versions of what built servers and peers, and of the libraries in them; empty of what is not here."""
    cargo = cache.get("CARGO", "")
    asked = {
        "compiler": [cache.get("CMAKE_CXX_COMPILER", ""), "--version"],
        "rustc": [cargo.removesuffix("cargo") + "rustc" if cargo.endswith("cargo") else "", "--version"],
        "go": [cache.get("GO", ""), "version"],
    }
    asked |= {name: ["pkg-config", "--modversion", name] for name in ("grpc++", "libnghttp2", "liburing")}
    return {name: _output(*command).partition("\n")[0] if command[0] else "" for name, command in asked.items()}


def machine(build_dir: Path, hosts: Hosts) -> dict:
    cache = _cmake_cache(build_dir)
    wanted = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "BWOS_SANITIZE")
    return {
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": _output("git", "rev-parse", "HEAD").splitlines()[-1:],
        "uncommitted_changes": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
        "build": {name: cache[name] for name in wanted if name in cache},
        "built_with": _built_with(cache),
    } | hosts.facts()


def write_json(path: Path, data: dict) -> None:
    """All of it or nothing, whenever this process ends."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(data, indent=2) + "\n")
    beside.replace(path)
