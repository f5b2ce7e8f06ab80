# SPDX-License-Identifier: Apache-2.0
"""What runs on each host of a measurement: starts servers and tools there, and reads what they use.

lib/hosts.py sends the text of this file to a python3 (3.9 or newer) of that host, so it imports nothing of ours.
Requests and answers are lines of JSON on its standard input and output. It ends, and with it all that it started, when
its input does, or when it hears nothing for SILENCE_S: then nobody is there who could ask for the results."""

import base64
import ctypes
import hashlib
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

SILENCE_S = 20
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# How server CPU is taken; kept in machine.json.
CPU_SOURCE = "process CPU clock (ns, all threads, ended ones too); its user/system split from /proc/PID/stat"
VULNERABILITIES = Path("/sys/devices/system/cpu/vulnerabilities")
LIMITS = {
    "ports": "/proc/sys/net/ipv4/ip_local_port_range",
    "somaxconn": "/proc/sys/net/core/somaxconn",
    "syn_backlog": "/proc/sys/net/ipv4/tcp_max_syn_backlog",
}
CONGESTION_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # that end it in order
KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # of time in /proc/stat


class Wrong(Exception):
    """What was asked for gave nothing; the text says why."""


class Gone(BaseException):
    """Nobody is there any more."""


# --- What a process and a machine used ---


def process_cpu_s(pid: int) -> float:
    """clock_getcpuclockid(3) of another process: its scheduler time, which does not count in ticks."""
    cpuclock_sched = 2
    return time.clock_gettime((~pid << 3) | cpuclock_sched)


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise Wrong(f"process {pid} has ended")


def family(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in text_of(task / "children").split():
            found += family(int(child))
    return found


def text_of(task_file: Path) -> str:
    """Nothing, where the thread has just ended."""
    try:
        return task_file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def usage(pid: int) -> dict:
    """CPU seconds, context switches and resident memory of a process and all below it; of their ended threads CPU."""
    used = dict.fromkeys(("cpu_s", "user_s", "system_s", "voluntary", "involuntary", "rss_kib"), 0)
    try:
        for each in family(pid):
            used["cpu_s"] += process_cpu_s(each)
            # Fields after the name, which may hold spaces, in its brackets: utime and stime are 14 and 15.
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            used["user_s"] += int(fields[11]) / CLOCK_TICKS
            used["system_s"] += int(fields[12]) / CLOCK_TICKS
            used["rss_kib"] += rss_kib(each)
            for task in Path(f"/proc/{each}/task").iterdir():
                for line in text_of(task / "status").splitlines():
                    if line.startswith("voluntary_ctxt_switches:"):
                        used["voluntary"] += int(line.split()[1])
                    elif line.startswith("nonvoluntary_ctxt_switches:"):
                        used["involuntary"] += int(line.split()[1])
    except OSError as error:
        raise Wrong(f"the server (process {pid}) is gone: {error}") from error
    return used


def cores() -> dict:
    """Seconds that each CPU spent in each kind of time since the machine started, by clock ticks."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[name[3:]] = {kind: int(each) / CLOCK_TICKS for kind, each in zip(KINDS, ticks)}
    return found


def first_line(path: str, prefix: str = "") -> str:
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(prefix):
                return line[len(prefix) :].lstrip("\t :")
    except OSError:
        pass
    return "unreadable"


def version(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def go_module_version(program: str, module: str) -> str:
    """As the linker wrote it into a Go program: `ghz --version` says "dev" of one that was built from its source."""
    path = shutil.which(program)
    found = re.search(rf"\nmod\t{re.escape(module)}\t(\S+)".encode(), Path(path).read_bytes()) if path else None
    return found[1].decode() if found else ""


def raise_descriptor_limit() -> None:
    """Children inherit it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# --- What is asked for ---


def die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Agent:
    """One who asks, on standard input. `home` is the folder in which commands run."""

    def __init__(self, home: str):
        self._own = tempfile.mkdtemp(prefix="bwos-load-")
        self._home = home or self._own
        self._pending = b""
        self._children: dict = {}

    def serve(self) -> None:
        try:
            while True:
                request = json.loads(self._line())
                number = {"number": request.pop("number")}
                try:
                    answer = {"done": getattr(self, "do_" + request.pop("do"))(**request)}
                except (Wrong, OSError) as why:
                    answer = {"failed": str(why)}
                self._say(json.dumps(number | answer).encode() + b"\n")
        except (Gone, BrokenPipeError):
            pass
        finally:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            for pid in list(self._children):
                self.do_stop(pid, patience_s=1)
            shutil.rmtree(self._own, ignore_errors=True)

    @staticmethod
    def _say(text: bytes) -> None:
        while text:
            text = text[os.write(1, text) :]

    def _read(self) -> None:
        """More of the input. Empty lines only say that somebody is there."""
        part = os.read(0, 1 << 20)
        if not part:
            raise Gone
        self._pending += part

    def _line(self) -> bytes:
        while True:
            line, end, rest = self._pending.lstrip(b"\n").partition(b"\n")
            if end:
                self._pending = rest
                return line
            if not select.select([0], [], [], SILENCE_S)[0]:
                raise Gone
            self._read()

    def _start(self, command: list, **files) -> subprocess.Popen:
        """In a session of its own, so that a terminal's Ctrl-C reaches only who asks, and we end it in order."""
        child = subprocess.Popen(command, cwd=self._home, stdin=subprocess.DEVNULL, start_new_session=True,
                                 preexec_fn=die_with_parent, **files)  # fmt: skip
        self._children[child.pid] = child
        return child

    def _kill(self, child: subprocess.Popen) -> None:
        try:
            os.killpg(child.pid, signal.SIGKILL)  # its session, and so what it started
        except OSError:
            pass
        child.wait()

    def _file(self, name: str) -> Path:
        return Path(self._own) / name

    def do_facts(self) -> dict:
        return {
            "cpu": first_line("/proc/cpuinfo", "model name"),
            "cpus": sorted(os.sched_getaffinity(0)),
            "cgroup_cpu_max": first_line("/sys/fs/cgroup/cpu.max"),
            "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "congestion_control": first_line(CONGESTION_CONTROL),
            "mitigations": {path.name: first_line(str(path)) for path in sorted(VULNERABILITIES.glob("*"))},
            "memory": first_line("/proc/meminfo", "MemTotal"),
            "kernel": platform.release(),
            "boot": first_line("/proc/sys/kernel/random/boot_id"),
            "load_before": os.getloadavg(),
            "cpu_source": CPU_SOURCE,
            "limits": {name: first_line(path) for name, path in LIMITS.items()}
            | {"descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0]},
            "versions": {
                "python": platform.python_version(),
                "wrk": version("wrk", "-v"),
                "h2load": version("h2load", "--version"),
                "ghz": go_module_version("ghz", "github.com/bojand/ghz"),
                "nginx": version("nginx", "-v"),
            },
            "ssh": os.environ.get("SSH_CONNECTION", ""),
        }

    def do_find(self, name: str):
        """The path of an installed program, or None."""
        return shutil.which(name)

    def do_sha256(self, path: str) -> str:
        return hashlib.sha256((Path(self._home) / path).read_bytes()).hexdigest()

    def do_put(self, name: str, data: str) -> str:
        """Keeps a file, which may be run, while this agent lives. Returns its path."""
        path = self._file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.decompress(base64.b64decode(data)))
        path.chmod(0o700)
        return str(path)

    def do_start(self, command: list, timeout_s: float) -> dict:
        """Starts a server. `line` is the first that it says; what there is of it when time is over."""
        log = self._file(f"log-{len(self._children)}-{time.monotonic_ns()}")
        with log.open("wb") as errors:
            child = self._start(command, stdout=subprocess.PIPE, stderr=errors, bufsize=0)
        child.log = log
        line, end = b"", time.monotonic() + timeout_s
        while not line.endswith(b"\n"):
            if not select.select([child.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            byte = child.stdout.read(1)
            if not byte:
                break
            line += byte
        return {"pid": child.pid, "line": line.decode(errors="replace").strip()}

    def do_alive(self, pid: int) -> bool:
        return self._children[pid].poll() is None

    def do_stop(self, pid: int, patience_s: float = 5) -> str:
        """Ends it, by force where it takes longer. Returns what it has logged."""
        child = self._children.pop(pid)
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(patience_s)
            except subprocess.TimeoutExpired:
                pass
        self._kill(child)
        if child.stdout:
            child.stdout.close()
        return child.log.read_text(errors="replace") if hasattr(child, "log") else ""

    def do_holds(self, pid: int, kind: str) -> bool:
        """Whether it has a descriptor whose name holds `kind`."""
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if kind in os.readlink(descriptor):
                    return True
            except OSError:
                continue  # closed meanwhile
        return False

    def do_sample(self, pid: int) -> dict:
        return usage(pid) | {"at_s": time.monotonic(), "cores": cores()}

    def do_run(self, command: list, timeout_s: float) -> dict:
        """Runs a tool to its end."""
        with self._file("output").open("wb") as output, self._file("errors").open("wb") as errors:
            before, began = cores(), time.monotonic()
            tool = self._start(command, stdout=output, stderr=errors)
            ended = os.pidfd_open(tool.pid)
            try:
                heard = began
                while True:
                    until = min(began + timeout_s, heard + SILENCE_S)
                    ready = select.select([0, ended], [], [], max(0.0, until - time.monotonic()))[0]
                    if ended in ready:
                        break
                    if ready:
                        self._read()
                        heard = time.monotonic()
                    elif until < began + timeout_s:
                        raise Gone
                    else:
                        raise Wrong(f"{command[0]} did not end within {timeout_s:.0f} s")
                wall_s, after = time.monotonic() - began, cores()
                _, status, used = os.wait4(tool.pid, 0)
                tool.returncode = os.waitstatus_to_exitcode(status)
            finally:
                os.close(ended)
                del self._children[tool.pid]
                self._kill(tool)
        return {
            "exit_code": tool.returncode,
            "wall_s": wall_s,
            "cpu_s": used.ru_utime + used.ru_stime,
            "cores_before": before,
            "cores_after": after,
        }

    def do_said(self) -> dict:
        """What the last tool wrote. For itself, as it may be much: the server is looked at before it is sent."""
        return {name: self._file(name).read_text(errors="replace") for name in ("output", "errors")}


def interrupted(*_) -> None:
    raise Gone


def main(home: str) -> None:
    for each in SIGNALS:
        signal.signal(each, interrupted)
    # Where Debian puts nginx, and `go install` ghz.
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + f":/usr/sbin:{Path.home() / 'go' / 'bin'}"
    raise_descriptor_limit()
    Agent(home).serve()
