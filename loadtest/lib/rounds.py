# SPDX-License-Identifier: Apache-2.0
"""Measures a scenario: in each round every load runs against every server, in shuffled order."""

import csv
import fcntl
import itertools
import os
import random
import tarfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from lib import agent, calibrate, hosts, idle, soak, stats, tools
from lib.hosts import Hosts, LinkLost
from lib.measure import Failed
from lib.scenario import METRICS, TEXTS, WIDTH_MAX, Cell, Scenario, running, told
from lib.servers import Server, Variant

COLUMNS = [
    "scenario", "round", "order", "cell", "variant", "tool", "seconds", "rate_asked", *METRICS, "answer", "errors",
    "failed",
]  # fmt: skip

OTHERS_MAX = 0.15  # guessed: of all CPUs, while calibrating; an idle machine shows about 0.02
QUEUEING_US = 1000  # guessed: latency where requests queue without end; unloaded it is near 80
# By which wrk's own clock may exceed the seconds asked for. Its time begins before its connections are made, and where
# they come late, so does its end: up to 6.4 s were seen with 10,000 of them, and a tenth of the requests; .2 otherwise,
# but where other processes kept the CPUs from it.
OVERTIME_MAX_S = 1

BUSY = ("user", "nice", "system", "irq", "softirq")
OTHERS_LEAST_S = 0.3  # the kernel counts CPU time in hundredths of a second: what a shorter program shows is chance
PROGRAM_S = 30  # and as much more for each second that a plan expects a program to take: then it has failed
SAID_S = 300  # for a tool's output to come over the link; ghz writes megabytes
CORES = ["round", "cell", "variant", "host", "cpu", *agent.KINDS]  # columns of cores.csv


@dataclass(frozen=True)
class Settings:
    build_dir: Path
    hosts: Hosts
    realtime: int = 10
    seed: int = 1


@dataclass(frozen=True)
class Run:
    """Of a load tool, with what it and its server used meanwhile."""

    output: str
    client_cpu_s: float
    server: dict  # of lib/agent.py usage(), but rss_kib as it was in the end
    server_s: float  # between the two looks at the server
    server_cores: dict  # shares of that time, of lib/agent.py cores()
    client_cores: dict


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without who ran it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _shares(before: dict, after: dict, seconds: float) -> dict:
    return {
        cpu: {kind: (value - before[cpu][kind]) / seconds for kind, value in kinds.items()}
        for cpu, kinds in after.items()
        if cpu in before
    }


def _cpus(cores: dict, *kinds: str) -> float:
    return sum(each[kind] for each in cores.values() for kind in kinds)


def progress(text: str) -> None:
    print(text, flush=True)


def read_runs(path: Path) -> list[dict]:
    """What runs.csv holds. A line that an end cut off is taken from the file: its run is not measured."""
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    records = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            records.append({key: text if key in TEXTS else _figure(text) for key, text in row.items() if text})
    return records


def _figure(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


class Measurement:
    """The rounds of one scenario. `records` and the CSV grow run by run, so that an end at any
    moment keeps what was measured, and another one in the same folder goes on behind it."""

    def __init__(self, scenario: Scenario, settings: Settings, folder: Path):
        self.scenario = scenario
        self.settings = settings
        self._folder = folder
        self._raw = folder / "raw"
        self._raw.mkdir(exist_ok=True)
        path = folder / "runs.csv"
        self._csv_file = path.open("a", newline="")
        try:
            fcntl.flock(self._csv_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._csv_file.close()
            raise Failed(f"{path}: another run.py writes it") from error
        self.records: list[dict] = read_runs(path)
        self._seen = {(each["round"], each["cell"], each["variant"]) for each in self.records}
        self._csv = csv.DictWriter(self._csv_file, COLUMNS)
        if path.stat().st_size == 0:
            self._csv.writeheader()
            self._csv_file.flush()
        self._cores_file, self._cores = self._go_on_with_cores(folder / "cores.csv")
        self._ran: Run | None = None  # the last one
        self._spent_s = 0.0
        self._spent_on_s = 0.0  # of what the tools were told to take

    def _go_on_with_cores(self, path: Path):
        """Its lines that belong to a measurement in runs.csv stay."""
        kept = []
        if path.exists():
            with path.open(newline="") as file:
                kept = [row for row in csv.reader(file) if len(row) == len(CORES)][1:]
        file = path.open("w", newline="")
        lines = csv.writer(file)
        lines.writerow(CORES)
        lines.writerows(row for row in kept if (int(row[0]), row[1], row[2]) in self._seen)
        return file, lines

    def close(self) -> None:
        self._csv_file.close()
        self._cores_file.close()

    def run(self) -> None:
        """At least `rounds`, and more while an interval that decides a target is too wide."""
        number = 0
        while number < self.scenario.rounds or (number < self.scenario.rounds_max and self.too_wide(number + 1)):
            number += 1
            self._round(number)

    def pack(self) -> None:
        """The raw outputs and logs, into one file."""
        packed = self._folder / "raw.tar.gz"
        beside = packed.with_suffix(".new")
        with tarfile.open(beside, "w:gz") as archive:
            archive.add(self._raw, "raw", filter=_nobodys)
        beside.replace(packed)

    def _new_raw(self, name: str, suffix: str = ".txt") -> Path:
        """A path in raw/ that is not there: of a run that was cut off, what there is stays."""
        numbers = itertools.count(2)
        path = self._raw / (name + suffix)
        while path.exists():
            path = self._raw / f"{name}-{next(numbers)}{suffix}"
        return path

    def too_wide(self, number: int) -> bool:
        """Whether round `number` could make an interval narrower that is too wide."""
        going_on = {cell.name for cell in self.scenario.cells if self.scenario.rounds_of(cell, number) == number}
        for target in self.scenario.targets:
            share = WIDTH_MAX.get(target.metric)
            if share is None or target.versus is None:
                continue
            for cell in going_on.intersection(target.cells):
                values = stats.ratios(self.records, cell, target.variant, target.versus, target.metric)
                found = stats.estimate(values)
                if found and found.wider_than(share):
                    return True
        return False

    def calibrate(self) -> dict[str, float]:
        """Sets the rates of the cells that have none. Returns them by cell."""
        cells = tuple(
            replace(c, rate=self._share_of_peak(c)) if c.of_peak and not c.rate else c for c in self.scenario.cells
        )
        self.scenario = replace(self.scenario, cells=cells)
        wanted = [cell for cell in self.scenario.cells if cell.busy and not cell.rate]
        if wanted:
            variant = next(each for each in self.scenario.variants if each.name == self.scenario.calibrate_with)
            with ExitStack() as stack:
                server = self._started(variant, f"calibrate-{variant.name}")
                stack.callback(server.stop)
                rates = calibrate.find_rates(lambda rate: self._busy(server, wanted[0], rate), [c.busy for c in wanted])
            cells = tuple(replace(c, rate=rates[c.busy]) if c in wanted else c for c in self.scenario.cells)
            self.scenario = replace(self.scenario, cells=cells)
        return {cell.name: cell.rate for cell in self.scenario.cells if cell.rate}

    def _share_of_peak(self, cell: Cell) -> float:
        peaks = []
        for variant in running(self.scenario.variants, cell):
            with ExitStack() as stack:
                server = self._started(variant, f"peak-{cell.name}-{variant.name}")
                stack.callback(server.stop)
                peaks.append(calibrate.find_peak(lambda rate: self._keeps_up(server, cell, rate)))
            progress(f"  calibrating: {cell.name}: {variant.name} keeps up with {peaks[-1]:,.0f}/s")
        return round(cell.of_peak * min(peaks))

    def _started(self, variant: Variant, log: str) -> Server:
        return Server(variant, self.settings.hosts, self.settings.build_dir, self._new_raw(log, ".log"))

    @staticmethod
    def _said(link: hosts.Link, raw: Path) -> dict:
        """What the command that ran there last has printed; its output is kept in `raw`, its complaints beside it."""
        said = link.call("said", SAID_S)
        raw.write_text(said["output"])
        if said["errors"]:
            raw.with_suffix(".stderr").write_text(said["errors"])
        return said

    def _run(self, command: list[str], server: Server, raw: Path, timeout_s: float) -> Run:
        """Runs a load tool to its end; keeps its output in `raw` and its complaints beside it."""
        client = self.settings.hosts.client
        command = client.carried(command)
        before = server.sample()
        link = client.link()
        done = link.call("run", timeout_s + hosts.ANSWER_S, command=command, timeout_s=timeout_s)
        after = server.sample()
        said = self._said(link, raw)
        if done["exit_code"] and said["errors"] and not said["output"]:
            raise Failed(f"{command[0]}: {said['errors'].strip()}")
        seconds = after["at_s"] - before["at_s"]
        used = {key: after[key] - before[key] for key in ("cpu_s", "user_s", "system_s", "voluntary", "involuntary")}
        return Run(
            said["output"], done["cpu_s"], used | {"rss_kib": after["rss_kib"]}, seconds,
            _shares(before["cores"], after["cores"], seconds),
            _shares(done["cores_before"], done["cores_after"], done["wall_s"]),
        )  # fmt: skip

    def _load(self, cell: Cell, server: Server, seconds: float, seed: int) -> list[str]:
        return tools.load_command(
            cell, _target(server, cell), seconds, self.settings.build_dir, seed, self.settings.realtime
        )

    def _keeps_up(self, server: Server, cell: Cell, rate: float) -> bool:
        """Half of the requests leave on time, and half of the answers come before more than a few others are due.
        Not the 99th percentile: it tells of a shared machine's stalls, at any rate."""
        raw = self._new_raw(f"peak-{cell.name}-{server.variant.name}-{rate:.0f}")
        command = self._load(replace(cell, rate=rate), server, 1, 1)
        found = tools.parse_load(self._run(command, server, raw, timeout_s=30).output)
        return not found["errors"] and max(found["p50_us"], found["late_p50_us"]) < QUEUEING_US

    def _busy(self, server: Server, cell: Cell, rate: float) -> float:
        """The share of the server's CPUs that it, and the client where it is on them, keeps busy."""
        seconds = self.scenario.seconds_of(cell)
        command = self._load(replace(cell, rate=rate), server, seconds, 1)
        ran = self._run(command, server, self._new_raw(f"calibrate-{rate:.0f}"), seconds * 3 + 30)
        tools.parse_load(ran.output)  # fails by name when the client could not work
        used_s = ran.server["cpu_s"] + (ran.client_cpu_s if self.settings.hosts.one_machine else 0)
        cpus = self.settings.hosts.server.facts["cpus"]
        share = used_s / ran.server_s / len(cpus)
        ours = {cpu: kinds for cpu, kinds in ran.server_cores.items() if int(cpu) in cpus}
        others = _cpus(ours, *BUSY) / len(cpus) - share
        progress(f"  calibrating: {rate:,.0f}/s keeps the CPUs {share:.1%} busy, others {max(0.0, others):.1%}")
        if others > OTHERS_MAX:
            raise Failed(f"other processes keep the CPUs {others:.0%} busy: no rate found now would mean anything")
        return share

    def _round(self, number: int) -> None:
        source = random.Random(f"{self.settings.seed}/{number}")
        runs = []
        for cell in self.scenario.cells:
            order = running(self.scenario.variants, cell)
            source.shuffle(order)
            if self.scenario.rounds_of(cell, number) == number:
                runs += [(place, cell, variant) for place, variant in enumerate(order, start=1)]
        runs = [run for run in runs if (number, run[1].name, run[2].name) not in self._seen]
        needed = {variant.name for _, cell, variant in runs if cell.tool != "program"}
        servers: dict[str, Server | Failed] = {}
        try:
            for variant in self.scenario.variants:
                if variant.name in needed:
                    servers[variant.name] = self._start(number, variant)
            for place, cell, variant in runs:
                if cell.tool == "program":
                    self._one(number, place, cell, variant.name, variant)
                    continue
                server = servers[variant.name]
                again = isinstance(server, LinkLost)
                if not isinstance(server, Failed) and not server.alive:  # what it did not survive is marked as failed
                    server.stop()
                    again = True
                if again:
                    server = servers[variant.name] = self._start(number, variant)
                self._one(number, place, cell, variant.name, server)
        finally:
            for server in servers.values():
                if not isinstance(server, Failed):
                    server.stop()

    def _start(self, number: int, variant: Variant) -> Server | Failed:
        try:
            return self._started(variant, f"{number:02}-{variant.name}")
        except Failed as why:
            return why

    def _one(self, number: int, place: int, cell: Cell, name: str, server: Server | Variant | Failed) -> None:
        record = {
            "scenario": self.scenario.name, "round": number, "order": place, "cell": cell.name, "variant": name,
            "tool": cell.tool, "seconds": self.scenario.seconds_of(cell), "rate_asked": cell.rate or None,
        }  # fmt: skip
        began = time.monotonic()
        self._ran = None
        try:
            if isinstance(server, Failed):
                raise server
            record |= self._measure(number, cell, name, server)
        except Failed as why:
            record["failed"] = " ".join(str(why).split())
        self.records.append(record)
        self._csv.writerow({key: _short(value) for key, value in record.items()})
        self._csv_file.flush()
        if self._ran:
            self._keep_cores(number, cell, name, self._ran)
        self._report(record, time.monotonic() - began)

    def _measure(self, number: int, cell: Cell, name: str, server: Server | Variant) -> dict:
        if isinstance(server, Variant):
            return self._measure_program(number, cell, server)
        if cell.tool == "idle":
            return idle.measure_idle(server, cell.connections, cell.calls)
        seconds = self.scenario.seconds_of(cell)
        if cell.tool == "soak":
            samples = self._folder / f"rss-{number:02}-{name}.csv"
            return soak.measure_soak(server, cell, seconds, samples, self.settings.hosts.client.find("ghz"))
        raw_name = f"{number:02}-{cell.name}-{name}"
        if cell.warmup and cell.tool != "bwos-load":
            command = self._command(number, cell, server, int(cell.warmup))
            self._run(command, server, self._new_raw(f"{raw_name}-warmup"), cell.warmup * 3 + 30)
        raw = self._new_raw(raw_name)
        command = self._command(number, cell, server, seconds)
        ran = self._run(command, server, raw, seconds * 3 + cell.warmup + 30)
        result = tools.PARSERS[cell.tool](ran.output)
        if cell.pipeline > 1:  # wrk's percentiles of pipelined answers are wrong
            result |= {"p50_us": None, "p90_us": None, "p99_us": None, "max_us": None}
        if cell.tool == "ghz":
            raw.write_text(tools.without_details(ran.output))
        count = result["requests"]
        if count == 0:
            raise Failed("no request was answered")
        took_s = result.pop("took_s", seconds)
        if took_s > seconds + OVERTIME_MAX_S:
            late = "its connections came late, or it came late to a CPU; give it longer"
            raise Failed(f"{cell.tool} took {took_s:.1f} s instead of {seconds}: {late}")
        self._ran = ran
        return result | {
            "server_cpu_us": ran.server["cpu_s"] * 1e6 / count,
            "server_user_us": ran.server["user_s"] * 1e6 / count,
            "server_system_us": ran.server["system_s"] * 1e6 / count,
            # Of its one CPU, from before the tool starts until after it ends.
            "server_busy": None if server.variant.cpu is None else ran.server["cpu_s"] / ran.server_s,
            "client_cpu_us": ran.client_cpu_s * 1e6 / count,
            "voluntary_per_request": ran.server["voluntary"] / count,
            "involuntary_per_request": ran.server["involuntary"] / count,
            "server_rss_kib": ran.server["rss_kib"],
            "softirq_cpus": _cpus(ran.server_cores, "softirq"),
            "steal_cpus": _cpus(ran.server_cores, "steal"),
            "client_steal_cpus": None if self.settings.hosts.one_machine else _cpus(ran.client_cores, "steal"),
        }

    def _measure_program(self, number: int, cell: Cell, variant: Variant) -> dict:
        """It ends by itself, and says what it has measured."""
        host = self.settings.hosts.server
        words = variant.command(self.settings.build_dir) + told(cell)
        command = [word.replace("{round}", str(number)) for word in words]
        timeout_s = PROGRAM_S + PROGRAM_S * self.scenario.seconds_of(cell)
        link = host.link()
        done = link.call("run", timeout_s + hosts.ANSWER_S, command=host.carried(command), timeout_s=timeout_s)
        said = self._said(link, self._new_raw(f"{number:02}-{cell.name}-{variant.name}"))
        if done["exit_code"]:
            raise Failed(f"it ended with {done['exit_code']}: {said['errors'].strip()[-300:]}")
        found = tools.parse_program(said["output"], variant.least)
        answer = found.get("answer")
        others = next((each["answer"] for each in self.records if each["cell"] == cell.name and each.get("answer")), answer)
        if answer != others:
            raise Failed(f"it came to {answer}, another one to {others}")
        if done["wall_s"] >= OTHERS_LEAST_S:
            busy = _cpus(_shares(done["cores_before"], done["cores_after"], done["wall_s"]), *BUSY)
            found["others_cpus"] = max(0.0, busy - done["cpu_s"] / done["wall_s"])
        return found | {"errors": 0}

    def _keep_cores(self, number: int, cell: Cell, name: str, ran: Run) -> None:
        sides = [("server", ran.server_cores)]
        if not self.settings.hosts.one_machine:
            sides.append(("client", ran.client_cores))
        for host, cores in sides:
            for cpu, kinds in cores.items():
                shares = [f"{kinds[kind]:.3f}" for kind in agent.KINDS]
                self._cores.writerow([number, cell.name, name, host, cpu, *shares])
        self._cores_file.flush()

    def _command(self, number: int, cell: Cell, server: Server, seconds: int) -> list[str]:
        if cell.tool == "wrk":
            return tools.wrk_command(cell, server.http, seconds)
        if cell.tool == "ghz":
            return tools.ghz_command(cell, server.grpc, seconds)
        if cell.tool == "h2load":
            body = self.settings.hosts.client.put("say_hello.bin", tools.SAY_HELLO)
            return tools.h2load_command(cell, server.grpc, seconds, body)
        # The same arrivals for all servers of a round, others in the next.
        return self._load(cell, server, seconds, number)

    def _report(self, record: dict, took_s: float) -> None:
        loads = {cell.name: self.scenario.seconds_of(cell) + cell.warmup for cell in self.scenario.cells}
        self._spent_s += took_s
        self._spent_on_s += loads[record["cell"]]
        done = len(self.records)
        # Rounds may be added later: say what is known to come.
        rounds = max(self.scenario.rounds, record["round"])
        planned = self.scenario.runs(rounds)
        to_come_s = self.scenario.loaded_s(rounds) - sum(loads[each["cell"]] for each in self.records)
        left_s = self._spent_s / self._spent_on_s * to_come_s
        text = f"[{done}/{planned}, {left_s / 60:.1f} min left] round {record['round']} {record['cell']} "
        text += record["variant"] + ": "
        if record.get("failed"):
            text += "FAILED: " + record["failed"]
        elif record.get("bytes_per_connection") is not None:
            text += f"{record['bytes_per_connection']:.0f} bytes a connection"
        elif record["tool"] == "program":
            text += ", ".join(f"{record[m]:,.4g} {m}" for m in ("op_ns", "op_cpu_ns", "p50_us", "p99_us") if m in record)
            text += f", others took {record['others_cpus']:.2f} CPUs" if "others_cpus" in record else ""
        elif record.get("rss_growth_kib") is not None:
            text += f"{record['server_rss_kib']:,.0f} KiB, grown by {record['rss_growth_kib']:,.0f} KiB"
            text += f", {record['errors']} ERRORS" if record["errors"] else ""
        else:
            text += f"{record['requests_per_s']:,.0f}/s, {record['server_cpu_us']:.2f} us CPU, "
            text += f"p99 {record['p99_us']:,.0f} us" if record["p99_us"] else "no p99"
            text += f", {record['errors']} ERRORS" if record["errors"] else ""
        progress(text)


def _target(server: Server, cell: Cell) -> str:
    return server.grpc if cell.calls else server.http


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else value
