# SPDX-License-Identifier: Apache-2.0
"""run.py against the peers that this build made: that it works, not how fast they are."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lib import tools
from lib.scenarios import all_scenarios
from lib.servers import Server, Variant, missing_flag, missing_program

RUN = Path(__file__).resolve().parents[1] / "run.py"
BUILD = Path(os.environ.get("BWOS_BUILD_DIR", "build/release")).resolve()
PEERS = ("epoll_floor", "asio_coro", "asio_pool", "tokio", "hyper")


class Peers(unittest.TestCase):
    """What they answer, so that figures of different peers are about the same work."""

    HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"
    # Requests, and what they are answered with.
    EXCHANGES = (
        (b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n", HELLO),
        (b"GET /work?us=50 HTTP/1.1\r\nHost: a\r\n\r\n", HELLO),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n" + b"0123456789" * 1000,
         HELLO.replace(b"13", b"10000").replace(b"Hello, World!", b"0123456789" * 1000)),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
         HELLO.replace(b"13", b"0").replace(b"Hello, World!", b"")),
        (b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        (b"HEAD /plaintext HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    )  # fmt: skip

    @contextmanager
    def peer(self, name: str):
        """Its port."""
        if why := missing_program(BUILD, name):
            self.skipTest(why)
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Variant(name, name, ("--threads", "2")), BUILD, Path(folder) / "log")
            try:
                yield server.http_port
            finally:
                server.stop()

    @staticmethod
    def answers(name: str) -> bytes:
        answers = b"".join(answer for _, answer in Peers.EXCHANGES)
        if name == "hyper":
            # It gives HEAD's answer, the last one, no length, and writes names in lower case.
            answers = answers.removesuffix(b"Content-Length: 0\r\n\r\n") + b"\r\n"
            for word in (b"Content-Type", b"Content-Length"):
                answers = answers.replace(word, word.lower())
        return answers

    def test_the_same_bytes_pipelined_and_cut_anywhere(self):
        requests = b"".join(request for request, _ in self.EXCHANGES)
        for name in PEERS:
            with self.subTest(name), self.peer(name) as port:
                expected = self.answers(name)
                for step in (len(requests), 4000, 7):
                    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        for start in range(0, len(requests), step):
                            connection.sendall(requests[start : start + step])
                        received = b""
                        while len(received) < len(expected) and (part := connection.recv(65536)):
                            received += part
                    self.assertEqual(received, expected)

    def test_a_body_that_is_too_long_closes_the_connection(self):
        for name in PEERS:
            with self.subTest(name), self.peer(name) as port:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                    connection.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n")
                    self.assertEqual(connection.recv(100), b"")


class Run(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.out = Path(self._folder.name)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(RUN), "--build-dir", str(BUILD), "--out", str(self.out), *arguments]

    def run_it(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=110, check=False)

    def rows(self) -> list[dict]:
        (folder,) = self.out.iterdir()
        with (folder / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @unittest.skipUnless(tools.find("wrk"), "wrk is not installed")
    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    def test_wrk_against_both_peers(self):
        done = self.run_it("--scenario", "echo", "--quick", "--only", "floor", "--only", "asio_coro")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual(sorted((row["round"], row["variant"]) for row in rows),
                         [("1", "asio_coro"), ("1", "floor"), ("2", "asio_coro"), ("2", "floor")])  # fmt: skip
        for row in rows:
            self.assertGreater(int(row["requests"]), 0)
            self.assertGreater(float(row["server_cpu_us"]), 0)
            self.assertEqual((row["errors"], row["failed"]), ("0", ""))
        (folder,) = self.out.iterdir()
        self.assertIn("CPU / floor", (folder / "report.txt").read_text())
        self.assertIn("CPU / floor", (folder / "report.html").read_text())
        self.assertIn("kernel", json.loads((folder / "machine.json").read_text()))
        self.assertEqual(len(list((folder / "raw").glob("0*.txt"))), 4)

    def test_the_open_loop_client_at_given_rates(self):
        done = self.run_it("--scenario", "skew", "--quick", "--only", "asio_coro", "--rates", "300,400",
                           "--realtime", "0")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual({row["rate_asked"] for row in rows}, {"300", "400"})
        for row in rows:
            self.assertGreater(float(row["slow_p99_us"]), 200)
            self.assertNotEqual(row["late_p99_us"], "")

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    def test_a_closed_loop_of_calls_and_the_other_tools_beside_it(self):
        done = self.run_it("--scenario", "grpc-h2", "--only", "h2_floor", "--rounds", "1", "--rounds-max", "1",
                           "--seconds", "1")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {row["cell"]: row for row in self.rows()}
        expected = {"10x1", "50x20", "10x100"}
        for tool in ("h2load", "ghz"):
            if tools.find(tool):
                expected |= {f"{shape}-{tool}" for shape in ("10x1", "50x20", "10x100")}
            else:
                self.assertIn(f"left out: 10x1-{tool}: {tool} is not installed", done.stdout)
        self.assertEqual(set(rows), expected)
        for row in rows.values():
            self.assertEqual((row["errors"], row["failed"]), ("0", ""), row)
            self.assertGreater(int(row["requests"]), 0)
            self.assertGreater(float(row["server_busy"]), 0)
            self.assertGreater(float(row["client_cpu_us"]), 0)

    def test_two_classes_of_calls_at_a_given_rate(self):
        done = self.run_it("--scenario", "grpc-skew", "--quick", "--only", "grpc_cq", "--rates", "300,400",
                           "--realtime", "0")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for row in self.rows():
            self.assertEqual((row["rate_asked"], row["errors"], row["failed"]), ("300", "0", ""))
            self.assertGreater(float(row["slow_p99_us"]), 200)

    def test_a_server_without_a_flag_that_a_variant_needs_is_left_out_by_name(self):
        variant = Variant("new", "h2_floor", needs_flag="--none")
        if why := missing_program(BUILD, "h2_floor"):
            self.skipTest(why)
        self.assertRegex(missing_flag(BUILD, variant), r"h2_floor has no flag --none$")
        self.assertIsNone(missing_flag(BUILD, replace(variant, needs_flag="--port")))
        self.assertIsNotNone(missing_flag(BUILD, replace(variant, needs_flag="--por")))

    def test_an_interrupt_keeps_what_was_measured_and_leaves_no_server(self):
        child = subprocess.Popen(self.command("--scenario", "skew", "--only", "asio_coro", "--rates", "300,400",
                                              "--seconds", "1", "--realtime", "0"),
                                 stdout=subprocess.PIPE, text=True)  # fmt: skip
        for line in child.stdout:
            if line.startswith("[1/"):
                break
        servers = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=False)
        self.assertNotEqual(servers.stdout.split(), [])
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=60)[0]
        self.assertEqual(child.returncode, 130, rest)
        self.assertIn("what was measured is kept", rest)
        self.assertGreaterEqual(len(self.rows()), 1)
        for pid in servers.stdout.split():
            self.assertFalse(Path(f"/proc/{pid}").exists(), f"process {pid} is left")

    def test_what_is_missing_is_left_out_by_name(self):
        empty = self.out / "empty"
        empty.mkdir()
        done = subprocess.run([sys.executable, str(RUN), "--build-dir", str(empty), "--out", str(self.out / "results"),
                               "--scenario", "memory"], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        for variant in all_scenarios((0, 1))["memory"].variants:
            self.assertIn(f"left out: {variant.name}: ", done.stdout)
        self.assertFalse((self.out / "results").exists())


if __name__ == "__main__":
    unittest.main()
