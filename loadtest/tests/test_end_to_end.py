# SPDX-License-Identifier: Apache-2.0
"""run.py against the peers that this build made: that it works, not how fast they are."""

import csv
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from lib import agent, hosts, measure, plans, tools
from lib.scenario import Cell
from lib.servers import Server, Variant, missing_program, missing_variant

RUN = Path(__file__).resolve().parents[1] / "run.py"
BUILD = Path(os.environ.get("BWOS_BUILD_DIR", "build/release")).resolve()


def plan(name: str) -> str:
    return str(plans.FOLDER / f"{name}.toml")


PEERS = ("epoll_floor", "asio_coro", "asio_pool", "tokio", "hyper", "go_http")


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
        with tempfile.TemporaryDirectory() as folder, hosts.local() as on:
            if why := missing_program(on.server, BUILD, name):
                self.skipTest(why)
            server = Server(Variant(name, name, ("--threads", "2")), on, BUILD, Path(folder) / "log")
            try:
                yield int(server.http.rpartition(":")[2])
            finally:
                server.stop()

    @staticmethod
    def answers(name: str) -> bytes:
        answers = b"".join(answer for _, answer in Peers.EXCHANGES)
        if name == "go_http":
            answers = re.sub(rb"(Content-Type: .*\r\n)(Content-Length: .*\r\n)", rb"\2\1", answers)
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


@unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
class Scripts(unittest.TestCase):
    def first_write(self, cell: Cell) -> bytes:
        """Of wrk with this load, to a server that answers nothing."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            child = measure.start(tools.wrk_command(cell, "127.0.0.1:%d" % listener.getsockname()[1], 5),
                                  stdout=subprocess.DEVNULL)  # fmt: skip
            self.addCleanup(measure.stop, child)
            listener.settimeout(20)
            received = b""
            while not received:  # it connects once without sending anything
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(1)
                    try:
                        while part := connection.recv(65536):
                            received += part
                    except TimeoutError:
                        pass
            return received

    def test_echo_sends_a_body_of_the_size_asked_for(self):
        for size in (16, 65536):
            head, _, body = self.first_write(Cell("c", connections=1, path="/echo", body=size)).partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"POST /echo HTTP/1.1\r\n"), head)
            self.assertIn(b"Content-Length: %d\r\n" % size, head + b"\r\n")
            self.assertEqual(body, b"x" * size)

    def test_pipelined_requests_come_in_one_write(self):
        received = self.first_write(Cell("c", connections=1, pipeline=5))
        self.assertEqual(received.count(b"GET /plaintext HTTP/1.1\r\n"), 5)


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
        with (self.out / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    def test_wrk_against_both_peers(self):
        done = self.run_it(plan("echo"), "--rounds", "2", "--seconds", "1", "--only", "floor", "--only", "asio_coro")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual(sorted((row["round"], row["variant"]) for row in rows),
                         [("1", "asio_coro"), ("1", "floor"), ("2", "asio_coro"), ("2", "floor")])  # fmt: skip
        for row in rows:
            self.assertGreater(int(row["requests"]), 0)
            self.assertGreater(float(row["server_cpu_us"]), 0)
            self.assertEqual((row["errors"], row["failed"]), ("0", ""))
        self.assertIn("CPU / floor", (self.out / "report.txt").read_text())
        self.assertIn("CPU / floor", (self.out / "report.html").read_text())
        self.assertIn("kernel", json.loads((self.out / "machine.json").read_text()))
        self.assertEqual((self.out / "echo.toml").read_text(), Path(plan("echo")).read_text())
        self.assertFalse((self.out / "raw").exists())
        with tarfile.open(self.out / "raw.tar.gz") as packed:
            raw = [name for name in packed.getnames() if re.fullmatch(r"raw/0.*\.txt", name)]
            self.assertEqual(len(raw), 4)
            self.assertIn("requests in", packed.extractfile(raw[0]).read().decode())

    def test_the_open_loop_client_at_given_rates(self):
        done = self.run_it(plan("skew-1ms"), "--rounds", "2", "--seconds", "1", "--only", "asio_coro",
                           "--rates", "300,400", "--realtime", "0")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual({row["rate_asked"] for row in rows}, {"300", "400"})
        for row in rows:
            self.assertGreater(float(row["slow_p99_us"]), 200)
            self.assertNotEqual(row["late_p99_us"], "")

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "one CPU")
    def test_a_closed_loop_of_calls_and_the_other_tools_beside_it(self):
        done = self.run_it(plan("grpc-h2"), "--only", "h2_floor", "--rounds", "1", "--seconds", "1")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {row["cell"]: row for row in self.rows()}
        expected = {"10x1", "50x20", "10x100"}
        for tool in ("h2load", "ghz"):
            if shutil.which(tool, path=f"{os.environ['PATH']}:{Path.home() / 'go' / 'bin'}"):
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
        done = self.run_it(plan("grpc-skew"), "--rounds", "2", "--seconds", "1", "--only", "grpc_cq",
                           "--rates", "300", "--realtime", "0")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for row in self.rows():
            self.assertEqual((row["rate_asked"], row["errors"], row["failed"]), ("300", "0", ""))
            self.assertGreater(float(row["slow_p99_us"]), 200)

    def test_a_server_without_a_flag_that_a_variant_needs_is_left_out_by_name(self):
        variant = Variant("new", "h2_floor", needs_flag="--none")
        with hosts.local() as on:
            if why := missing_program(on.server, BUILD, "h2_floor"):
                self.skipTest(why)
            self.assertRegex(missing_variant(on.server, BUILD, variant), r"h2_floor has no flag --none$")
            self.assertIsNone(missing_variant(on.server, BUILD, replace(variant, needs_flag="--port")))
            self.assertIsNotNone(missing_variant(on.server, BUILD, replace(variant, needs_flag="--por")))

    def test_the_installed_server_is_the_one_in_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = {"PATH": f"{folder}:{os.environ['PATH']}"}
            words = [plan("quick"), "--installed", "--only", "bwos", "--rounds", "1", "--seconds", "1"]
            with mock.patch.dict(os.environ, path):
                before = self.run_it(*words)
                (Path(folder) / "bwos-server").symlink_to(BUILD / "server" / "bwos-server")
                done = self.run_it(*words)
        self.assertEqual(before.returncode, 1)
        self.assertIn("left out: bwos: bwos-server is not installed on this machine", before.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        facts = json.loads((self.out / "machine.json").read_text())
        self.assertEqual(facts["commands"]["bwos"][0], "bwos-server")
        self.assertEqual({row["failed"] for row in self.rows()}, {""})

    def begin_and_stop(self) -> str:
        """One measurement of four is done at least when it is stopped. Returns what it said."""
        child = subprocess.Popen(self.command(plan("skew-1ms"), "--only", "asio_coro", "--rates", "300,400",
                                              "--rounds", "2", "--seconds", "1", "--realtime", "0"),
                                 stdout=subprocess.PIPE, text=True)  # fmt: skip
        said = ""
        for line in child.stdout:
            said += line
            if line.startswith("[1/4"):
                break
        started = agent.family(child.pid)[1:]
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in started]
        self.assertIn("asio_coro", names, said)
        child.send_signal(signal.SIGINT)
        said += child.communicate(timeout=60)[0]
        self.assertEqual(child.returncode, 130, said)
        for pid in started:
            self.assertFalse(Path(f"/proc/{pid}").exists(), f"process {pid} is left")
        return said

    def resume(self) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, str(RUN), "--build-dir", str(BUILD), "--resume", str(self.out)],
                              capture_output=True, text=True, timeout=110, check=False)  # fmt: skip

    def test_an_interrupt_keeps_what_was_measured_and_leaves_no_server_and_the_rest_is_measured_later(self):
        self.assertIn("what was measured is kept", self.begin_and_stop())
        before = (self.out / "runs.csv").read_text()
        self.assertIn(len(self.rows()), (1, 2, 3))
        done = self.resume()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.out / "runs.csv").read_text().startswith(before), "what was there is changed")
        self.assertEqual(sorted((row["round"], row["rate_asked"], row["failed"]) for row in self.rows()),
                         [("1", "300", ""), ("1", "400", ""), ("2", "300", ""), ("2", "400", "")])  # fmt: skip
        self.assertRegex((self.out / "report.txt").read_text(), r"(?m)^asio_coro +2 ")
        again = self.resume()
        self.assertEqual(again.returncode, 1)
        self.assertIn("that run is finished", again.stderr)

    def test_a_run_does_not_go_on_with_another_plan(self):
        self.begin_and_stop()
        copy = self.out / "skew-1ms.toml"
        copy.write_text(copy.read_text() + "# another hash\n")
        before = (self.out / "runs.csv").read_text()
        done = self.resume()
        self.assertEqual(done.returncode, 1)
        self.assertIn("the plan: not as when the run began", done.stderr)
        self.assertEqual((self.out / "runs.csv").read_text(), before)

    def test_nothing_is_overwritten(self):
        (self.out / "kept").write_text("of another run")
        done = self.run_it(plan("skew-1ms"), "--only", "asio_coro", "--rates", "300,400")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing is overwritten", done.stderr)
        self.assertEqual([path.name for path in self.out.iterdir()], ["kept"])

    def test_a_wrong_plan_runs_nothing(self):
        wrong = self.out.parent / "wrong.toml"
        self.addCleanup(wrong.unlink)
        wrong.write_text(Path(plan("echo")).read_text().replace("body", "boddy"))
        done = self.run_it(str(wrong))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^error: .*wrong.toml: cells.1. 'echo128-c64': unknown key 'boddy'; there are name,")
        self.assertEqual(list(self.out.iterdir()), [])

    @unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
    def test_a_server_that_never_starts_is_an_exit_status(self):
        broken = self.out / "broken"
        (broken / "server").mkdir(parents=True)
        (broken / "server" / "bwos-server").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        (broken / "server" / "bwos-server").chmod(0o755)
        done = subprocess.run([sys.executable, str(RUN), "--build-dir", str(broken), "--out", str(self.out / "results"),
                               "--rounds", "1", "--seconds", "1", plan("pipelined")],
                              capture_output=True, text=True, timeout=110, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"(?m)^error: (\d+) of \1 measurements failed: see \"left out\" above$")
        facts = json.loads((self.out / "results" / "machine.json").read_text())
        page = (self.out / "results" / "report.html").read_text()
        self.assertTrue(facts["left_out"])  # the peers
        for line in facts["left_out"]:
            self.assertIn(f"<li>{html.escape(line)}</li>", page)
        self.assertIn("broken", page)

    def test_what_is_missing_is_left_out_by_name(self):
        empty = self.out / "empty"
        empty.mkdir()
        done = subprocess.run([sys.executable, str(RUN), "--build-dir", str(empty), "--out", str(self.out / "results"),
                               plan("idle")], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        for variant in plans.load(Path(plan("idle")), (0, 1)).variants:
            self.assertIn(f"left out: {variant.name}: ", done.stdout)
        self.assertFalse((self.out / "results").exists())

    def test_the_kept_plans_are_listed_with_their_first_lines(self):
        done = subprocess.run([sys.executable, str(RUN), "--list"], capture_output=True, text=True, check=False)
        for path in plans.FOLDER.glob("*.toml"):
            line = next(line for line in done.stdout.splitlines() if line.split()[0] == path.name)
            self.assertIn(" min  " + path.read_text().partition("\n")[0].removeprefix("# "), line)


if __name__ == "__main__":
    unittest.main()
