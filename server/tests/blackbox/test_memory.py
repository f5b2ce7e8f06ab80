# SPDX-License-Identifier: Apache-2.0
"""What one hostile connection of gRPC can make the server keep: messages that are small on the wire and large in
memory. A well-behaved client is served meanwhile."""

import gzip
import socket
import struct
import threading
import time
import unittest

from harness import SANITIZED, Server
from test_native import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, Peer, answers, call, frame, literal

MIB = 1 << 20
SECONDS = 20  # of each attack
GROWTH_MAX = 96 * MIB  # --h2-request-bytes-max is 64 MiB, a window 16 MiB


def field(number, text):
    """A length-delimited field of protobuf."""
    size, length = len(text), b""
    while True:  # ends: seven bits less each time
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if size == 0:
            return bytes([number << 3 | 2]) + length + text


def header(stream, path):
    return frame(HEADERS, END_HEADERS, stream, b"".join(literal(*each) for each in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"), (b"te", b"trailers"),
        (b"content-type", b"application/grpc"), (b"grpc-encoding", b"gzip"))))


def packed(message):
    """A message as its stream carries it, gzip'd."""
    small = gzip.compress(message, 9)
    return b"\1" + struct.pack(">I", len(small)) + small


def in_frames(stream, data, last):
    pieces = [data[i:i + 16384] for i in range(0, len(data), 16384)]
    return b"".join(frame(DATA, END_STREAM if last and piece is pieces[-1] else 0, stream, piece) for piece in pieces)


class Attack:
    """A connection that keeps so many streams open, each with a message, and reads what comes."""

    def __init__(self, server, path, message, last):
        self.peer = Peer(server)
        self.path, self.message, self.last = path, packed(message), last
        self.opened = self.ended = 0  # of its streams
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while (got := self.peer.frame()) is not None:
            kind, flags, _, payload = got
            if kind == PING and not flags & ACK:
                self.peer.send(frame(PING, ACK, 0, payload))
            self.ended += kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM != 0)

    def open_up_to(self, streams):
        """All of the headers, and behind them the messages."""
        fresh = range(self.opened, self.opened + max(0, streams - (self.opened - self.ended)))
        self.peer.send(b"".join(header(2 * i + 1, self.path) for i in fresh))
        self.peer.send(b"".join(in_frames(2 * i + 1, self.message, self.last) for i in fresh))
        self.opened += len(fresh)

    def close(self):
        try:
            self.peer.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the server was first
        self.reader.join()
        self.peer.close()


@unittest.skipIf(SANITIZED, "a sanitizer's memory is not the server's")
class Memory(unittest.TestCase):
    def attack(self, path, message, streams, last, *flags):
        server = Server(*flags, grpc=True)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        self.serve_somebody(server, 1)
        before = server.memory_peak()
        hostile = Attack(server, path, message, last)
        self.addCleanup(hostile.close)
        end = time.monotonic() + SECONDS
        served = 0
        while time.monotonic() < end:
            hostile.open_up_to(streams)
            self.serve_somebody(server, 10)
            served += 10
            time.sleep(0.05)
        grown = server.memory_peak() - before
        print(f"{path.decode()}: {streams} streams of {len(hostile.message)} bytes: grown by {grown / MIB:.0f} MiB, "
              f"{served} calls of another connection served, {hostile.ended} of its own ended", flush=True)
        self.assertLess(grown, GROWTH_MAX)
        self.assertGreater(served, 20)
        hostile.close()
        self.assertEqual(server.stop(), 0)

    def serve_somebody(self, server, calls):
        peer = Peer(server)
        self.addCleanup(peer.close)
        peer.send(b"".join(call(2 * i + 1) for i in range(calls)))
        self.assertEqual(answers(peer, calls), calls)
        peer.close()

    def test_watches(self):
        self.attack(b"/grpc.health.v1.Health/Watch", field(1, b"x" * (4 * MIB - 16)), 500, True)

    def test_reflection(self):
        self.attack(b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", field(3, b"x" * (4 * MIB - 16)), 60,
                    False)

    def test_calls_in_the_lane(self):
        # Each computes for .1 s, so that they are read faster than they are run.
        self.attack(b"/bwos.Work/Burn", b"\x08\xa0\x8d\x06" + field(15, b"x" * (4 * MIB - 16)), 400, True,
                    "--work-us-max", "100000", "--lane-age", "10s")


if __name__ == "__main__":
    unittest.main()
