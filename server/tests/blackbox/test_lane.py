# SPDX-License-Identifier: Apache-2.0
"""Slow routes go through the lane of long work, and nothing else changes by it."""

import select
import signal
import threading
import time
import unittest

from harness import FLAGS as EXECUTOR_FLAGS
from harness import PATIENCE, REACTOR, Reader, Server, ServerTest, is_silent, read_response, reset, until
from test_native import DATA, END_STREAM, Peer
from test_native import get as get_stream

HOST = b"Host: a\r\n\r\n"
# High, so that a short request that loses its processor, or runs under a sanitizer, is still short.
FLAGS = ("--lane-threshold-us", "1000", "--work-us-max", "10000")


def get(path, verb=b"GET"):
    return verb + b" " + path + b" HTTP/1.1\r\n" + HOST


def post(body):
    return b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n" % len(body) + HOST + body


def lane_runs(server):
    """Of our pool's lane, or of Asio's."""
    return sum(value for series, value in server.metrics().items() if "_lane_run_total" in series)


def make_slow(server, us=5000):
    """Until the route is known to be long: the lane has run a request of it."""
    before = lane_runs(server)
    with server.connect() as s:
        reader = Reader(s)
        for _ in range(100):
            s.sendall(get(b"/work?us=%d" % us))
            reader.next()
            if lane_runs(server) > before:
                return
    raise AssertionError("a route of 5 ms a request never entered the lane")


class Lane(ServerTest):
    FLAGS = FLAGS

    def test_a_route_enters_and_leaves(self):
        make_slow(self.server)
        with self.server.connect() as s:
            reader = Reader(s)
            for _ in range(100):  # each one in the lane counts, and takes an eighth off the mean
                s.sendall(get(b"/work?us=1"))
                reader.next()
            left = lane_runs(self.server)
            for _ in range(100):
                s.sendall(get(b"/work?us=1"))
                reader.next()
            self.assertLess(lane_runs(self.server) - left, 50)  # 0, but on a machine that stalls
        make_slow(self.server)

    def test_pipelined_answers_keep_their_order(self):
        make_slow(self.server)
        requests, bodies = b"", []
        for i in range(20):
            body = b"%d" % i * (i + 1)
            requests += get(b"/plaintext") + get(b"/work?us=%d" % (100 + i)) + post(body) + get(b"/work", b"HEAD")
            bodies += [b"Hello, World!", b"burned %d us\n" % (100 + i), body, b""]
        for step in (len(requests), 97, 7):  # whole, and cut into pieces
            with self.subTest(step), self.server.connect() as s:
                reader = Reader(s)

                def send():
                    for at in range(0, len(requests), step):
                        s.sendall(requests[at:at + step])

                sender = threading.Thread(target=send)
                sender.start()
                for i, body in enumerate(bodies):
                    response = reader.next(head=i % 4 == 3)
                    self.assertEqual((response.status, response.body), (400 if i % 4 == 3 else 200, body), i)
                sender.join()

    def test_slow_requests_of_one_connection_leave_room_for_others(self):
        make_slow(self.server)
        with self.server.connect() as slow, self.server.connect() as fast:
            slow.sendall(get(b"/work?us=10000") * 16)
            done = threading.Event()

            def read_slow():
                reader = Reader(slow)
                for _ in range(16):
                    reader.next()
                done.set()

            waiter = threading.Thread(target=read_slow)
            waiter.start()
            reader, answered = Reader(fast), 0
            while not done.is_set():
                fast.sendall(get(b"/plaintext"))
                reader.next()
                answered += not done.is_set()
            waiter.join()
            self.assertGreater(answered, 16)  # one for each slow one, at the least

    def test_a_load_that_is_all_slow_is_served(self):
        make_slow(self.server)
        sockets = [self.server.connect() for _ in range(16)]
        for s in sockets:
            s.sendall(get(b"/work?us=3000") * 4)
        for s in sockets:
            reader = Reader(s)
            self.assertEqual([reader.next().status for _ in range(4)], [200] * 4)
            s.close()

    @unittest.skipIf("--asio-lane" in EXECUTOR_FLAGS, "there the whole connection goes to the lane")
    def test_slow_streams_of_http2_leave_the_others_of_their_connection_alone(self):
        make_slow(self.server)
        peer = Peer(self.server, address="%s:%d" % self.server.address)
        self.addCleanup(peer.close)
        # Ten that take .1 s together, and behind them what takes nothing.
        peer.send(b"".join(get_stream(2 * i + 1, b"/work?us=10000") for i in range(10)) +
                  get_stream(21, b"/plaintext") + get_stream(23, b"/healthz"))
        ended = []
        while len(ended) < 12:
            kind, flags, stream, _ = peer.frame()
            if kind == DATA and flags & END_STREAM:
                ended.append(stream)
        self.assertLess(ended.index(21), 5, ended)
        self.assertLess(ended.index(23), 5, ended)
        self.assertEqual(sorted(ended), list(range(1, 25, 2)))

    def test_slow_streams_of_http2_end_with_their_connection(self):
        make_slow(self.server)
        before = lane_runs(self.server)
        peer = Peer(self.server, address="%s:%d" % self.server.address)
        peer.send(b"".join(get_stream(2 * i + 1, b"/work?us=10000") for i in range(500)))
        if "--asio-lane" not in EXECUTOR_FLAGS:
            until(lambda: lane_runs(self.server) > before)
        reset(peer.socket)
        make_slow(self.server)  # it goes on: and the class ends with a stop

    def test_peers_that_leave_while_they_wait(self):
        make_slow(self.server)
        for leave in (reset, lambda s: s.close()):
            for _ in range(20):
                s = self.server.connect()
                s.sendall(get(b"/work?us=2000") * 3)
                leave(s)
        self.server.until_metric("bwos_http_connections", 1)  # the one that asks
        if "--asio-lane" not in EXECUTOR_FLAGS:
            self.server.until_metric("bwos_pool_lane_depth", 0)


class LaneTurn(ServerTest):
    """A connection that comes out of the lane answers long requests for 300 us."""
    FLAGS = ("--lane-threshold-us", "50", "--work-us-max", "10000")

    def lane_runs_of(self, count, us):
        make_slow(self.server)
        with self.server.connect() as s:
            before = lane_runs(self.server)
            s.sendall(get(b"/work?us=%d" % us) * count)
            reader = Reader(s)
            self.assertEqual([reader.next().status for _ in range(count)], [200] * count)
            return lane_runs(self.server) - before

    def test_a_turn_answers_several_that_are_short_enough(self):
        runs = self.lane_runs_of(60, us=60)  # 5 a turn; fewer where it loses its processor
        self.assertGreater(runs, 0)
        self.assertLess(runs, 45)

    def test_a_turn_answers_one_that_takes_all_of_it(self):
        self.assertIn(self.lane_runs_of(6, us=2000), (6, 7))  # /metrics itself may be a long route here


class LaneCap(unittest.TestCase):
    """All workers but one, at the most, are at slow requests, as long as none of those is of age."""

    def test_slow_requests_of_many_connections_leave_a_worker_to_others(self):
        age = () if "--asio-lane" in EXECUTOR_FLAGS else ("--lane-age", "10s")
        server = Server("--lane-threshold-us", "1000", "--work-us-max", "1000000", *age)
        make_slow(server)
        slow = [server.connect() for _ in range(2)]  # one for each worker
        fast = [server.connect() for _ in range(8)]
        for s in slow:
            s.sendall(get(b"/work?us=1000000"))
        time.sleep(0.3)  # without a lane all workers are at them now
        for s in fast:
            s.sendall(get(b"/plaintext"))
        answered = set()  # before any slow one is: who looks late sees both, and counts neither
        while len(answered) < len(fast):
            ready = select.select([*slow, *set(fast) - answered], [], [], PATIENCE)[0]
            if not all(is_silent(s, 0) for s in slow):
                break
            answered.update(ready)
        # A ring's connections are its own worker's: those of the one that is at a slow request wait for it.
        self.assertGreaterEqual(len(answered), 1 if REACTOR == "io_uring" else len(fast))
        for s in slow + fast:
            self.assertEqual(read_response(s).status, 200)
            s.close()
        self.assertEqual(server.stop(), 0)


class LaneEnds(unittest.TestCase):
    def test_a_drain_answers_what_waits(self):
        server = Server(*FLAGS)
        make_slow(server)
        sockets = [server.connect() for _ in range(20)]
        for s in sockets:
            s.sendall(get(b"/work?us=10000"))
        time.sleep(0.02)  # some run, the others wait
        server.signal(signal.SIGTERM)
        for s in sockets:
            response = read_response(s)
            self.assertEqual((response.status, response.body), (200, b"burned 10000 us\n"))
            s.close()
        self.assertEqual(server.wait(), 0)

    @unittest.skipIf("--asio-lane" in EXECUTOR_FLAGS, "is left out then")
    def test_zero_turns_it_off(self):
        server = Server("--lane-threshold-us", "0")
        with server.connect() as s:
            reader = Reader(s)
            for _ in range(50):
                s.sendall(get(b"/work?us=1000"))
                reader.next()
        self.assertEqual(lane_runs(server), 0)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
