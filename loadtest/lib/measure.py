# SPDX-License-Identifier: Apache-2.0
"""What a process used, seen from outside, and child processes that end with this one."""

import os
import resource
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# How server CPU is taken; kept in machine.json.
CPU_SOURCE = "process CPU clock (ns, all threads, ended ones too); its user/system split from /proc/PID/stat"

_children: list[subprocess.Popen] = []


class Failed(Exception):
    """A run or a server that gave no figure; the text says why."""


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    user_s: float
    system_s: float
    voluntary: int
    involuntary: int

    def since(self, before: "Usage") -> "Usage":
        return Usage(*(getattr(self, name) - getattr(before, name) for name in self.__dataclass_fields__))


def process_cpu_s(pid: int) -> float:
    """clock_getcpuclockid(3) of another process: its scheduler time, which does not count in ticks."""
    cpuclock_sched = 2
    return time.clock_gettime((~pid << 3) | cpuclock_sched)


def status_field(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise Failed(f"process {pid} has no {name}")


def rss_kib(pid: int) -> int:
    return status_field(pid, "VmRSS")


def usage(pid: int) -> Usage:
    try:
        cpu = process_cpu_s(pid)
        # Fields after the name, which may hold spaces, in its brackets: utime and stime are 14 and 15.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        voluntary = involuntary = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    voluntary += int(line.split()[1])
                elif line.startswith("nonvoluntary_ctxt_switches:"):
                    involuntary += int(line.split()[1])
    except OSError as error:
        raise Failed(f"the server (process {pid}) is gone: {error}") from error
    return Usage(cpu, int(fields[11]) / CLOCK_TICKS, int(fields[12]) / CLOCK_TICKS, voluntary, involuntary)


def machine_busy_s() -> float:
    """CPU seconds that all processes together used since the machine started, by clock ticks."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / CLOCK_TICKS


def start(command: list[str], **files) -> subprocess.Popen:
    """A session of its own, so that a terminal's Ctrl-C reaches only us and we end it in order."""
    child = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, start_new_session=True, **files)
    _children.append(child)
    return child


def stop(child: subprocess.Popen, patience_s: float = 5) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    if child.stdout:
        child.stdout.close()
    if child in _children:
        _children.remove(child)


def stop_all() -> None:
    for child in list(_children):
        stop(child)


def read_line(child: subprocess.Popen, timeout_s: float) -> str:
    """The first line of an unbuffered standard output; what there is of it when time is over."""
    line = b""
    end = time.monotonic() + timeout_s
    while not line.endswith(b"\n"):
        if not select.select([child.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            break
        byte = child.stdout.read(1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace").strip()


@dataclass(frozen=True)
class ToolRun:
    output: str
    exit_code: int
    wall_s: float
    client_cpu_s: float
    server: Usage


def run_tool(command: list[str], server_pid: int, raw: Path, timeout_s: float) -> ToolRun:
    """Runs a load tool to its end; keeps its output in `raw` and its complaints beside it."""
    errors = raw.with_suffix(".stderr")
    with raw.open("wb") as out, errors.open("wb") as err:
        before = usage(server_pid)
        began = time.monotonic()
        tool = start(command, stdout=out, stderr=err)
        try:
            pid, status, used = 0, 0, None
            while pid == 0:
                pid, status, used = os.wait4(tool.pid, os.WNOHANG)
                if pid == 0 and time.monotonic() > began + timeout_s:
                    raise Failed(f"{command[0]} did not end within {timeout_s:.0f} s")
                if pid == 0:
                    time.sleep(0.002)
            tool.returncode = os.waitstatus_to_exitcode(status)
        finally:
            stop(tool)
        wall = time.monotonic() - began
        server = usage(server_pid).since(before)
    if errors.stat().st_size == 0:
        errors.unlink()
    elif tool.returncode != 0 and raw.stat().st_size == 0:
        raise Failed(f"{command[0]}: {errors.read_text(errors='replace').strip()}")
    return ToolRun(raw.read_text(errors="replace"), tool.returncode, wall, used.ru_utime + used.ru_stime, server)


def raise_descriptor_limit() -> int:
    """Children inherit it. Returns the limit reached."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
