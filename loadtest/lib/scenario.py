# SPDX-License-Identifier: Apache-2.0
"""What is measured: a question, the servers it compares, and the loads on them (cells). lib/plans.py reads it."""

from dataclasses import dataclass

from lib.servers import Variant

# What a run is judged by; columns of runs.csv.
METRICS = (
    "requests", "requests_per_s", "server_cpu_us", "server_user_us", "server_system_us", "server_busy", "client_cpu_us",
    "p50_us", "p90_us", "p99_us", "p999_us", "max_us", "slow_p50_us", "slow_p99_us", "late_p50_us", "late_p99_us",
    "late_max_us", "voluntary_per_request", "involuntary_per_request", "server_rss_kib", "bytes_per_connection",
    "rss_growth_kib", "softirq_cpus", "steal_cpus", "client_steal_cpus", "op_ns", "op_cpu_ns", "peak_rss_kib",
    "stolen_percent", "others_cpus", "idle_percent", "longer_percent", "shorter_percent", "steals_per_1000",
    "stolen_per_steal",
)  # fmt: skip
# The columns that hold no figures.
TEXTS = ("scenario", "cell", "variant", "tool", "answer", "failed")
# How much of the median the interval of a target may reach either way before rounds are added.
WIDTH_MAX = {"server_cpu_us": 0.05, "op_ns": 0.05, "p99_us": 0.20}


@dataclass(frozen=True)
class RequestClass:
    name: str
    connections: int
    path: str
    share: float = 0  # of the cell's rate; 0: each connection gets as much as any other without one
    burst: int = 1  # requests that leave in one write
    protocol: str = "http1"  # or grpc
    message: str = ""  # of grpc: what is sent, in hexadecimal digits
    reply: str = ""  # and what every answer must be
    over: str = ""  # of grpc: the class whose connections it shares, for it has none


def say_hello(name: str = "hello", connections: int = 0, **more) -> RequestClass:
    """SayHello of "bwos", and "Hello bwos"."""
    return RequestClass(name, connections, "/helloworld.Greeter/SayHello", protocol="grpc",
                        message="0a0462776f73", reply="0a0a48656c6c6f2062776f73", **more)  # fmt: skip


def burn(us: int, name: str = "burn", connections: int = 0, **more) -> RequestClass:
    """Request and reply are the microseconds to burn: field 1, a varint."""
    message = bytearray(b"\x08")
    while us > 0x7F:
        message.append(us & 0x7F | 0x80)
        us >>= 7
    message.append(us)
    return RequestClass(name, connections, "/bwos.Work/Burn", protocol="grpc",
                        message=message.hex(), reply=message.hex(), **more)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One load; or, with the tool `program`, what programs that serve nobody are told to measure."""

    name: str
    tool: str = "wrk"  # wrk, h2load, ghz, bwos-load, idle, soak or program
    connections: int = 64
    path: str = "/plaintext"  # of wrk
    body: int = 0  # of wrk: POST with so many bytes
    pipeline: int = 1  # of wrk: requests in one write
    threads: int = 1  # of wrk
    client_cpu: int | None = None
    streams: int = 1  # of gRPC: calls in flight on a connection; with a rate at most
    classes: tuple[RequestClass, ...] = ()  # of bwos-load; the first one's latency is the cell's
    # Of bwos-load: all classes together; from the calibration where it is 0 and the cell has one of the next two, else
    # a closed loop.
    rate: float = 0
    busy: float = 0  # the share of all CPUs that the calibration aims at
    of_peak: float = 0  # instead: the share of the rate that the slowest variant can keep up with
    # Seconds of the same load before what is measured. bwos-load sends on over the same connections; the other tools
    # run twice.
    warmup: float = 0
    rounds: int = 0  # at most; 0: all there are
    seconds: int = 0  # of each run; 0: the scenario's
    timeout: int = 0  # of wrk: seconds after which an answer is an error; 0: its 2
    variants: tuple[str, ...] = ()  # the names of those that it runs; empty: all of the scenario's
    arguments: tuple[str, ...] = ()  # of a program, behind its variant's flags; {value} is the next, {round} the round
    value: float = 0  # of a program: what is swept
    axis: str = ""  # what that is, in words

    @property
    def calls(self) -> bool:
        """True when it talks gRPC."""
        return self.tool in ("ghz", "h2load") or any(each.protocol == "grpc" for each in self.classes)


def plain(value: float) -> str:
    """As a program reads it, too: 1000000, not 1e+06."""
    return str(int(value)) if value == int(value) else str(value)


def told(cell) -> list[str]:
    """The arguments that a program gets for the cell."""
    return [word.replace("{value}", plain(cell.value)) for word in cell.arguments]


def running(variants, cell) -> list:
    """Those of the variants that the cell runs. Kept runs ask as well, whose cells and variants are read from JSON."""
    return [each for each in variants if not cell.variants or each.name in cell.variants]


@dataclass(frozen=True)
class Target:
    """`metric` of `variant`, divided by that of `versus` where there is one (or less it), is at most `limit`."""

    metric: str
    variant: str
    versus: str | None
    limit: float
    cells: tuple[str, ...]
    less: bool = False  # the difference to `versus`, not the ratio


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    variants: tuple[Variant, ...]
    cells: tuple[Cell, ...]
    baseline: str | None
    targets: tuple[Target, ...] = ()
    calibrate_with: str | None = None  # the variant that decides the rates of its cells
    hypothesis: str = ""
    minutes: float = 0  # it takes at most, on the machine that the README names
    rounds: int = 10
    rounds_max: int = 30
    seconds: int = 3  # of each run
    tolerance: float = 0  # by how much the interval of a target that is a ratio may exceed its limit

    def rounds_of(self, cell: Cell, rounds: int) -> int:
        """How many of so many rounds the cell takes part in: the first ones."""
        return min(rounds, cell.rounds or rounds)

    def seconds_of(self, cell: Cell) -> int:
        return cell.seconds or self.seconds

    def runs(self, rounds: int) -> int:
        """In so many rounds."""
        return sum(self.rounds_of(cell, rounds) * len(running(self.variants, cell)) for cell in self.cells)

    def loaded_s(self, rounds: int) -> float:
        """How long the tools load the servers in so many rounds."""
        return sum(
            (self.seconds_of(cell) + cell.warmup) * self.rounds_of(cell, rounds) * len(running(self.variants, cell))
            for cell in self.cells
        )
