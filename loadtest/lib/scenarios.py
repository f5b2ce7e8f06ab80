# SPDX-License-Identifier: Apache-2.0
"""What is measured: each scenario is a question, the servers it compares, and the loads (cells)."""

from dataclasses import dataclass, replace

from lib.servers import Variant

# How much of the median the interval of a target may reach either way before rounds are added.
WIDTH_MAX = {"server_cpu_us": 0.05, "p99_us": 0.20}


@dataclass(frozen=True)
class RequestClass:
    name: str
    connections: int
    path: str


@dataclass(frozen=True)
class Cell:
    """One load."""

    name: str
    tool: str = "wrk"  # wrk, ghz, bwos-load, idle or soak
    connections: int = 64
    path: str = "/plaintext"
    script: str = ""  # of wrk, in loadtest/lua
    threads: int = 1  # of wrk
    has_latency: bool = True  # False: wrk's percentiles of pipelined answers are wrong
    client_cpu: int | None = None
    streams: int = 1  # of ghz: calls in flight on a connection
    classes: tuple[RequestClass, ...] = ()  # of bwos-load; the first one's latency is the cell's
    rate: float = 0  # of bwos-load: all classes together; from the calibration where it is 0
    busy: float = 0  # the share of all CPUs that the calibration aims at


@dataclass(frozen=True)
class Target:
    """`metric` of `variant`, divided by that of `versus` where there is one, is at most `limit`."""

    metric: str
    variant: str
    versus: str | None
    limit: float
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    variants: tuple[Variant, ...]
    cells: tuple[Cell, ...]
    baseline: str | None
    targets: tuple[Target, ...] = ()
    calibrate_with: str | None = None  # the variant that decides the rates of its cells


def _names(cells) -> tuple[str, ...]:
    return tuple(cell.name for cell in cells)


def _one_pinned_worker(server_cpu: int) -> tuple[Variant, ...]:
    one = ("--workers", "1", "--pin")
    return (
        Variant("bwos-epoll", "bwos-server", (*one, "--reactor", "epoll"), server_cpu),
        Variant("bwos-io_uring", "bwos-server", (*one, "--reactor", "io_uring", "--reactor-group", "1"),
                server_cpu, holds="[io_uring]"),
        Variant("floor", "epoll_floor", (), server_cpu),
        Variant("asio_coro", "asio_coro", (), server_cpu),
    )  # fmt: skip


def _pinned(name: str, question: str, cells: tuple[Cell, ...], limit: float, cpus) -> Scenario:
    server_cpu, client_cpu = cpus
    targets = tuple(
        Target("server_cpu_us", variant, "floor", limit, _names(cells))
        for variant in ("bwos-epoll", "bwos-io_uring")
    )
    placed = tuple(replace(cell, client_cpu=client_cpu) for cell in cells)
    return Scenario(name, question, _one_pinned_worker(server_cpu), placed, "floor", targets)


def _two() -> Scenario:
    cells = tuple(Cell(f"c{n}", connections=n, threads=2) for n in (64, 256, 1000))
    return Scenario(
        "two",
        "Do two workers cost less than two bare epoll loops, and does stealing cost anything?",
        (
            Variant("bwos", "bwos-server", ("--workers", "2")),
            Variant("bwos-no-steal", "bwos-server", ("--workers", "2", "--steal", "none")),
            Variant("bwos-private", "bwos-server", ("--workers", "2", "--reactor-group", "1")),
            Variant("floor", "epoll_floor", ("--threads", "2")),
            Variant("asio_coro", "asio_coro", ("--threads", "2")),
        ),
        cells,
        "floor",
        (
            Target("server_cpu_us", "bwos", "floor", 0.97, ("c64",)),
            Target("server_cpu_us", "bwos", "floor", 0.95, ("c256", "c1000")),
            Target("server_cpu_us", "bwos", "bwos-no-steal", 1.02, _names(cells)),
        ),
    )


def _skew() -> Scenario:
    classes = (RequestClass("fast", 58, "/plaintext"), RequestClass("slow", 6, "/work?us=200"))
    cells = tuple(
        Cell(f"busy{busy}", "bwos-load", connections=64, classes=classes, busy=busy / 100) for busy in (60, 80)
    )
    two = ("--workers", "2")
    return Scenario(
        "skew",
        "What do requests pay whose neighbours take 200 us of CPU?",
        (
            Variant("bwos", "bwos-server", two),
            Variant("bwos-no-lane", "bwos-server", (*two, "--lane-threshold-us", "0")),
            Variant("thread-per-core", "bwos-server", (*two, "--reactor-group", "1", "--steal", "none")),
            Variant("asio_coro", "asio_coro", ("--threads", "2")),
        ),
        cells,
        "asio_coro",
        (
            Target("p99_us", "bwos-no-lane", "thread-per-core", 0.30, _names(cells)),
            Target("server_cpu_us", "bwos-no-lane", "thread-per-core", 1.00, _names(cells)),
            Target("p99_us", "bwos-no-lane", "asio_coro", 1.1, ("busy60",)),
            Target("p99_us", "bwos-no-lane", "asio_coro", 0.6, ("busy80",)),
            Target("p99_us", "bwos", "asio_coro", 0.4, _names(cells)),
            Target("p999_us", "bwos", "asio_coro", 0.7, ("busy60",)),
            Target("slow_p50_us", "bwos", "asio_coro", 1.4, ("busy60",)),
            Target("slow_p50_us", "bwos", "asio_coro", 2.2, ("busy80",)),
            Target("slow_p99_us", "bwos", "asio_coro", 1.5, ("busy60",)),
            Target("slow_p99_us", "bwos", "asio_coro", 2.0, ("busy80",)),
            Target("server_cpu_us", "bwos", "asio_coro", 1.0, _names(cells)),
        ),
        calibrate_with="asio_coro",
    )


def _slow_only() -> Scenario:
    cells = tuple(Cell(f"c{n}", connections=n, path="/work?us=200", threads=2) for n in (2, 64))
    two = ("--workers", "2")
    return Scenario(
        "slow-only",
        "Does the lane cost a load anything that is all slow?",
        (
            Variant("bwos", "bwos-server", two),
            Variant("bwos-no-lane", "bwos-server", (*two, "--lane-threshold-us", "0")),
        ),
        cells,
        "bwos-no-lane",
        # Upside down, as a target is an upper limit: at least 0.97 of the throughput.
        (Target("requests_per_s", "bwos-no-lane", "bwos", 1.031, ("c64",)),),
    )


def _memory() -> Scenario:
    room = ("--connections-max", "12000")
    return Scenario(
        "memory",
        "How much does a connection that waits after its first request hold?",
        (
            Variant("bwos-epoll", "bwos-server", (*room, "--reactor", "epoll")),
            Variant("bwos-io_uring", "bwos-server", (*room, "--reactor", "io_uring", "--reactor-group", "1"),
                    holds="[io_uring]"),
            Variant("floor", "epoll_floor"),
            Variant("asio_coro", "asio_coro"),
        ),
        (Cell("idle10000", "idle", connections=10_000),),
        None,
        (
            Target("bytes_per_connection", "bwos-epoll", None, 2048, ("idle10000",)),
            Target("bytes_per_connection", "bwos-io_uring", None, 3072, ("idle10000",)),
        ),
    )  # fmt: skip


def _soak() -> Scenario:
    variants = (
        Variant("bwos-epoll", "bwos-server", ("--workers", "2", "--reactor", "epoll"), needs_grpc=True),
        Variant("bwos-io_uring", "bwos-server",
                ("--workers", "2", "--reactor", "io_uring", "--lane-threshold-us", "50"),
                holds="[io_uring]", needs_grpc=True),
    )  # fmt: skip
    return Scenario(
        "soak",
        "Does memory grow under mixed load whose connections come and go?",
        variants,
        (Cell("mixed", "soak", connections=32),),
        None,
        # 1 MiB in the 8 minutes between the second and the last of 10: a leak of 2 bytes for each of 500,000
        # requests. A guess, above the noise of the allocator's reserves.
        tuple(Target("rss_growth_kib", each.name, None, 1024, ("mixed",)) for each in variants),
    )


def _grpc() -> Scenario:
    return Scenario(
        "grpc",
        "What does a SayHello cost the server?",
        (Variant("bwos", "bwos-server", ("--workers", "2"), needs_grpc=True),),
        (Cell("10x1", "ghz", connections=10), Cell("50x20", "ghz", connections=50, streams=20)),
        None,
    )


def all_scenarios(cpus: tuple[int, int]) -> dict[str, Scenario]:
    """In the order in which they run; `cpus` are for a pinned server and its client."""
    echo = Cell("echo128-c64", path="/echo", script="echo.lua")
    pipelined = tuple(Cell(f"c{n}", connections=n, script="pipeline.lua", has_latency=False) for n in (64, 256))
    scenarios = (
        _pinned("pinned", "What does one worker add to the bare epoll loop?",
                tuple(Cell(f"c{n}", connections=n) for n in (64, 256)), 1.10, cpus),
        _pinned("pipelined", "And 16 requests deep, where the kernel's share is small?",
                pipelined, 1.20, cpus),
        replace(_pinned("echo", "And with a body of 128 bytes to read and send back?", (echo,), 0, cpus),
                targets=()),
        _two(),
        _skew(),
        _slow_only(),
        _memory(),
        _soak(),
        _grpc(),
    )  # fmt: skip
    return {scenario.name: scenario for scenario in scenarios}
