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
    share: float = 0  # of the cell's rate; 0: each connection gets as much as any other without one
    burst: int = 1  # requests that leave in one write
    protocol: str = "http1"  # or grpc
    message: str = ""  # of grpc: what is sent, in hexadecimal digits
    reply: str = ""  # and what every answer must be
    over: str = ""  # of grpc: the class whose connections it shares, for it has none


# SayHello of "bwos", and "Hello bwos".
HELLO = RequestClass("hello", 0, "/helloworld.Greeter/SayHello", protocol="grpc",
                     message="0a0462776f73", reply="0a0a48656c6c6f2062776f73")  # fmt: skip
# Request and reply are the microseconds to burn.
BURN_30 = RequestClass("burn", 0, "/bwos.Work/Burn", protocol="grpc", message="081e", reply="081e")
BURN_200 = replace(BURN_30, message="08c801", reply="08c801")


@dataclass(frozen=True)
class Cell:
    """One load."""

    name: str
    tool: str = "wrk"  # wrk, h2load, ghz, bwos-load, idle or soak
    connections: int = 64
    path: str = "/plaintext"
    script: str = ""  # of wrk, in loadtest/lua
    threads: int = 1  # of wrk
    has_latency: bool = True  # False: wrk's percentiles of pipelined answers are wrong
    client_cpu: int | None = None
    streams: int = 1  # of gRPC: calls in flight on a connection; with a rate at most
    classes: tuple[RequestClass, ...] = ()  # of bwos-load; the first one's latency is the cell's
    # Of bwos-load: all classes together; from the calibration where it is 0 and the cell has one of the next two, else
    # a closed loop.
    rate: float = 0
    busy: float = 0  # the share of all CPUs that the calibration aims at
    of_peak: float = 0  # instead: the share of the rate that the slowest variant can keep up with


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


def _names(cells) -> tuple[str, ...]:
    return tuple(cell.name for cell in cells)


# Our server by its executor; the flags beside those of the number of workers.
EXECUTORS = {
    "bwos": (),
    "bwos-dedicated": ("--executor", "bwos", "--reactor-threads", "1"),
    "bwos-no-lane": ("--lane-threshold-us", "0"),
    "asio-pool": ("--executor", "asio-pool"),
    "asio-io-context": ("--executor", "asio-io-context"),
    "asio-lane": ("--executor", "asio-io-context", "--asio-lane"),
}


def _ours(threads: int, *names: str, **more) -> tuple[Variant, ...]:
    return tuple(Variant(name, "bwos-server", ("--workers", str(threads), *EXECUTORS[name]), **more) for name in names)


def _peers(threads: int, *names: str, **more) -> tuple[Variant, ...]:
    programs = {"floor": "epoll_floor"}
    return tuple(Variant(name, programs.get(name, name), ("--threads", str(threads)), **more) for name in names)


def _one_pinned_worker(server_cpu: int) -> tuple[Variant, ...]:
    one = ("--workers", "1", "--pin")
    return (
        Variant("bwos-epoll", "bwos-server", (*one, "--reactor", "epoll"), server_cpu),
        Variant("bwos-io_uring", "bwos-server", (*one, "--reactor", "io_uring", "--reactor-group", "1"),
                server_cpu, holds="[io_uring]"),
        *_peers(1, "floor", "asio_coro", cpu=server_cpu),
    )  # fmt: skip


def _pinned(name: str, question: str, cells: tuple[Cell, ...], limit: float, cpus) -> Scenario:
    server_cpu, client_cpu = cpus
    targets = tuple(
        Target("server_cpu_us", variant, "floor", limit, _names(cells))
        for variant in ("bwos-epoll", "bwos-io_uring")
    )
    placed = tuple(replace(cell, client_cpu=client_cpu) for cell in cells)
    return Scenario(name, question, _one_pinned_worker(server_cpu), placed, "floor", targets)


def _executors(cpus) -> Scenario:
    server_cpu, client_cpu = cpus
    cells = tuple(Cell(f"c{n}", connections=n, client_cpu=client_cpu) for n in (64, 256))
    ratios = (
        ("bwos", "asio-io-context", 1.00),
        ("bwos", "asio-pool", 0.70),
        ("bwos-dedicated", "asio-pool", 1.00),
        ("asio-pool", "asio_pool", 1.03),
        ("asio-io-context", "asio_coro", 1.03),
    )
    return Scenario(
        "executors",
        "What does each executor cost with one worker, all threads of a server on one CPU?",
        _ours(1, "bwos", "bwos-dedicated", "asio-pool", "asio-io-context", cpu=server_cpu)
        + _peers(1, "asio_pool", "asio_coro", cpu=server_cpu),
        cells,
        "asio-io-context",
        tuple(Target("server_cpu_us", *ratio, _names(cells)) for ratio in ratios),
    )


def _two_cells() -> tuple[Cell, ...]:
    return tuple(Cell(f"c{n}", connections=n, threads=2) for n in (64, 256, 1000))


def _executors_two() -> Scenario:
    cells = _two_cells()
    ratios = (
        ("bwos", "asio-io-context", 0.95),
        ("bwos", "tokio", 1.00),
        ("asio-pool", "asio_pool", 1.03),
        ("asio-io-context", "asio_coro", 1.03),
    )
    return Scenario(
        "executors-two",
        "And with two workers, wherever the kernel puts them?",
        _ours(2, "bwos", "asio-pool", "asio-io-context") + _peers(2, "asio_pool", "asio_coro", "tokio", "hyper"),
        cells,
        "asio-io-context",
        tuple(Target("server_cpu_us", *ratio, _names(cells)) for ratio in ratios),
    )


def _open_loop() -> Scenario:
    cells = tuple(
        Cell(f"c{n}", "bwos-load", n, classes=(RequestClass("all", n, "/plaintext"),), of_peak=0.7)
        for n in (64, 256, 1000)
    )
    return Scenario(
        "open-loop",
        "How long do requests take at 70 % of what the slowest can keep up with?",
        _ours(2, "bwos", "asio-io-context") + _peers(2, "tokio"),
        cells,
        "asio-io-context",
        tuple(Target("p99_us", "bwos", versus, 1.00, _names(cells)) for versus in ("asio-io-context", "tokio")),
    )


def _two() -> Scenario:
    cells = _two_cells()
    return Scenario(
        "two",
        "Do two workers cost less than two bare epoll loops, and does stealing cost anything?",
        (
            *_ours(2, "bwos"),
            Variant("bwos-no-steal", "bwos-server", ("--workers", "2", "--steal", "none")),
            Variant("bwos-private", "bwos-server", ("--workers", "2", "--reactor-group", "1")),
            *_peers(2, "floor", "asio_coro"),
        ),
        cells,
        "floor",
        (
            Target("server_cpu_us", "bwos", "floor", 0.97, ("c64",)),
            Target("server_cpu_us", "bwos", "floor", 0.95, ("c256", "c1000")),
            Target("server_cpu_us", "bwos", "bwos-no-steal", 1.02, _names(cells)),
        ),
    )


def _skewed(name: str, question: str, classes: tuple[RequestClass, ...], targets: tuple[Target, ...]) -> Scenario:
    """Long requests beside short ones, at rates that keep the machine 60 % and 80 % busy."""
    connections = sum(each.connections for each in classes)
    cells = tuple(
        Cell(f"busy{busy}", "bwos-load", connections, classes=classes, busy=busy / 100) for busy in (60, 80)
    )
    return Scenario(
        name,
        question,
        _ours(2, "bwos", "bwos-no-lane", "asio-io-context", "asio-lane") + _peers(2, "asio_coro", "tokio"),
        cells,
        "asio-io-context",
        targets
        + tuple(
            Target("server_cpu_us", variant, "asio-io-context", 1.0, _names(cells))
            for variant in ("bwos", "bwos-no-lane")
        ),
        # A peer, so that a change of ours changes no rates.
        calibrate_with="asio_coro",
    )


def _skew() -> Scenario:
    both = ("busy60", "busy80")
    versus = "asio-io-context"
    scenario = _skewed(
        "skew",
        "What do requests pay whose neighbours take 200 us of CPU?",
        (RequestClass("fast", 58, "/plaintext"), RequestClass("slow", 6, "/work?us=200")),
        (
            Target("p99_us", "bwos-no-lane", "thread-per-core", 0.30, both),
            Target("server_cpu_us", "bwos-no-lane", "thread-per-core", 1.00, both),
            Target("p99_us", "bwos-no-lane", versus, 1.1, ("busy60",)),
            Target("p99_us", "bwos-no-lane", versus, 0.6, ("busy80",)),
            Target("p99_us", "bwos", versus, 0.4, both),
            Target("p999_us", "bwos", versus, 0.7, ("busy60",)),
            Target("slow_p50_us", "bwos", versus, 1.4, ("busy60",)),
            Target("slow_p50_us", "bwos", versus, 2.2, ("busy80",)),
            Target("slow_p99_us", "bwos", versus, 1.5, ("busy60",)),
            Target("slow_p99_us", "bwos", versus, 2.0, ("busy80",)),
        ),
    )
    flags = ("--workers", "2", "--reactor-group", "1", "--steal", "none")
    return replace(scenario, variants=(*scenario.variants, Variant("thread-per-core", "bwos-server", flags)))


def _skew_1ms() -> Scenario:
    return _skewed(
        "skew-1ms",
        "And if 2 % of the requests take 1 ms?",
        (RequestClass("fast", 58, "/plaintext"), RequestClass("slow", 6, "/work?us=1000", share=0.02)),
        (Target("p99_us", "bwos", "asio-io-context", 0.6, ("busy60", "busy80")),),
    )


def _skew_pipelined() -> Scenario:
    return _skewed(
        "skew-pipelined",
        "And if one connection sends 16 requests of 200 us at once?",
        (RequestClass("fast", 63, "/plaintext"), RequestClass("slow", 1, "/work?us=200", burst=16)),
        (Target("p99_us", "bwos", "asio-io-context", 0.3, ("busy60", "busy80")),),
    )


def _slow_only() -> Scenario:
    cells = tuple(Cell(f"c{n}", connections=n, path="/work?us=200", threads=2) for n in (2, 64))
    return Scenario(
        "slow-only",
        "Does the lane cost a load anything that is all slow?",
        _ours(2, "bwos", "bwos-no-lane"),
        cells,
        "bwos-no-lane",
        # Upside down, as a target is an upper limit: at least 0.97 of the throughput.
        (Target("requests_per_s", "bwos-no-lane", "bwos", 1.031, ("c64",)),),
    )


def _ten_thousand() -> Scenario:
    ours = tuple(
        replace(each, flags=(*each.flags, "--connections-max", "12000")) for each in _ours(2, "bwos", "asio-io-context")
    )
    return Scenario(
        "ten-thousand",
        "And at 10,000 connections, of which none may be dropped?",
        ours + _peers(2, "floor", "tokio"),
        (Cell("c10000", connections=10_000, threads=2),),
        "floor",
        (Target("server_cpu_us", "bwos", "floor", 1.15, ("c10000",)),),
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
            Variant("asio-pool", "bwos-server", (*room, *EXECUTORS["asio-pool"])),
            Variant("asio-io-context", "bwos-server", (*room, *EXECUTORS["asio-io-context"])),
            *_peers(1, "floor", "asio_coro"),
        ),
        (Cell("idle10000", "idle", connections=10_000),),
        None,
        (
            Target("bytes_per_connection", "bwos-epoll", None, 2048, ("idle10000",)),
            Target("bytes_per_connection", "bwos-io_uring", None, 3072, ("idle10000",)),
            Target("bytes_per_connection", "asio-pool", None, 3072, ("idle10000",)),
        ),
    )  # fmt: skip


def _soak() -> Scenario:
    variants = (
        Variant("bwos-epoll", "bwos-server", ("--workers", "2", "--reactor", "epoll", "--grpc", "grpc++"),
                needs_grpc=True),
        Variant("bwos-io_uring", "bwos-server",
                ("--workers", "2", "--reactor", "io_uring", "--lane-threshold-us", "50", "--grpc", "grpc++"),
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
        tuple(
            replace(each, flags=(*each.flags, "--grpc", "grpc++"))
            for each in _ours(2, "bwos", "asio-pool", "asio-io-context", needs_grpc=True)
        ),
        (Cell("10x1", "ghz", connections=10), Cell("50x20", "ghz", connections=50, streams=20)),
        "asio-pool",
    )


# Our server with its own gRPC over HTTP/2.
def _native(name: str, *flags: str, cpu: int | None = None, holds: str = "") -> Variant:
    flags = ("--grpc", "native", *flags)
    return Variant(name, "bwos-server", flags, cpu, holds, needs_grpc=True, needs_flag="--grpc")


def _grpc_h2(cpus) -> Scenario:
    server_cpu, client_cpu = cpus
    shapes = ((10, 1), (50, 20), (10, 100))
    closed = tuple(
        Cell(f"{connections}x{streams}", "bwos-load", connections, streams=streams, client_cpu=client_cpu,
             classes=(replace(HELLO, connections=connections),))
        for connections, streams in shapes
    )  # fmt: skip
    beside = tuple(
        replace(cell, name=f"{cell.name}-{tool}", tool=tool, classes=()) for tool in ("h2load", "ghz") for cell in closed
    )
    one = ("--workers", "1", "--pin")
    ours = ("native-epoll", "native-io_uring")
    return Scenario(
        "grpc-h2",
        "What does a SayHello cost one worker, all threads of a server on one CPU?",
        (
            _native("native-epoll", *one, "--reactor", "epoll", cpu=server_cpu),
            _native("native-io_uring", *one, "--reactor", "io_uring", "--reactor-group", "1",
                    cpu=server_cpu, holds="[io_uring]"),
            Variant("grpc++", "bwos-server", ("--grpc", "grpc++", "--workers", "1"), server_cpu,
                    needs_grpc=True, needs_flag="--grpc"),
            *_peers(1, "h2_floor", "grpc_cq", "tonic", cpu=server_cpu, needs_grpc=True),
        ),
        closed + beside,
        "h2_floor",
        tuple(Target("server_cpu_us", each, "h2_floor", 1.15, _names(closed)) for each in ours)
        + tuple(
            Target("server_cpu_us", each, versus, limit, (cell,))
            for each in ours
            for versus, limit, cell in (
                ("grpc_cq", 0.62, "10x1"),
                ("grpc_cq", 0.15, "10x100"),
                ("tonic", 0.75, "10x1"),
                ("tonic", 0.25, "50x20"),
                ("tonic", 0.20, "10x100"),
            )
        )
        + tuple(Target("p99_us", each, "tonic", 0.2, ("10x100",)) for each in ours),
    )  # fmt: skip


def _grpc_skew() -> Scenario:
    classes = (replace(HELLO, connections=50), replace(BURN_200, share=0.1, over="hello"))
    alone = ("--workers", "2", "--reactor-group", "1", "--steal", "none")
    return Scenario(
        "grpc-skew",
        "What do calls pay when a tenth of them, on the same connections, takes 200 us of CPU?",
        (
            _native("native", "--workers", "2"),
            _native("thread-per-core", *alone),
            *_peers(2, "grpc_cq", "tonic", needs_grpc=True),
        ),
        (Cell("busy60", "bwos-load", 50, streams=20, classes=classes, busy=0.6),),
        "grpc_cq",
        (
            Target("p99_us", "native", "thread-per-core", 0.35, ("busy60",)),
            Target("p99_us", "native", "grpc_cq", 0.5, ("busy60",)),
        ),
        calibrate_with="grpc_cq",
    )


def _grpc_one_connection() -> Scenario:
    cells = tuple(
        Cell(name, "bwos-load", 1, streams=100, classes=(replace(burn, connections=1),))
        for name, burn in (("burn30", BURN_30), ("burn200", BURN_200))
    )
    return Scenario(
        "grpc-one-connection",
        "Do the calls of one connection use both workers?",
        (_native("one-worker", "--workers", "1"), _native("two-workers", "--workers", "2")),
        cells,
        "one-worker",
        # Upside down, as a target is an upper limit: at least 1.7 times the throughput.
        (Target("requests_per_s", "one-worker", "two-workers", 0.588, _names(cells)),),
    )


def _grpc_memory() -> Scenario:
    room = ("--connections-max", "12000")
    return Scenario(
        "grpc-memory",
        "How much does a connection that waits after its first call hold? h2_floor's is a bare nghttp2 session",
        (
            _native("native-epoll", *room, "--reactor", "epoll"),
            _native("native-io_uring", *room, "--reactor", "io_uring", "--reactor-group", "1", holds="[io_uring]"),
            *_peers(1, "h2_floor", "grpc_cq", "tonic", needs_grpc=True),
        ),
        (Cell("idle5000", "idle", connections=5000, classes=(replace(HELLO, connections=5000),)),),
        "h2_floor",
        tuple(Target("bytes_per_connection", each, "h2_floor", 6144, ("idle5000",), less=True)
              for each in ("native-epoll", "native-io_uring")),
    )  # fmt: skip


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
        _executors(cpus),
        _two(),
        _executors_two(),
        _open_loop(),
        _skew(),
        _skew_1ms(),
        _skew_pipelined(),
        _slow_only(),
        _ten_thousand(),
        _memory(),
        _soak(),
        _grpc(),
        _grpc_h2(cpus),
        _grpc_skew(),
        _grpc_one_connection(),
        _grpc_memory(),
    )  # fmt: skip
    return {scenario.name: scenario for scenario in scenarios}
