# SPDX-License-Identifier: Apache-2.0
"""What all connections together can make the server keep (--memory-max): in a cgroup of 512 MiB 2,000 connections do
the worst of every protocol (KINDS), while a client that behaves goes on, with deadlines of 30 s. The server lives; what
the client sees but answers is 503, RESOURCE_EXHAUSTED and its deadline, each counted apart, and nothing else; memory is
back soon after.

Where no cgroup can be made, that test is skipped, and another does the same with a --memory-max of what would be its
default there, and watches what is resident.

By hand, for ten minutes; or, with --pins, what each kind of attackers alone makes the server keep, by one connection
and by many (README.md, "Overload"):

    BWOS_TEST_SERVER=build/release/server/bwos-server python3 test_memory_budget.py --seconds 600
    BWOS_TEST_SERVER=... python3 test_memory_budget.py --pins --connections 9900 -- --grpc-test-service

BWOS_TEST_REACTOR and BWOS_TEST_FLAGS hold as everywhere; BWOS_TEST_SECONDS and BWOS_TEST_CONNECTIONS are what
--seconds and --connections are, where ctest begins it.
"""

import argparse
import collections
import contextlib
import errno
import functools
import http.client
import json
import os
import random
import re
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from harness import NATIVE, PATIENCE, REACTOR, SANITIZED, Server
from test_h2_attacks import (ENHANCE_YOUR_CALM, HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, NEWEST, OPEN_WIDE,
                             REFUSED_STREAM, header, kept, number_of, plain, settings, varint)
from test_memory import field, header as gzip_header, in_frames, packed
from test_native import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
                         WINDOW_UPDATE, call, frame)

MIB = 1 << 20
SECONDS = float(os.environ.get("BWOS_TEST_SECONDS", "6" if SANITIZED else "30"))  # of the attack
CONNECTIONS = int(os.environ.get("BWOS_TEST_CONNECTIONS", "200" if SANITIZED else "2000"))
DEADLINE = 30  # of each request of the client that behaves, in seconds
GROUP_BYTES = 512 * MIB
BUDGET = "307MiB"  # what --memory-max is by default in such a group: 60 % of it
LEFT_MAX = 32 * MIB  # resident DEADLINE seconds after the attack, beyond what was before it
PINNED_MIN = 48 * MIB  # an attack that the server keeps less of was none

BODY_MAX = MIB  # --body-bytes-max
MESSAGE_MAX = 4 * MIB  # --grpc-message-bytes-max
HEADER_MAX = 16 * 1024  # --header-bytes-max, --h2-header-bytes-max
OUTPUT_MAX = 16 * MIB  # --h2-output-bytes-max
REQUESTS_MAX = 64 * MIB  # --h2-request-bytes-max
H1_OUTPUT_MAX = 64 * 1024
STREAMS_MAX = 1000  # --grpc-streams-max
STREAM_WINDOW = MIB
FRAME_MAX = 16_384
NO_WINDOW = PREFACE + settings((INITIAL_WINDOW_SIZE, 0))


# What attackers send, each to its port.


def unfinished_body():
    return b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BODY_MAX + bytes(BODY_MAX - 1)


def unfinished_header():
    begin = b"GET /plaintext HTTP/1.1\r\nHost: a\r\nX: "
    return begin + b"x" * (HEADER_MAX - 1 - len(begin))


def pipelined_echoes():
    return (b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BODY_MAX + bytes(BODY_MAX)) * 8


def posts(bodies, size, last=0):
    """Requests that echo so much, one behind the other; without END_STREAM in `last` they want more."""
    block = header(method=b"POST", path=b"/echo")
    return b"".join(frame(HEADERS, END_HEADERS, number_of(i), block) + in_data(number_of(i), size, last)
                    for i in range(bodies))


def in_data(stream, size, last):
    return b"".join(frame(DATA, last if at + FRAME_MAX >= size else 0, stream, bytes(min(FRAME_MAX, size - at)))
                    for at in range(0, size, FRAME_MAX))


def maximal_headers(*more, path):
    """Of as many streams as there may be, each with as many fields of a byte as it may have, none finished."""
    block = header(*more, method=b"POST", path=path)
    return b"".join(
        frame(HEADERS, END_HEADERS, number_of(i), block + (kept(b"a", b"") if i == 0 else b"") + NEWEST * 480)
        for i in range(STREAMS_MAX - 1))


GRPC = (plain(b"te", b"trailers"), plain(b"content-type", b"application/grpc"))
SERVICE = b"/grpc.testing.TestService/"


def expanding(method, streams, messages):
    """To handlers that wait for more: with each four kilobytes four mebibytes."""
    message = packed(field(3, field(2, bytes(MESSAGE_MAX - 64))))
    return b"".join(gzip_header(number_of(i), SERVICE + method) + in_frames(number_of(i), message * messages, False)
                    for i in range(streams))


def waiting():
    """As many handlers as there may be wait for more, each with a message of many small fields."""
    block = header(*GRPC, method=b"POST", path=SERVICE + b"StreamingInputCall")
    fields = b"\x7a\x00" * 100
    message = b"\0" + struct.pack(">I", len(fields)) + fields
    return b"".join(frame(HEADERS, END_HEADERS, number_of(i), block) + frame(DATA, 0, number_of(i), message)
                    for i in range(STREAMS_MAX - 1))


def large_greetings():
    message = packed(field(1, b"x" * (MESSAGE_MAX - 64)))
    return b"".join(gzip_header(number_of(i), b"/helloworld.Greeter/SayHello") + in_frames(number_of(i), message, True)
                    for i in range(16))


def streams_of_replies():
    wanted = field(2, b"\x08" + varint(MESSAGE_MAX - 64)) * 4
    block = header(*GRPC, method=b"POST", path=SERVICE + b"StreamingOutputCall")
    return b"".join(frame(HEADERS, END_HEADERS, number_of(i), block) +
                    frame(DATA, END_STREAM, number_of(i), b"\0" + struct.pack(">I", len(wanted)) + wanted)
                    for i in range(200))


def packed_replies():
    """Of which each is a thousandth of what it was before it was compressed."""
    block = header(*GRPC, plain(b"grpc-accept-encoding", b"gzip"), method=b"POST", path=SERVICE + b"UnaryCall")
    wanted = b"\x10" + varint(MESSAGE_MAX - 64) + field(6, b"\x08\x01")
    return b"".join(frame(HEADERS, END_HEADERS, number_of(i), block) +
                    frame(DATA, END_STREAM, number_of(i), b"\0" + struct.pack(">I", len(wanted)) + wanted)
                    for i in range(STREAMS_MAX - 1))


class Script:
    """Says so much, whatever comes. What was sent of it is kept by nobody: all connections share it."""

    def __init__(self, data):
        self.rest = memoryview(data)

    def next(self):
        return self.rest[:1 << 18]

    def sent(self, size):
        self.rest = self.rest[size:]

    def came(self, data):
        pass


class Messages:
    """Unfinished messages on many streams, each as far as the server lets it send."""

    STREAMS = 80
    PIECE = bytes(FRAME_MAX)

    def __init__(self, _):
        self.out = bytearray(PREFACE + settings())
        block = header(*GRPC, method=b"POST", path=b"/helloworld.Greeter/SayHello")
        for i in range(self.STREAMS):
            self.out += frame(HEADERS, END_HEADERS, number_of(i), block)
            self.out += frame(DATA, 0, number_of(i), b"\0" + struct.pack(">I", MESSAGE_MAX))
        self.window = 65_535 - 5 * self.STREAMS
        self.windows = {number_of(i): STREAM_WINDOW - 5 for i in range(self.STREAMS)}
        self.left = dict.fromkeys(self.windows, MESSAGE_MAX - 1)
        self.input = b""

    def next(self):
        while len(self.out) < 1 << 16 and self.window > 0 and self.left:
            stream = next((each for each in self.left if self.windows[each] > 0), None)
            if stream is None:
                break
            size = min(FRAME_MAX, self.window, self.windows[stream], self.left[stream])
            self.out += frame(DATA, 0, stream, self.PIECE[:size])
            self.window -= size
            self.windows[stream] -= size
            self.left[stream] -= size
            if self.left[stream] == 0:
                del self.left[stream]
        return bytes(self.out)

    def sent(self, size):
        del self.out[:size]

    def came(self, data):
        self.input += data
        while (size := 9 + int.from_bytes(self.input[:3], "big")) <= len(self.input):
            kind, flags, stream = self.input[3], self.input[4], int.from_bytes(self.input[5:9], "big")
            payload, self.input = self.input[9:size], self.input[size:]
            if kind == WINDOW_UPDATE:
                by = int.from_bytes(payload, "big")
                if stream == 0:
                    self.window += by
                else:
                    self.windows[stream] += by
            elif kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM):
                self.left.pop(stream, None)


class Kind:
    """A way to attack: `data` makes what is said, `how` says it. The server's limits let a connection pin `bound`."""

    def __init__(self, port, reads, bound, data, how=Script):
        self.port, self.reads, self.bound, self._data, self.how = port, reads, bound, data, how

    @functools.cached_property
    def data(self):
        return self._data()

    def script(self):
        return self.how(self.data)


# Those that do not read have receive buffers of a few kilobytes.
KINDS = {
    # HTTP/1: bodies and headers of which a byte is missing; many large answers that nobody reads.
    "h1_bodies": Kind("http", True, HEADER_MAX + BODY_MAX, unfinished_body),
    "h1_headers": Kind("http", True, HEADER_MAX, unfinished_header),
    "h1_unread": Kind("http", False, H1_OUTPUT_MAX + BODY_MAX, pipelined_echoes),
    # HTTP/2: a window full of unfinished bodies, in few and in many streams, where each is too small to be refused when
    # memory is scarce; headers of references (HPACK); answers whose windows are never opened, and which nobody reads.
    "h2_bodies": Kind("http", True, 16 * BODY_MAX, lambda: PREFACE + settings() + posts(16, BODY_MAX - 1)),
    "h2_small_bodies": Kind("http", True, 16 * BODY_MAX, lambda: PREFACE + settings() + posts(300, 50_000)),
    "h2_headers": Kind("http", True, 256 * HEADER_MAX, lambda: PREFACE + settings() + maximal_headers(path=b"/echo")),
    "h2_unopened": Kind("http", True, OUTPUT_MAX + BODY_MAX, lambda: NO_WINDOW + posts(16, BODY_MAX - 64, END_STREAM)),
    "h2_unread": Kind("http", False, OUTPUT_MAX + BODY_MAX,
                      lambda: PREFACE + OPEN_WIDE + posts(16, BODY_MAX - 64, END_STREAM)),
    # gRPC: unfinished messages as far as windows go; metadata of references; many small messages to handlers that wait
    # for more; messages that expand a thousandfold, to handlers that wait for more and keep the last, or all, or answered
    # with as much, which no window lets go, or compressed; streams of replies that nobody reads.
    "grpc_messages": Kind("grpc", True, REQUESTS_MAX, bytes, Messages),
    "grpc_headers": Kind("grpc", True, 256 * HEADER_MAX, lambda: PREFACE + settings() + maximal_headers(
        *GRPC, path=b"/helloworld.Greeter/SayHello")),
    "grpc_waiting": Kind("grpc", True, REQUESTS_MAX, lambda: PREFACE + settings() + waiting()),
    "grpc_gzip": Kind("grpc", True, REQUESTS_MAX,
                      lambda: PREFACE + settings() + expanding(b"StreamingInputCall", 16, 1)),
    "grpc_kept": Kind("grpc", True, REQUESTS_MAX, lambda: PREFACE + settings() + expanding(b"HalfDuplexCall", 4, 5)),
    "grpc_unopened": Kind("grpc", True, OUTPUT_MAX + MESSAGE_MAX, lambda: NO_WINDOW + large_greetings()),
    "grpc_packed": Kind("grpc", True, OUTPUT_MAX + MESSAGE_MAX, lambda: NO_WINDOW + packed_replies()),
    "grpc_unread": Kind("grpc", False, OUTPUT_MAX + 200 * MESSAGE_MAX,
                        lambda: PREFACE + OPEN_WIDE + streams_of_replies()),
}


class Hostile:
    """A connection of an attacker. Sends what its kind says, and then holds it."""

    def __init__(self, addresses, kind):
        self.kind, self.script = kind, kind.script()
        self.sent = 0
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)  # its own memory is not what is measured
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends by a reset
        if not kind.reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        code = self.socket.connect_ex(addresses[kind.port])
        if code not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(code, os.strerror(code))

    def interest(self):
        return (select.EPOLLRDHUP | (select.EPOLLIN if self.kind.reads else 0) |
                (select.EPOLLOUT if self.script.next() else 0))

    def turn(self, events):
        """False: it has ended."""
        try:
            if events & select.EPOLLIN and self.kind.reads:
                data = self.socket.recv(1 << 16)
                if not data:
                    return False
                self.script.came(data)
            elif events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                return False
            if events & select.EPOLLOUT:
                size = self.socket.send(self.script.next())
                self.script.sent(size)
                self.sent += size
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


def attack(addresses, kinds, connections):
    """Until stdin ends: so many connections, made anew when they end, and half of them every few seconds, as what was
    refused on them would not be tried again. Says each second, and at the end, what it has done."""
    poll = select.epoll()
    poll.register(0, select.EPOLLIN)
    kinds = [KINDS[name] for name in kinds]
    names = {kind: name for name, kind in KINDS.items()}
    done = {name: collections.Counter() for name in KINDS}
    open_, due = {}, []  # by descriptor; (when, index, kind) of those to make
    now = time.monotonic()
    for i in range(connections):
        due.append((now + 2 * i / connections, i, kinds[i % len(kinds)]))
    ends = {}  # descriptor -> when it is made anew, or never

    def end(number, index, later):
        hostile = open_.pop(number)[0]
        poll.unregister(number)
        hostile.socket.close()
        done[names[hostile.kind]]["bytes"] += hostile.sent
        due.append((time.monotonic() + later, index, hostile.kind))
        ends.pop(number, None)

    told = looked = now
    while True:
        for number, events in poll.poll(0.05, 256):
            if number == 0:
                if not os.read(0, 100):
                    for hostile, _, _ in open_.values():
                        done[names[hostile.kind]]["bytes"] += hostile.sent
                    print(json.dumps(done), flush=True)
                    return
                continue
            hostile, index, interest = open_[number]
            if not hostile.turn(events):
                done[names[hostile.kind]]["ended by the server"] += 1
                end(number, index, random.uniform(0.1, 1))
            elif (wanted := hostile.interest()) != interest:
                poll.modify(number, wanted)
                open_[number] = hostile, index, wanted
        now = time.monotonic()
        if now - looked > 0.05:
            looked = now
            ready = [each for each in due if each[0] <= now]
            due = [each for each in due if each[0] > now]
            for _, index, kind in ready:
                try:
                    hostile = Hostile(addresses, kind)
                except OSError as error:
                    done[names[kind]][errno.errorcode[error.errno]] += 1
                    due.append((now + 1, index, kind))
                    continue
                interest = hostile.interest() | select.EPOLLOUT
                number = hostile.socket.fileno()
                open_[number] = hostile, index, interest
                poll.register(number, interest)
                done[names[kind]]["made"] += 1
                if index // len(kinds) % 2:
                    ends[number] = now + random.uniform(5, 10)
            for number in [number for number, when in ends.items() if when <= now]:
                end(number, open_[number][1], 0)
        if now - told > 1:
            told = now
            print(json.dumps({"open": len(open_)}), flush=True)


class Attackers:
    """A process of its own that attacks, until it is told to end."""

    def __init__(self, server, kinds, connections):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--attack", "{}:{}".format(*server.address),
             server.grpc_address, "--kinds", ",".join(kinds), "--connections", str(connections)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.open, self.done = 0, {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "open" in said:
                self.open = said["open"]
            else:
                self.done = said

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.wait(PATIENCE)
            self._reader.join()
            self.process.stdout.close()


def socket_pages():
    """Bytes of the kernel's for TCP, of both sides."""
    with open("/proc/net/sockstat", encoding="ascii") as file:
        return int(re.search(r"^TCP:.* mem (\d+)", file.read(), re.MULTILINE)[1]) * os.sysconf("SC_PAGE_SIZE")


class Deadline(Exception):
    pass


class Ended(Exception):
    """The connection, by the server, in the middle of a request."""


class Caller(threading.Thread):
    """One request after the other on a connection of its own, which is made anew when it has ended; `seen` counts how
    they ended: "ok", "503", "RESOURCE_EXHAUSTED" and "DEADLINE_EXCEEDED" are what a server without memory may do."""

    ALLOWED = {"ok", "503", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
    PAUSE = 0.02

    def __init__(self, name, address):
        super().__init__(name=name)
        self.address = address
        self.seen, self.connections, self.slowest = collections.Counter(), 0, 0.0
        self.socket, self.buffer, self.end = None, b"", 0.0
        self.wanted = True

    def run(self):
        while self.wanted:
            begun = time.monotonic()
            self.end = begun + DEADLINE
            try:
                outcome = self.once()
            except (Deadline, socket.timeout):
                outcome = "DEADLINE_EXCEEDED"
                self.close()
            except Ended as error:
                outcome = f"ended: {error}"
                self.close()
            except OSError as error:
                outcome = errno.errorcode.get(error.errno, str(error))
                self.close()
            except Exception as error:  # pylint: disable=broad-except # no caller ends without a word
                outcome = repr(error)
                self.close()
            self.seen[outcome] += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)
            time.sleep(self.PAUSE)
        self.close()

    def finish(self):
        self.wanted = False
        self.join()

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket, self.buffer = None, b""

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise Deadline
        return left

    def connect(self):
        self.socket = socket.create_connection(self.address, self.left())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1

    def send(self, data):
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def fill(self):
        self.socket.settimeout(self.left())
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise Ended(f"closed behind {self.buffer[:80]!r}")
        self.buffer += piece

    def was_ended(self):
        """Between two requests, which a server may do."""
        try:
            return select.select([self.socket], [], [], 0)[0] and self.socket.recv(1, socket.MSG_PEEK) == b""
        except ConnectionError:
            return True

    def once(self):
        raise NotImplementedError


class HttpCaller(Caller):
    def __init__(self, name, address, request, body):
        super().__init__(name, address)
        self.request, self.body = request, body

    def once(self):
        if self.socket is not None and self.was_ended():
            self.close()
        if self.socket is None:
            self.connect()
        try:
            self.send(self.request)
        except ConnectionError:
            pass  # what it said before it ended is there yet
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        top, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        length = re.search(rb"(?i)\r\nContent-Length: (\d+)", top)
        size = int(length[1]) if length else 0
        while len(self.buffer) < size:
            self.fill()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        status = top[9:12].decode()
        if b"connection: close" in top.lower():
            self.close()
        if status != "200":
            return status
        return "ok" if body == self.body else f"another body: {body[:80]!r}"


class GrpcCaller(Caller):
    """Calls SayHello, a stream each. RST_STREAM and GOAWAY are read as gRPC clients read them."""

    STATUS = b"\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f"  # "grpc-status" as Huffman has it, with its length
    REPLY = b"\0\0\0\0\x09\x0a\x07Hello x"
    NAMES = {4: "DEADLINE_EXCEEDED", 8: "RESOURCE_EXHAUSTED", 14: "UNAVAILABLE"}
    RESETS = {REFUSED_STREAM: "UNAVAILABLE (REFUSED_STREAM)", ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED"}

    def __init__(self, name, address):
        super().__init__(name, address)
        self.stream = -1
        self.is_going = False

    def connect(self):
        super().connect()
        self.stream, self.is_going = -1, False
        self.send(PREFACE + settings((HEADER_TABLE_SIZE, 0)) + OPEN_WIDE)  # fields are literals, then

    def once(self):
        while (outcome := self.call()) is None:
            self.close()  # it was told that this call was not looked at, and so may be made again
        return outcome

    def call(self):
        if self.socket is not None and (self.is_going or self.was_ended()):
            self.close()
        if self.socket is None:
            self.connect()
        self.stream += 2
        reply, outcome = b"", ""
        try:
            self.send(call(self.stream))
        except ConnectionError:
            pass  # as above
        while True:
            while len(self.buffer) < (size := 9 + int.from_bytes(self.buffer[:3], "big")) or len(self.buffer) < 9:
                self.fill()
            kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
            payload, self.buffer = self.buffer[9:size], self.buffer[size:]
            if kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                why = int.from_bytes(payload[4:8], "big")
                if why != 0:
                    raise Ended(f"GOAWAY with {why} {payload[8:]!r}")
                self.is_going = True
                if int.from_bytes(payload[:4], "big") < self.stream:
                    return None
            elif stream == self.stream and kind == RST_STREAM:
                why = int.from_bytes(payload, "big")
                return outcome or self.RESETS.get(why, f"RST_STREAM with {why}")
            elif stream == self.stream and kind == DATA:
                reply += payload
            elif stream == self.stream and kind == HEADERS and flags & END_STREAM:
                if self.STATUS not in payload:
                    return f"no status: {payload!r}"
                value = payload.split(self.STATUS, 1)[1]
                status = int(value[1:1 + value[0]])
                if status != 0:
                    return self.NAMES.get(status, f"grpc-status {status}")
                return "ok" if reply == self.REPLY else f"another reply: {reply[:80]!r}"


def callers(server):
    host, port = server.grpc_address.rsplit(":", 1)
    echo = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + b"e" * 100
    return [
        HttpCaller("GET /plaintext", server.address, b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n", b"Hello, World!"),
        HttpCaller("POST /echo", server.address, echo, b"e" * 100),
        GrpcCaller("SayHello", (host, int(port)))]


class Group:
    """A cgroup of so many bytes, of v1 or v2, beside or below our own. OSError: what kept us from it."""

    def __init__(self, bytes_max):
        self.path = self.version = None
        failures = []
        for version, parent in self.parents():
            path = os.path.join(parent, f"bwos-test-{os.getpid()}")
            try:
                if version == 2 and "memory" not in read(parent, "cgroup.subtree_control").split():
                    write(parent, "cgroup.subtree_control", "+memory")  # EBUSY where processes are in it
                os.mkdir(path)
            except OSError as error:
                failures.append(f"{path}: {error.strerror}")
                continue
            try:
                for name, value in self.limits(version, bytes_max):
                    if os.path.exists(os.path.join(path, name)):
                        write(path, name, value)
                    elif name in ("memory.max", "memory.limit_in_bytes"):
                        raise FileNotFoundError(errno.ENOENT, f"no {name}")
                # Whether a process may be put there, too.
                subprocess.run(["true"], preexec_fn=lambda path=path: write(path, "cgroup.procs", "0"), check=True)
            except (OSError, subprocess.SubprocessError) as error:
                failures.append(f"{path}: {error}")
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                continue
            self.path, self.version = path, version
            return
        raise OSError("; ".join(failures) or "no hierarchy of cgroups has memory")

    @staticmethod
    def parents():
        """(version, folder) of each group that ours might be made in: our own, then those above it."""
        ours = {}
        with open("/proc/self/cgroup", encoding="ascii") as file:
            for line in file:
                number, controllers, path = line.rstrip("\n").split(":", 2)
                if number == "0" or "memory" in controllers.split(","):
                    ours[2 if number == "0" else 1] = path
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            for line in file:
                fields, _, kind = line.rstrip("\n").partition(" - ")
                _, _, _, root, point = fields.split(" ")[:5]
                name, _, options = kind.split(" ", 2)
                version = 2 if name == "cgroup2" else 1
                if version not in ours or (name != "cgroup2" and
                                           (name != "cgroup" or "memory" not in options.split(","))):
                    continue
                path = os.path.relpath(ours[version], root)
                here = point if path.startswith("..") else os.path.normpath(os.path.join(point, path))
                if version == 2 and "memory" not in read(here, "cgroup.controllers").split():
                    continue
                while here.startswith(point):
                    yield version, here
                    if version == 1:
                        break
                    here = os.path.dirname(here)

    @staticmethod
    def limits(version, bytes_max):
        if version == 2:
            return ("memory.max", str(bytes_max)), ("memory.swap.max", "0")
        return (("memory.limit_in_bytes", str(bytes_max)), ("memory.memsw.limit_in_bytes", str(bytes_max)),
                ("memory.kmem.tcp.limit_in_bytes", str(1 << 40)))  # so that the kernel counts those at all

    def enter(self):
        """For the process that is to be in it."""
        write(self.path, "cgroup.procs", "0")

    def peak(self):
        """Bytes at most. With v2 the kernel's for its sockets are among them: sockets()."""
        try:
            return int(read(self.path, "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"))
        except FileNotFoundError:
            return 0  # an older kernel

    def sockets(self):
        """Bytes of the kernel's now: of what peers have sent and is not read, and of what is not sent to them."""
        try:
            if self.version == 2:
                return int(re.search(r"^sock (\d+)", read(self.path, "memory.stat"), re.MULTILINE)[1])
            return int(read(self.path, "memory.kmem.tcp.usage_in_bytes"))
        except FileNotFoundError:
            return 0

    def killed(self):
        """Processes, by the kernel for want of memory."""
        events = read(self.path, "memory.events" if self.version == 2 else "memory.oom_control")
        found = re.search(r"^oom_kill (\d+)", events, re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return os.rmdir(self.path)
            except OSError:  # its process is not all gone yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="ascii") as file:
        return file.read()


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(value)


def many_descriptors():
    """For both sides of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


@unittest.skipUnless(NATIVE, "gRPC C++ and Asio's own sockets have no budget")
class MemoryBudget(unittest.TestCase):
    seconds, connections, kinds = SECONDS, CONNECTIONS, list(KINDS)

    def setUp(self):
        before = many_descriptors()
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        if before[1] < self.connections + 1000:
            self.skipTest(f"{before[1]} descriptors are too few for {self.connections} connections")

    def group(self):
        if SANITIZED:
            self.skipTest("a sanitizer's memory is not the server's: see the test without a cgroup")
        try:
            group = Group(GROUP_BYTES)
        except OSError as error:
            self.skipTest(f"no cgroup of {GROUP_BYTES // MIB} MiB: {error}")
        self.addCleanup(group.remove)
        return group

    def serve(self, *flags, group=None):
        if group is not None and group.version == 2:  # whose limit counts what the kernel keeps of sockets
            flags = (*flags, "--socket-unread-bytes-max", "64KiB")
        server = Server("--grpc-test-service", *flags, grpc=True, before=group and group.enter)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        if REACTOR == "io_uring" and server.reactor_used() != "io_uring":
            self.skipTest(f"io_uring: the server uses {server.reactor_used()}: {''.join(server.log)}")
        return server

    def test_in_a_cgroup(self):
        group = self.group()
        server = self.serve(group=group)
        try:
            self.attack(server, group.sockets)
        finally:
            print(f"cgroup v{group.version}: {group.peak() / MIB:.0f} MiB of {GROUP_BYTES // MIB} at most"
                  f"{' with' if group.version == 2 else ', without'} its sockets; {group.killed()} killed "
                  f"for want of memory", flush=True)
        self.assertEqual(group.killed(), 0)

    def test_without_a_cgroup(self):
        if not SANITIZED:
            try:
                Group(GROUP_BYTES).remove()
            except OSError:
                pass
            else:
                self.skipTest("there are cgroups, and so the test in one")
        self.attack(self.serve("--memory-max", BUDGET))

    def assert_lives(self, server, when):
        if server.process.poll() is not None:
            self.fail(f"the server ended with {server.wait()} {when}")

    def attack(self, server, sockets=socket_pages):
        warm(server)
        clients = callers(server)
        for each in clients:  # its memory is warm, too
            each.start()
        self.addCleanup(lambda: [each.finish() for each in clients])
        time.sleep(1)
        before = server.memory()
        attackers = Attackers(server, self.kinds, self.connections)
        self.addCleanup(attackers.end)
        begun = told = time.monotonic()
        peak = most_open = most_in_sockets = 0
        while (now := time.monotonic()) < begun + self.seconds and server.process.poll() is None:
            time.sleep(0.1)
            peak, most_open = max(peak, server.memory()), max(most_open, attackers.open)
            most_in_sockets = max(most_in_sockets, sockets())
            if now > told + max(3, self.seconds / 60):
                told = now
                print(f"{now - begun:4.0f} s: {server.memory() / MIB:4.0f} MiB resident, {attackers.open} attackers, "
                      f"sockets {sockets() / MIB:.0f} MiB; {said(clients)}", flush=True)
        lives = server.process.poll() is None
        ended = time.monotonic()
        attackers.end()
        for name in self.kinds:
            done = attackers.done[name]
            print(f"  {name:16} {done.pop('bytes', 0) / MIB:7.0f} MiB sent, {done}")
        if lives:
            peak = max(peak, server.memory_peak())
        print(f"resident: {before / MIB:.0f} MiB before, {peak / MIB:.0f} at most; sockets "
              f"{most_in_sockets / MIB:.0f}; {most_open} attackers at once; {said(clients)}", flush=True)
        self.assert_lives(server, "in the attack")
        time.sleep(0.5)  # what has been received of them is there yet
        while (server.process.poll() is None and server.memory() > before + LEFT_MAX and
               time.monotonic() < ended + DEADLINE and not SANITIZED):
            time.sleep(0.1)
        self.assert_lives(server, "behind the attack")
        left = server.memory() - before
        print(f"{time.monotonic() - ended:.1f} s later: {left / MIB:.0f} MiB more than before, "
              f"{server.memory_peak() / MIB:.0f} at most", flush=True)
        most_ever = server.memory_peak()
        for each in clients:
            each.finish()
        print(said(clients), flush=True)
        metrics = server.metrics()
        print({name: value for name, value in metrics.items() if name.startswith("bwos_memory")}, flush=True)
        lone = callers(server)
        for each in lone:
            each.start()
        time.sleep(0.2)
        for each in lone:
            each.finish()
            self.assertEqual(set(each.seen), {"ok"}, each.name)
        self.assertEqual(server.stop(), 0)
        for each in clients:
            self.assertLessEqual(set(each.seen), Caller.ALLOWED, f"{each.name}: {each.seen}")
            self.assertGreater(each.seen["ok"], 0, each.name)
        if not SANITIZED:
            self.assertLess(left, LEFT_MAX)
            self.assertLess(most_ever, GROUP_BYTES)
            self.assertGreater(peak - before, PINNED_MIN, "this was no attack")


def warm(server):
    """Each worker receives so much that all of its ring's buffers are resident (io_uring: 256 of 16 KiB)."""
    connections = [http.client.HTTPConnection(*server.address, timeout=PATIENCE) for _ in range(16)]
    for _ in range(100):
        for each in connections:
            each.request("POST", "/echo", bytes(32 * 1024))
        for each in connections:
            each.getresponse().read()
    for each in connections:
        each.close()


def said(clients):
    return "; ".join(f"{each.name}: {dict(sorted(each.seen.items()))}, slowest {each.slowest:.1f} s, "
                     f"{each.connections} connections" for each in clients)


def measure_pins(kinds, connections, seconds, flags):
    """A table of what each kind alone makes the server keep, at most, by one connection and by so many: by its limits,
    resident, and in the kernel for its sockets; and when those have gone, after how long it is given back."""
    print("| attack | by its limits, each | one: resident | one: kernel | "
          f"{connections}: by limits | resident | kernel | back within 32 MiB | open at once |\n" + "|---" * 9 + "|", flush=True)
    for kind in kinds:
        bound = KINDS[kind].bound
        one = measured_pins(kind, 1, seconds, flags)
        many = measured_pins(kind, connections, seconds, flags)
        most = min(bound * connections, many.memory_max)
        cells = [bound, one.resident, one.kernel, most, many.resident, many.kernel]
        print(f"| {kind} | " + " | ".join(f"{each / MIB:,.{2 if each < 10 * MIB else 0}f} MiB" for each in cells) +
              f" | {many.back} | {many.open:,} |", flush=True)


Pins = collections.namedtuple("Pins", "resident kernel back open memory_max")


def measured_pins(kind, connections, seconds, flags):
    server = Server(*flags, grpc=True)
    try:
        memory_max = int(server.metrics()["bwos_memory_max_bytes"])
        before = server.memory()
        resident = kernel = most_open = 0
        attackers = Attackers(server, [kind], connections)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.2)
            resident = max(resident, server.memory() - before)
            kernel = max(kernel, socket_bytes(server))
            most_open = max(most_open, attackers.open)
        attackers.end()
        ended = time.monotonic()
        while server.memory() > before + LEFT_MAX and time.monotonic() < ended + DEADLINE:
            time.sleep(0.1)
        left = server.memory() - before
        back = f"{time.monotonic() - ended:.1f} s" if left <= LEFT_MAX else f"{left / MIB:,.0f} MiB after {DEADLINE} s"
        return Pins(resident, kernel, back, most_open, memory_max)
    finally:
        server.stop()


def socket_bytes(server):
    """What the kernel has allotted to the server's own connections: received and not read, or not sent yet."""
    ports = [server.address[1], int(server.grpc_address.rsplit(":", 1)[1])]
    told = subprocess.run(["ss", "-tmnH", " or ".join(f"sport = :{port}" for port in ports)], check=True,
                          capture_output=True, text=True).stdout
    return sum(int(received) + int(ahead) + int(queued)
               for received, ahead, queued in re.findall(r"skmem:\(r(\d+),.*?,f(\d+),w(\d+),", told))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float)
    arguments.add_argument("--connections", type=int, default=CONNECTIONS)
    arguments.add_argument("--kinds", default=",".join(KINDS))
    arguments.add_argument("--pins", action="store_true")
    arguments.add_argument("--attack", nargs=2)
    arguments.add_argument("flags", nargs="*")
    given = arguments.parse_args()
    many_descriptors()
    kinds = given.kinds.split(",")
    if given.attack:
        pairs = [each.rsplit(":", 1) for each in given.attack]
        attack({name: (host, int(port)) for name, (host, port) in zip(("http", "grpc"), pairs)}, kinds,
               given.connections)
    elif given.pins:
        measure_pins(kinds, given.connections, given.seconds or 10, given.flags)
    else:
        MemoryBudget.seconds, MemoryBudget.connections = given.seconds or SECONDS, given.connections
        MemoryBudget.kinds = kinds
        unittest.main(argv=[sys.argv[0], "-v", *given.flags])


if __name__ == "__main__":
    main()
