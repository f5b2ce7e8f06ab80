# SPDX-License-Identifier: Apache-2.0
"""The report of a run as one HTML file that needs nothing beside it, from what lies in the run's folder."""

import csv
import itertools
import re
import shlex
import sys
from html import escape
from pathlib import Path

from lib import figures, kept, report, stats
from lib.kept import Run
from lib.scenario import running

# Metric, name, and +1 where less is better, -1 where more is.
COMPARED = [("requests_per_s", "throughput", -1), ("server_cpu_us", "CPU per request", 1),
            ("p50_us", "median latency", 1), ("p99_us", "p99 latency", 1), ("p999_us", "p99.9 latency", 1),
            ("slow_p50_us", "median latency of the second class", 1),
            ("slow_p99_us", "p99 latency of the second class", 1),
            ("bytes_per_connection", "memory per connection", 1), ("op_ns", "time of an operation", 1),
            ("op_cpu_ns", "CPU of an operation", 1), ("peak_rss_kib", "memory", 1)]  # fmt: skip
LIMITS = {
    "client full": "The client had no CPU time left (95 % of its threads or more): it was the bottleneck.",
    "client late": "The open-loop client's own lateness (p99) is more than half of the p99 latency, which contains it.",
    "server not full": "The server kept its CPU, or those of its own host, less than 95 % busy: the client or the network "
                       "may be the bottleneck.",
    "CPUs full": "Server and client shared CPUs that they filled: each took time from the other.",
}
MISSING = "None: the python3 that made this page has no matplotlib (Debian: apt-get install python3-matplotlib)."
NO_MATPLOTLIB = ("no figures: {python} has no matplotlib ({why}). apt-get install python3-matplotlib, then: "
                 "/usr/bin/python3 loadtest/report.py {folder}")  # fmt: skip
STYLE = """
:root { color-scheme: light dark; --line: #8885; --bad: #c43e00; --good: #00805c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff9a62; --good: #3fc79a; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .55rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .text td, .text th { text-align: left; }
.text td { white-space: pre-wrap; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } figure { margin: 1rem 0 1.6rem; } svg { max-width: 100%; height: auto; }
figcaption, .quiet { font-size: 13px; opacity: .75; } code { font-size: 12.5px; overflow-wrap: anywhere; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
"""


def _table(rows: list[list[str]], kind: str = "") -> str:
    """The first row is the heading; a verdict has its colour."""
    colors = {"MISSED": "bad", "met": "good", **dict.fromkeys(LIMITS, "bad")}
    cell = lambda text: (
        f'<td class="{colors[text]}">{escape(text)}</td>' if text in colors else f"<td>{escape(text)}</td>"
    )  # noqa: E731
    head = "".join(f"<th>{escape(text)}</th>" for text in rows[0])
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in rows[1:])
    return f'<div class="wide"><table class="{kind}"><tr>{head}</tr>\n{body}</table></div>\n'


def ratio_rows(run: Run) -> list[list]:
    """cell, variant, baseline, metric, Estimate, and the ratios by round."""
    baseline, rows = run.scenario.baseline, []
    for cell in run.scenario.cells if baseline else ():
        for variant in run.scenario.variants:
            for metric, _, _ in COMPARED:
                what = (cell.name, variant.name, baseline, metric)
                if variant.name != baseline and (values := run.ratios(*what)):
                    rows.append([*what, run.ratio(*what), values])
    return rows


def write_ratios(run: Run, path: Path, rows: list[list]) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["cell", "variant", "baseline", "metric", "rounds", "median", "low95", "high95", "of_each_round"])
        for *what, found, values in rows:
            interval = ("", "") if found.is_range else (f"{found.low:.6g}", f"{found.high:.6g}")
            of_each = " ".join(f"{value:.6g}" for value in values)
            out.writerow([*what, found.count, f"{found.median:.6g}", *interval, of_each])


def losses(run: Run) -> list[list[str]]:
    """A table of where a peer was better than the server under test, with an interval that leaves no doubt; in rows of
    their own, cells of too few rounds for one, where it was better in each."""
    is_ours = {each.name: each.ours or each.program == "bwos-server" for each in run.scenario.variants if each.program}
    ours = [name for name, of_us in is_ours.items() if of_us]
    peers = [name for name, of_us in is_ours.items() if not of_us]
    found: dict[str, dict[str, list[str]]] = {}
    for mine, peer, rounds in itertools.product(ours, peers, range(stats.ROUNDS_LEAST, 0, -1)):
        pair = f"{mine} / {peer}"
        if rounds < stats.ROUNDS_LEAST:
            pair += f", not judged ({rounds} round{'s' * (rounds > 1)})"
        for (metric, name, sign), cell in itertools.product(COMPARED, run.scenario.cells):
            if metric == "requests_per_s" and cell.rate:
                continue  # what was asked for
            of = run.ratio(cell.name, mine, peer, metric)
            if of and min(of.count, stats.ROUNDS_LEAST) == rounds and (of.low > 1 if sign > 0 else of.high < 1):
                found.setdefault(pair, {}).setdefault(name, []).append(f"{cell.name} {of.median:.2f}")
    names = [name for _, name, _ in COMPARED if any(name in of for of in found.values())]
    return [["server / peer", *names]] + [
        [pair, *(", ".join(of.get(name, ["-"])) for name in names)] for pair, of in found.items()
    ]


def _inline(path: Path) -> str:
    """A picture as part of the page: its grey becomes the page's colour of text, its white the page's own."""
    svg = path.read_text()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return svg.replace(figures.INK, "currentColor").replace(figures.PAPER, "Canvas")


def _cell_section(run: Run, cell) -> str:
    records = [record for record in run.records if record["cell"] == cell.name]
    rows = report.cell_rows(run.scenario, records, cell.name)
    variants = running(run.scenario.variants, cell)
    limits = [run.limit(cell, each) for each in variants]
    busy = [run.middle(cell.name, each.name, "client_cpus") for each in variants]
    if any(value is not None for value in busy):
        rows[0].insert(2, "client's CPUs")
        for row, value in zip(rows[1:], busy):
            row.insert(2, "-" if value is None else f"{value:.2f}")
    if any(limits):
        rows[0].insert(2, "limit")
        for row, limit in zip(rows[1:], limits):
            row.insert(2, limit)
    told = "".join(f'<p class="quiet">{each}: {escape(LIMITS[each])}</p>\n' for each in LIMITS if each in limits)
    return f"<h3>{escape(cell.name)}: {escape(report.load_of(cell))}</h3>\n{_table(rows)}{told}"


def _as_text(value) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_as_text(each)}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _machine_section(run: Run) -> str:
    elsewhere = ("scenario", "commands", "command", "left_out")
    facts = {key: value for key, value in run.facts.items() if key not in elsewhere}
    for key in ("governor", "mitigations"):
        facts.setdefault(key, "not recorded")
    rows = [["", ""]] + [[key.replace("_", " "), _as_text(value)] for key, value in facts.items()]
    commands = [["server", "command"]]
    commands += [[name, shlex.join(map(str, command))] for name, command in run.facts.get("commands", {}).items()]
    command = run.facts.get("command") or ["run.py"]
    command = shlex.join(["python3", f"loadtest/{command[0]}", *map(str, command[1:])])
    return (f"<h2>How it was made</h2>\n<p><code>{escape(command)}</code></p>\n"
            + (_table(commands, "text") if len(commands) > 1 else "")
            + "<h2>Machine</h2>\n" + _table(rows, "text"))  # fmt: skip


def render(run: Run, pictures: list[figures.Picture], ratios: list[list], missing: bool = False) -> str:
    scenario = run.scenario
    name = escape(f"{scenario.name}: {scenario.question}" if scenario.question else scenario.name)
    commit = _as_text(run.facts.get("commit") or "unknown")[:12] + (
        " (changed)" if run.facts.get("uncommitted_changes") else ""
    )
    when = (
        f"{run.facts.get('utc', 'when is not recorded')}, commit {commit}, {run.facts.get('cpu', 'CPU not recorded')}, "
    )
    when += f"{len(run.facts.get('cpus', ()))} CPUs, Linux {run.facts.get('kernel', 'not recorded')}"
    if places := run.facts.get("hosts"):
        when += f"; servers on {places.get('server')}, load from {places.get('client')}"
    parts = [f'<h1>{name}</h1>\n<p class="quiet">{escape(when)}</p>\n']
    if scenario.hypothesis:
        parts.append(f"<p>{escape(scenario.hypothesis)}</p>\n")
    targets = report.target_rows(scenario, run.records)
    if len(targets) > 1:
        verdicts = [row[-1] for row in targets[1:]]
        count = f"{verdicts.count('met')} of {len(verdicts)} met, {verdicts.count('undecided')} undecided"
        parts.append(
            f'<h2>Targets: {count}</h2>\n<p class="quiet">Met or missed with the whole interval, undecided where that '
            "contains the limit (with the tolerance that stands beside it) or is the range of fewer than "
            f"{stats.ROUNDS_LEAST} rounds.</p>\n{_table(targets)}"
        )
    lost = losses(run)
    if len(lost) > 1:
        parts.append(
            '<h2>Where the server under test loses to a peer</h2>\n<p class="quiet">Median ratios within rounds '
            f"whose whole 95 % interval is on the worse side of 1; not judged: fewer than {stats.ROUNDS_LEAST} rounds, "
            "each of them on that side.</p>\n" + _table(lost, "text")
        )
    parts.append("<h2>Figures</h2>\n" + (f'<p class="bad">{MISSING}</p>\n' if missing else ""))
    for each in pictures:
        svg = _inline(run.folder / "figures" / f"{each.stem}.svg")
        parts.append(f"<figure>{svg}<figcaption>{escape(each.caption)}</figcaption></figure>\n")
    parts.append("<h2>Tables</h2>\n<p class=\"quiet\">Medians over the rounds, ± half the interquartile range; ratios "
                 f"of the same round: {report.INTERVALS}.</p>\n")  # fmt: skip
    parts += [_cell_section(run, cell) for cell in scenario.cells]
    if ratios:
        rows = [["cell", "server", "divided by", "metric", "median", "interval", "rounds"]]
        rows += [
            [*what, f"{of.median:.3f}", of.spread(), str(of.count)] for *what, of, _ in ratios
        ]
        parts.append(f"<details><summary>All ratios (ratios.csv)</summary>\n{_table(rows)}</details>\n")
    left_out = [*run.facts.get("left_out", ()), *report.left_out(run.records)]
    if left_out:
        parts.append("<h2>Left out</h2>\n<ul>" + "".join(f"<li>{escape(line)}</li>\n" for line in left_out) + "</ul>\n")
    parts.append(_machine_section(run))
    head = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
    head += f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
    return head + "".join(parts) + "</body></html>\n"


def write(folder: Path, baseline: str | None = None) -> str:
    """report.txt, report.html, ratios.csv and figures/ of a run's folder; a line that says what was made or is
    missing."""
    run = kept.load(folder)
    if baseline:
        names = [each.name for each in run.scenario.variants]
        if baseline not in names:
            raise kept.Failed(f"{baseline!r} is none of the run's servers: {', '.join(names)}")
        run.scenario.baseline = baseline
    (folder / "report.txt").write_text(report.text(run.scenario, run.records))
    ratios, missing = ratio_rows(run), False
    write_ratios(run, folder / "ratios.csv", ratios)
    (folder / "figures").mkdir(exist_ok=True)
    for old in (folder / "figures").glob("*.[sp][vn]g"):
        old.unlink()
    try:
        pictures = figures.draw(run, folder / "figures")
    except ImportError as why:
        pictures, missing = [], True
        print(NO_MATPLOTLIB.format(python=sys.executable, why=why, folder=folder), file=sys.stderr)
    (folder / "report.html").write_text(render(run, pictures, ratios, missing))
    return f"{folder / 'report.html'}: {len(pictures)} figures"


def write_after_run(folder: Path) -> str:
    """For the end of a measurement: whatever is wrong here costs no measured figure."""
    try:
        return write(folder)
    except Exception as error:  # noqa: BLE001
        return f"no report.html ({type(error).__name__}: {error}); again: python3 loadtest/report.py {folder}"
