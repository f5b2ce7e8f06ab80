# SPDX-License-Identifier: Apache-2.0
"""The two machines of a measurement: one runs the servers, the other the load tools. Either may be this one, one that ssh
reaches, or a network namespace; on each an agent (lib/agent.py) does what is asked."""

import atexit
import base64
import json
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import threading
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lib import agent
from lib.measure import REPOSITORY, Failed

ANSWER_S = 30  # for what takes no time
HEARTBEAT_S = 5  # an agent that hears nothing for agent.SILENCE_S ends
SPARE = 200  # descriptors beside those of the connections
QUEUE = 4096  # of connections that nobody has accepted yet: the server's --backlog
# Between namespaces, the first that the machine lets them have. Linux's default is cubic. bbr paces by timers, at its guess
# of the wire's rate, and that differs by server: a quarter of the CPU for a body of 256 KiB.
UNPACED = ("cubic", "reno")
# A namespace begins with the kernel's own, whatever its machine is set to.
QUEUES = ("/proc/sys/net/core/somaxconn", "/proc/sys/net/ipv4/tcp_max_syn_backlog")
# RFC 2544, appendix C.2.2: for benchmarks.
SERVER_ADDRESS, CLIENT_ADDRESS = "198.18.0.1", "198.18.0.2"
LOST_S = 120  # how long a lost host is waited for
SOURCE = Path(agent.__file__).read_bytes()
# No questions, for there is nobody to answer; and a link that is dead is noticed before its agent ends.
SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
               "-o", "ServerAliveCountMax=3")  # fmt: skip
BOOTSTRAP = (
    "import os\ntext = b''\nwhile len(text) < {length}: text += os.read(0, {length} - len(text)) or exit()\n"
    "exec(compile(text, 'agent.py', 'exec'))\nmain({home!r})"
)


class LinkLost(Failed):
    """The agent is gone, or the way to it."""


class Lost(Exception):
    """A host that does not come back."""


class Link:
    """One agent, started by `command`, while it lives. For one thread."""

    def __init__(self, name: str, command: list[str]):
        self.name = name
        self._complaints = b""
        self._pending = b""
        self._number = 0  # of the last request
        self._lock = threading.Lock()
        self._over = threading.Event()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0, cwd=REPOSITORY
        )
        os.set_blocking(self._process.stderr.fileno(), False)
        atexit.register(self.close)
        self._write(SOURCE)
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def alive(self) -> bool:
        return not self._over.is_set() and self._process.poll() is None

    def _beat(self) -> None:
        """In a thread of its own, which leaves it to the other one to find the link lost."""
        while not self._over.wait(HEARTBEAT_S):
            try:
                self._send(b"\n")
            except (OSError, ValueError):
                return

    def _send(self, text: bytes) -> None:
        with self._lock:
            while text:
                text = text[self._process.stdin.write(text) :]

    def _write(self, text: bytes) -> None:
        try:
            self._send(text)
        except (OSError, ValueError) as error:  # the latter where it was closed before
            raise self._lost() from error

    def _lost(self) -> LinkLost:
        self.close()
        told = self._complaints.decode(errors="replace").strip()
        return LinkLost(f"the link to {self.name} is lost" + (f": {told[-500:]}" if told else ""))

    def call(self, do: str, answer_s: float = ANSWER_S, **arguments):
        """What lib/agent.py's do_<do> returns; Failed with its reason, or when nobody answers in time."""
        self._number += 1
        self._write(json.dumps({"number": self._number, "do": do, **arguments}).encode() + b"\n")
        end = time.monotonic() + answer_s
        while True:
            line = self._line(end)
            if not line.startswith(b"{"):
                continue  # of a login shell
            answer = json.loads(line)
            if answer["number"] != self._number:
                continue  # to a call that was interrupted
            if "failed" in answer:
                raise Failed(answer["failed"])
            return answer["done"]

    def _line(self, end: float) -> bytes:
        while b"\n" not in self._pending:
            if not select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise self._lost()
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            if not part:
                raise self._lost()
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close(self) -> None:
        """The agent ends, and all that it started."""
        if self._over.is_set():
            return
        self._over.set()
        atexit.unregister(self.close)
        with self._lock:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        try:
            self._complaints = self._process.stderr.read() or b""
        except OSError:
            pass
        self._process.stdout.close()
        self._process.stderr.close()


class Host:
    """Where servers or tools run. `prefix` is a command that runs another one there: none, of a network namespace, or
    ssh, when it is far: with files of its own, so that ours are copied."""

    def __init__(self, name: str, prefix: tuple[str, ...] = (), far: bool = False):
        self.name, self.prefix, self.far = name, prefix, far
        self.facts: dict = {}
        self._copied: dict[str, str] = {}
        self._link: Link | None = None

    def open(self) -> None:
        """Failed with the reason when nobody answers there."""
        text = BOOTSTRAP.format(length=len(SOURCE), home="" if self.far else str(REPOSITORY))
        python = ["python3" if self.far else sys.executable, "-c", text]
        self._copied = {}
        self._link = Link(self.name, [*self.prefix, *([shlex.join(python)] if self.far else python)])
        self.facts = self._link.call("facts")

    def link(self) -> Link:
        """To the agent; a new one where the last one is lost, for which it waits. Lost when that takes too long."""
        end = time.monotonic() + LOST_S
        while not (self._link and self._link.alive):
            try:
                self.open()
            except Failed as why:
                self._link.close()
                if time.monotonic() > end:
                    raise Lost(f"{self.name} did not come back within {LOST_S} s: {why}") from why
                print(f"  waiting for {self.name}: {why}", flush=True)
                time.sleep(2)
        return self._link

    def close(self) -> None:
        if self._link:
            self._link.close()

    def call(self, do: str, answer_s: float = ANSWER_S, **arguments):
        return self.link().call(do, answer_s, **arguments)

    def find(self, program: str) -> str | None:
        return self.call("find", name=program)

    def put(self, name: str, data: bytes) -> str:
        """A file there, while the link lives; its path."""
        packed = base64.b64encode(zlib.compress(data, 1)).decode()
        return self.call("put", 600, name=name, data=packed)

    def carried(self, command: list[str]) -> list[str]:
        """The command with those of our files that it names as they are named there."""
        self.link()
        return [self._carry(word) if self.far else word for word in command]

    def _carry(self, word: str) -> str:
        path = REPOSITORY / word
        if "/" not in word or not path.is_file():
            return word
        if word not in self._copied:
            self._copied[word] = self.put(f"{len(self._copied)}/{path.name}", path.read_bytes())
        return self._copied[word]


@dataclass
class Hosts:
    server: Host
    client: Host
    address: str = "127.0.0.1"  # of the servers, for themselves and for the client

    @property
    def one_machine(self) -> bool:
        """Server and client share CPUs."""
        return self.server.facts["boot"] == self.client.facts["boot"]

    @property
    def cpus(self) -> tuple[int, int]:
        """Of a pinned server and of its client."""
        return self.server.facts["cpus"][0], self.client.facts["cpus"][-1]

    def facts(self) -> dict:
        """For machine.json: of the server's machine, and of the client's where it is another one."""
        server, client = (
            {key: value for key, value in host.facts.items() if key not in ("boot", "ssh")}
            for host in (self.server, self.client)
        )
        if self.server.prefix or self.client.prefix:
            server["hosts"] = {"server": self.server.name, "client": self.client.name, "address": self.address}
        return server | ({"versions": client["versions"]} if self.one_machine else {"client_machine": client})


@contextmanager
def opened(hosts: Hosts):
    """While it lasts, an agent is on each."""
    try:
        hosts.server.open()
        hosts.client.open()
        yield hosts
    finally:
        hosts.server.close()
        hosts.client.close()


@contextmanager
def local():
    """This machine for both."""
    with opened(Hosts(Host("this machine"), Host("this machine"))) as hosts:
        yield hosts


@contextmanager
def by_ssh(server: str | None, client: str | None, ssh: list[str], address: str | None):
    """`user@host` each, or None for this machine. The address is the one that ssh reached, where none is given."""

    def host(destination: str | None) -> Host:
        return Host(destination, (*ssh, *SSH_OPTIONS, destination), True) if destination else Host("this machine")

    with opened(Hosts(host(server), host(client))) as hosts:
        # SSH_CONNECTION there: our address and port as it sees them, and its own.
        seen = (hosts.server if server else hosts.client).facts["ssh"].split()
        if not address and len(seen) < 4:
            raise Failed("--server-address: it must be given, as --ssh does not tell of one (SSH_CONNECTION)")
        hosts.address = address or seen[2 if server else 0]
        yield hosts


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def in_namespaces(delay_ms: float):
    """Two network namespaces of this machine with a wire between them, each of whose ends delays what it sends."""
    if os.geteuid() != 0:
        raise Failed("--netns: network namespaces are for root: sudo python3 loadtest/run.py ...")
    if not shutil.which("ip"):
        raise Failed("--netns needs ip: apt-get install iproute2")
    for left in _ip("netns", "list").split():  # by a run that was killed
        found = re.fullmatch(r"bwos-(\d+)-(server|client)", left)
        if found and (int(found[1]) == os.getpid() or not Path(f"/proc/{found[1]}").exists()):
            _ip("netns", "del", left)
    server, client = (f"bwos-{os.getpid()}-{role}" for role in ("server", "client"))
    try:
        for name in (server, client):
            _ip("netns", "add", name)
            for file in QUEUES:
                _ip("netns", "exec", name, "sh", "-c", f"echo {QUEUE} > {file}")
            choose = " || ".join(f"echo {each} > {agent.CONGESTION_CONTROL}" for each in UNPACED)
            _ip("netns", "exec", name, "sh", "-c", f"({choose}) 2>/dev/null")
        _ip("link", "add", "wire", "netns", server, "type", "veth", "peer", "name", "wire", "netns", client)
        for name, address in ((server, SERVER_ADDRESS), (client, CLIENT_ADDRESS)):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", "wire")
            for device in ("lo", "wire"):
                _ip("-n", name, "link", "set", device, "up")
            if delay_ms:
                netem = ["tc", "-n", name, "qdisc", "add", "dev", "wire", "root", "netem", "delay", f"{delay_ms}ms"]
                done = subprocess.run(netem, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Failed(f"--delay: this kernel has no netem ({done.stderr.strip()}); without --delay it runs")
        inside = ("ip", "netns", "exec")
        both = Hosts(Host("the server's namespace", (*inside, server)), Host("the client's namespace", (*inside, client)),
                     SERVER_ADDRESS)  # fmt: skip
        with opened(both) as hosts:
            yield hosts
    finally:
        for name in (server, client):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def limits_of(host: Host) -> dict[str, int]:
    """As figures; of the ports how many there are."""
    first, last = map(int, host.facts["limits"]["ports"].split())
    found = {name: int(value) for name, value in host.facts["limits"].items() if name != "ports"}
    return found | {"ports": last - first + 1}


def too_many(hosts: Hosts, connections: int) -> str | None:
    """What keeps so many connections from being opened, and what to raise."""
    for role, host in (("server", hosts.server), ("client", hosts.client)):
        limits = limits_of(host)
        if limits["descriptors"] < connections + SPARE:
            return (f"{connections} connections need {connections + SPARE} descriptors, the {role} ({host.name}) may "
                    f"have {limits['descriptors']}: raise its hard limit (ulimit -Hn, /etc/security/limits.conf)")  # fmt: skip
    if limits["ports"] < connections:
        return (f"{connections} connections need as many ports, the client ({host.name}) has {limits['ports']}: "
                'sysctl -w net.ipv4.ip_local_port_range="1024 65535"')  # fmt: skip
    return None


def short_queues(hosts: Hosts, connections: int) -> list[str]:
    """What makes so many connections at once wait for a second try, and what to raise."""
    wanted, limits = min(connections, QUEUE), limits_of(hosts.server)
    names = {"somaxconn": "net.core.somaxconn", "syn_backlog": "net.ipv4.tcp_max_syn_backlog"}
    return [
        f"{names[each]} of the server ({hosts.server.name}) is {limits[each]}, less than the {wanted} connections that may "
        f"come at once; some will connect a second late. There: sysctl -w {names[each]}={wanted}"
        for each in names
        if limits[each] < wanted
    ]
