# SPDX-License-Identifier: Apache-2.0
"""A worker inside one task for too long: /healthz says so, the log says so once, and it passes."""

import re
import signal
import time
import unittest

from harness import PATIENCE, Reader, Server, is_silent, read_response, until

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def work(seconds):
    return b"GET /work?us=%d HTTP/1.1\r\nHost: a\r\n\r\n" % (seconds * 1_000_000)


class Stall(unittest.TestCase):
    def serve(self, *flags):
        server = Server("--work-us-max", "20000000", *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    @staticmethod
    def stalls(server):
        return [line for line in list(server.log) if "inside one task" in line]

    def stalled_workers(self, server):
        """Not a count of lines: where others use the machine, a worker may be kept from its CPU for a timeout as short
        as the tests'."""
        return {re.search(r"worker (\d+)", line)[1] for line in self.stalls(server)}

    def health(self, server):
        """What a free worker says. Some of the connections may belong to a ring that a stalled one does not look at."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            sockets = [server.connect() for _ in range(4)]
            try:
                for s in sockets:
                    s.sendall(HEALTHZ)
                for s in sockets:
                    if not is_silent(s, 0.3):
                        return read_response(s)
            finally:
                for s in sockets:
                    s.close()
        raise AssertionError("/healthz is not answered")

    def test_healthz_names_the_worker_until_its_task_ends_and_the_log_says_it_once(self):
        server = self.serve("--stall-timeout", "500ms")
        busy, asks = server.connect(), [server.connect() for _ in range(20)]
        readers = [Reader(s) for s in asks]

        def health():
            """Over connections that both workers look at, wherever they are. One that is silent is the stalled one's, or
            the machine is busy."""
            while asks:
                asks[0].sendall(HEALTHZ)
                if not is_silent(asks[0], 0.2):
                    return readers[0].next()
                asks.pop(0).close()
                readers.pop(0)
            raise AssertionError("no free worker looks at any of the connections")

        self.assertEqual(health().body, b"ok\n")
        for _ in range(2):
            before = self.stalls(server)
            begun = time.monotonic()
            busy.sendall(work(3))
            time.sleep(0.2)
            self.assertEqual(health().status, 200)  # long, but not too long
            until(lambda: health().status == 503)
            self.assertGreaterEqual(time.monotonic() - begun, 0.5)
            text = health().body.decode()
            worker, ms = re.fullmatch(r"worker (\d) has been inside one task for (\d+) ms\n", text).groups()
            self.assertGreaterEqual(int(ms), 500)
            self.assertEqual(read_response(busy).status, 200)
            until(lambda: health().status == 200)
            own = [line for line in self.stalls(server)[len(before):] if f"worker {worker} " in line]
            self.assertEqual(len(own), 1, server.log)
            self.assertRegex(own[0], r"\[warning\] worker \d has been .* for \d+ ms")
        for s in (busy, *asks):
            s.close()
        self.assertEqual(server.stop(), 0)

    def test_the_last_free_worker_answers_and_without_one_the_log_still_speaks(self):
        server = self.serve("--stall-timeout", "300ms", "--workers", "3", "--reactor-group", "3", "--reactor", "epoll")
        busy = [server.connect() for _ in range(3)]
        self.addCleanup(lambda: [s.close() for s in busy])
        for s in busy[:2]:
            s.sendall(work(4))  # Though taken in one poll, and the first expected to be short.
        until(lambda: len(self.stalled_workers(server)) >= 2)
        self.assertEqual(self.health(server).status, 503)
        before = len(self.stalls(server))
        busy[2].sendall(work(1))  # nobody is left
        until(lambda: len(self.stalls(server)) > before)
        for s in busy:
            self.assertEqual(read_response(s).status, 200)
        until(lambda: self.health(server).status == 200)
        self.assertEqual(server.stop(), 0)

    def test_idle_workers_do_not_stall_and_0_turns_it_off(self):
        server = self.serve("--stall-timeout", "50ms")
        time.sleep(1)
        self.assertEqual(self.health(server).status, 200)
        self.assertEqual(self.stalls(server), [])
        self.assertEqual(server.stop(), 0)
        server = self.serve("--stall-timeout", "0")
        with server.connect() as busy:
            busy.sendall(work(1))
            time.sleep(0.5)
            self.assertEqual(self.health(server).status, 200)
            self.assertEqual(read_response(busy).status, 200)
        self.assertEqual(self.stalls(server), [])
        self.assertEqual(server.stop(), 0)

    def test_a_stall_during_the_drain_is_logged_and_a_second_signal_ends_it(self):
        server = self.serve("--stall-timeout", "300ms")
        with server.connect() as busy:
            busy.sendall(work(15))
            time.sleep(0.1)
            server.signal(signal.SIGTERM)
            until(lambda: len(self.stalls(server)) == 1)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 128 + signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
