# SPDX-License-Identifier: Apache-2.0
"""What broke other HTTP/2 servers, from outside: requests on the HTTP port, calls on that of gRPC.

Each test names the weakness that it is about, and says what it would see if the defence were
missing. While an attack goes on, or behind it, somebody else on the same port is answered. Tests
that the server is known to fail are expected to: each says what the server does instead.
"""

import functools
import select
import socket
import struct
import time
import unittest

from harness import FLAGS, NATIVE, PATIENCE, SANITIZED, Server
from test_native import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE,
                         RST_STREAM, SETTINGS, WINDOW_UPDATE, Peer, frame)

PRIORITY, PUSH_PROMISE, CONTINUATION, ALTSVC, ORIGIN = 2, 5, 9, 10, 12
PRIORITY_UPDATE, GREASE = 16, 0xbe
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE = 1, 4, 6
PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR = 1, 2, 3, 6
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 8, 9, 11

STATUS_200 = b"\x88"  # RFC 7541, appendix A
NEWEST = b"\xbe"  # the same, 2.3.3: what has entered the dynamic table last
EMPTY_HUFFMAN = b"\x80"  # a string of no bytes, which says that it is Huffman's
WIDEST = struct.pack(">I", (1 << 31) - 1)
MIB = 1 << 20

# Frames that bring nothing: so many are let pass at once (h2/flood_limits.hpp). A tenth more is what time
# gives back.
IDLE_FRAMES = 10_000
# CPU that an attack may cost, in seconds. The attacks cost hundredths; a sanitizer makes that ten
# times as much.
CPU_SECONDS = 30 if SANITIZED else 3
HAS_LANE = NATIVE and "asio-pool" not in FLAGS

# HPACK, by hand (RFC 7541).


def integer(value, bits, first=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    coded, value = [first | most], value - most
    while value >= 128:
        coded.append(value % 128 + 128)
        value //= 128
    return bytes([*coded, value])


def text(value):
    return integer(len(value), 7) + value


def plain(name, value):
    """A literal that enters no table."""
    return b"\0" + text(name) + text(value)


def kept(name, value):
    """A literal that enters the dynamic table."""
    return b"\x40" + text(name) + text(value)


def header(*more, method=b"GET", path=b"/plaintext", authority=b"a"):
    return b"".join((plain(b":method", method), plain(b":scheme", b"http"), plain(b":path", path),
                     plain(b":authority", authority), *more))


def settings(*entries):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in entries))


def update(stream, by):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", by))


def reset(stream, why=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", why))


def in_frames(stream, block, flags=0, step=16_000):
    """HEADERS and CONTINUATION: no more than eight of those are let pass."""
    pieces = [block[i:i + step] for i in range(0, len(block), step)] or [b""]
    kinds = [(HEADERS, flags), *[(CONTINUATION, 0)] * (len(pieces) - 1)]
    return b"".join(frame(kind, flags | (END_HEADERS if i == len(pieces) - 1 else 0), stream, piece)
                    for i, ((kind, flags), piece) in enumerate(zip(kinds, pieces)))


def number_of(i):
    """The stream that a client opens as its i-th."""
    return 2 * i + 1


OPEN_WIDE = settings((INITIAL_WINDOW_SIZE, (1 << 31) - 1)) + update(0, (1 << 31) - 65536)


class HttpPort:
    """Requests of HTTP. Whoever is well-behaved asks for /plaintext."""

    name = "http"

    @staticmethod
    def address(server):
        return "{}:{}".format(*server.address)

    @staticmethod
    def block(*more):
        return header(*more)

    @staticmethod
    def rest(stream):
        """What follows an open header, so that the request is whole."""
        return frame(DATA, END_STREAM, stream)

    @staticmethod
    def echo(stream, size):
        """A request whose answer is so large."""
        whole = frame(HEADERS, END_HEADERS, stream, header(method=b"POST", path=b"/echo"))
        return whole + in_data(stream, b"x" * size)

    @staticmethod
    def long_one(stream, microseconds):
        path = b"/work?us=%d" % microseconds
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, header(path=path))

    @staticmethod
    def is_answered(frames, stream):
        head = [got for got in frames if got[0] == HEADERS and got[2] == stream]
        body = b"".join(got[3] for got in frames if got[0] == DATA and got[2] == stream)
        return bool(head) and head[0][3][:1] == STATUS_200 and body == b"Hello, World!"

    @staticmethod
    def served(server):
        """How many have been answered well."""
        return sum(value for series, value in server.metrics().items()
                   if series.startswith("bwos_http_requests_total") and 'status="200"' in series and
                   "/metrics" not in series)


class CallPort:
    """Calls of gRPC. Whoever is well-behaved calls SayHello."""

    name = "calls"

    @staticmethod
    def address(server):
        return server.grpc_address

    @staticmethod
    def block(*more, path=b"/helloworld.Greeter/SayHello"):
        return header(*more, plain(b"te", b"trailers"), plain(b"content-type", b"application/grpc"),
                      method=b"POST", path=path)

    @staticmethod
    def rest(stream):
        return frame(DATA, END_STREAM, stream, message(b"\x0a\x01x"))

    @staticmethod
    def echo(stream, size):
        coded = b"\x0a" + varint(size) + b"x" * size
        return (frame(HEADERS, END_HEADERS, stream, CallPort.block()) +
                in_data(stream, message(coded)))

    @staticmethod
    def long_one(stream, microseconds):
        return (frame(HEADERS, END_HEADERS, stream, CallPort.block(path=b"/bwos.Work/Burn")) +
                frame(DATA, END_STREAM, stream, message(b"\x08" + varint(microseconds))))

    @staticmethod
    def is_answered(frames, stream):
        return any(got[0] == DATA and got[2] == stream and got[3] == message(b"\x0a\x07Hello x")
                   for got in frames)

    @staticmethod
    def served(server):
        return server.metrics()['bwos_grpc_ended_total{result="ok"}']


def varint(value):
    coded = b""
    while value >= 128:
        coded += bytes([value % 128 + 128])
        value //= 128
    return coded + bytes([value])


def message(coded):
    """Of gRPC, with its prefix."""
    return b"\0" + struct.pack(">I", len(coded)) + coded


def in_data(stream, body):
    pieces = [body[i:i + 16_384] for i in range(0, len(body), 16_384)] or [b""]
    return b"".join(frame(DATA, END_STREAM if i == len(pieces) - 1 else 0, stream, piece)
                    for i, piece in enumerate(pieces))


PORTS = [HttpPort, *([CallPort] if NATIVE else [])]


def on_each_port(test):
    """A test that is told a port."""
    @functools.wraps(test)
    def on_each(self):
        for port in PORTS:
            with self.subTest(port.name):
                test(self, port)

    return on_each


class Attacker(Peer):
    """A peer whose sends may fail, and that reads when it likes."""

    def __init__(self, server, port, begin=True, small_buffers=False):
        host, number = port.address(server).rsplit(":", 1)
        self.socket = socket.socket()
        if small_buffers:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, int(number)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.has_ended = False
        if begin:
            self.send(PREFACE + settings())

    def push(self, data, reads=True, patience=None):
        """Sends, and reads meanwhile if it is told so; the bytes that were taken. It gives up when
        the server has ended the connection, or has taken nothing for `patience` seconds: a short
        time only where nobody reads, as then a server in order takes no more."""
        if patience is None:
            patience = PATIENCE if reads else 0.5
        rest, pieces = memoryview(data), []
        while rest and not self.has_ended:
            readable, writable, _ = select.select([self.socket] if reads else [], [self.socket], [],
                                                  patience)
            if not readable and not writable:
                break
            try:
                if readable:
                    piece = self.socket.recv(1 << 20)
                    self.has_ended = not piece
                    pieces.append(piece)
                if writable:
                    rest = rest[self.socket.send(rest[:1 << 16], socket.MSG_DONTWAIT):]
            except BlockingIOError:
                pass
            except ConnectionError:
                break  # what the server has said before is there yet
        self.buffer += b"".join(pieces)
        return len(data) - len(rest)

    def _fill(self):
        """False: nothing more comes."""
        if self.has_ended:
            return False
        try:
            piece = self.socket.recv(1 << 20)
        except ConnectionError:
            piece = b""
        self.has_ended = not piece
        self.buffer += piece
        return not self.has_ended

    def frames(self, enough=lambda got: False):
        """Frames until one of which `enough` is true, or the end: (kind, flags, stream,
        payload)."""
        all_of_them, at = [], 0
        while True:
            while len(self.buffer) - at >= 9:
                size = int.from_bytes(self.buffer[at:at + 3], "big")
                if len(self.buffer) - at < 9 + size:
                    break
                kind, flags = self.buffer[at + 3], self.buffer[at + 4]
                stream = int.from_bytes(self.buffer[at + 5:at + 9], "big")
                got = (kind, flags, stream, self.buffer[at + 9:at + 9 + size])
                at += 9 + size
                all_of_them.append(got)
                if enough(got):
                    self.buffer = self.buffer[at:]
                    return all_of_them
            self.buffer, at = self.buffer[at:], 0
            if not self._fill():
                return all_of_them

    def until_quiet(self):
        """All frames that come until the server has nothing more to say, or the end. The answer to
        a PING overtakes what waits, so that there are PINGs until one is answered at once."""
        frames = []
        for i in range(10 * PATIENCE):
            time.sleep(min(i, 20) * 0.005)
            word = b"quiet%03d" % i
            self.push(frame(PING, 0, 0, word))
            came = self.frames(lambda got, word=word: got == (PING, ACK, 0, word))
            frames += came
            if self.has_ended or len(came) == 1:
                return frames
        raise AssertionError("it is never quiet")


def codes(frames, kind):
    """Of GOAWAY, or RST_STREAM."""
    at = slice(4, 8) if kind == GOAWAY else slice(0, 4)
    return [int.from_bytes(got[3][at], "big") for got in frames if got[0] == kind]


def ended_streams(frames):
    return {got[2] for got in frames
            if got[0] == RST_STREAM or (got[0] in (DATA, HEADERS) and got[1] & END_STREAM)}


class Attacks(unittest.TestCase):
    """Each test has a server of its own, which must end with 0 after all that."""

    def serve(self, *flags):
        server = Server("--h2-ping-strikes-max", "0", *flags, grpc=NATIVE)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        self.attackers = []
        self.bystanders = {}
        for port in PORTS:
            self.bystanders[port] = [self.attacker(server, port), -1]
            self.assert_served(port)  # and its memory is warm
        return server

    def attacker(self, server, port, **options):
        made = Attacker(server, port, **options)
        self.addCleanup(made.close)
        self.attackers.append(made)
        return made

    def assert_served(self, port):
        """Somebody who behaves, on a connection of its own."""
        bystander = self.bystanders[port]
        bystander[1] += 2
        peer, stream = bystander
        peer.send(frame(HEADERS, END_HEADERS, stream, port.block()) + port.rest(stream))
        frames = peer.frames(lambda got: stream in ended_streams([got]))
        self.assertTrue(port.is_answered(frames, stream), frames)

    def stop(self, server):
        for each in self.attackers:
            each.close()
        self.assertEqual(server.stop(), 0)

    def assert_ended(self, peer, *why):
        """With GOAWAY of such a code, and nothing behind it. Gives what came before."""
        frames = peer.frames()
        self.assertIn(codes(frames, GOAWAY)[-1:], [[each] for each in why], frames[-3:])
        self.assertEqual(frames[-1][0], GOAWAY, frames[-3:])
        return frames

    def assert_goes_on(self, peer, port, stream):
        """The connection is as good as before. Gives all that came."""
        peer.push(frame(HEADERS, END_HEADERS, stream, port.block()) + port.rest(stream))
        frames = peer.frames(lambda got: stream in ended_streams([got]))
        self.assertTrue(port.is_answered(frames, stream), frames[-5:])
        return frames

    def assert_cheap(self, server, before):
        self.assertLess(server.cpu_seconds() - before, CPU_SECONDS)

    def assert_grown_less(self, server, before, bytes_max):
        """Of memory; but a sanitizer's is not the server's."""
        if not SANITIZED:
            self.assertLess(server.memory() - before, bytes_max)


class SmallPieces(Attacks):
    """Windows, of HTTP/2 and of TCP."""

    def dribble(self, server, port, streams, size):
        """Somebody with answers on so many streams whose windows are 0."""
        peer = self.attacker(server, port, begin=False)
        peer.push(PREFACE + settings((INITIAL_WINDOW_SIZE, 0)) + update(0, 1 << 30))
        peer.push(b"".join(port.echo(number_of(i), size) for i in range(streams)))
        left = [streams]

        def is_last(got):
            left[0] -= got[0] == HEADERS
            return left[0] == 0

        peer.frames(is_last)
        return peer

    @on_each_port
    def test_windows_opened_byte_by_byte_end_the_connection(self, port):
        """CVE-2019-9511, data dribble. Without the count of WINDOW_UPDATE all 30,000 would be
        served, and the answers end in place of the connection."""
        server = self.serve()
        peer = self.dribble(server, port, 100, 300)
        before = server.cpu_seconds()
        for _ in range(300):
            peer.push(b"".join(update(number_of(i), 1) for i in range(100)))
        frames = self.assert_ended(peer, ENHANCE_YOUR_CALM)
        self.assertLess(sum(got[0] == DATA for got in frames), 1.5 * IDLE_FRAMES)
        self.assert_cheap(server, before)
        self.assert_served(port)
        self.stop(server)

    @unittest.skipUnless(NATIVE, "there is no native gRPC, whose metrics count sends")
    @on_each_port
    def test_bytes_that_settings_let_go_on_many_streams_are_sent_together(self, port):
        """CVE-2019-9511. One SETTINGS lets a byte go on each of 1,000 streams. Each byte is a
        frame, but if each were a send of its own, there would be 20,000 of them."""
        server = self.serve()
        peer = self.dribble(server, port, 1000, 1000)
        before, sends = server.cpu_seconds(), server.metrics()["bwos_grpc_sends_total"]
        memory = server.memory()
        for i in range(20):
            self.let_go_on_each(peer, 1000, i + 1)
            self.assert_served(port)
        self.assertLess(server.metrics()["bwos_grpc_sends_total"] - sends, 2000)
        self.assert_cheap(server, before)
        self.assert_grown_less(server, memory, 8 * MIB)
        self.stop(server)

    def let_go_on_each(self, peer, streams, window):
        """All of what such a SETTINGS lets go; or the end."""
        left = [streams]

        def is_last(got):
            left[0] -= got[0] == DATA
            return left[0] == 0

        peer.push(settings((INITIAL_WINDOW_SIZE, window)))
        return peer.frames(is_last)

    def test_bytes_that_settings_let_go_on_many_streams_end_the_connection(self):
        """CVE-2019-9511. By WINDOW_UPDATE no peer gets 30,000 frames of a byte, and the test above
        sees to it. A SETTINGS frame of 15 bytes gets 1,000 of them: it counts as a WINDOW_UPDATE
        for each stream."""
        server = self.serve()
        peer = self.dribble(server, HttpPort, 1000, 1000)
        for i in range(40):
            self.let_go_on_each(peer, 1000, i + 1)
        self.assertTrue(peer.has_ended)
        self.stop(server)

    @on_each_port
    def test_answers_that_the_socket_does_not_take_are_bounded(self, port):
        """CVE-2019-9517, internal data buffering: HTTP/2's windows are open, TCP's is closed. What
        is asked for comes to 160 MB. A server that reads on while its answers are not taken holds
        all of it."""
        server = self.serve("--h2-output-bytes-max", "1MiB", "--write-timeout", "1s")
        peer = self.attacker(server, port, begin=False, small_buffers=True)
        peer.push(PREFACE + OPEN_WIDE)
        memory = server.memory()
        size, count = (160_000, 1000) if port is HttpPort else (10_000, 16_000)
        sent = 0
        for i in range(count):
            one = port.echo(number_of(i), size)
            taken = peer.push(one, reads=False, patience=0.2)
            sent += taken
            if taken < len(one):
                break
        self.assertLess(sent, 64 * MIB)  # what sockets hold, and the server reads no more
        self.assert_grown_less(server, memory, 16 * MIB)
        self.assert_served(port)
        server.until_metric('bwos_http_timeouts_total{kind="write"}', 1)
        self.stop(server)

    def test_small_requests_for_large_answers_are_bounded(self):
        """CVE-2019-9517. 10,000 requests in 660 KB ask for more than 100 MB of /metrics. A server
        that answers whatever it can read, though its answers are not taken, holds all of it."""
        server = self.serve()
        peer = self.attacker(server, HttpPort, begin=False, small_buffers=True)
        peer.push(PREFACE + OPEN_WIDE)
        memory = server.memory()
        peer.push(self.asks_for_metrics(range(10_000)), reads=False)
        self.assert_served(HttpPort)
        self.assert_grown_less(server, memory, 24 * MIB)
        self.stop(server)

    @staticmethod
    def asks_for_metrics(streams):
        one = header(path=b"/metrics")
        return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, number_of(i), one)
                        for i in streams)

    def test_answers_that_a_window_of_nothing_holds_are_bounded(self):
        """CVE-2019-9517 and CVE-2026-49975. The same with HTTP/2's windows closed, which the server
        reads on behind: above --h2-output-bytes-max it refuses, and with 1GiB nobody is refused,
        and the answers take 10 MB."""
        for most, is_refused in (("256KiB", True), ("1GiB", False)):
            server = self.serve("--h2-output-bytes-max", most)
            peer = self.attacker(server, HttpPort, begin=False)
            peer.push(PREFACE + settings((INITIAL_WINDOW_SIZE, 0)))
            memory, frames = server.memory(), []
            # More than 256 KiB of answers waits before the many are asked for, so that it does not
            # matter how many the server reads before it answers the first of them.
            for streams in (range(100), range(100, 900)):
                peer.push(self.asks_for_metrics(streams))
                left = {number_of(i) for i in streams}

                def is_last(got, left=left):
                    if got[0] in (HEADERS, RST_STREAM):
                        left.discard(got[2])
                    return not left

                frames += peer.frames(is_last)
            self.assertEqual(REFUSED_STREAM in codes(frames, RST_STREAM), is_refused)
            if is_refused:
                self.assert_grown_less(server, memory, 4 * MIB)
            self.assert_served(HttpPort)
            self.stop(server)


class Floods(Attacks):
    """Frames that cost the peer little."""

    def flood(self, server, port, data, *why, before=b"", small_buffers=True):
        """Sent without reading, then read: the connection must have ended so. Gives what came."""
        peer = self.attacker(server, port, small_buffers=small_buffers)
        cpu, memory = server.cpu_seconds(), server.memory()
        peer.push(before)
        sent = peer.push(data, reads=False)
        self.assert_grown_less(server, memory, 8 * MIB)
        self.assert_served(port)
        peer.push(data[sent:])
        frames = self.assert_ended(peer, *why)
        self.assert_cheap(server, cpu)
        self.assert_served(port)
        return frames

    @on_each_port
    def test_acknowledgements_that_nobody_reads_end_the_connection(self, port):
        """CVE-2019-9512 and CVE-2019-9515. Without a bound all 200,000 are acknowledged."""
        server = self.serve()
        for what in (frame(PING, 0, 0, b"12345678"), settings()):
            frames = self.flood(server, port, what * 200_000, ENHANCE_YOUR_CALM)
            acknowledged = sum(got[0] in (PING, SETTINGS) and got[1] & ACK for got in frames)
            self.assertLess(acknowledged, 1.1 * IDLE_FRAMES)
        self.stop(server)

    @on_each_port
    def test_acknowledgements_that_wait_at_once_have_a_number(self, port):
        """CVE-2019-9512 and CVE-2019-9515. The same 40 are answered where 100 may wait."""
        for most, is_over in (("5", True), ("100", False)):
            server = self.serve("--h2-acks-max", most)
            for what in (frame(PING, 0, 0, b"12345678"), settings()):
                peer = self.attacker(server, port)
                peer.until_quiet()
                peer.push(what * 40)  # which come by one receive
                if is_over:
                    self.assert_ended(peer, ENHANCE_YOUR_CALM)
                else:
                    came = peer.until_quiet()
                    answers = [got[3] for got in came if got[1] & ACK]
                    self.assertEqual(sum(not each.startswith(b"quiet") for each in answers), 40)
                self.assert_served(port)
            self.stop(server)

    @on_each_port
    def test_shuffled_priorities_end_the_connection_and_cost_nothing(self, port):
        """CVE-2019-9513. 1,000 streams in a chain are moved below one another. Without the count of
        PRIORITY nothing would end it."""
        server = self.serve()
        opened = b"".join(
            frame(HEADERS, END_HEADERS, number_of(i), port.block()) for i in range(1000))
        chain = b"".join(frame(PRIORITY, 0, number_of(i), struct.pack(">IB", number_of(i - 1), 15))
                         for i in range(1, 1000))
        moved = b"".join(
            frame(PRIORITY, 0, number_of(i * 7 % 1000),
                  struct.pack(">IB", 1 << 31 | number_of((i * 7 + 1 + i % 998) % 1000), i % 256))
            for i in range(12_000))
        self.flood(server, port, chain + moved, ENHANCE_YOUR_CALM, before=opened)
        idle = b"".join(frame(PRIORITY, 0, number_of(i), struct.pack(">IB", 0, 15))
                        for i in range(1000, 12_000))
        self.flood(server, port, idle, ENHANCE_YOUR_CALM)
        self.stop(server)

    @on_each_port
    def test_resets_that_nobody_reads_end_the_connection(self, port):
        """CVE-2019-9514. Without the count of errors there would be 30,000 of RST_STREAM in a
        queue."""
        server = self.serve()
        bad = port.block(plain(b"Upper", b"case"))
        data = b"".join(frame(HEADERS, END_HEADERS, number_of(i), bad) for i in range(30_000))
        frames = self.flood(server, port, data, ENHANCE_YOUR_CALM)
        self.assertLess(len(codes(frames, RST_STREAM)), 1.1 * IDLE_FRAMES)
        self.stop(server)

    @on_each_port
    def test_frames_without_anything_in_them_end_the_connection(self, port):
        """CVE-2019-9518. Without the counts all of them would be read, and the connection be there
        yet."""
        server = self.serve()
        opened = frame(HEADERS, END_HEADERS, 1, port.block())
        self.flood(server, port, frame(DATA, 0, 1) * 30_000, ENHANCE_YOUR_CALM, before=opened)
        self.flood(server, port, frame(DATA, 8, 1, b"\0") * 30_000, ENHANCE_YOUR_CALM,
                   before=opened)
        self.flood(server, port,
                   b"".join(frame(HEADERS, END_HEADERS, number_of(i)) for i in range(30_000)),
                   ENHANCE_YOUR_CALM)
        self.flood(server, port, frame(HEADERS, END_HEADERS, 1) * 30_000, ENHANCE_YOUR_CALM,
                   before=opened)
        self.flood(server, port, frame(CONTINUATION, 0, 1) * 30_000, ENHANCE_YOUR_CALM,
                   before=frame(HEADERS, 0, 1))
        self.stop(server)

    @on_each_port
    def test_settings_with_thousands_of_entries_end_the_connection(self, port):
        """CVE-2020-11080. Without nghttp2's limit of 32 they would be acknowledged, as the 32
        are."""
        server = self.serve()
        cpu = server.cpu_seconds()
        for _ in range(20):
            peer = self.attacker(server, port)
            peer.push(settings(*[(INITIAL_WINDOW_SIZE, 65535)] * 2400))
            self.assert_ended(peer, ENHANCE_YOUR_CALM)
        self.assert_cheap(server, cpu)
        peer = self.attacker(server, port)
        peer.push(settings(*[(INITIAL_WINDOW_SIZE, 65535)] * 32))
        self.assert_goes_on(peer, port, 1)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_headers_that_do_not_end_end_the_connection(self, port):
        """CVE-2024-27316, CVE-2024-28182, CVE-2024-30255 and CVE-2023-45288. Without nghttp2's
        limit of 8 each of the 100 would be read, and the end be waited for."""
        server = self.serve()
        for begin in (port.block(), b""):
            for piece in (b"", plain(b"x", b"y"), plain(b"x", b"y" * 3000)):
                frames = self.flood(server, port, frame(CONTINUATION, 0, 1, piece) * 100,
                                    ENHANCE_YOUR_CALM, before=frame(HEADERS, 0, 1, begin))
                self.assertEqual(codes(frames, RST_STREAM), [])
        self.stop(server)

    @on_each_port
    def test_a_header_that_drips_in_continuations_has_its_time(self, port):
        """CVE-2024-27316. Less than 9 frames: without --h2-header-timeout it would be waited
        for."""
        server = self.serve("--h2-header-timeout", "300ms")
        peer = self.attacker(server, port)
        peer.push(frame(HEADERS, 0, 1, port.block()))
        for _ in range(5):
            time.sleep(0.02)
            peer.push(frame(CONTINUATION, 0, 1))
        self.assert_served(port)
        self.assert_ended(peer, PROTOCOL_ERROR)
        self.stop(server)

    @on_each_port
    def test_empty_data_of_a_stream_of_messages_is_not_queued(self, port):
        """RUSTSEC-2026-0258. The handler of a stream waits for its messages; without the count each
        empty frame, and each that is padding alone, might be queued for it, and nothing would
        end."""
        server = self.serve(*(["--grpc-test-service"] if NATIVE else []))
        if port is CallPort:
            block = port.block(path=b"/grpc.testing.TestService/FullDuplexCall")
        else:
            block = header(method=b"POST", path=b"/echo")
        opened = frame(HEADERS, END_HEADERS, 1, block)
        for data in (frame(DATA, 0, 1) * 60_000, frame(DATA, 8, 1, b"\xff" + bytes(255)) * 30_000):
            self.flood(server, port, data, ENHANCE_YOUR_CALM, before=opened)
        self.stop(server)


class Fields(Attacks):
    """HPACK, and what a header may have."""

    def answer_to(self, server, port, *frames_of_one):
        """Who has sent that, and all that has come for it."""
        peer = self.attacker(server, port)
        peer.push(b"".join(frames_of_one))
        frames = peer.until_quiet()
        return peer, frames

    def whole(self, port, stream, block):
        if len(block) <= 16_000:
            return frame(HEADERS, END_HEADERS, stream, block) + port.rest(stream)
        return in_frames(stream, block) + port.rest(stream)

    def assert_too_large(self, port, frames, stream=1):
        """431, or RESOURCE_EXHAUSTED: a header alone."""
        kinds = (HEADERS, DATA, RST_STREAM)
        got = [each for each in frames if each[2] == stream and each[0] in kinds]
        self.assertEqual(got[0][0], HEADERS, frames)
        self.assertFalse(port.is_answered(frames, stream), frames)
        if port is HttpPort:
            self.assertNotEqual(got[0][3][:1], STATUS_200)
        else:
            self.assertTrue(got[0][1] & END_STREAM, frames)

    @on_each_port
    def test_fields_without_names_are_refused(self, port):
        """CVE-2019-9516, 0-length headers leak, also Huffman-coded, and by reference. Else such a
        request would be answered, and 5,000 such fields be kept."""
        server = self.serve()
        memory, cpu = server.memory(), server.cpu_seconds()
        for fields in (plain(b"", b""), plain(b"", b"x"), b"\0" + EMPTY_HUFFMAN + EMPTY_HUFFMAN,
                       plain(b"", b"") * 4500, (b"\0" + EMPTY_HUFFMAN + EMPTY_HUFFMAN) * 4500,
                       kept(b"", b"") + NEWEST * 15_000):
            peer, frames = self.answer_to(server, port, self.whole(port, 1, port.block(fields)))
            self.assertEqual(codes(frames, RST_STREAM), [PROTOCOL_ERROR], (fields[:8], frames))
            self.assert_goes_on(peer, port, 3)
        self.assert_grown_less(server, memory, 8 * MIB)
        self.assert_cheap(server, cpu)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_a_large_entry_referenced_a_thousand_times_is_not_copied(self, port):
        """CVE-2016-6581, HPACK bomb. Copied before it is counted it would take 60 MB of memory; not
        counted, the request would be answered."""
        server = self.serve()
        value = b"v" * 3990
        cpu = server.cpu_seconds()
        peak = server.memory_peak()
        block = port.block(kept(b"x", value)) + NEWEST * 15_000
        trailers = (frame(HEADERS, END_HEADERS, 1, port.block(kept(b"x", value))) +
                    frame(DATA, 0, 1) +
                    frame(HEADERS, END_HEADERS | END_STREAM, 1, NEWEST * 15_000))
        for data in (self.whole(port, 1, block), trailers):
            peer = self.attacker(server, port)
            peer.push(data)
            self.assert_ended(peer, ENHANCE_YOUR_CALM)
        # A value that no field may have is checked once, not each time.
        block = port.block(kept(b"x", value + b"\n")) + NEWEST * 120_000
        peer, frames = self.answer_to(server, port, self.whole(port, 1, block))
        self.assertEqual(codes(frames, RST_STREAM), [PROTOCOL_ERROR])
        self.assert_goes_on(peer, port, 3)
        # Of a closed stream it is read for the table's sake alone.
        peer = self.attacker(server, port)
        peer.push(frame(HEADERS, END_HEADERS, 1, port.block(kept(b"x", value))) + reset(1) +
                  frame(HEADERS, END_HEADERS, 1, NEWEST * 16_384) * 100)
        self.assert_goes_on(peer, port, 3)
        if not SANITIZED:
            self.assertLess(server.memory_peak() - peak, 8 * MIB)
        self.assert_cheap(server, cpu)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_references_to_a_tiny_field_count_as_fields(self, port):
        """CVE-2026-49975 and CVE-2026-47774. A byte is a field of 33 bytes, or a crumb of a cookie:
        500 of them are more than --h2-header-bytes-max, and 2,000 four times as much. Counted as
        the bytes that came they would be few."""
        server = self.serve()
        for name, value in ((b"a", b""), (b"cookie", b"a")):
            few, many = 16_384 // 33 + 10, 4 * 16_384 // 33 + 10
            _, frames = self.answer_to(
                server, port, self.whole(port, 1, port.block(kept(name, value)) + NEWEST * few))
            self.assert_too_large(port, frames)
            peer = self.attacker(server, port)
            peer.push(self.whole(port, 1, port.block(kept(name, value)) + NEWEST * many))
            self.assert_ended(peer, ENHANCE_YOUR_CALM)
            peer = self.attacker(server, port)
            peer.push(frame(HEADERS, END_HEADERS, 1, port.block(kept(name, value))) +
                      frame(HEADERS, END_HEADERS | END_STREAM, 1, NEWEST * many))
            self.assert_ended(peer, ENHANCE_YOUR_CALM)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_a_hundred_fields_are_no_attack(self, port):
        """CVE-2026-49975, the other way round: a bound on their number, such as 100, would refuse
        this."""
        server = self.serve()
        fields = b"".join(plain(b"x-%d" % i, b"some value") for i in range(100))
        crumbs = b"".join(plain(b"cookie", b"crumb%d=1" % i) for i in range(150))
        peer = self.attacker(server, port)
        for stream, more in ((1, fields), (3, crumbs), (5, kept(b"cookie", b"a=b") + NEWEST * 200)):
            peer.push(self.whole(port, stream, port.block(more)))
            frames = peer.until_quiet()
            while not ended_streams(frames) & {stream}:
                frames += peer.frames(lambda got, of=stream: got[2] == of and got[1] & END_STREAM)
            self.assertTrue(port.is_answered(frames, stream), frames)
        self.assert_served(port)
        self.stop(server)

    def hold_fields(self, server, port, of_each):
        """1,000 streams with such fields, whose answers a window of 0 holds; how much memory they
        take."""
        peer = self.attacker(server, port, begin=False)
        memory = server.memory()
        peer.push(PREFACE + settings((INITIAL_WINDOW_SIZE, 0)))
        peer.push(b"".join(
            frame(HEADERS, END_HEADERS, number_of(i),
                  port.block((kept(b"a", b"") if i == 0 else b"") + NEWEST * of_each)) +
            port.rest(number_of(i)) for i in range(1000)))
        frames = peer.until_quiet()
        return server.memory() - memory, frames

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not the server's")
    @on_each_port
    def test_fields_held_on_all_streams_are_bounded(self, port):
        """CVE-2026-49975. What each stream may hold is --h2-header-bytes-max, which streams_max
        times is the bound: 16 MiB as they are counted, twice that in memory. With
        --h2-header-bytes-max 64KiB, 1,900 fields in each of the calls take 121 MiB."""
        server = self.serve()
        grown, _ = self.hold_fields(server, port, 480)
        self.assertLess(grown, 48 * MIB)
        self.assert_served(port)
        self.attackers.pop().close()
        grown, frames = self.hold_fields(server, port, 1900)  # each is too large: nothing is kept
        self.assertEqual(len({got[2] for got in frames if got[0] == HEADERS}), 1000)
        self.assertLess(grown, 8 * MIB)
        self.stop(server)

    @unittest.skipUnless(NATIVE and not SANITIZED,
                         "there is no native gRPC, or its memory is a sanitizer's")
    def test_fields_held_on_all_streams_of_calls_have_a_bound_together(self):
        """CVE-2026-49975. 620 KB, of references, would make 32 MiB of metadata in 1,000 calls of
        one connection: each tiny field is counted as 33 bytes and takes 64. The sum of all streams
        has a bound of 256 lists of the largest size; further streams are refused."""
        server = self.serve()
        grown, _ = self.hold_fields(server, CallPort, 480)
        self.assertLess(grown, 16 * MIB)
        self.stop(server)

    @on_each_port
    def test_literals_without_bytes_cost_something(self, port):
        """okhttp 9733. 600 fields with nothing but a name of one letter are 2.4 KB as they come,
        and too many; counted by their bytes they would be answered."""
        server = self.serve()
        for one in (plain(b"a", b""), b"\0\1a" + EMPTY_HUFFMAN, b"\x40\1a\0", b"\x10\1a\0"):
            _, frames = self.answer_to(server, port, self.whole(port, 1, port.block(one * 600)))
            self.assert_too_large(port, frames)
            peer = self.attacker(server, port)
            peer.push(self.whole(port, 1, port.block(one * 2100)))
            self.assert_ended(peer, ENHANCE_YOUR_CALM)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_a_string_that_comes_in_crumbs_is_not_decoded_anew_each_time(self, port):
        """CVE-2022-41723, quadratic decoding. 15,000 pieces of a field cost about as much as pieces
        of DATA do, which nobody decodes: receiving them. A decoder that begins the field anew each
        time would have 450 million bytes of Huffman's code to read, which takes more than a
        second."""
        server = self.serve("--h2-header-bytes-max", "1MiB")
        size, step = 60_000, 4
        costs = {}
        opened = frame(HEADERS, END_HEADERS, 1, port.block())
        text_of_it = b"\0\1x" + integer(size, 7) + b"y" * size
        coded = b"\0\1x" + integer(size, 7, 0x80) + b"\x1c" * size
        for what, data in (("data", opened + in_data(1, b"x" * size)),
                           ("field", in_frames(1, port.block(text_of_it))),
                           ("huffman", in_frames(1, port.block(coded)))):
            peer = self.attacker(server, port)
            cpu = server.cpu_seconds()
            for i in range(0, size, step):
                peer.socket.send(data[i:i + step])
            self.assert_served(port)
            costs[what] = server.cpu_seconds() - cpu
            peer.close()
        self.assertLess(costs["field"], 3 * costs["data"] + 0.3, costs)
        self.assertLess(costs["huffman"], 3 * costs["data"] + 0.3, costs)
        self.stop(server)

    @on_each_port
    def test_integers_that_overflow_or_are_padded_are_errors(self, port):
        """CVE-2023-33953 and haproxy 3036. Else an index would wrap around to one that exists, a
        length to a short one, or zeros be read for ever."""
        server = self.serve()
        forever = b"\x80" * 15_000
        cpu = server.cpu_seconds()
        for what, fields in (
                ("an index that overflows", b"\xff\x91" + b"\xff" * 8 + b"\x01"),
                ("one that wraps around to 16", b"\xff\x91\xff\xff\xff\x0f"),
                ("one padded", b"\xff" + forever),
                ("the index of a name that overflows", b"\x0f\xff\xff\xff\xff\xff\xff\xff\x7f\1x"),
                ("a length that overflows", b"\0\1x\x7f\xff\xff\xff\xff\xff\xff\xff\x7f"),
                ("one that wraps around to 1", b"\0\1x\x7f\x82\xff\xff\xff\x0fy"),
                ("one padded by zeros", b"\0\1x\x7f" + forever),
                ("one padded and ended", b"\0\1x\x7f" + b"\x80" * 12 + b"\0" + b"y" * 127),
                ("a Huffman-coded one", b"\0\xff" + b"\xff" * 10 + b"\x7f"),
                ("a table's size", b"\x3f\xff\xff\xff\xff\xff\xff\x7f")):
            at_front = what == "a table's size"
            block = fields + port.block() if at_front else port.block(fields)
            peer = self.attacker(server, port)
            peer.push(self.whole(port, 1, block))
            with self.subTest(what):
                frames = self.assert_ended(peer, COMPRESSION_ERROR)
                self.assertNotIn(HEADERS, [got[0] for got in frames])
        self.assert_cheap(server, cpu)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_the_length_of_a_string_is_checked_before_it_has_come(self, port):
        """CVE-2023-33953. Nothing of it follows, so that who gathers it first would wait, until
        --h2-header-timeout."""
        server = self.serve()
        for size in (70_000, 1 << 20, 1 << 27):
            for begun in (b"\0\1x", b"\x40\1x", b"\0"):
                for coded in (0, 0x80):
                    peer = self.attacker(server, port)
                    begin = time.monotonic()
                    peer.push(
                        frame(HEADERS, 0, 1, port.block(begun + integer(size, 7, coded) + b"abc")))
                    self.assert_ended(peer, COMPRESSION_ERROR)
                    self.assertLess(time.monotonic() - begin, 8)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_behind_an_error_of_the_code_no_header_is_read(self, port):
        """CVE-2024-7246, HPACK table poisoning. The block enters a field, and fails behind it. Else
        the next would be answered by a table of which nobody knows what it has."""
        server = self.serve()
        served = port.served(server)
        broken = port.block(kept(b"x", b"y")) + b"\xff\xff\xff\xff\xff\xff"
        peer = self.attacker(server, port)
        peer.push(frame(HEADERS, END_HEADERS, 1, broken) + self.whole(port, 3, port.block(NEWEST)) +
                  self.whole(port, 5, port.block()))
        frames = self.assert_ended(peer, COMPRESSION_ERROR)
        self.assertEqual([got[0] for got in frames if got[2] != 0], [])
        self.assertEqual(port.served(server), served)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_behind_an_error_of_a_stream_the_table_is_in_step(self, port):
        """CVE-2024-7246. Blocks of requests that are refused, malformed, too large, late, or beyond
        the number of streams enter what the next refers to: skipped, they would make it another
        path."""
        server = self.serve("--grpc-streams-max", "3")
        path = b"/plaintext" if port is HttpPort else b"/helloworld.Greeter/SayHello"
        named = plain(b":method", b"GET" if port is HttpPort else b"POST") + plain(
            b":scheme", b"http")
        last = b"" if port is HttpPort else plain(b"te", b"trailers") + plain(
            b"content-type", b"application/grpc")
        enters = named + kept(b":path", path)
        refers = named + plain(b":authority", b"a") + NEWEST
        other = kept(b":path", b"/wrong")
        begun = frame(HEADERS, END_HEADERS, 1, named + plain(b":authority", b"a") + other + last)
        for what, data in (
            ("malformed", frame(HEADERS, END_HEADERS, 3, plain(b"X", b"") + enters)),
            ("malformed in front",
             frame(HEADERS, END_HEADERS, 3, named + plain(b"x", b"\n") + kept(b":path", path))),
            ("too large", in_frames(3, named + plain(b"x", b"y" * 20_000) + kept(b":path", path))),
            ("late", reset(1) + frame(HEADERS, END_HEADERS, 1, enters)),
            ("trailers", frame(HEADERS, END_HEADERS | END_STREAM, 1, kept(b":path", path))),
            ("above their number",
             b"".join(frame(HEADERS, END_HEADERS, number_of(i), port.block()) for i in (1, 2)) +
             frame(HEADERS, END_HEADERS, 7, enters + last) + reset(3) + reset(5))):
            with self.subTest(what):
                peer = self.attacker(server, port)
                peer.push(begun + data)
                peer.until_quiet()
                peer.push(self.whole(port, 9, refers + last))
                frames = peer.frames(lambda got: 9 in ended_streams([got]))
                self.assertTrue(port.is_answered(frames, 9), frames)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_huffmans_code_that_is_not_exact_is_refused(self, port):
        """ls-hpack. More than 7 bits of padding, padding that is not of ones, and the code's own
        end inside; a lenient decoder would answer. The exact one is answered."""
        server = self.serve()
        for what, coded, is_right in (
                ("a is 00011, and ones", b"\x1f", True),
                ("padded by a byte more", b"\x1f\xff", False),
                ("padded by zeros", b"\x18", False),
                ("nothing but padding", b"\xff", False),
                ("the end inside", b"\x1f\xff\xff\xff\xff", False),
                ("the end alone", b"\xff\xff\xff\xff", False)):
            for as_name in (False, True):
                string = integer(len(coded), 7, 0x80) + coded
                field = b"\0" + string + text(b"v") if as_name else b"\0\1x" + string
                peer = self.attacker(server, port)
                peer.push(self.whole(port, 1, port.block(field)))
                with self.subTest(what, as_name=as_name):
                    if is_right:
                        frames = peer.frames(lambda got: got[2] == 1 and got[1] & END_STREAM)
                        self.assertTrue(port.is_answered(frames, 1), frames)
                    else:
                        self.assert_ended(peer, COMPRESSION_ERROR)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_names_with_blanks_are_refused_and_not_repaired(self, port):
        """ls-hpack. Whoever cuts the blank off, or skips the field, has another request than who
        stands before it."""
        server = self.serve()
        served = port.served(server)
        for name in (b"a b", b"content-length ", b" content-length", b"host\t", b"a\0", b"a:",
                     b"a\r\nb", b"A", b":path ", b"\x7f", b"\xe9"):
            for field in (plain(name, b"1"), kept(name, b"1") + NEWEST):
                peer, frames = self.answer_to(server, port, self.whole(port, 1, port.block(field)))
                self.assertEqual(codes(frames, RST_STREAM), [PROTOCOL_ERROR], (name, frames))
                self.assertNotIn(HEADERS, [got[0] for got in frames])
                peer.close()
        self.assertEqual(port.served(server), served)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_a_peer_that_wants_tiny_headers_has_its_answer_or_a_reset(self, port):
        """CVE-2026-50560. Our answer's header is larger than its SETTINGS_MAX_HEADER_LIST_SIZE,
        which is advice (RFC 9113, 6.5.2): the stream ends, and the connection goes on. Else the
        request would have no end, or the server."""
        server = self.serve()
        for entries in ([(MAX_HEADER_LIST_SIZE, 0)],
                        [(MAX_HEADER_LIST_SIZE, 1), (HEADER_TABLE_SIZE, 0)],
                        [(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, (1 << 32) - 1)]):
            peer = self.attacker(server, port, begin=False)
            peer.push(PREFACE + settings(*entries))
            for i in range(20):
                stream = number_of(i)
                peer.push(self.whole(port, stream, port.block()))
                frames = peer.frames(lambda got, of=stream: {of} & ended_streams([got]))
                self.assertIn(stream, ended_streams(frames), frames)
            frames = peer.until_quiet()
            self.assertEqual(codes(frames, GOAWAY), [])
            self.assertEqual((frames[-1][0], peer.has_ended), (PING, False))
        self.assert_served(port)
        self.stop(server)


class Streams(Attacks):
    """How many, for how long, and how they end."""

    @on_each_port
    def test_rapid_resets_end_the_connection_and_run_little(self, port):
        """CVE-2023-44487. Without nghttp2's count all 3,000 would be taken; if they were run, each
        for a millisecond, they would cost 3 seconds of CPU."""
        server = self.serve()
        peer = self.attacker(server, port)
        cpu = server.cpu_seconds()
        peer.push(b"".join(
            port.long_one(number_of(i), 1000) + reset(number_of(i)) for i in range(3000)))
        self.assert_served(port)
        self.assert_ended(peer, INTERNAL_ERROR, ENHANCE_YOUR_CALM)
        self.assertLess(server.cpu_seconds() - cpu, 2.5)
        self.assert_served(port)
        self.stop(server)

    def reset_what_is_queued(self, port, most):
        """Long ones are asked for and reset, 40 at a time. Gives the frames that came, and how many
        handlers of calls there were at most."""
        server = self.serve("--grpc-handlers-max", str(most), "--work-us-max", "1000000",
                            "--lane-threshold-us", "50")
        peer = self.attacker(server, port)
        for i in range(20):  # it is known to be long from now on
            peer.push(port.long_one(number_of(i), 2000))
            peer.frames(lambda got, of=number_of(i): got[2] == of and got[1] & END_STREAM)
        in_flight = 0
        for turn in range(3):
            streams = [number_of(20 + 40 * turn + i) for i in range(40)]
            peer.push(b"".join(port.long_one(of, 10_000) for of in streams))
            time.sleep(0.02)
            metrics = server.metrics()
            peer.push(b"".join(reset(of) for of in streams))
            ended = sum(value for series, value in metrics.items() if "grpc_ended" in series)
            in_flight = max(in_flight, metrics["bwos_grpc_started_total"] - ended)
        self.assert_served(port)
        frames = peer.until_quiet()
        self.stop(server)
        return frames, in_flight

    @unittest.skipUnless(HAS_LANE, "there is no lane, or no --grpc-handlers-max")
    def test_requests_that_were_reset_but_are_queued_count(self):
        """CVE-2023-26964. What waits for a worker is reset, and replaced by more. If it were no
        longer counted all would be taken, as they are with --grpc-handlers-max 1000."""
        for most in (8, 1000):
            frames, _ = self.reset_what_is_queued(HttpPort, most)
            self.assertEqual(REFUSED_STREAM in codes(frames, RST_STREAM), most == 8, frames)

    @unittest.skipUnless(HAS_LANE, "there is no lane, or no --grpc-handlers-max")
    def test_calls_that_were_reset_but_are_queued_count(self):
        """CVE-2023-26964. Above their number one call at a time is run where it is read, and those
        behind it wait unread. With --grpc-handlers-max 1000 some 40 are queued at once."""
        _, in_flight = self.reset_what_is_queued(CallPort, 8)
        self.assertLessEqual(in_flight, 9)

    def made_to_reset(self, server, port, one, count, *why):
        """So many times what makes the server reset a stream: it ends the connection. Gives the
        codes."""
        peer = self.attacker(server, port)
        cpu, memory = server.cpu_seconds(), server.memory()
        peer.push(b"".join(one(number_of(i)) for i in range(count)))
        self.assert_served(port)
        frames = peer.until_quiet()
        self.assert_cheap(server, cpu)
        self.assert_grown_less(server, memory, 8 * MIB)
        self.assertEqual(codes(frames, GOAWAY), [ENHANCE_YOUR_CALM], len(codes(frames, RST_STREAM)))
        found = codes(frames, RST_STREAM)
        self.assertLessEqual(set(found), {REFUSED_STREAM, *why})
        self.assertLess(len(found), count)
        return found

    @on_each_port
    def test_resets_that_the_server_is_made_to_send_count(self, port):
        """CVE-2025-8671, MadeYouReset. Without the count of errors all 12,000 would be reset, and
        nothing ended."""
        server = self.serve("--grpc-streams-max", "100")
        block = port.block()
        bad = port.block(plain(b"Upper", b"case"))
        short = port.block(plain(b"content-length", b"5"))

        def opens(of, block=block):
            return frame(HEADERS, END_HEADERS, of, block)

        def is_whole(of, block):
            return frame(HEADERS, END_HEADERS | END_STREAM, of, block)

        for one, why in (
                (lambda of: opens(of) + frame(WINDOW_UPDATE, 0, of, WIDEST), FLOW_CONTROL_ERROR),
                (opens, REFUSED_STREAM),
                (lambda of: is_whole(of, bad), PROTOCOL_ERROR),
                (lambda of: is_whole(of, short), PROTOCOL_ERROR)):
            self.made_to_reset(server, port, one, 12_000, why)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_errors_that_others_answer_by_a_reset_end_the_connection(self, port):
        """CVE-2025-8671. RFC 9113 lets them be errors of a stream; nghttp2 makes them errors of the
        connection, so that they cannot be repeated. Else the request would be reset, and the next
        be answered."""
        server = self.serve()
        opened = frame(HEADERS, END_HEADERS, 1, port.block())
        for data, why in (
                (update(1, 0), PROTOCOL_ERROR),
                (update(0, 0), PROTOCOL_ERROR),
                (frame(WINDOW_UPDATE, 0, 0, WIDEST), FLOW_CONTROL_ERROR),
                (frame(PRIORITY, 0, 1, b"abc"), FRAME_SIZE_ERROR),
                (frame(RST_STREAM, 0, 1, b"abc"), FRAME_SIZE_ERROR),
                (frame(WINDOW_UPDATE, 0, 1, b"abc"), FRAME_SIZE_ERROR),
                (frame(PRIORITY, 0, 1, b"\0\0\0\1\1"), PROTOCOL_ERROR)):
            peer = self.attacker(server, port)
            peer.push(opened + data + self.whole(port, 3))
            frames = self.assert_ended(peer, why)
            self.assertNotIn(3, {got[2] for got in frames})
        self.assert_served(port)
        self.stop(server)

    @staticmethod
    def whole(port, stream, *more):
        return frame(HEADERS, END_HEADERS, stream, port.block(*more)) + port.rest(stream)

    @on_each_port
    def test_resets_behind_whole_requests_count(self, port):
        """CVE-2025-8671. The request is whole, and a WINDOW_UPDATE behind it too wide. The two that
        this counts as are fewer than the eight that a whole request earns: the resets have a count
        of their own. (What waits for a worker is not run any more.)"""
        server = self.serve()

        def one(of):
            return self.whole(port, of) + frame(WINDOW_UPDATE, 0, of, WIDEST)

        self.made_to_reset(server, port, one, 12_000, FLOW_CONTROL_ERROR)
        self.stop(server)

    @on_each_port
    def test_resets_for_more_data_than_content_length_count(self, port):
        """CVE-2025-8671. nghttp2 resets a stream for such DATA without telling of it: they are
        counted as they are sent."""
        server = self.serve()
        block = port.block(plain(b"content-length", b"1"))

        def one(of):
            return frame(HEADERS, END_HEADERS, of, block) + frame(DATA, 0, of, b"ab")

        self.made_to_reset(server, port, one, 12_000, PROTOCOL_ERROR)
        self.stop(server)

    @on_each_port
    def test_plain_load_raises_no_alarm(self, port):
        """CVE-2025-8671 and CVE-2023-44487, the other way round: 12,000 requests, with what clients
        send beside them, and a few that were cancelled, are no flood. A count that forgot what
        requests earn would end it."""
        server = self.serve()
        peer = self.attacker(server, port)
        served = port.served(server)
        for turn in range(60):
            streams = [number_of(200 * turn + i) for i in range(200)]
            beside = {1: frame(PING, 0, 0, b"12345678")}
            peer.push(b"".join(self.whole(port, of) + update(0, 100) + update(of, 100) +
                               beside.get(of % 16, b"") for of in streams))
            left = set(streams)

            def is_last(got, left=left):
                left -= ended_streams([got])
                return not left

            frames = peer.frames(is_last)
            self.assertEqual(codes(frames, GOAWAY) + codes(frames, RST_STREAM), [])
        self.assertEqual(port.served(server) - served, 12_000)
        for i in range(100):  # a client that changes its mind now and then
            of = number_of(12_000 + i)
            peer.push(frame(HEADERS, END_HEADERS, of, port.block()) + reset(of))
        self.assert_goes_on(peer, port, number_of(12_200))
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_frames_behind_the_end_of_a_session_are_not_read(self, port):
        """CVE-2026-27135. In the same segment as what ends the session, frames of each type follow.
        Read, they would be answered, or find nghttp2's assertions: the server would end by a
        signal, and nobody else be served."""
        server = self.serve()
        ends = {
            "a window": frame(WINDOW_UPDATE, 0, 0, bytes(4)),
            "a size": frame(PING, 0, 0, b"123"),
            "an even stream": frame(HEADERS, END_HEADERS, 2, b"\x82"),
            "a code": frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
            "too many settings": settings(*[(INITIAL_WINDOW_SIZE, 1)] * 100),
            "no header": frame(CONTINUATION, 0, 1),
            "too large": frame(DATA, 0, 0, bytes(17_000)),
            "fields": in_frames(1, b"\x82\x84\x86" + kept(b"x", b"y" * 3000) + NEWEST * 100),
        }
        behind = b"".join((
            self.whole(port, 9), settings((INITIAL_WINDOW_SIZE, 0)),
            settings((HEADER_TABLE_SIZE, 0)), frame(SETTINGS, ACK, 0),
            frame(PING, 0, 0, b"12345678"), frame(PING, ACK, 0, b"12345678"), update(0, 1),
            update(9, 1), reset(9), frame(PRIORITY, 0, 9, b"\0\0\0\0\1"),
            frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\1u=1"), frame(ALTSVC, 0, 0, b"\0\0"),
            frame(ORIGIN, 0, 0, b"\0\0"), frame(GREASE, 0, 0, b"grease"),
            frame(PUSH_PROMISE, END_HEADERS, 9, b"\0\0\0\2"), frame(GOAWAY, 0, 0, bytes(8)),
            frame(DATA, 0, 9, b"x"), self.whole(port, 11)))
        for what, data in ends.items():
            peer = self.attacker(server, port)
            peer.push(data + behind * 20)
            with self.subTest(what):
                frames = peer.frames()
                goaways = codes(frames, GOAWAY)
                self.assertEqual(len(goaways), 1, frames)
                self.assertNotEqual(goaways[0], 0)
                self.assertEqual({got[2] for got in frames} & {9, 11}, set())
            self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_streams_left_behind_a_goaway_are_freed(self, port):
        """CVE-2023-35945. Peers open streams, reset some, say GOAWAY and go, or stay for their
        answers. If what they leave were kept, 40 connections with 700 calls each would hold 16 MB
        more after each round."""
        server = self.serve()
        last = number_of(699)
        farewell = frame(GOAWAY, 0, 0, bytes(8))

        def leave(port=port):
            for i in range(40):
                peer = self.attacker(server, port)
                peer.push(b"".join(frame(HEADERS, END_HEADERS, number_of(of), port.block())
                                   for of in range(700)))
                peer.push(b"".join(reset(number_of(of)) for of in range(50)) + farewell)
                if i % 2 == 0:
                    peer.push(port.rest(last))
                    frames = peer.frames(lambda got: last in ended_streams([got]))
                    self.assertTrue(port.is_answered(frames, last), frames[-3:])
                self.attackers.remove(peer)
                peer.close()
            series = "bwos_http_connections" if port is HttpPort else "bwos_grpc_connections"
            server.until_metric(series, 2 if port is HttpPort else 1)

        leave()
        memory = server.memory()
        leave()
        self.assert_grown_less(server, memory, 6 * MIB)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_streams_above_their_number_are_refused_before_settings_are_acknowledged(self, port):
        """CVE-2026-47244. The peer never acknowledges ours: if the limit waited for that, 1,000
        would be open."""
        server = self.serve("--grpc-streams-max", "10")
        for begin in (True, False):
            peer = self.attacker(server, port, begin=begin)
            streams = [number_of(i) for i in range(1000)]
            data = b"".join(frame(HEADERS, END_HEADERS, of, port.block()) for of in streams)
            peer.push(data if begin else PREFACE + settings() + data)  # by one send, too
            frames = peer.until_quiet()
            self.assertEqual(codes(frames, RST_STREAM), [REFUSED_STREAM] * 990)
            peer.push(b"".join(port.rest(of) for of in streams[:10]))
            left = set(streams[:10])

            def is_last(got, left=left):
                left -= ended_streams([got])
                return not left

            frames = peer.frames(is_last)
            self.assertTrue(all(port.is_answered(frames, of) for of in streams[:10]), frames)
        self.assert_served(port)
        self.stop(server)

    @on_each_port
    def test_content_length_must_be_that_of_the_data(self, port):
        """CVE-2021-21295 and CVE-2021-21409, smuggling: the request is reset and not run. Else it
        would be answered, and what answers HTTP/1.1 for it would read the rest as another
        request."""
        server = self.serve()
        body = b"abcd" if port is HttpPort else message(b"\x0a\x01x")
        size = len(body)

        def block(*lengths, port=port):
            lengths = [plain(b"content-length", each) for each in lengths]
            if port is HttpPort:
                return header(*lengths, method=b"POST", path=b"/echo")
            return port.block(*lengths)

        served = port.served(server)
        opened, ended = END_HEADERS, END_HEADERS | END_STREAM
        less, more, exact = b"%d" % (size - 1), b"%d" % (size + 1), b"%d" % size
        body_ends = (DATA, END_STREAM, body)
        for what, frames in (
                ("no data", [(HEADERS, ended, block(exact))]),
                ("less data", [(HEADERS, opened, block(more)), body_ends]),
                ("more data", [(HEADERS, opened, block(less)), body_ends]),
                ("more data, which goes on", [(HEADERS, opened, block(less)), (DATA, 0, body),
                                              (DATA, END_STREAM, b"GET / HTTP/1.1\r\n\r\n")]),
                ("a length of 0", [(HEADERS, opened, block(b"0")), body_ends]),
                ("an end by trailers", [(HEADERS, opened, block(more)), (DATA, 0, body),
                                        (HEADERS, ended, plain(b"x", b"y"))]),
                ("two lengths", [(HEADERS, opened, block(exact, exact)), body_ends]),
                ("two that differ", [(HEADERS, opened, block(exact, more)), body_ends]),
                ("a list", [(HEADERS, opened, block(exact + b", " + exact)), body_ends]),
                ("a sign", [(HEADERS, opened, block(b"+" + exact)), body_ends]),
                ("no number", [(HEADERS, opened, block(b"")), body_ends])):
            peer = self.attacker(server, port)
            peer.push(b"".join(frame(kind, flags, 1, payload) for kind, flags, payload in frames))
            with self.subTest(what):
                got = peer.until_quiet()
                self.assertEqual(codes(got, RST_STREAM), [PROTOCOL_ERROR], got)
                self.assertNotIn(HEADERS, [each[0] for each in got])
                self.assert_goes_on(peer, port, 3)
                served += 1
        self.assertEqual(port.served(server), served)
        peer = self.attacker(server, port)
        peer.push(frame(HEADERS, opened, 1, block(exact)) + frame(DATA, END_STREAM, 1, body))
        peer.frames(lambda got: got[2] == 1 and got[1] & END_STREAM)
        self.assertEqual(port.served(server), served + 1)
        self.assert_served(port)
        self.stop(server)


if __name__ == "__main__":
    unittest.main()
