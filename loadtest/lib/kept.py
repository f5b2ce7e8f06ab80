# SPDX-License-Identifier: Apache-2.0
"""A measurement that lies in its folder, read back from machine.json and runs.csv alone."""

import csv
import functools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from lib import stats
from lib.measure import Failed
from lib.scenario import TEXTS

# What an older or newer run may not say of itself.
CELL = {"tool": "?", "connections": 0, "path": "", "script": "", "threads": 1, "client_cpu": None, "streams": 1,
        "classes": (), "rate": 0, "body": 0, "pipeline": 1, "variants": (), "arguments": (), "value": 0, "axis": ""}  # fmt: skip
VARIANT = {"program": "", "flags": (), "cpu": None, "ours": False}
TARGET = {"versus": None, "less": False}
SCENARIO = {"question": "", "hypothesis": "", "baseline": None, "targets": (), "cells": (), "variants": (),
            "tolerance": 0}  # fmt: skip

FULL = 0.95  # of its CPU or of its threads: from there on somebody is the limit; as in the text report
SHARED_FULL = 0.90  # guessed: of CPUs that server and client share; the rest goes to interrupts and wake-ups
LATE_SHARE = 0.5  # guessed: of the p99, by which an open loop's client may itself be late


@functools.cache
def _estimate(values: tuple[float, ...]) -> stats.Estimate | None:
    return stats.estimate(list(values))


@dataclass
class Run:
    folder: Path
    facts: dict  # machine.json
    scenario: SimpleNamespace  # its "scenario", with what is missing filled in
    records: list[dict]  # the lines of runs.csv

    def __post_init__(self):
        self._of: dict[tuple[str, str], list[dict]] = {}
        for record in self.records:
            self._of.setdefault((record["cell"], record["variant"]), []).append(record)

    def by_round(self, cell: str, variant: str, metric: str) -> dict[int, float]:
        return stats.by_round(self._of.get((cell, variant), []), cell, variant, metric)

    def values(self, cell: str, variant: str, metric: str) -> list[float]:
        return list(self.by_round(cell, variant, metric).values())

    def ratios(self, cell: str, variant: str, versus: str, metric: str) -> list[float]:
        records = self._of.get((cell, variant), []) + self._of.get((cell, versus), [])
        return stats.ratios(records, cell, variant, versus, metric)

    def ratio(self, cell: str, variant: str, versus: str, metric: str) -> stats.Estimate | None:
        return _estimate(tuple(self.ratios(cell, variant, versus, metric)))

    def middle(self, cell: str, variant: str, metric: str) -> float | None:
        values = self.values(cell, variant, metric)
        return median(values) if values else None

    def limit(self, cell: SimpleNamespace, variant: SimpleNamespace) -> str:
        """What may have held the server back other than itself; empty when nothing did."""
        of = lambda metric: self.middle(cell.name, variant.name, metric)  # noqa: E731
        server, client = of("server_busy") or of("server_cpus"), of("client_cpus")
        if server is None or client is None:
            return ""
        if cell.rate:
            return "client late" if (of("late_p99_us") or 0) > LATE_SHARE * (of("p99_us") or math.inf) else ""
        cpus = len(self.facts.get("cpus", ())) or math.inf
        wire = self.facts.get("client_machine") or (self.facts.get("places") or {}).get("delay")
        apart = self.facts.get("client_machine")
        own = len(apart["cpus"]) if apart else cpus  # CPUs of the client's machine
        if variant.cpu is not None and server >= FULL:
            return ""  # whatever the client does meanwhile: one that polls always looks full
        if cell.client_cpu is not None or cell.tool in ("bwos-load", "h2load"):
            room = 1
        else:
            room = min(cell.threads, own) if cell.tool == "wrk" else own
        if client >= FULL * room:
            return "client full"
        threads = re.search(r"--(?:workers|threads) (\d+)", " ".join(variant.flags))
        if variant.cpu is not None or (wire and server < FULL * min(cpus, int(threads[1]) if threads else cpus)):
            return "server not full"
        return "CPUs full" if not apart and server + client >= SHARED_FULL * cpus else ""


def _with_defaults(thing, defaults: dict) -> SimpleNamespace:
    return SimpleNamespace(**{**defaults, **vars(thing)})


def _number(text: str | None) -> float | str | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else None


def _records(path: Path) -> list[dict]:
    records = []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = {"round", "cell", "variant"} - set(reader.fieldnames or ())
        if missing:
            raise Failed(f"{path} has no column {', '.join(sorted(missing))}")
        for row in reader:
            row.pop(None, None)
            record = {key: text if key in TEXTS else _number(text) for key, text in row.items()}
            if not isinstance(record["round"], float) or not record["variant"]:
                continue  # cut off in the middle of a line
            record["round"] = int(record["round"])
            for who in ("server", "client"):
                cost, rate = record.get(f"{who}_cpu_us"), record.get("requests_per_s")
                record[f"{who}_cpus"] = cost * rate / 1e6 if cost is not None and rate is not None else None
            records.append(record)
    return records


def _scenario(facts: dict, records: list[dict]) -> SimpleNamespace:
    given = json.loads(json.dumps(facts.get("scenario") or {}), object_hook=lambda entry: SimpleNamespace(**entry))
    scenario = _with_defaults(given, {"name": records[0].get("scenario") or "run"} | SCENARIO)
    for many, one, defaults in (("cells", "cell", CELL), ("variants", "variant", VARIANT)):
        known = [_with_defaults(each, defaults) for each in getattr(scenario, many)]
        names = [each.name for each in known]
        more = [name for name in dict.fromkeys(record[one] for record in records) if name not in names]
        setattr(scenario, many, known + [SimpleNamespace(**defaults, name=name) for name in more])
    scenario.targets = [_with_defaults(each, TARGET) for each in scenario.targets]
    for cell in scenario.cells:
        cell.rate = (facts.get("rates") or {}).get(cell.name) or cell.rate
    return scenario


def load(folder: Path) -> Run:
    """Failed, with what is wrong, where the folder is no run."""
    for name in ("machine.json", "runs.csv"):
        if not (folder / name).is_file():
            raise Failed(f"{folder} is no run: it has no {name}")
    try:
        facts = json.loads((folder / "machine.json").read_text())
        records = _records(folder / "runs.csv")
        if not isinstance(facts, dict) or not records:
            raise Failed(f"{folder} holds no {'measurement' if isinstance(facts, dict) else 'facts in machine.json'}")
        return Run(folder, facts, _scenario(facts, records), records)
    except (OSError, ValueError, AttributeError, TypeError, csv.Error) as error:
        raise Failed(f"{folder} is no run that can be read: {error}") from error
