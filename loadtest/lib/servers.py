# SPDX-License-Identifier: Apache-2.0
"""The servers that are compared: how each is started, and that it runs as its name says."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lib.hosts import Host, Hosts, LinkLost
from lib.measure import REPOSITORY, Failed

LOOPBACK = "127.0.0.1"

READY = re.compile(r"listening(?: http=(\S+:\d+))?(?: grpc=(\S+:\d+))?")

# Where the build puts our own programs; a peer <name> is loadtest/peers/<name>, by the target peer_<name>.
OURS = {
    "bwos-server": "server/bwos-server",
    "bwos-load": "loadtest/bwos-load",
}
# Where those are that serve nobody, and measure themselves; a program is a target of its own.
BENCH = "executor/bench/"
# Of peers that only some machines can build, what they need.
CARGO = "cargo 1.85 or newer (https://rustup.rs) when CMake configures, and crates.io"
GO = "Go 1.22 or newer (https://go.dev/dl) when CMake configures, and Go's module proxy"
NEEDS = {"tokio": CARGO, "hyper": CARGO, "tonic": CARGO, "go_http": GO, "grpc_go": GO}
# What the peer nginx starts, and loads.
NGINX = ("nginx", "/usr/lib/nginx/modules/ngx_http_echo_module.so")


def program(build_dir: Path, name: str) -> str:
    """Below the repository where it lies there, so that kept results name no machine's folders."""
    path = build_dir / (name if name.startswith(BENCH) else OURS.get(name, f"loadtest/peers/{name}"))
    return f"./{path.relative_to(REPOSITORY)}" if path.is_relative_to(REPOSITORY) else str(path)


def missing_program(host: Host, build_dir: Path, name: str) -> str | None:
    path = program(build_dir, name)
    if os.access(REPOSITORY / path, os.X_OK):
        return missing_nginx(host) if name == "nginx" else None
    target = name.removeprefix(BENCH) if name in OURS or name.startswith(BENCH) else f"peer_{name}"
    why = f"{path} is not there: build the target {target}"
    if name in NEEDS:
        why += f", which needs {NEEDS[name]}"
    return why


def missing_nginx(host: Host) -> str | None:
    command, module = NGINX
    there = f"PATH=$PATH:/usr/sbin; command -v {command} && test -e {module}"
    if host.call("run", command=["sh", "-c", there], timeout_s=20)["exit_code"] == 0:
        return None
    return (f"nginx or its echo module is not installed on {host.name}; get them with: "
            "apt-get install nginx-light libnginx-mod-http-echo")  # fmt: skip


def missing_variant(host: Host, build_dir: Path, variant: "Variant") -> str | None:
    """Why it cannot run there."""
    path = variant.path(build_dir)
    if variant.installed:
        why = None if host.find(path) else f"{path} is not installed on {host.name}"
    else:
        why = missing_program(host, build_dir, variant.program)
        why = f"{why}, which needs {variant.needs}" if why and variant.needs else why
    if why or not variant.needs_flag:
        return why
    host.call("run", command=host.carried([path, "--help"]), timeout_s=20)
    if re.search(re.escape(variant.needs_flag) + r"(?![\w-])", "".join(host.call("said").values())):
        return None
    return f"{path} has no flag {variant.needs_flag}"


@dataclass(frozen=True)
class Variant:
    """One server with its flags, under the name that the tables use."""

    name: str
    program: str
    flags: tuple[str, ...] = ()
    cpu: int | None = None  # the only one it may run on
    holds: str = ""  # a descriptor of this kind must be open, or it fell back to something else
    needs_grpc: bool = False
    needs_flag: str = ""  # it is left out where the program's --help does not name this one
    installed: bool = False  # it comes from PATH of its host, not from the build
    # Of programs that measure themselves:
    ours: bool = False  # else a peer
    least: bool = False  # of the repetitions of a run the fastest counts, not the median: its idle threads spin
    needs: str = ""  # what to give CMake where the program is not built

    def path(self, build_dir: Path) -> str:
        return self.program if self.installed else program(build_dir, self.program)

    def command(self, build_dir: Path, address: str = LOOPBACK) -> list[str]:
        command = [self.path(build_dir)]
        if self.program == "bwos-server":
            listen = f"[{address}]:0" if ":" in address else f"{address}:0"
            command += ["--http-listen", listen, "--grpc-listen", listen if self.needs_grpc else ""]
        elif not self.program.startswith(BENCH):
            command += ["--port", "0"] + (["--address", address] if address != LOOPBACK else [])
        pinned = [] if self.cpu is None else ["taskset", "-c", str(self.cpu)]
        return pinned + command + list(self.flags)


class Server:
    """A running variant. Use it as a context, so that it ends whatever happens."""

    def __init__(self, variant: Variant, hosts: Hosts, build_dir: Path, log: Path):
        self.variant = variant
        self._log = log
        self._link = hosts.server.link()
        command = hosts.server.carried(variant.command(build_dir, hosts.address))
        try:
            started = self._link.call("start", 60, command=command, timeout_s=20)
        except LinkLost:
            raise
        except Failed as why:
            raise Failed(f"{variant.name} did not start: {why}") from why
        self._pid = started["pid"]
        found = READY.match(started["line"])
        if not found or not found[2 if variant.needs_grpc else 1]:
            self.stop()
            complaint = log.read_text().strip() if log.exists() else ""
            raise Failed(f"{variant.name} did not become ready; it said {started['line']!r} {complaint[-500:]}")
        # Where each is reached, as ADDRESS:PORT.
        self.http, self.grpc = found.groups()
        if variant.holds and not self._link.call("holds", pid=self._pid, kind=variant.holds):
            self.stop()
            raise Failed(f"{variant.name} runs without {variant.holds}: its log says why")

    @property
    def alive(self) -> bool:
        """Neither it nor the link to its host has ended."""
        try:
            return self._link.alive and self._link.call("alive", pid=self._pid)
        except Failed:
            return False

    def sample(self) -> dict:
        """What it and its machine have used until now: of lib/agent.py usage(), cores() and the time."""
        return self._link.call("sample", pid=self._pid)

    def stop(self) -> None:
        """Its log is kept, unless the link is lost."""
        if self._link.alive:
            try:
                self._log.write_text(self._link.call("stop", pid=self._pid))
            except Failed as why:
                self._log.write_text(f"{why}\n")
