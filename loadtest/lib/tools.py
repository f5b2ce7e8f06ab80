# SPDX-License-Identifier: Apache-2.0
"""The load tools: command lines, and their outputs as one kind of record."""

import json
import re
from pathlib import Path
from statistics import median

from lib.measure import Failed
from lib.scenario import METRICS
from lib.servers import program

# Below the repository, where tools are started; a host with files of its own gets copies (hosts.Host.carried).
LUA = "loadtest/lua"
PROTO = "proto/helloworld.proto"
HINTS = {
    "wrk": "apt-get install wrk",
    "h2load": "apt-get install nghttp2-client",
    "ghz": "go install github.com/bojand/ghz/cmd/ghz@v0.121.0 (needs Go 1.23 or newer)",
}
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}


def _pinned(cell) -> list[str]:
    return [] if cell.client_cpu is None else ["taskset", "-c", str(cell.client_cpu)]


def wrk_command(cell, target: str, seconds: int) -> list[str]:
    command = ["wrk", f"-t{cell.threads}", f"-c{cell.connections}", f"-d{seconds}s", "--latency"]
    if cell.timeout:
        command += ["--timeout", f"{cell.timeout}s"]
    after = []  # for the script
    if cell.body:
        command += ["-s", f"{LUA}/echo.lua"]
        after = ["--", str(cell.body)]
    elif cell.pipeline > 1:
        command += ["-s", f"{LUA}/pipeline.lua"]
        after = ["--", str(cell.pipeline)]
    return _pinned(cell) + command + [f"http://{target}{cell.path}", *after]


def ghz_command(cell, target: str, seconds: int) -> list[str]:
    """With --proto: not every peer has reflection, and its streams would be among what is measured."""
    return _pinned(cell) + [
        "ghz", "--insecure", "--proto", PROTO, "--call", "helloworld.Greeter.SayHello",
        "-d", '{"name":"bwos"}', "-z", f"{seconds}s", "--duration-stop", "wait",
        "--connections", str(cell.connections), "--concurrency", str(cell.connections * cell.streams),
        "-O", "json", target,
    ]  # fmt: skip


SAY_HELLO = b"\0\0\0\0\6\n\4bwos"  # a gRPC message: SayHello of "bwos"


def h2load_command(cell, target: str, seconds: int, body: str) -> list[str]:
    """`body` is a file of SAY_HELLO."""
    return _pinned(cell) + [
        "h2load", "-t1", f"-c{cell.connections}", f"-m{cell.streams}", f"-D{seconds}", "-d", body,
        "-H", "content-type: application/grpc", "-H", "te: trailers",
        f"http://{target}/helloworld.Greeter/SayHello",
    ]  # fmt: skip


def load_command(
    cell, target: str, seconds: float, build_dir: Path, seed: int, realtime: int
) -> list[str]:
    """Classes get their share of the cell's rate; the other ones' connections divide the rest evenly. Without a rate
    it is a closed loop."""
    rest = 1 - sum(each.share for each in cell.classes)
    connections = sum(each.connections for each in cell.classes if not each.share)
    command = [program(build_dir, "bwos-load"), "--target", target, "--json", "-"]
    command += ["--duration", str(seconds), "--warmup", str(cell.warmup), "--seed", str(seed)]
    if cell.client_cpu is not None and not cell.rate:
        command.append("--spin")
    if realtime and cell.rate:
        command += ["--realtime", str(realtime)]
    for each in cell.classes:
        text = f"name={each.name},path={each.path}"
        if each.protocol != "http1":
            text += f",protocol={each.protocol},message={each.message},reply={each.reply}"
        if each.over:
            text += f",over={each.over}"
        else:
            text += f",connections={each.connections}"
            text += f",streams={cell.streams}" if each.protocol != "http1" else ""
        if cell.rate:
            text += f",rate={cell.rate * (each.share or rest * each.connections / connections):.3f}"
        command += ["--class", text + (f",burst={each.burst}" if each.burst > 1 else "")]
    return _pinned(cell) + command


def _time_us(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text)
    if not found:
        raise Failed(f"{text!r} stands where a time was expected")
    return float(found[1]) * UNITS_US[found[2]]


def parse_wrk(output: str) -> dict:
    total = re.search(r"(\d+) requests in ([\d.]+\w+),", output)
    if not total:
        raise Failed(f"wrk gave no result: {output.strip()[-300:]!r}")
    latencies = dict(re.findall(r"^ +(50|90|99)% +([\d.]+\w+) *$", output, re.MULTILINE))
    latencies = {percent: _time_us(text) for percent, text in latencies.items()}
    if not all(latencies.get(percent) for percent in ("50", "90", "99")):
        # wrk looks for ranks among all answers; pipelined, it has one latency a batch and may print 0.
        latencies = {}
    longest = re.search(r"^ +Latency +\S+ +\S+ +([\d.]+[a-z]+)", output, re.MULTILINE)
    seconds = _time_us(total[2]) / 1e6
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    errors = sum(map(int, sockets.groups())) if sockets else 0
    return {
        "took_s": seconds,
        "requests": int(total[1]),
        "requests_per_s": int(total[1]) / seconds,
        "p50_us": latencies.get("50"),
        "p90_us": latencies.get("90"),
        "p99_us": latencies.get("99"),
        "max_us": _time_us(longest[1]) if longest else None,
        "errors": errors + (int(refused[1]) if refused else 0),
    }


def parse_ghz(output: str) -> dict:
    try:
        data = json.loads(output)
        at = {entry["percentage"]: entry["latency"] / 1e3 for entry in data["latencyDistribution"] or []}
        good = (data.get("statusCodeDistribution") or {}).get("OK", 0)
        return {
            "requests": data["count"],
            "requests_per_s": data["rps"],
            "p50_us": at.get(50),
            "p90_us": at.get(90),
            "p99_us": at.get(99),
            "max_us": data["slowest"] / 1e3,
            "errors": data["count"] - good,
        }
    except (KeyError, TypeError, ValueError) as error:
        raise Failed(f"ghz gave no result ({error}): {output.strip()[-300:]!r}") from error


def parse_h2load(output: str) -> dict:
    """It looks at :status only: a call that failed with a grpc-status is a good one to it."""
    rate = re.search(r"^finished in [\d.]+\w+, ([\d.]+) req/s", output, re.MULTILINE)
    counts = re.search(
        r"^requests: \d+ total, \d+ started, (\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored", output, re.MULTILINE
    )
    longest = re.search(r"^time for request: +\S+ +(\S+)", output, re.MULTILINE)
    if not (rate and counts and longest):
        raise Failed(f"h2load gave no result: {output.strip()[-300:]!r}")
    done, failed, errored = map(int, counts.groups())
    return {
        "requests": done,
        "requests_per_s": float(rate[1]),
        "p50_us": None,
        "p90_us": None,
        "p99_us": None,
        "max_us": _time_us(longest[1]) if done else None,
        "errors": failed + errored,
    }


def without_details(output: str) -> str:
    """ghz's result without its list of every single call, which takes megabytes a run."""
    data = json.loads(output)
    data.pop("details", None)
    return json.dumps(data, indent=1) + "\n"


def parse_load(output: str) -> dict:
    """The first class is the one that the percentiles are about."""
    try:
        data = json.loads(output)
        first, *others = data["classes"]
        latency = first["latency_us"]
        late = data["client"]["lateness_us"]
        record = {
            "requests": data["answered_in_all"],
            "requests_per_s": sum(each["rate_answered"] for each in data["classes"]),
            "p50_us": latency["p50"],
            "p90_us": latency["p90"],
            "p99_us": latency["p99"],
            "p999_us": latency["p99.9"],
            "max_us": latency["max"],
            "late_p50_us": late["p50"],
            "late_p99_us": late["p99"],
            "late_max_us": late["max"],
            # An answer still missing after the drain time is as wrong as a bad one.
            "errors": sum(sum(each["errors"].values()) + each["outstanding"] for each in data["classes"]),
        }
        if others:
            record["slow_p50_us"] = others[0]["latency_us"]["p50"]
            record["slow_p99_us"] = others[0]["latency_us"]["p99"]
        return record
    except (KeyError, TypeError, ValueError) as error:
        raise Failed(f"bwos-load gave no result ({error}): {output.strip()[-300:]!r}") from error


def parse_program(output: str, least: bool) -> dict:
    """A program that measures itself: a line of JSON for each repetition, or what Google Benchmark prints as JSON.
    What is named as a metric counts, and `answer`, which must be the same whoever computes it."""
    try:
        try:
            data = json.loads(output)
            lines = data["benchmarks"] if "benchmarks" in data else [data]
            lines = [each for each in lines if each.get("run_type", "iteration") == "iteration"]
        except ValueError:
            lines = [json.loads(line) for line in output.splitlines()]
        wrong = next((each["error_message"] for each in lines if each.get("error_occurred")), None)
        if wrong:
            raise Failed(wrong)
        answers = list(dict.fromkeys(str(each["answer"]) for each in lines if "answer" in each))
        if len(answers) > 1:
            raise Failed(f"it came to {' and to '.join(answers)}")
        if least and lines:
            lines = [min(lines, key=lambda each: each["op_ns"])]
        found = {"answer": answers[0]} if answers else {}
        for metric in METRICS:
            values = [each[metric] for each in lines if metric in each]
            if values:
                found[metric] = median(values)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failed(f"it printed no result ({error}): {output.strip()[-300:]!r}") from error
    if not found.keys() - {"answer"}:
        raise Failed(f"it printed no result: {output.strip()[-300:]!r}")
    return found


PARSERS = {"wrk": parse_wrk, "ghz": parse_ghz, "h2load": parse_h2load, "bwos-load": parse_load}
