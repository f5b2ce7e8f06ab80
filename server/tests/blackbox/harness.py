# SPDX-License-Identifier: Apache-2.0
"""The server as a program, and an HTTP client that sees every byte."""

import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

SERVER = os.environ["BWOS_TEST_SERVER"]
REACTOR = os.environ.get("BWOS_TEST_REACTOR", "auto")
FLAGS = os.environ.get("BWOS_TEST_FLAGS", "").split()  # of every server, such as --executor
NATIVE = not {"grpc++", "asio-io-context"} & set(FLAGS)  # gRPC, where it is on
SANITIZED = os.environ.get("BWOS_TEST_SANITIZED", "") != ""  # its memory is not the server's
PATIENCE = 60  # seconds until a test gives up; nothing is expected to take as long


def executor_flags(reactor=REACTOR):
    """Of every server; Asio's own sockets have no reactor of ours."""
    return FLAGS if "asio-io-context" in FLAGS else ["--reactor", reactor, *FLAGS]


class Server:
    """A running bwos-server. Its gRPC side is off unless asked for: most tests are about HTTP. `before` runs in its
    process first, which then has all that is inheritable. With a `stderr` of the test's there is no log to read, and it
    is not known which reactor is used."""

    def __init__(self, *flags, grpc=False, reactor=REACTOR, before=None, stderr=None):
        grpc_flags = ["--grpc-listen", "127.0.0.1:0" if grpc else ""]
        self.process = subprocess.Popen(
            [SERVER, "--http-listen", "127.0.0.1:0", "--workers", "2", *executor_flags(reactor), *grpc_flags,
             *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE if stderr is None else stderr, text=True, preexec_fn=before,
            close_fds=before is None)
        self.log = []
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()
        self.line = self.process.stdout.readline()
        match = re.fullmatch(r"listening http=(127\.0\.0\.1):(\d+)(?: grpc=(127\.0\.0\.1:\d+))?\n", self.line)
        if not match:
            self.kill()
            raise AssertionError(f"not ready: {self.line!r} {''.join(self.log)}")
        self.address = (match[1], int(match[2]))
        self.grpc_address = match[3]
        if self.process.stderr is None:
            return
        if reactor == "io_uring" and before is None and self.reactor_used() != "io_uring":
            self.kill()
            raise unittest.SkipTest(f"io_uring: the server uses {self.reactor_used()}: {''.join(self.log)}")

    def _read_log(self):
        for line in self.process.stderr or ():
            self.log.append(line)

    def reactor_used(self):
        """From the log, which was written before the line that says it is ready, but may not have been read yet."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for line in list(self.log):
                if match := re.search(r"reactor (\w+):", line):
                    return match[1]
            time.sleep(0.001)
        raise AssertionError("the log does not say which reactor is used")

    def connect(self, small_buffers=False):
        s = socket.socket()
        if small_buffers:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(PATIENCE)
        s.connect(self.address)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.process.stdout.close()
        if self.process.stderr is not None:
            self.process.stderr.close()
        # Whatever the test makes of it; a second signal ends the server as it should.
        if code not in (0, 2, 128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGKILL):
            sys.stderr.write(f"server ended with {code}: {''.join(self.log)}\n")
        return code

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        self.wait()

    def memory(self):
        """Bytes resident now."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def memory_peak(self):
        """Bytes resident at most, ever (VmHWM)."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metrics(self):
        """Series to value."""
        with self.connect() as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            response = read_response(s)
        if response.status == 503:
            raise ConnectionError("above --connections-max for the moment")
        text = response.body.decode()
        return dict((series, float(value)) for series, value in
                    (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")))

    def until_metric(self, series, wanted):
        """Waits until a metric has a value."""
        end = time.monotonic() + PATIENCE
        value = None
        while time.monotonic() < end:
            try:
                value = self.metrics()[series]
            except (EOFError, ConnectionError):
                pass  # above --connections-max
            if value == wanted:
                return
            time.sleep(0.02)
        raise AssertionError(f"{series} is {value}, not {wanted}")


class ServerTest(unittest.TestCase):
    """Tests that share a server with the class's FLAGS, which must end with 0 after all of them."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        if code != 0 or any("not done" in line for line in cls.server.log):
            raise AssertionError(f"exit code {code}: {''.join(cls.server.log)}")


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def closes(self):
        return self.headers.get("connection") == "close"

    def key(self):
        """Everything but the date."""
        return self.status, {k: v for k, v in self.headers.items() if k != "date"}, self.body

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:100]!r}"


class Reader:
    """Responses out of a socket, one after the other."""

    def __init__(self, s):
        self.socket, self.buffer = s, b""

    def _fill(self):
        piece = self.socket.recv(1 << 20)
        if not piece:
            raise EOFError(f"closed in {self.buffer[:200]!r}")
        self.buffer += piece

    def next(self, head=False):
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        top, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = top.decode("ascii").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z ]+", lines[0])
        if not match:
            raise AssertionError(f"bad status line {lines[0]!r}")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            if name.lower() in headers:
                raise AssertionError(f"twice: {line}")
            headers[name.lower()] = value
        status = int(match[1])
        if status == 100:
            return Response(status, headers, b"")
        size = int(headers["content-length"])
        if head:
            return Response(status, headers, b"")
        while len(self.buffer) < size:
            self._fill()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return Response(status, headers, body)

    def at_end(self):
        """The peer has closed, and nothing is left."""
        return not self.buffer and self.socket.recv(1) == b""


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it never came to that")
        time.sleep(0.01)


def read_response(s, head=False):
    return Reader(s).next(head)


def reset(s):
    """Closes with a reset instead of a FIN."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def is_silent(s, seconds):
    return not select.select([s], [], [], seconds)[0]
