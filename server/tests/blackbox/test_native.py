# SPDX-License-Identifier: Apache-2.0
"""Native gRPC over real sockets: one send for a batch of calls, peers that do not behave, and other people's clients."""

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from harness import FLAGS, Server, until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4

# Nothing of a batch is handed on: no other worker is idle, and calls are not long because the machine is busy.
IN_ONE_PIECE = ["--workers", "1", *([] if "asio-pool" in FLAGS else ["--lane-threshold-us", "0"])]


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(stream, path=b"/helloworld.Greeter/SayHello", message=b"\x0a\x01x"):
    block = b"".join(literal(*each) for each in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc")))
    return (frame(HEADERS, END_HEADERS, stream, block) +
            frame(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message))


class Peer:
    """A connection that says exactly what it is told."""

    def __init__(self, server, begin=True, address=None):
        host, port = (address or server.grpc_address).rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 30)
        self.buffer = b""
        if begin:
            self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data):
        self.socket.sendall(data)

    def frame(self):
        """(kind, flags, stream, payload); None at the end."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.buffer += piece
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
        payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
        return kind, flags, stream, payload

    def until(self, kind):
        """The payload of the next frame of a kind; None at the end."""
        while (got := self.frame()) is not None:
            if got[0] == kind:
                return got[3]
        return None

    def close(self):
        self.socket.close()


def get(stream, path):
    """A whole HTTP request."""
    block = b"".join(literal(*each) for each in (
        (b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a")))
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)


def answers(peer, calls):
    """Reads until so many streams have ended; how many brought "Hello x"."""
    ended = good = 0
    while ended < calls:
        kind, flags, _, payload = peer.frame()
        good += kind == DATA and payload == b"\0\0\0\0\x09\x0a\x07Hello x"
        ended += kind == HEADERS and flags & END_STREAM != 0
    return good


class Native(unittest.TestCase):
    def serve(self, *flags):
        server = Server(*flags, grpc=True)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def test_a_batch_of_calls_is_one_send(self):
        server = self.serve(*IN_ONE_PIECE)
        peer = Peer(server)
        self.addCleanup(peer.close)
        peer.until(SETTINGS)
        before = server.metrics()
        peer.send(b"".join(call(2 * i + 1) for i in range(100)))
        self.assertEqual(answers(peer, 100), 100)
        after = server.metrics()
        sends = after["bwos_grpc_sends_total"] - before["bwos_grpc_sends_total"]
        batches = after["bwos_grpc_read_batches_total"] - before["bwos_grpc_read_batches_total"]
        # A turn that a busy machine has cut off sends what it has.
        turns = batches + after["bwos_grpc_slices_total"] - before["bwos_grpc_slices_total"]
        self.assertLessEqual(sends, turns)
        self.assertLessEqual(batches, 10)  # which depends on how it arrives
        self.assertEqual(server.stop(), 0)

    def test_a_burst_of_pings_in_one_receive_is_acknowledged(self):
        server = self.serve("--h2-ping-strikes-max", "0")
        peer = Peer(server)
        self.addCleanup(peer.close)
        peer.until(SETTINGS)
        peer.send(frame(PING, 0, 0, b"12345678") * 5000)
        for _ in range(5000):
            self.assertEqual(peer.until(PING), b"12345678")
        self.assertEqual(server.stop(), 0)

    def test_ten_connections_with_a_hundred_streams_get_one_send_a_batch(self):
        server = self.serve(*IN_ONE_PIECE)
        message = os.path.join(self.temporary(), "message")
        with open(message, "wb") as file:
            file.write(b"\0\0\0\0\x03\x0a\x01x")
        done = subprocess.run(
            ["h2load", "-n", "50000", "-c", "10", "-m", "100", "-d", message, "-H", "content-type: application/grpc",
             "-H", "te: trailers", f"http://{server.grpc_address}/helloworld.Greeter/SayHello"],
            capture_output=True, text=True, timeout=120, check=True)
        self.assertIn("50000 succeeded, 0 failed", done.stdout)
        now = server.metrics()
        self.assertEqual(now['bwos_grpc_ended_total{result="ok"}'], 50000)
        sends = now["bwos_grpc_sends_total"]
        batches = now["bwos_grpc_read_batches_total"] + now["bwos_grpc_slices_total"]
        self.assertLessEqual(sends, 1.05 * batches)
        self.assertLess(batches, 25000, "nothing was batched, so that this says nothing")
        self.assertEqual(server.stop(), 0)

    @unittest.skipIf("asio-pool" in FLAGS, "nobody measures how old its queue is")
    def test_calls_that_wait_too_long_are_turned_away_but_for_health(self):
        server = self.serve("--workers", "1", "--lane-threshold-us", "0", "--queue-age-max", "300ms",
                            "--work-us-max", "20000000")
        busy, peer = Peer(server), Peer(server)
        self.addCleanup(busy.close)
        self.addCleanup(peer.close)
        for each in (busy, peer):
            each.send(call(1))
            self.assertEqual(answers(each, 1), 1)
        busy.send(call(3, b"/bwos.Work/Burn", b"\x08\xc0\x84\x3d"))  # for a second
        time.sleep(0.2)
        peer.send(call(3) + call(5, b"/grpc.health.v1.Health/Check", b"") + call(7))
        bodies, ended = [], 0
        while ended < 3:
            kind, flags, stream, payload = peer.frame()
            if kind == DATA:
                bodies.append((stream, payload))
            ended += kind == HEADERS and flags & END_STREAM != 0
        self.assertEqual(bodies, [(5, b"\0\0\0\0\2\x08\1")])  # SERVING
        metrics = server.metrics()
        self.assertEqual(metrics["bwos_grpc_shed_total"], 2)
        self.assertEqual(metrics['bwos_grpc_ended_total{result="failed"}'], 2)

        def is_served():
            is_served.stream += 2
            peer.send(call(is_served.stream))
            return answers(peer, 1) == 1

        is_served.stream = 9
        until(is_served)  # the connection goes on
        self.assertEqual(server.stop(), 0)

    def temporary(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_floods_end_with_a_goaway_and_leave_others_untouched(self):
        server = self.serve()
        other = Peer(server)
        self.addCleanup(other.close)
        floods = {
            "empty DATA": call(1)[:-17] + frame(DATA, 0, 1) * 11000,
            "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 11000,
            "rapid reset": b"".join(call(2 * i + 1) + frame(RST_STREAM, 0, 2 * i + 1, b"\0\0\0\x08")
                                    for i in range(3000)),
        }
        for name, data in floods.items():
            with self.subTest(name):
                peer = Peer(server)
                self.addCleanup(peer.close)
                try:
                    peer.send(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                self.assertIsNotNone(peer.until(GOAWAY))
                other.send(call(2 * list(floods).index(name) + 1))
                self.assertEqual(answers(other, 1), 1)
        self.assertEqual(server.stop(), 0)

    def test_silent_and_slow_peers_are_ended(self):
        server = self.serve("--h2-handshake-timeout", "300ms", "--h2-header-timeout", "300ms", "--h2-idle-timeout",
                            "700ms")
        silent = Peer(server, begin=False)
        self.addCleanup(silent.close)
        self.assertEqual(silent.until(GOAWAY)[4:8], b"\0\0\0\1")
        self.assertIsNone(silent.frame())
        slow = Peer(server)
        self.addCleanup(slow.close)
        slow.send(frame(HEADERS, 0, 1, literal(b":method", b"POST")))
        self.assertEqual(slow.until(GOAWAY)[4:8], b"\0\0\0\1")
        idle = Peer(server)
        self.addCleanup(idle.close)
        idle.send(call(1))
        self.assertEqual(answers(idle, 1), 1)
        begun = time.monotonic()
        self.assertEqual(idle.until(GOAWAY)[4:8], b"\0\0\0\0")
        self.assertGreater(time.monotonic() - begun, 0.5)
        self.assertEqual(server.stop(), 0)

    def test_a_peer_that_does_not_read_is_not_read_either_and_ends(self):
        # The address sanitizer keeps what was freed for a while: 1 MiB of it, or that is what would be measured.
        kept_little = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1")))
        with unittest.mock.patch.dict(os.environ, ASAN_OPTIONS=kept_little):
            server = self.serve("--write-timeout", "1s")
        peer = Peer(server, begin=False)
        self.addCleanup(peer.close)
        # All the flow control that there is: only the socket says no.
        window = struct.pack(">I", (1 << 31) - 1 - 65535)
        peer.send(PREFACE + frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") + frame(WINDOW_UPDATE, 0, 0, window))
        before = server.memory()
        name = b"x" * 10000
        message = b"\x0a\x90\x4e" + name
        peer.socket.settimeout(0.5)
        sent = 0
        try:
            for i in range(20000):
                peer.send(call(2 * i + 1, message=message))
                sent += 1
        except (TimeoutError, socket.timeout, BrokenPipeError, ConnectionResetError):
            pass
        self.assertLess(sent, 20000)
        self.assertLess(server.memory() - before, 30 << 20)
        server.until_metric('bwos_http_timeouts_total{kind="write"}', 1)
        self.assertEqual(server.stop(), 0)

    def test_a_drain_tells_the_peer_waits_for_its_last_calls_and_ends(self):
        server = self.serve()
        peer = Peer(server)
        self.addCleanup(peer.close)
        peer.send(call(1))
        self.assertEqual(answers(peer, 1), 1)
        server.signal(15)
        kinds = {}
        while len(kinds) < 2:
            kind, flags, _, payload = peer.frame()
            if kind in (PING, GOAWAY) and not flags & ACK:
                kinds[kind] = payload
        self.assertEqual(kinds[GOAWAY], b"\x7f\xff\xff\xff\0\0\0\0")
        peer.send(call(3) + frame(PING, ACK, 0, kinds[PING]))  # a call that was on its way
        rest = []
        while (got := peer.frame()) is not None:
            rest.append(got)
        self.assertIn((DATA, 0, 3, b"\0\0\0\0\x09\x0a\x07Hello x"), rest)
        self.assertEqual([got[3] for got in rest if got[0] == GOAWAY], [b"\0\0\0\3\0\0\0\0"])
        peer.close()
        self.assertEqual(server.wait(), 0)

    def test_http_1_is_told_that_this_is_http_2(self):
        server = self.serve()
        peer = Peer(server, begin=False)
        self.addCleanup(peer.close)
        peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertIsNotNone(peer.until(GOAWAY))
        self.assertIsNone(peer.frame())
        self.assertEqual(server.stop(), 0)

    def test_peers_above_the_limit_are_closed_without_a_word(self):
        server = self.serve("--connections-max", "2")
        peers = [Peer(server) for _ in range(2)]
        for peer in peers:
            self.addCleanup(peer.close)
            peer.send(call(1))
            self.assertEqual(answers(peer, 1), 1)
            peer.send(call(3)[:20])  # not idle, so that nobody gets its place
        for _ in range(20):
            above = Peer(server, begin=False)
            self.addCleanup(above.close)
            self.assertIsNone(above.frame())
            self.assertEqual(above.buffer, b"")
        self.assertEqual(server.metrics()["bwos_grpc_refused_total"], 20)
        peers[0].close()
        server.until_metric("bwos_grpc_connections", 1)
        new = Peer(server)
        self.addCleanup(new.close)
        for peer, data in ((peers[1], call(3)[20:]), (new, call(1))):
            peer.send(data)
            self.assertEqual(answers(peer, 1), 1)
        new.close()
        peers[1].close()
        self.assertEqual(server.stop(), 0)

    def test_at_the_limit_the_longest_idle_makes_room(self):
        server = self.serve("--connections-max", "2")
        idle, busy = Peer(server), Peer(server)
        for peer in (idle, busy):
            self.addCleanup(peer.close)
            peer.send(call(1))
            self.assertEqual(answers(peer, 1), 1)
        busy.send(call(3)[:20])

        came = []

        def is_let_in():
            new = Peer(server)
            if new.until(SETTINGS) is None:
                new.close()
                return False
            came.append(new)
            self.addCleanup(new.close)
            return True

        until(is_let_in)
        new = came[0]
        self.assertEqual(idle.until(GOAWAY)[4:], bytes(4))  # no error
        self.assertIsNone(idle.frame())
        for peer, data in ((busy, call(3)[20:]), (new, call(1))):
            peer.send(data)
            self.assertEqual(answers(peer, 1), 1)
        self.assertEqual(server.metrics()["bwos_grpc_made_room_total"], 1)
        for peer in (idle, busy, new):
            peer.close()
        self.assertEqual(server.stop(), 0)

    def test_the_test_services_are_there_where_it_was_asked_for(self):
        for flags in ((), ("--grpc-test-service",)):
            server = self.serve(*flags)
            peer = Peer(server)
            self.addCleanup(peer.close)
            for stream, path in ((1, b"/grpc.testing.TestService/EmptyCall"),
                                 (3, b"/connectrpc.conformance.v1.ConformanceService/Unary")):
                peer.send(call(stream, path, b""))
                got = []
                while not any(each[2] == stream and each[1] & END_STREAM for each in got):
                    got = [*got, peer.frame()]
                self.assertEqual((DATA, 0, stream) in [each[:3] for each in got], bool(flags), got)
            peer.close()
            self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("grpcurl"), "grpcurl is not installed")
    def test_grpcurl(self):
        server = self.serve()
        for method, data, wanted in (
                ("helloworld.Greeter/SayHello", {"name": "w"}, {"message": "Hello w"}),
                ("bwos.Work/Burn", {"us": 7}, {"us": "7"}),
                ("grpc.health.v1.Health/Check", {"service": "bwos.Work"}, {"status": "SERVING"})):
            done = subprocess.run(["grpcurl", "-plaintext", "-d", json.dumps(data), server.grpc_address, method],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout), wanted)
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("ghz"), "ghz is not installed")
    def test_ghz(self):
        server = self.serve()
        done = subprocess.run(
            ["ghz", "--insecure", "--call", "helloworld.Greeter.SayHello", "-d", '{"name":"w"}', "-c", "100",
             "--connections", "10", "-n", "5000", "-O", "json", server.grpc_address],
            capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(json.loads(done.stdout)["statusCodeDistribution"], {"OK": 5000})
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
