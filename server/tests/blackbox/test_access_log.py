# SPDX-License-Identifier: Apache-2.0
"""The access log: what it says of whom, rotation under load, a full disk, and no log at all."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

from harness import NATIVE, PATIENCE, SERVER, Reader, Server, executor_flags, read_response, reset, until

PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"


class AccessLog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "access.log")

    def serve(self, *flags, path=None, **options):
        server = Server("--access-log", path or self.path, *flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            text = file.read()
        assert text == b"" or text.endswith(b"\n"), text[-200:]
        lines = [json.loads(line.decode("ascii")) for line in text.splitlines()]
        return sorted(lines, key=lambda line: line["time"])  # each worker's are in order

    def exchange(self, server, *requests):
        """The answers, and the lines that the server has left when it has ended."""
        with server.connect() as s:
            me = "%s:%d" % s.getsockname()
            reader = Reader(s)
            responses = []
            for request in requests:
                s.sendall(request)
                responses.append(reader.next(head=request.startswith(b"HEAD")))
        self.assertEqual(server.stop(), 0, server.log)
        return me, responses, self.read(self.path)

    def test_a_line_for_each_answer(self):
        begun = datetime.now(timezone.utc) - timedelta(seconds=1)
        me, responses, lines = self.exchange(
            self.serve(), PLAINTEXT, b"POST /echo?secret=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            b"HEAD /plaintext HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            b"GET /work?us=3000 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n", b"DELETE /no/such HTTP/1.1\r\nHost: a\r\n\r\n",
            b"nonsense\r\n\r\n")
        self.assertEqual([list(line) for line in lines],
                         [["time", "peer", "protocol", "method", "path", "status", "bytes", "duration_us"]] * 7)
        self.assertEqual([(line["protocol"], line["method"], line["path"], line["status"]) for line in lines], [
            ("HTTP/1.1", "GET", "/plaintext", 200), ("HTTP/1.1", "POST", "/echo", 200),
            ("HTTP/1.0", "HEAD", "/plaintext", 200), ("HTTP/1.1", "GET", "/work", 200),
            ("HTTP/1.1", "OPTIONS", "/echo", 200), ("HTTP/1.1", "other", "/no/such", 404), ("HTTP/1.1", "", "", 400)])
        self.assertEqual([line["bytes"] for line in lines], [len(response.body) for response in responses])
        self.assertEqual({line["peer"] for line in lines}, {me})
        self.assertGreaterEqual(lines[3]["duration_us"], 3000)
        for line in lines:
            at = datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
            self.assertTrue(begun <= at <= datetime.now(timezone.utc), line)

    def test_odd_paths_are_valid_json_in_one_line(self):
        odd = [b"/%00%0a", b'/"},{"path":"/', b"/\\", b"/'<script>", b"/\xe9\xff", "/\u2028".encode(),
               b"/" + b"a" * 3000]
        server = self.serve()
        for path in odd:
            with server.connect() as s:
                s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
                read_response(s)
        self.assertEqual(server.stop(), 0, server.log)
        lines = self.read(self.path)
        self.assertEqual(len(lines), len(odd))
        # What the server refuses to read it has no path of; at least those that are allowed it must have as they were.
        allowed = [line["path"] for line in lines if line["status"] == 404]
        self.assertGreaterEqual(len(allowed), 3)
        for path in allowed:
            sent = path.encode("latin-1")
            self.assertTrue(sent in odd or sent == odd[-1][:1024] + b"...", path)

    def test_pipelined_requests_have_a_line_each(self):
        server = self.serve()
        with server.connect() as s:
            s.sendall(PLAINTEXT * 1000)
            reader = Reader(s)
            for _ in range(1000):
                reader.next()
        self.assertEqual(server.stop(), 0, server.log)
        self.assertEqual(len(self.read(self.path)), 1000)

    def test_a_second_signal_loses_no_line(self):
        for flags in ((), ("--drain-delay", "30s")):
            server = self.serve("--drain-idle", "20s", *flags)
            peers = [server.connect() for _ in range(20)]
            for s in peers:
                s.sendall(PLAINTEXT)
                read_response(s)
            begun = server.connect()
            begun.sendall(PLAINTEXT[:10])  # so that the drain does not end
            server.signal(signal.SIGTERM)
            until(lambda: any("draining, for" in line or "not ready" in line for line in server.log))
            for s in peers:
                s.sendall(PLAINTEXT)
            for s in peers:
                read_response(s)
                s.close()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 128 + signal.SIGTERM)
            begun.close()
            self.assertEqual(len(self.read(self.path)), 40)
            os.unlink(self.path)

    def test_a_second_signal_does_not_wait_for_a_log_that_nobody_reads(self):
        fifo = self.path + ".fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        server = self.serve(path=fifo)
        with server.connect() as s, server.connect() as begun:
            s.sendall(PLAINTEXT * 5000)  # far more lines than a pipe holds
            answers = Reader(s)
            for _ in range(5000):
                answers.next()
            begun.sendall(PLAINTEXT[:10])
            server.signal(signal.SIGTERM)
            until(lambda: any("draining, for" in line for line in server.log))
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 128 + signal.SIGTERM)

    def test_who_is_turned_away_or_too_slow_is_in_it(self):
        server = self.serve("--connections-max", "1", "--header-timeout", "200ms")
        with server.connect() as slow:
            slow.sendall(PLAINTEXT[:10])
            with server.connect() as above:
                self.assertEqual(read_response(above).status, 503)
            self.assertEqual(read_response(slow).status, 408)
        self.assertEqual(server.stop(), 0, server.log)
        self.assertEqual(sorted(line["status"] for line in self.read(self.path)), [408, 503])

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_http2_and_native_grpc(self):
        server = self.serve(grpc=NATIVE)
        base = "http://%s:%d" % server.address

        def curl(*flags, **options):
            """It calls an answer that comes before it has sent everything an error."""
            return subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-m", "30", *flags], capture_output=True,
                                  check=False, **options)

        self.assertEqual(curl("-d", "to and fro", base + "/echo?x").stdout, b"to and fro")
        curl("-I", base + "/plaintext")
        curl(base + "/nowhere")
        expected = [("HTTP/2", "POST", "/echo", 200, 10), ("HTTP/2", "HEAD", "/plaintext", 200, 0),
                    ("HTTP/2", "GET", "/nowhere", 404, 10)]
        if NATIVE:
            grpc = ["-H", "Content-Type: application/grpc", "-H", "TE: trailers", "--data-binary", "@-"]
            hello = b"\0\0\0\0\3\n\1a"
            for where in (base, "http://" + server.grpc_address):
                curl(*grpc, where + "/helloworld.Greeter/SayHello", input=hello)
                curl(*grpc, where + "/helloworld.Greeter/No?secret=1", input=hello)
                curl(*grpc, "-H", "grpc-timeout: 100m", where + "/grpc.health.v1.Health/Watch", input=bytes(5))
                expected += [("gRPC", "POST", "/helloworld.Greeter/SayHello", 0, 14),
                             ("gRPC", "POST", "/helloworld.Greeter/No", 12, 0),
                             ("gRPC", "POST", "/grpc.health.v1.Health/Watch", 4, 7)]
            curl("-d", "", "http://" + server.grpc_address + "/helloworld.Greeter/SayHello")
            expected.append(("HTTP/2", "POST", "/helloworld.Greeter/SayHello", 415, 0))
        self.assertEqual(server.stop(), 0, server.log)
        lines = self.read(self.path)
        keys = ("protocol", "method", "path", "status", "bytes")
        self.assertEqual([tuple(line[key] for key in keys) for line in lines], expected)
        for line in lines:
            self.assertRegex(line["peer"], r"^127\.0\.0\.1:\d+$")
            self.assertLess(line["duration_us"], PATIENCE * 1e6)
        if NATIVE:
            self.assertGreaterEqual(lines[5]["duration_us"], 90_000)  # the watch's

    @unittest.skipUnless(NATIVE and shutil.which("curl"), "calls are ours with native gRPC, and curl is not installed")
    def test_a_call_whose_caller_leaves_is_cancelled(self):
        server = self.serve(grpc=True)
        caller = subprocess.Popen(
            ["curl", "-sSN", "--http2-prior-knowledge", "-H", "Content-Type: application/grpc", "-H", "TE: trailers",
             "--data-binary", "@-", f"http://{server.grpc_address}/grpc.health.v1.Health/Watch"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with caller:
            caller.stdin.write(bytes(5))
            caller.stdin.close()
            self.assertEqual(len(caller.stdout.read(7)), 7)
            caller.kill()
        until(lambda: self.read(self.path))
        self.assertEqual([(line["path"], line["status"]) for line in self.read(self.path)],
                         [("/grpc.health.v1.Health/Watch", 1)])
        self.assertEqual(server.stop(), 0, server.log)

    def test_rotation_under_load_loses_no_line(self):
        server = self.serve()
        answered = [0] * 4
        over = threading.Event()

        def ask(me):
            with server.connect() as s:
                reader = Reader(s)
                while not over.is_set():
                    s.sendall(PLAINTEXT * 10)
                    for _ in range(10):
                        reader.next()
                    answered[me] += 10

        clients = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for client in clients:
            client.start()
        rotated = []
        for i in range(10):
            before = sum(answered)
            until(lambda: sum(answered) > before + 200)
            rotated.append(f"{self.path}.{i}")
            os.rename(self.path, rotated[-1])
            server.signal(signal.SIGHUP)
            until(lambda: os.path.exists(self.path))
        over.set()
        for client in clients:
            client.join()
        metrics = server.metrics()
        self.assertEqual(metrics['bwos_access_log_lines_total{result="dropped"}'], 0)
        self.assertEqual(server.stop(), 0, server.log)
        counts = [len(self.read(path)) for path in (*rotated, self.path)]
        self.assertEqual(sum(counts), sum(answered) + 1)  # and /metrics
        self.assertGreater(min(counts[:-1]), 0, counts)

    def test_a_full_disk_is_logged_once_and_the_server_goes_on(self):
        server = self.serve(path="/dev/full")
        with server.connect() as s:
            reader = Reader(s)
            for _ in range(20):
                s.sendall(PLAINTEXT * 100)
                for _ in range(100):
                    self.assertEqual(reader.next().status, 200)
                time.sleep(0.02)
        until(lambda: server.metrics()['bwos_access_log_lines_total{result="dropped"}'] >= 2000)
        self.assertEqual(server.metrics()['bwos_access_log_lines_total{result="written"}'], 0)
        self.assertEqual(server.stop(), 0, server.log)
        told = [line for line in server.log if "--access-log" in line]
        self.assertEqual(len(told), 1, server.log)
        self.assertRegex(told[0], r"\[warning\] --access-log /dev/full: No space left on device; .*counted")

    def test_a_reader_that_has_stopped_holds_up_neither_requests_nor_the_drain(self):
        os.mkfifo(self.path)
        reader_end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader_end)
        server = self.serve("--access-log-buffer", "64KiB")
        with server.connect() as s:
            reader = Reader(s)
            for _ in range(50):
                s.sendall(PLAINTEXT * 100)
                for _ in range(100):
                    self.assertEqual(reader.next().status, 200)
        self.assertGreater(server.metrics()['bwos_access_log_lines_total{result="dropped"}'], 0)
        begun = time.monotonic()
        self.assertEqual(server.stop(), 0, server.log)
        self.assertLess(time.monotonic() - begun, 20)

    def test_a_sample(self):
        server = self.serve("--access-log-sample", "10", "--workers", "1")
        with server.connect() as s:
            reader = Reader(s)
            s.sendall(PLAINTEXT * 1000)
            for _ in range(1000):
                reader.next()
        self.assertEqual(server.stop(), 0, server.log)
        self.assertEqual(len(self.read(self.path)), 100)

    def test_stdout_and_hangups(self):
        server = self.serve(path="-")
        with server.connect() as s:
            s.sendall(PLAINTEXT)
            read_response(s)
            self.assertEqual(json.loads(server.process.stdout.readline())["path"], "/plaintext")
            server.signal(signal.SIGHUP)  # nothing to be opened anew, and no reason to end
            time.sleep(0.2)
            s.sendall(PLAINTEXT)
            read_response(s)
            self.assertEqual(json.loads(server.process.stdout.readline())["status"], 200)
        self.assertEqual(server.stop(), 0, server.log)

    def test_one_that_cannot_be_opened_is_refused(self):
        done = subprocess.run([SERVER, "--http-listen", "127.0.0.1:0", "--grpc-listen", "", *executor_flags(),
                               "--access-log", self.path + "/no"], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        lines = [line for line in done.stderr.splitlines() if "[info]" not in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], r"--access-log /.*/no: No such file or directory; must be a file that can be ")

    def test_without_it_there_is_none(self):
        server = Server()
        self.assertNotIn('bwos_access_log_lines_total{result="dropped"}', server.metrics())
        server.signal(signal.SIGHUP)
        self.assertEqual(server.wait(), -signal.SIGHUP)

    def test_peers_that_have_gone_are_no_trouble(self):
        server = self.serve("--work-us-max", "1000000")
        for _ in range(20):
            s = server.connect()
            s.sendall(b"GET /work?us=2000 HTTP/1.1\r\nHost: a\r\n\r\n")
            reset(s)
        with server.connect() as s:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).status, 200)
        self.assertEqual(server.stop(), 0, server.log)
        for line in self.read(self.path):
            self.assertTrue(line["peer"] == "" or re.fullmatch(r"127\.0\.0\.1:\d+", line["peer"]), line)


if __name__ == "__main__":
    unittest.main()
