# SPDX-License-Identifier: Apache-2.0
"""Start, readiness, drain, signals, and what the command line refuses."""

import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import FLAGS, NATIVE, PATIENCE, SERVER, Reader, Server, executor_flags, is_silent, read_response, until

READYZ = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"


def refused(address):
    """Whether nobody listens any more."""
    try:
        socket.create_connection(address, PATIENCE).close()
        return False
    except ConnectionRefusedError:
        return True


def has_ended(s):
    """Whether the other side has closed, and nothing is left to read."""
    return not is_silent(s, 0) and s.recv(1, socket.MSG_PEEK) == b""


class Lifecycle(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def test_one_line_when_ready_and_the_log_on_stderr(self):
        server = self.serve(grpc=True)
        self.assertRegex(server.line, r"^listening http=127\.0\.0\.1:\d+ grpc=127\.0\.0\.1:\d+\n$")
        with server.connect() as s:
            s.sendall(READYZ)
            self.assertEqual(read_response(s).status, 200)
        self.assertEqual(server.stop(), 0, "".join(server.log))
        self.assertEqual([bool(re.search("reactor", line)) for line in server.log].count(True), 1, server.log)

    def test_it_says_what_runs(self):
        kind = FLAGS[FLAGS.index("--executor") + 1] if "--executor" in FLAGS else "bwos"
        server = self.serve()
        until(lambda: any(f"executor {kind}, 2 workers" in line for line in server.log))
        info = [series for series in server.metrics() if series.startswith("bwos_build_info")]
        self.assertIn(f'executor="{kind}"', info[0])
        version = subprocess.run([SERVER, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertIn(f'version="{version.stdout.split()[1]}"', info[0])
        with os.scandir(f"/proc/{server.process.pid}/task") as tasks:
            names = [pathlib.Path(task.path, "comm").read_text("ascii").strip() for task in tasks]
        wanted = int(FLAGS[FLAGS.index("--reactor-threads") + 1]) if "--reactor-threads" in FLAGS else 0
        self.assertEqual(sum(name.startswith("bwos-io-") for name in names), wanted, names)
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_grpc_calls_are_answered_one_after_the_other_and_at_once(self):
        server = self.serve(grpc=True)
        url = f"http://{server.grpc_address}/helloworld.Greeter/SayHello"

        def call(name):
            request = b"\x0a" + bytes([len(name)]) + name
            done = subprocess.run(
                ["curl", "-sS", "--http2-prior-knowledge", "-m", "30", "-H", "Content-Type: application/grpc", "-H",
                 "TE: trailers", "--data-binary", "@-", url],
                input=bytes(4) + bytes([len(request)]) + request, capture_output=True, check=True)
            self.assertIn(b"Hello " + name, done.stdout)

        for _ in range(3):
            call(b"world")
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            for done in [callers.submit(call, b"%d" % i) for i in range(24)]:
                done.result()
        server.until_metric('bwos_grpc_ended_total{result="ok"}', 27)
        self.assertEqual(server.stop(), 0, "".join(server.log))

    def test_ipv6_and_http_alone(self):
        process = subprocess.Popen([SERVER, "--http-listen", "[::]:0", "--grpc-listen", "", *executor_flags()],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            match = re.fullmatch(r"listening http=\[::\]:(\d+)\n", process.stdout.readline())
            with socket.create_connection(("::1", int(match[1])), PATIENCE) as s:
                s.sendall(READYZ)
                self.assertEqual(read_response(s).status, 200)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)
        finally:
            process.kill()
            process.wait()

    def test_both_signals_end_an_idle_server_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve(grpc=True)
            idle = [server.connect() for _ in range(20)]
            with idle[0] as s:
                s.sendall(READYZ)
                self.assertEqual(read_response(s).status, 200)
            server.signal(number)
            for s in idle[1:]:
                self.assertEqual(s.recv(1), b"")
                s.close()
            self.assertEqual(server.wait(), 0, "".join(server.log))
            self.assertFalse(any("not done" in line for line in server.log), server.log)

    def test_requests_begun_are_finished_while_nobody_new_is_accepted(self):
        server = self.serve("--header-timeout", "60s")
        with server.connect() as begun, server.connect() as body:
            begun.sendall(READYZ[:20])
            body.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
            time.sleep(0.1)
            server.signal(signal.SIGTERM)
            until(lambda: refused(server.address))
            time.sleep(0.3)
            self.assertIsNone(server.process.poll())
            begun.sendall(READYZ[20:])
            reader = Reader(begun)
            response = reader.next()
            self.assertEqual(response.status, 503)
            self.assertTrue(response.closes)
            self.assertTrue(reader.at_end())
            body.sendall(b"llo")
            response = read_response(body)
            self.assertEqual(response.body, b"hello")
            self.assertTrue(response.closes)
        self.assertEqual(server.wait(), 0, "".join(server.log))

    def test_pipelined_requests_at_work_are_all_answered(self):
        server = self.serve("--work-us-max", "1000000")
        with server.connect() as s:
            s.sendall(b"GET /work?us=100000 HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
            reader = Reader(s)
            self.assertFalse(reader.next().closes)
            server.signal(signal.SIGTERM)
            self.assertEqual([reader.next().status for _ in range(4)], [200] * 4)
            self.assertTrue(reader.at_end())
        self.assertEqual(server.wait(), 0, "".join(server.log))

    def test_the_backlog_is_accepted_once_more(self):
        server = self.serve()
        server.signal(signal.SIGSTOP)
        sockets = [server.connect() for _ in range(30)]
        for s in sockets:
            s.sendall(b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n")
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGCONT)
        for s in sockets:
            self.assertEqual(read_response(s).body, b"Hello, World!")
            s.close()
        self.assertEqual(server.wait(), 0, "".join(server.log))

    def test_the_drain_timeout_cuts_off_what_is_left(self):
        server = self.serve("--drain-timeout", "300ms")
        with server.connect() as s, server.connect(small_buffers=True) as deaf:
            s.sendall(READYZ[:20])
            body = b"x" * 900_000
            deaf.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.2)
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0, "".join(server.log))
            self.assertGreaterEqual(time.monotonic() - begun, 0.3)
        self.assertTrue(any("connections were not done" in line for line in server.log), server.log)

    def test_a_handler_that_computes_is_waited_for_beyond_the_drain_timeout(self):
        server = self.serve("--drain-timeout", "100ms", "--work-us-max", "2000000")
        with server.connect() as s:
            s.sendall(b"GET /work?us=1000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(0.2)
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0, "".join(server.log))
            self.assertGreaterEqual(time.monotonic() - begun, 0.5)
        said = "1 HTTP connections were not done at the end of --drain-timeout"
        self.assertTrue(any(said in line for line in server.log), server.log)

    def test_waiting_for_a_deaf_peer_costs_no_cpu_while_draining(self):
        server = self.serve()
        with server.connect(small_buffers=True) as deaf:
            body = b"x" * 900_000
            deaf.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.3)
            server.signal(signal.SIGTERM)
            until(lambda: refused(server.address))
            before = server.cpu_seconds()
            time.sleep(1)
            self.assertLess(server.cpu_seconds() - before, 0.5)
            reader = Reader(deaf)
            self.assertEqual(len(reader.next().body), 900_000)
        self.assertEqual(server.wait(), 0, "".join(server.log))

    def test_a_second_signal_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve(grpc=True)
            with server.connect() as s:
                s.sendall(READYZ[:20])
                time.sleep(0.1)
                server.signal(number)
                until(lambda: refused(server.address))
                self.assertIsNone(server.process.poll())
                server.signal(number)
                self.assertEqual(server.wait(), 128 + number, "".join(server.log))

    def test_limits_that_the_system_cuts_are_named(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

        kernels = int(pathlib.Path("/proc/sys/net/core/somaxconn").read_text("ascii"))
        server = self.serve("--connections-max", "50", "--backlog", str(min(kernels, 65535)))
        self.assertEqual(server.stop(), 0)
        self.assertFalse(any("--connections-max" in line or "--backlog" in line for line in server.log), server.log)
        server = self.serve("--connections-max", "1000", "--backlog", "65535", before=few)
        sockets = [server.connect() for _ in range(51)]
        for s in sockets:
            s.sendall(READYZ[:10])  # not idle, so that nobody gets its place
        for s in sockets:
            s.sendall(READYZ[10:])
        self.assertEqual(sorted(read_response(s).status for s in sockets), [200] * 50 + [503])
        for s in sockets:
            s.close()
        self.assertEqual(server.stop(), 0)
        self.assertRegex("".join(server.log), r"\[warning\] --connections-max 1000: only 50, .* 100 .*RLIMIT_NOFILE")
        if kernels < 65535:
            self.assertRegex("".join(server.log), rf"\[warning\] --backlog 65535: only {kernels}, .*somaxconn")

    def test_two_ports_share_the_descriptors(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

        server = self.serve("--connections-max", "1000", grpc=True, before=few)
        each = 25 if NATIVE else 50  # else gRPC C++'s connections are its own
        sockets = [server.connect() for _ in range(each + 1)]
        self.addCleanup(lambda: [s.close() for s in sockets])
        for s in sockets:
            s.sendall(READYZ[:10])  # not idle, so that nobody gets its place
        for s in sockets:
            s.sendall(READYZ[10:])
        self.assertEqual(sorted(read_response(s).status for s in sockets), [200] * each + [503])
        if NATIVE:
            host, port = server.grpc_address.split(":")
            calls = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(each + 1)]
            sockets += calls
            until(lambda: any(map(has_ended, calls)))
            self.assertEqual(sum(map(has_ended, calls)), 1)
        for s in sockets:
            s.close()
        self.assertEqual(server.stop(), 0)
        said = "".join(server.log)
        self.assertIn(f", 100 descriptors, {each} HTTP connections at most", said)
        self.assertEqual(f", {each} gRPC connections at most" in said, NATIVE, said)
        self.assertRegex(said, rf"--connections-max 1000: only {each}{' on each port' if NATIVE else ''}, as no more "
                               "than 100 descriptors")

    def test_load_during_the_drain_loses_no_answer_that_was_begun(self):
        server = self.serve()
        failures = []

        def client():
            try:
                with server.connect() as s:
                    reader = Reader(s)
                    while True:
                        s.sendall(READYZ)
                        response = reader.next()
                        if response.closes:
                            if not reader.at_end():
                                failures.append("bytes behind the last answer")
                            return
            except (EOFError, ConnectionError, OSError):
                pass  # closed between two requests: nothing was begun
            except AssertionError as error:
                failures.append(error)

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        self.assertEqual(server.stop(), 0, "".join(server.log))
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class CommandLine(unittest.TestCase):
    def refuse(self, *arguments, status=2):
        done = subprocess.run([SERVER, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "")
        lines = [line for line in done.stderr.splitlines() if "[info]" not in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_an_address_in_use_is_named_with_its_flag_and_may_be_tried_again(self):
        """1, where a bad value has 2: a service manager may start it once more."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            line = self.refuse("--http-listen", address, "--grpc-listen", "127.0.0.1:0", status=1)
            self.assertRegex(line, rf"--http-listen {address}: Address already in use; must be ")
            for by in ("native", "grpc++"):
                line = self.refuse("--http-listen", "127.0.0.1:0", "--grpc", by, "--grpc-listen", address, status=1)
                self.assertRegex(line, rf"--grpc-listen {address}: Address already in use; must be ")
        line = self.refuse("--http-listen", "192.0.2.1:80", status=1)
        self.assertRegex(line, "--http-listen 192.0.2.1:80: Cannot assign requested address; must be ")
        self.assertRegex(self.refuse("--http-listen", "nowhere.invalid:80"), "--http-listen nowhere.invalid:80: ")

    def test_bad_values_are_named_in_one_line(self):
        self.assertRegex(self.refuse("--workers", "0"), "--workers 0: .*1 to 1024")
        self.assertRegex(self.refuse("--idle-timeout", "5"), "--idle-timeout 5: .*1ms to 24h")
        self.assertRegex(self.refuse("--reactor", "io_uring", "--reactor-group", "2"), "--reactor-group 2: ")
        self.assertRegex(self.refuse("--unknown"), "--unknown")
        self.assertRegex(self.refuse("--workers"), "--workers")

    def test_flags_of_what_nobody_serves_are_mistakes(self):
        here = "127.0.0.1:0"
        self.assertRegex(self.refuse("--http-listen", here, "--grpc-listen", "", "--grpc-test-service"),
                         "--grpc-test-service true: must be left out with --grpc-listen ''")
        line = self.refuse("--http-listen", "", "--grpc-listen", here, "--grpc", "grpc++", "--access-log", "-")
        self.assertRegex(line, r"--access-log -: must be left out with --http-listen '' and --grpc grpc\+\+")

    def test_help_and_version(self):
        for flag, pattern in (("--help", "Timeouts:"), ("--version", r"^bwos-server \d+\.\d+\.\d+")):
            done = subprocess.run([SERVER, flag], capture_output=True, text=True, timeout=PATIENCE, check=True)
            self.assertRegex(done.stdout, pattern)
            self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
