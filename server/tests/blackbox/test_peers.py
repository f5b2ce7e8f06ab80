# SPDX-License-Identifier: Apache-2.0
"""Peers that are slow, silent, deaf, or gone; and how one connection leaves room for the others."""

import os
import resource
import selectors
import socket
import statistics
import time
import unittest

from harness import NATIVE, PATIENCE, REACTOR, Reader, Server, ServerTest, is_silent, read_response, reset

# What a process may grow by without holding anything for its peers: buffers of its threads, the allocator's reserves.
MEMORY_NOISE = 48 << 20
PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"


def echo(size):
    return b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size


class Timeouts(ServerTest):
    FLAGS = ("--idle-timeout", "800ms", "--header-timeout", "1s", "--body-timeout", "1s", "--write-timeout", "1s")

    def after(self, seconds, s, begun):
        """Waits for an answer or the end; neither may come before its time."""
        s.recv(1, socket.MSG_PEEK)
        self.assertGreaterEqual(time.monotonic() - begun, seconds)

    def timeouts(self, kind):
        return self.server.metrics()['bwos_http_timeouts_total{kind="%s"}' % kind]

    def test_a_silent_peer_is_closed_silently(self):
        count = self.timeouts("idle")
        begun = time.monotonic()
        with self.server.connect() as s:
            self.after(0.8, s, begun)
            self.assertTrue(Reader(s).at_end())
        self.assertEqual(self.timeouts("idle"), count + 1)

    def test_idleness_is_counted_from_the_last_answer(self):
        with self.server.connect() as s:
            for _ in range(4):
                time.sleep(0.3)
                begun = time.monotonic()
                s.sendall(PLAINTEXT)
                self.assertEqual(read_response(s).status, 200)
            self.after(0.8, s, begun)
            self.assertTrue(Reader(s).at_end())

    def test_empty_lines_are_no_sign_of_life(self):
        with self.server.connect() as s:
            begun = time.monotonic()
            while time.monotonic() - begun < 20 and is_silent(s, 0.05):
                s.sendall(b"\r\n")
            self.assertLess(time.monotonic() - begun, 20)
            self.assertGreaterEqual(time.monotonic() - begun, 0.79)  # of 800 ms, which the accept began

    def test_a_header_that_drips_gets_408(self):
        count = self.timeouts("header")
        with self.server.connect() as s:
            begun = time.monotonic()
            for i in range(400):
                s.sendall(PLAINTEXT[i % 20:i % 20 + 1] if i < 20 else b"x")
                if not is_silent(s, 0.05):
                    break
            self.after(1, s, begun)
            reader = Reader(s)
            response = reader.next()
            self.assertEqual(response.status, 408)
            self.assertTrue(response.closes)
            self.assertTrue(reader.at_end())
        self.assertEqual(self.timeouts("header"), count + 1)

    def test_a_body_that_drips_gets_408(self):
        count = self.timeouts("body")
        with self.server.connect() as s:
            request = echo(1000)
            head = len(request) - 1000
            begun = time.monotonic()
            s.sendall(request[:head])
            for i in range(400):
                s.sendall(b"x")
                if not is_silent(s, 0.05):
                    break
            self.after(1, s, begun)
            reader = Reader(s)
            self.assertEqual(reader.next().status, 408)
            self.assertTrue(reader.at_end())
        self.assertEqual(self.timeouts("body"), count + 1)

    def test_each_request_has_its_header_time_anew(self):
        with self.server.connect() as s:
            begun = time.monotonic()
            s.sendall(PLAINTEXT[:10])
            for _ in range(5):  # each time the end of one request and the beginning of the next
                time.sleep(0.3)
                s.sendall(PLAINTEXT[10:] + PLAINTEXT[:10])
                self.assertEqual(read_response(s).status, 200)
            self.assertGreater(time.monotonic() - begun, 1)

    def test_a_peer_that_does_not_read_is_cut_off(self):
        count = self.timeouts("write")
        with self.server.connect(small_buffers=True) as s:
            s.setblocking(False)
            request = echo(500_000)
            begun = time.monotonic()
            sent = 0
            while time.monotonic() - begun < 30:
                try:
                    sent += s.send(request[sent % len(request):])
                except BlockingIOError:
                    time.sleep(0.01)
                except ConnectionError:
                    break
            self.assertLess(time.monotonic() - begun, 30)
            self.assertGreaterEqual(time.monotonic() - begun, 1)
        self.assertEqual(self.timeouts("write"), count + 1)

    def test_peers_that_pipeline_for_ever_and_never_read_cost_little_memory(self):
        count = self.timeouts("write")
        before = self.server.memory()
        peers = [self.server.connect(small_buffers=True) for _ in range(20)]
        for s in peers:
            s.setblocking(False)
        requests = PLAINTEXT * 1000
        most = sent = 0
        end = time.monotonic() + PATIENCE
        while peers:
            self.assertLess(time.monotonic(), end, "they were not ended")
            for s in list(peers):
                try:
                    sent += s.send(requests[sent % len(PLAINTEXT):])
                except BlockingIOError:
                    pass
                except ConnectionError:
                    s.close()
                    peers.remove(s)
            most = max(most, self.server.memory())
            time.sleep(0.01)
        self.assertEqual(self.timeouts("write"), count + 20)
        self.assertLess(most - before, MEMORY_NOISE)


class Slowloris(ServerTest):
    FLAGS = ("--header-timeout", "4s", "--connections-max", "6000", "--backlog", "6000")
    PEERS = 5000

    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.peers = min(self.PEERS, hard - 300)
        if self.peers < self.PEERS:
            print(f"only {self.peers} connections: RLIMIT_NOFILE is {hard}", end=" ", flush=True)

    def test_peers_that_drip_their_headers_leave_the_others_served(self):
        drip = b"GET /plaintext HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1000
        timeouts = self.server.metrics()['bwos_http_timeouts_total{kind="header"}']
        slow = [self.server.connect() for _ in range(self.peers)]
        began, ended = {}, {}
        with self.server.connect() as ordinary, selectors.DefaultSelector() as ready:
            for s in slow:
                s.setblocking(False)
                ready.register(s, selectors.EVENT_READ)
            latencies = []
            sent, at = 0, 0
            end = time.monotonic() + 2 * PATIENCE
            while len(ended) < len(slow):
                self.assertLess(time.monotonic(), end, f"{len(slow) - len(ended)} peers were not ended")
                for _ in range(100):  # a byte from each of some, in turn
                    s = slow[at]
                    if s not in ended:
                        began.setdefault(s, time.monotonic())
                        try:
                            s.send(drip[sent:sent + 1])
                        except ConnectionError:
                            pass  # it has been answered
                    at += 1
                    if at == len(slow):
                        at = 0
                        sent += 1
                for key, _ in ready.select(0):
                    s = key.fileobj
                    ready.unregister(s)
                    ended[s] = time.monotonic()
                    reader = Reader(s)
                    response = reader.next()
                    self.assertEqual((response.status, response.closes), (408, True))
                begun = time.monotonic()
                ordinary.sendall(PLAINTEXT)
                self.assertEqual(read_response(ordinary).status, 200)
                latencies.append(time.monotonic() - begun)
                with self.server.connect() as new:  # and who comes new is
                    new.sendall(PLAINTEXT)
                    self.assertEqual(read_response(new).status, 200)
        for s in slow:
            self.assertGreaterEqual(ended[s] - began[s], 4 - 0.01)
            s.close()
        # Not a measure of speed: it is what a peer calls being served.
        self.assertLess(statistics.median(latencies), 0.25)
        now = self.server.metrics()['bwos_http_timeouts_total{kind="header"}']
        self.assertEqual(now - timeouts, len(slow))


class Peers(ServerTest):
    FLAGS = ("--connections-max", "50")

    def test_a_slow_reader_gets_everything_and_makes_the_server_wait(self):
        with self.server.connect(small_buffers=True) as s:
            s.setblocking(False)
            requests = echo(300_000) * 60
            sent = 0
            while True:  # until the server, and the sockets between, take no more
                try:
                    sent += s.send(requests[sent:])
                except BlockingIOError:
                    time.sleep(0.3)
                    try:
                        sent += s.send(requests[sent:])
                    except BlockingIOError:
                        break
                if sent == len(requests):
                    break
            self.assertLess(sent, len(requests), "the server kept reading while its answers were not taken")
            s.settimeout(60)
            reader = Reader(s)
            answered = 0
            while answered < 60:
                self.assertEqual(len(reader.next().body), 300_000)
                answered += 1
                while sent < len(requests) and sent < (answered + 2) * len(requests) // 60:
                    sent += s.send(requests[sent:sent + 100_000])

    def test_peers_that_reset_are_noticed_at_once(self):
        def timeouts():
            return [value for series, value in self.server.metrics().items() if "timeouts" in series]

        before = timeouts()
        for data in (b"", b"GET", PLAINTEXT, PLAINTEXT * 500, echo(100_000)[:-1], echo(1_000_000)):
            for pause in (0, 0.01):
                for _ in range(20):
                    s = self.server.connect()
                    try:
                        s.sendall(data)
                    except ConnectionError:
                        pass  # for the moment there were too many
                    time.sleep(pause)
                    reset(s)
        self.server.until_metric("bwos_http_connections", 1)
        self.assertEqual(timeouts(), before, "a connection was ended by its timeout, not by its peer's reset")

    def send_until_refused(self, s, pieces):
        """What it came to: bytes sent, and the answer."""
        s.setblocking(False)
        sent = 0
        rest = b""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            rest = rest or next(pieces)
            try:
                count = s.send(rest)
                rest = rest[count:]
                sent += count
            except BlockingIOError:
                time.sleep(0.001)
            except ConnectionError:
                break
        else:
            self.fail(f"{sent} bytes were sent, and the connection is open yet")
        return sent

    def refuse_endless(self, head, pieces):
        """A body of a GiB, or without an end: 413, long before that."""
        before = self.server.memory()
        received = self.server.metrics()["bwos_http_received_bytes_total"]
        for read_first in (True, False):
            with self.server.connect() as s:
                s.sendall(head)
                endless = pieces()
                if read_first:
                    while is_silent(s, 0):
                        s.sendall(next(endless))
                    response = read_response(s)
                    self.assertEqual((response.status, response.closes), (413, True))
                sent = self.send_until_refused(s, endless)
                self.assertLess(sent, 64 << 20)  # what it drops before it closes, and the sockets' buffers
        self.assertLess(self.server.memory() - before, MEMORY_NOISE)
        # Parsed: up to the limit. What is dropped afterwards does not count.
        taken = self.server.metrics()["bwos_http_received_bytes_total"] - received
        self.assertLess(taken, 2 * (1 << 20) + (1 << 19))

    def test_a_body_of_a_gib_is_refused_by_its_length(self):
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1 << 30)
        received = self.server.metrics()["bwos_http_received_bytes_total"]
        with self.server.connect() as s:
            s.sendall(head)  # nothing of the body
            self.assertEqual(read_response(s).status, 413)
        self.assertLess(self.server.metrics()["bwos_http_received_bytes_total"] - received, 1000)
        self.refuse_endless(head, lambda: iter(lambda: b"x" * 65536, None))

    def test_a_body_without_end_is_refused_at_the_limit(self):
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        for size in (65536, 100):
            chunk = b"%x\r\n" % size + b"x" * size + b"\r\n"
            pieces = chunk * (65536 // size)
            self.refuse_endless(head, lambda data=pieces: iter(lambda: data, None))

    def test_a_reset_after_each_byte_of_a_request_and_of_an_answer(self):
        timeouts = sum(value for series, value in self.server.metrics().items() if "timeouts" in series)
        chunked = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n"
        slow = b"GET /work?us=5000 HTTP/1.1\r\nHost: a\r\n\r\n"
        for request in (echo(20), chunked, slow):
            for size in range(len(request) + 1):
                for pause in (0, 0.002):  # before the server has seen it, and after
                    s = self.server.connect()
                    try:
                        s.sendall(request[:size])
                        time.sleep(pause)
                    except ConnectionError:
                        pass  # for the moment there were too many
                    reset(s)
        for size in range(0, 300_000, 9_973):  # so far into the answer, the rest of which is on its way or waits
            s = self.server.connect(small_buffers=True)
            try:
                s.sendall(echo(300_000))
                while size > 0:
                    size -= len(s.recv(size))
            except ConnectionError:
                pass
            reset(s)
        for _ in range(10):  # at work, with more to do
            s = self.server.connect()
            s.sendall(slow * 20)
            s.recv(1)
            reset(s)
        self.server.until_metric("bwos_http_connections", 1)
        self.assertEqual(sum(value for series, value in self.server.metrics().items() if "timeouts" in series),
                         timeouts)

    def test_peers_that_close_at_once_leave_nothing_behind(self):
        for _ in range(500):
            self.server.connect().close()
        for _ in range(200):
            reset(self.server.connect())
        self.server.until_metric("bwos_http_connections", 1)

    def fill(self):
        """As many connections as there may be, each answered."""
        self.server.until_metric("bwos_http_connections", 1)
        time.sleep(0.05)  # the one that asked has gone
        sockets = [self.server.connect() for _ in range(50)]
        for s in sockets:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).status, 200)
            s.sendall(PLAINTEXT[:10])  # not idle, so that nobody gets its place
        return sockets

    def until_free(self):
        """The places come back."""
        self.server.until_metric("bwos_http_connections", 1)

    def test_connections_above_the_limit_are_told_when_to_come_again(self):
        refused = self.server.metrics()["bwos_http_refused_total"]
        sockets = self.fill()
        for data in (b"", PLAINTEXT, PLAINTEXT * 100, echo(1_000_000)):  # unread bytes must not reset it
            for _ in range(20):
                with self.server.connect() as above:
                    try:
                        above.sendall(data)
                    except ConnectionError:
                        self.fail("reset while it was sending")
                    reader = Reader(above)
                    response = reader.next()
                    self.assertEqual(response.status, 503)
                    self.assertEqual(response.headers["retry-after"], "1")
                    self.assertTrue(response.closes)
                    self.assertTrue(reader.at_end())
        for s in sockets:
            s.close()
        self.until_free()
        now = self.server.metrics()["bwos_http_refused_total"]
        self.assertIn(now - refused, range(80, 100))  # whoever asked until_free() may have been refused, too

    def test_a_flood_above_the_limit_holds_few_descriptors(self):
        sockets = self.fill()
        flood = [self.server.connect() for _ in range(600)]
        try:
            held = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
            self.assertLess(held, 50 + 128 + 40)
            answered = 0
            for s in flood:  # none of them closes before it has been served
                try:
                    answered += read_response(s).status == 503
                except (EOFError, ConnectionError):
                    pass
            self.assertGreaterEqual(answered, 128)
        finally:
            for s in flood + sockets:
                s.close()
        self.until_free()


class Addresses(unittest.TestCase):
    """--connections-per-address-max, with the loopback's addresses as peers."""

    def serve(self, *flags, grpc=False):
        server = Server("--connections-per-address-max", "3", *flags, grpc=grpc)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def connect(self, to, source):
        s = socket.socket()
        self.addCleanup(s.close)
        s.settimeout(PATIENCE)
        s.bind((source, 0))
        s.connect(to)
        return s

    def served(self, s):
        s.sendall(PLAINTEXT)
        self.assertEqual(read_response(s).status, 200)
        return s

    def fill(self, server, source):
        return [self.served(self.connect(server.address, source)) for _ in range(3)]

    def refused(self, server):
        return server.metrics()["bwos_connections_per_address_refused_total"]

    def test_above_the_limit_an_address_is_told_and_the_others_are_served(self):
        server = self.serve()
        full = self.fill(server, "127.0.0.2")
        for data in (PLAINTEXT, echo(1_000_000)):  # unread bytes must not reset it
            with self.connect(server.address, "127.0.0.2") as above:
                above.sendall(data)
                reader = Reader(above)
                response = reader.next()
                self.assertEqual((response.status, response.headers["retry-after"]), (503, "1"))
                self.assertTrue(reader.at_end())
        self.fill(server, "127.0.0.3")
        for s in full:  # who is in stays
            self.served(s)
        self.assertEqual(self.refused(server), 2)
        self.assertEqual(server.metrics()["bwos_http_refused_total"], 0)

    def test_the_places_of_connections_that_ended_are_free_again(self):
        server = self.serve()
        for how in (socket.socket.close, reset) * 10:
            for s in self.fill(server, "127.0.0.2"):
                how(s)
            server.until_metric("bwos_http_connections", 1)
        self.assertEqual(self.refused(server), 0)

    def test_an_address_above_its_limit_takes_nobodys_place(self):
        server = self.serve("--connections-max", "6")
        everybody = self.fill(server, "127.0.0.2") + self.fill(server, "127.0.0.3")
        time.sleep(1.2)  # idle for long enough to be asked to leave
        for _ in range(50):
            with self.connect(server.address, "127.0.0.2") as above:
                self.assertEqual(read_response(above).status, 503)
        for s in everybody:
            self.served(s)
        for s in everybody:
            s.close()
        server.until_metric("bwos_http_connections", 1)
        self.assertEqual(server.metrics()["bwos_http_made_room_total"], 0)
        self.assertEqual(self.refused(server), 50)

    def test_a_flood_of_one_address_holds_few_descriptors(self):
        server = self.serve()
        self.fill(server, "127.0.0.2")
        for _ in range(600):
            self.connect(server.address, "127.0.0.2")
        self.fill(server, "127.0.0.3")
        self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/fd")), 6 + 128 + 40)

    @unittest.skipUnless(NATIVE, "gRPC C++ has sockets of its own")
    def test_both_ports_count_together_and_a_port_of_grpc_closes(self):
        server = self.serve(grpc=True)
        host, port = server.grpc_address.rsplit(":", 1)
        grpc = (host, int(port))
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        first = self.connect(grpc, "127.0.0.2")
        first.sendall(preface)
        self.assertTrue(first.recv(1))  # the server's SETTINGS
        for _ in range(2):
            self.served(self.connect(server.address, "127.0.0.2"))
        try:
            self.assertEqual(self.connect(grpc, "127.0.0.2").recv(1), b"")
        except ConnectionError:
            pass
        with self.connect(server.address, "127.0.0.2") as above:
            self.assertEqual(read_response(above).status, 503)
        other = self.connect(grpc, "127.0.0.3")
        other.sendall(preface)
        self.assertTrue(other.recv(1))
        self.assertEqual(self.refused(server), 2)

    def test_without_the_flag_there_is_no_limit_and_no_number(self):
        server = Server()
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        for _ in range(20):
            self.served(self.connect(server.address, "127.0.0.2"))
        self.assertNotIn("bwos_connections_per_address_refused_total", server.metrics())


class Descriptors(unittest.TestCase):
    def test_descriptors_exhausted_then_freed(self):
        server = Server("--connections-max", "10000")
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        # Behind its start, which would have counted them.
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (100, 100))
        if REACTOR == "io_uring" and server.reactor_used() != REACTOR:
            self.skipTest(f"io_uring: {server.log}")
        first = server.connect()
        sockets = [server.connect() for _ in range(150)]
        for s in (first, *sockets):
            s.sendall(PLAINTEXT)
        self.assertEqual(read_response(first).status, 200)
        time.sleep(0.5)
        answered = [s for s in sockets if not is_silent(s, 0)]
        waiting = [s for s in sockets if s not in answered]
        self.assertGreater(len(answered), 40)
        self.assertGreater(len(waiting), 40)
        before = server.cpu_seconds()
        time.sleep(2)
        self.assertLess(server.cpu_seconds() - before, 0.5, "it spins while it is starved")
        first.sendall(PLAINTEXT)  # who is in is served
        self.assertEqual(read_response(first).status, 200)
        for s in answered:
            self.assertEqual(read_response(s).status, 200)
            s.close()
        for s in waiting:  # their turn, by as many as leave
            self.assertEqual(read_response(s).status, 200)
            s.close()
        first.close()
        server.until_metric("bwos_http_connections", 1)
        self.assertEqual(server.metrics()["bwos_http_refused_total"], 0)
        self.assertEqual(server.stop(), 0)


class OneWorker(ServerTest):
    FLAGS = ("--workers", "1")

    def test_a_connection_that_pipelines_slow_requests_leaves_room_for_others(self):
        slow = b"GET /work?us=5000 HTTP/1.1\r\nHost: a\r\n\r\n"
        with self.server.connect() as a, self.server.connect() as b:
            a.sendall(slow * 200)
            first = Reader(a)
            first.next()  # it is at work
            for _ in range(5):
                b.sendall(PLAINTEXT)
                self.assertEqual(read_response(b).status, 200)
            a.setblocking(False)
            answered = 1
            try:
                while True:
                    first.next()
                    answered += 1
            except BlockingIOError:
                pass
            self.assertLess(answered, 200)
            a.setblocking(True)
            a.settimeout(60)
            for _ in range(200 - answered):
                self.assertEqual(first.next().status, 200)

    def test_a_peer_that_never_stops_sending_leaves_room_for_others(self):
        with self.server.connect() as a, self.server.connect() as b:
            a.setblocking(False)
            upload = echo(1_000_000)
            sent = 0
            for _ in range(20):
                b.sendall(PLAINTEXT)
                while is_silent(b, 0):
                    try:
                        sent += a.send(upload[sent % len(upload):])
                        a.recv(1 << 20)
                    except BlockingIOError:
                        pass
                self.assertEqual(read_response(b).status, 200)


if __name__ == "__main__":
    unittest.main()
