# SPDX-License-Identifier: Apache-2.0
"""Reads a plan: a TOML file of what to measure. README.md lists its keys; what is wrong is named."""

import itertools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from lib.measure import REPOSITORY, Failed
from lib.scenario import METRICS, Cell, RequestClass, Scenario, Target, burn, plain, running, say_hello
from lib.servers import BENCH, Variant

FOLDER = REPOSITORY / "loadtest" / "plans"
PEERS = sorted(path.parent.name for path in (REPOSITORY / "loadtest" / "peers").glob("*/main.*"))
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # it becomes part of file names
LOAD_WARMUP_S = 0.5  # of bwos-load, where a plan says nothing
REQUIRED = object()  # in place of a default

# Keys of a cell that may hold a list, and what stands for a value of it in the cell's name.
SWEPT: dict[str, Callable] = {
    "connections": str, "streams": str, "body": str, "pipeline": str, "busy": lambda share: f"{share * 100:.0f}",
    "value": plain,
}  # fmt: skip
# Keys of a cell that only some tools know.
TOOLS_OF = {
    "path": ("wrk",), "body": ("wrk",), "pipeline": ("wrk",), "threads": ("wrk", "soak"), "timeout": ("wrk",),
    "streams": ("ghz", "h2load", "bwos-load"), "classes": ("bwos-load", "idle"), "busy": ("bwos-load",),
    "of_peak": ("bwos-load",), "rate": ("bwos-load",), "warmup": ("wrk", "ghz", "h2load", "bwos-load"),
    "arguments": ("program",), "value": ("program",), "axis": ("program",),
    "connections": ("wrk", "ghz", "h2load", "bwos-load", "idle", "soak"),
}  # fmt: skip
TOOLS = ("wrk", "ghz", "h2load", "bwos-load", "idle", "soak", "program")


class Kind:
    """What a value must be: the test, and its words for an error."""

    def __init__(self, words: str, fits: Callable, convert: Callable = lambda value: value):
        self.words, self.fits, self.convert = words, fits, convert


def _number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole(least: int, most: int) -> Kind:
    fits = lambda value: _number(value) and isinstance(value, int) and least <= value <= most  # noqa: E731
    return Kind(f"a whole number from {least} to {most}", fits)


def number(least: float, most: float) -> Kind:
    return Kind(f"a number from {least:g} to {most:g}", lambda value: _number(value) and least <= value <= most)


def one_of(*words: str) -> Kind:
    return Kind("one of " + ", ".join(words), lambda value: value in words)


def one_or_more(kind: Kind) -> Kind:
    """A value or a list of such; always converted to a list."""
    return Kind(
        f"{kind.words}, or a list of such",
        lambda value: all(map(kind.fits, value)) and value != [] if isinstance(value, list) else kind.fits(value),
        lambda value: [kind.convert(each) for each in (value if isinstance(value, list) else [value])],
    )


TEXT = Kind("a text", lambda value: isinstance(value, str) and value != "")
WORDS = Kind("a text, its words parted by spaces", TEXT.fits, lambda value: tuple(value.split()))
NAMED = Kind("a name of letters, digits and _ . + -", lambda value: isinstance(value, str) and NAME.fullmatch(value))
PATTERN = Kind("a name; " + ", ".join("{%s}" % key for key in SWEPT) + " stand for a value of the cell", TEXT.fits)
PATH = Kind("a path such as /plaintext", lambda value: isinstance(value, str) and value.startswith("/"))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TABLES = Kind("a list of tables", lambda value: isinstance(value, list) and all(isinstance(v, dict) for v in value))
PROGRAM = Kind(f"one of bwos-server, {', '.join(PEERS)}, or a program in {BENCH}",
               lambda value: value in ("bwos-server", *PEERS) or isinstance(value, str) and value.startswith(BENCH))  # fmt: skip
SECONDS = number(0, 60)
SHARE = Kind("a share above 0 and below 1", lambda value: _number(value) and 0 < value < 1)
RATE = number(0.001, 1e7)
COUNT = whole(1, 1_000_000)

# Key: what it must be, and what stands for it where it is missing.
PLAN = {
    "question": (TEXT, REQUIRED), "minutes": (number(0.1, 24 * 60), REQUIRED), "rounds": (whole(1, 1000), 10),
    "rounds_max": (whole(1, 1000), None), "seconds": (whole(1, 3600), 3), "baseline": (TEXT, None),
    "calibrate_with": (TEXT, None), "variants": (TABLES, REQUIRED), "cells": (TABLES, REQUIRED),
    "targets": (TABLES, []), "tolerance": (number(0, 1), 0),
}  # fmt: skip
VARIANT = {
    "name": (NAMED, REQUIRED), "program": (PROGRAM, "bwos-server"), "flags": (WORDS, ()),
    "cpu": (one_of("server", "client"), None), "holds": (TEXT, ""), "grpc": (FLAG, False), "needs_flag": (TEXT, ""),
    "installed": (FLAG, False), "ours": (FLAG, False), "least": (FLAG, False), "needs": (TEXT, ""),
}  # fmt: skip
CELL = {
    "name": (PATTERN, REQUIRED), "tool": (one_of(*TOOLS), "wrk"), "connections": (one_or_more(COUNT), None),
    "path": (PATH, "/plaintext"), "body": (one_or_more(whole(1, 1 << 30)), [0]),
    "pipeline": (one_or_more(whole(1, 65536)), [1]), "threads": (whole(1, 1024), 1),
    "cpu": (one_of("server", "client"), None), "streams": (one_or_more(COUNT), [1]), "classes": (TABLES, []),
    "rate": (RATE, 0), "busy": (one_or_more(SHARE), [0]), "of_peak": (SHARE, 0), "warmup": (SECONDS, None),
    "rounds": (whole(1, 1000), 0), "seconds": (whole(1, 3600), 0), "timeout": (whole(1, 3600), 0),
    "variants": (one_or_more(TEXT), []), "arguments": (WORDS, ()), "value": (one_or_more(number(-1e12, 1e12)), [0]),
    "axis": (TEXT, ""),
}  # fmt: skip
CLASS = {
    "name": (NAMED, None), "connections": (COUNT, None), "path": (PATH, None),
    "call": (one_of("SayHello", "Burn"), None), "us": (COUNT, None), "share": (SHARE, 0), "burst": (COUNT, 1),
    "over": (NAMED, ""),
}  # fmt: skip
TARGET = {
    "metric": (one_of(*METRICS), REQUIRED), "variant": (one_or_more(TEXT), REQUIRED), "versus": (TEXT, None),
    "limit": (number(0, 1e12), REQUIRED), "cells": (one_or_more(TEXT), None), "less": (FLAG, False),
}  # fmt: skip


class Table:
    """One table of a plan, whose keys were checked; errors name the file and the table."""

    def __init__(self, where: str, data: dict, keys: dict):
        self._where, self._given = where, set(data)
        if isinstance(data.get("name"), str):
            self._where += f" {data['name']!r}"
        for key in data:
            if key not in keys:
                raise self.wrong(f"unknown key {key!r}; there are {', '.join(keys)}")
        self._values = {}
        for key, (kind, default) in keys.items():
            if key not in data and default is REQUIRED:
                raise self.wrong(f"{key} is missing; it is {kind.words}")
            if key in data and not kind.fits(data[key]):
                raise self.wrong(f"{key} = {data[key]!r}: it must be {kind.words}")
            self._values[key] = kind.convert(data[key]) if key in data else default

    def __getitem__(self, key: str):
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def wrong(self, why: str) -> Failed:
        return Failed(f"{self._where}: {why}")

    def tables(self, key: str, keys: dict) -> list["Table"]:
        return [Table(f"{self._where}: {key}[{i}]", data, keys) for i, data in enumerate(self[key], start=1)]

    def member(self, key: str, value, valid) -> None:
        if value is not None and value not in valid:
            raise self.wrong(f"{key} = {value!r}: there is none; there are {', '.join(valid)}")


def _variant(table: Table, cpus: dict[str, int]) -> Variant:
    return Variant(table["name"], table["program"], table["flags"], cpus.get(table["cpu"]), table["holds"],
                   table["grpc"], table["needs_flag"], table["installed"], table["ours"], table["least"],
                   table["needs"])  # fmt: skip


def _class(table: Table, connections: int) -> RequestClass:
    """It has the connections of its cell where it has none of its own."""
    if ("path" in table) == ("call" in table):
        raise table.wrong("either path (HTTP/1.1) or call (gRPC) says what is sent")
    if ("us" in table) != (table["call"] == "Burn"):
        raise table.wrong("us is the microseconds of the call Burn, which needs it")
    if table["over"] and ("connections" in table or not table["call"]):
        raise table.wrong("over is for calls on the connections of another class; they have none")
    name = table["name"] or {"SayHello": "hello", "Burn": "burn"}.get(table["call"])
    if not name:
        raise table.wrong(f"name is missing; it is {NAMED.words}")
    connections = 0 if table["over"] else table["connections"] or connections
    more = {"share": table["share"], "burst": table["burst"], "over": table["over"]}
    if table["call"] == "SayHello":
        return say_hello(name, connections, **more)
    if table["call"] == "Burn":
        return burn(table["us"], name, connections, **more)
    return RequestClass(name, connections, table["path"], **more)


def _check_load(table: Table, cell: Cell) -> None:
    """The rules of bwos-load, whose command line follows from the classes."""
    names = [each.name for each in cell.classes]
    if not names:
        raise table.wrong("classes is missing: bwos-load is told by classes what to send")
    if len(set(names)) < len(names) or any(each.over and each.over not in names for each in cell.classes):
        raise table.wrong(f"classes: {', '.join(names)}: each needs a name of its own, and `over` names one of them")
    if len({each.protocol for each in cell.classes}) > 1:
        raise table.wrong("classes: calls and HTTP/1.1 requests go to different ports: a cell has either")
    if sum(each.share for each in cell.classes) >= 1 or all(each.share for each in cell.classes):
        raise table.wrong("classes: the shares must leave something of the rate to a class without one")
    closed = all(each.protocol == "grpc" and not each.over and not each.share for each in cell.classes)
    sources = [key for key in ("rate", "busy", "of_peak") if getattr(cell, key)]
    if len(sources) > 1 or not (sources or closed):
        raise table.wrong(
            "one of rate, busy and of_peak says how much is sent; only calls, without share and over, go without"
        )


def _cells(table: Table, cpus: dict[str, int], variants: list[str]) -> list[Cell]:
    """One for each of the swept values, in the order in which they stand."""
    for name in table["variants"]:
        table.member("variants", name, variants)
    for key, tools in TOOLS_OF.items():
        if key in table and table["tool"] not in tools:
            raise table.wrong(f"{key} is nothing to {table['tool']}, only to {', '.join(tools)}")
    classes = table.tables("classes", CLASS)
    own = sum(each["connections"] or 0 for each in classes)
    if "connections" in table and own:
        raise table.wrong("connections stand in the classes already")
    if table["tool"] == "program":
        if ("value" in table) != ("axis" in table):
            raise table.wrong("value and axis go together: axis says in words what value is")
    elif "connections" not in table and not own:
        raise table.wrong(f"connections is missing; it is {CELL['connections'][0].words}")
    warmup = table["warmup"]
    if warmup is None:
        warmup = LOAD_WARMUP_S if table["tool"] == "bwos-load" else 0
    elif table["tool"] != "bwos-load" and warmup != int(warmup):
        raise table.wrong(f"warmup = {warmup}: {table['tool']} takes whole seconds")
    swept = {key: table[key] or [own] for key in SWEPT}
    cells = []
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values))
        words = {"{%s}" % key: show(chosen[key]) for key, show in SWEPT.items()}
        name = re.sub(r"\{\w+\}", lambda found: words.get(found[0], found[0]), table["name"])
        if not NAMED.fits(name):
            raise table.wrong(f"name = {table['name']!r}: it must be {NAMED.words}; {PATTERN.words}")
        if chosen["body"] and chosen["pipeline"] > 1:
            raise table.wrong("body and pipeline: wrk is told to do one of them")
        cell = Cell(
            name, table["tool"], path=table["path"], threads=table["threads"], client_cpu=cpus.get(table["cpu"]),
            classes=tuple(_class(each, chosen["connections"]) for each in classes), rate=table["rate"],
            of_peak=table["of_peak"], warmup=warmup, rounds=table["rounds"], seconds=table["seconds"],
            timeout=table["timeout"], variants=tuple(table["variants"]), arguments=table["arguments"], axis=table["axis"],
            **chosen,
        )  # fmt: skip
        if cell.classes and sum(each.connections for each in cell.classes) != cell.connections:
            raise table.wrong("classes: where there are several, each has its own connections, or is over another")
        if cell.tool == "bwos-load":
            _check_load(table, cell)
        cells.append(cell)
    return cells


def _targets(table: Table, variants: list[str], cells: dict[str, Cell]) -> list[Target]:
    for key in ("variant", "cells"):
        for value in table[key] or ():
            table.member(key, value, variants if key == "variant" else cells)
    table.member("versus", table["versus"], variants)
    for cell in map(cells.get, table["cells"] or cells):
        for key in ("variant", "versus"):
            for name in table[key] if key == "variant" else filter(None, [table[key]]):
                if cell.variants and name not in cell.variants:
                    running_there = ", ".join(cell.variants)
                    raise table.wrong(f"{key} = {name!r} does not run in the cell {cell.name!r}: {running_there} do")
    if table["less"] and not table["versus"]:
        raise table.wrong("less is the difference to `versus`, which is missing")
    return [
        Target(table["metric"], variant, table["versus"], table["limit"], tuple(table["cells"] or cells), table["less"])
        for variant in table["variant"]
    ]


def _named_once(plan: Table, key: str, names: list[str]) -> None:
    if not names:
        raise plan.wrong(f"{key} = []: there must be one at least")
    for name in names:
        if names.count(name) > 1:
            raise plan.wrong(f"{key}: two are named {name!r}")


def parse(file: str, text: str, cpus: tuple[int, int]) -> Scenario:
    """`file` is for errors, and names the scenario; `cpus` are those of a pinned server and of its client."""
    hypothesis = text.partition("\n")[0]
    if not hypothesis.startswith("# ") or not hypothesis[2:].strip():
        raise Failed(f"{file}: the first line must be its hypothesis, as a comment: # ...")
    if not NAMED.fits(Path(file).stem):
        raise Failed(f"{file}: its stem names the run: it must be {NAMED.words}")
    try:
        plan = Table(file, tomllib.loads(text), PLAN)
    except tomllib.TOMLDecodeError as error:
        raise Failed(f"{file}: {error}") from error
    chosen = dict(zip(("server", "client"), cpus))
    variants = [_variant(table, chosen) for table in plan.tables("variants", VARIANT)]
    names = [variant.name for variant in variants]
    cells = [cell for table in plan.tables("cells", CELL) for cell in _cells(table, chosen, names)]
    _named_once(plan, "variants", names)
    _named_once(plan, "cells", [cell.name for cell in cells])
    for key in ("baseline", "calibrate_with"):
        plan.member(key, plan[key], names)
    for cell in cells:
        if cell.busy and not plan["calibrate_with"]:
            why = f"calibrate_with is missing: the cell {cell.name!r} has busy; it is one of {', '.join(names)}"
            raise plan.wrong(why)
        for variant in running(variants, cell):
            if (cell.tool == "program") != variant.program.startswith(BENCH):
                raise plan.wrong(f"the cell {cell.name!r} of {cell.tool} does not go with the program {variant.program}")
            if cell.calls and not variant.needs_grpc:
                raise plan.wrong(f"the cell {cell.name!r} calls, the variant {variant.name!r} has no grpc = true")
    rounds_max = plan["rounds_max"] or max(30, plan["rounds"])
    if rounds_max < plan["rounds"]:
        raise plan.wrong(f"rounds_max = {rounds_max}: it must be at least rounds = {plan['rounds']}")
    targets = [
        each for table in plan.tables("targets", TARGET)
        for each in _targets(table, names, {cell.name: cell for cell in cells})
    ]  # fmt: skip
    return Scenario(
        Path(file).stem, plan["question"], tuple(variants), tuple(cells), plan["baseline"], tuple(targets),
        plan["calibrate_with"], hypothesis[2:].strip(), plan["minutes"], plan["rounds"], rounds_max, plan["seconds"],
        plan["tolerance"],
    )  # fmt: skip


def load(path: Path, cpus: tuple[int, int]) -> Scenario:
    try:
        return parse(str(path), path.read_text(), cpus)
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path}: {error}") from error
