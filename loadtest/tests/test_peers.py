# SPDX-License-Identifier: Apache-2.0
"""The peers as programs: flags, the ready line, what is said of a port that is taken, and how they end."""

import functools
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from lib import hosts, measure, servers
from lib.servers import REPOSITORY, missing_program, program

BUILD = Path(os.environ.get("BWOS_BUILD_DIR", "build/release")).resolve()
HTTP = ("epoll_floor", "asio_coro", "asio_pool", "tokio", "hyper", "go_http", "nginx")
GRPC = ("h2_floor", "grpc_cq", "grpc_callback", "tonic", "grpc_go")
IF_INET6 = Path("/proc/net/if_inet6")
HAS_IPV6 = IF_INET6.exists() and "0" * 31 + "1 " in IF_INET6.read_text()  # ::1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty SETTINGS
HOST = None  # this machine


def setUpModule():
    global HOST
    HOST = unittest.enterModuleContext(hosts.local()).server


def command(name: str, *flags: str) -> list[str]:
    return [str(REPOSITORY / program(BUILD, name)), *flags]


def ask(name: str, s: socket.socket) -> None:
    """Something that the peer answers; ConnectionError where it does not."""
    s.sendall(PREFACE if name in GRPC else b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n")
    if not s.recv(65536):
        raise ConnectionError("closed")


def for_each(names):
    """The test takes one of the peers, and those that are not built are skipped by name."""

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for name in names:
                with self.subTest(name):
                    if why := missing_program(HOST, BUILD, name):
                        self.skipTest(why)
                    test(self, name)

        return run

    return decorate


class PeerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)  # where nginx has its own
        environment = mock.patch.dict(os.environ, {"TMPDIR": folder.name})
        environment.start()
        self.addCleanup(environment.stop)

    def start(self, name: str, *flags: str) -> tuple[subprocess.Popen, str]:
        """Ready, with its ready line."""
        child = measure.start(command(name, *flags), stdout=subprocess.PIPE, bufsize=0)
        self.addCleanup(child.stdout.close)
        self.addCleanup(measure.stop, child)
        return child, child.stdout.readline().decode().strip()

    def run_it(self, name: str, *flags: str) -> subprocess.CompletedProcess:
        return subprocess.run(command(name, *flags), capture_output=True, text=True, timeout=20, check=False)

    def expect_nothing_left(self, child: subprocess.Popen) -> None:
        child.wait(20)
        with self.assertRaises(ProcessLookupError):
            os.killpg(child.pid, 0)
        # TSan itself makes and unlinks a tsan.rodata.PID before main(), where no handler can be yet.
        left = [path for path in self.folder.iterdir() if not path.name.startswith("tsan.rodata.")]
        self.assertEqual(left, [])


class Flags(PeerTest):
    # Flags, and what is said of them.
    WRONG = (
        (("--address", "localhost"), "--address 'localhost': it must be a numeric IPv4 or IPv6 address"),
        (("--address", "127.0.0.1:80"), "--address '127.0.0.1:80': it must be a numeric"),
        (("--address", "[::1]"), "--address '[::1]': it must be a numeric"),
        (("--address", "fe80::1%lo"), "--address 'fe80::1%lo': it must be a numeric"),
        (("--address", ""), "--address '': it must be a numeric"),
        (("--address",), "--address '': it must be a numeric"),
        (("--port", "65536"), "--port '65536': it must be a number from 0 to 65535"),
        (("--threads", "0"), "--threads '0': it must be a number from 1 to 1024"),
        (("--threads", "2x"), "--threads '2x': it must be"),
        (("--port",), "--port '': it must be"),
        (("--nothing",), "unknown flag '--nothing'"),
        (("--port", "0", "more"), "unknown flag 'more'"),
    )

    @for_each(HTTP + GRPC)
    def test_what_is_wrong_is_named(self, name):
        for flags, said in self.WRONG:
            done = self.run_it(name, *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), flags)
            self.assertTrue(done.stderr.startswith(said), done.stderr)
            self.assertIn("usage: ", done.stderr)
            self.assertIn("[--address 127.0.0.1]", done.stderr)

    @for_each(GRPC)
    def test_only_http_has_a_date(self, name):
        self.assertEqual(self.run_it(name, "--date").returncode, 2)

    @for_each(HTTP + GRPC)
    def test_it_listens_where_it_says_and_nowhere_else(self, name):
        addresses = ["127.0.0.1", "127.0.0.2"] + (["::1"] if HAS_IPV6 else [])
        for address in addresses:
            flags = () if address == "127.0.0.1" else ("--address", address)
            child, line = self.start(name, *flags)
            host = f"[{address}]" if ":" in address else address
            start = f"listening {'grpc' if name in GRPC else 'http'}={host}:"
            self.assertTrue(line.startswith(start), line)
            port = int(line.removeprefix(start))
            for other in addresses:
                if other == address:
                    with socket.create_connection((address, port), timeout=10) as s:
                        ask(name, s)
                else:
                    with self.assertRaises(ConnectionRefusedError):
                        socket.create_connection((other, port), timeout=10)
            measure.stop(child)

    @for_each(HTTP + GRPC)
    def test_all_addresses(self, name):
        _, line = self.start(name, "--address", "0.0.0.0")
        self.assertRegex(line, r"^listening \w+=0\.0\.0\.0:\d+$")
        with socket.create_connection(("127.0.0.3", int(line.rpartition(":")[2])), timeout=10) as s:
            ask(name, s)

    @for_each(HTTP + GRPC)
    def test_a_port_that_is_taken_and_an_address_of_another_host_are_named(self, name):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            done = self.run_it(name, "--port", str(port))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"cannot listen on 127.0.0.1:{port}: ", done.stderr)
            done = self.run_it(name, "--address", "192.0.2.1")  # RFC 5737: nobody's
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("cannot listen on 192.0.2.1:0: ", done.stderr)
            self.assertEqual(list(self.folder.iterdir()), [])

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    @for_each(["grpc_callback"])
    def test_grpc_callback_uses_as_many_cpus_as_it_is_told_threads(self, name):
        for threads in (1, 2):
            child, _ = self.start(name, "--threads", str(threads))
            for task in Path(f"/proc/{child.pid}/task").iterdir():
                self.assertEqual(len(os.sched_getaffinity(int(task.name))), threads)


class Ends(PeerTest):
    @for_each(HTTP + GRPC)
    def test_sigterm_under_load_ends_it_and_leaves_nothing(self, name):
        child, line = self.start(name, "--threads", "2")
        port = int(line.rpartition(":")[2])
        asked = threading.Semaphore(0)

        def load():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
                    ask(name, s)
                    asked.release()
                    while name in HTTP:
                        ask(name, s)
                    while s.recv(65536):  # until it ends; it makes no call
                        pass
            except (ConnectionError, TimeoutError):
                pass

        threads = [threading.Thread(target=load) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(8):
            self.assertTrue(asked.acquire(timeout=20))
        child.terminate()
        self.expect_nothing_left(child)
        self.assertIn(child.returncode, (0, -signal.SIGTERM))
        for thread in threads:
            thread.join(20)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)


class Nginx(PeerTest):
    def setUp(self):
        super().setUp()
        if why := missing_program(HOST, BUILD, "nginx"):
            self.skipTest(why)

    def test_what_it_answers(self):
        _, line = self.start("nginx", "--threads", "2")
        connection = http.client.HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]), timeout=20)
        self.addCleanup(connection.close)

        def answer(*request):
            connection.request(*request)
            response = connection.getresponse()
            return response, response.status, response.read()

        response, status, body = answer("GET", "/plaintext")
        self.assertEqual((status, body), (200, b"Hello, World!"))
        self.assertEqual({name: value for name, value in response.getheaders() if name != "Date"}, {
            "Server": "nginx", "Content-Type": "text/plain", "Content-Length": "13", "Connection": "keep-alive",
        })  # fmt: skip
        for size in (0, 16, 65536, 1 << 20):
            body = os.urandom(size)
            response, *answered = answer("POST", "/echo", body)
            self.assertEqual(answered, [200, body])
            self.assertEqual(response.getheader("Content-Type"), "text/plain")
        socket_of_all = connection.sock
        self.assertEqual(answer("GET", "/work?us=1")[1], 404)
        self.assertEqual(answer("GET", "/plaintext")[1], 200)
        self.assertIs(connection.sock, socket_of_all, "it ended a connection")
        self.assertEqual(answer("POST", "/echo", b"x" * ((1 << 20) + 1))[1], 413)

    def test_threads_are_workers(self):
        child, _ = self.start("nginx", "--threads", "3")
        of = lambda pid: Path(f"/proc/{pid}/task/{pid}/children").read_text().split()  # noqa: E731
        (master,) = of(child.pid)
        end = time.monotonic() + 10
        while len(of(master)) != 3:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_signal_before_it_is_ready_leaves_nothing(self):
        for pause_us in range(0, 15_000, 150):
            child = measure.start(command("nginx"), stdout=subprocess.DEVNULL)
            self.addCleanup(measure.stop, child)
            time.sleep(pause_us / 1e6)
            child.send_signal(signal.SIGINT)
            self.expect_nothing_left(child)

    def test_it_ends_when_nginx_does(self):
        child, _ = self.start("nginx")
        os.kill(int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()), signal.SIGQUIT)
        self.expect_nothing_left(child)
        self.assertEqual(child.returncode, 0)

    def test_nginx_ends_when_it_is_killed(self):
        child, line = self.start("nginx")
        child.kill()
        child.wait()
        end = time.monotonic() + 10
        with self.assertRaises(ConnectionRefusedError):
            while time.monotonic() < end:
                socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), timeout=10).close()
                time.sleep(0.01)


class LeftOut(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)

    def test_what_is_not_built_names_its_target_and_what_that_needs(self):
        for name, what in {"epoll_floor": "", "tonic": "cargo 1.85", "go_http": "Go 1.22", "grpc_go": "Go 1.22"}.items():
            why = missing_program(HOST, self.build, name)
            self.assertRegex(why, f"build the target peer_{name}" + (f", which needs {what} or newer" if what else "$"))

    def test_nginx_needs_a_package(self):
        built = self.build / "loadtest" / "peers" / "nginx"
        built.parent.mkdir(parents=True)
        built.write_text("")
        built.chmod(0o755)
        with mock.patch.object(servers, "NGINX", ("sh", __file__)):
            self.assertIsNone(missing_program(HOST, self.build, "nginx"))
        for lacks in (("no-such-program", __file__), ("sh", __file__ + "-none")):
            with mock.patch.object(servers, "NGINX", lacks):
                why = missing_program(HOST, self.build, "nginx")
                self.assertIn("apt-get install nginx-light libnginx-mod-http-echo", why)


if __name__ == "__main__":
    unittest.main()
