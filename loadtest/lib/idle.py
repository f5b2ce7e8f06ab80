# SPDX-License-Identifier: Apache-2.0
"""What idle connections hold: memory of the server with them, less its memory before."""

import socket
import struct
import time

from lib import agent
from lib.measure import Failed

REQUEST = b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"Hello, World!"
SETTLE_S = 0.5
# Closing resets, or thousands of ports would stay in TIME_WAIT for the runs that follow.
LINGER_RESET = struct.pack("ii", 1, 0)


def connected(target: str, timeout_s: float) -> socket.socket:
    """To ADDRESS:PORT."""
    address, _, port = target.rpartition(":")
    return socket.create_connection((address.strip("[]"), int(port)), timeout_s)


def _asked_once(target: str) -> socket.socket:
    connection = connected(target, 10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(BODY):
        part = connection.recv(4096)
        if not part:
            raise Failed(f"the server closed a connection instead of answering; it sent {answer!r}")
        answer += part
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise Failed(f"the server answered {answer[:60]!r}")
    return connection


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _field(name: bytes, value: bytes) -> bytes:
    """A literal that no table keeps."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CALL = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(SETTINGS, 0, 0)
    + _frame(HEADERS, END_HEADERS, 1,
             _field(b":method", b"POST") + _field(b":scheme", b"http") + _field(b":authority", b"localhost")
             + _field(b":path", b"/helloworld.Greeter/SayHello") + _field(b"content-type", b"application/grpc")
             + _field(b"te", b"trailers"))
    + _frame(DATA, END_STREAM, 1, b"\0\0\0\0\6\n\4bwos")
)  # fmt: skip


def _called_once(target: str) -> socket.socket:
    connection = connected(target, 10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    connection.sendall(CALL)
    received, message = b"", b""
    while True:
        size = 9 + int.from_bytes(received[:3], "big") if len(received) >= 9 else 9
        if len(received) < 9 or len(received) < size:
            part = connection.recv(4096)
            if not part:
                raise Failed("the server closed a connection instead of answering")
            received += part
            continue
        kind, flags, stream = received[3], received[4], int.from_bytes(received[5:9], "big")
        message += received[9:size] if kind == DATA else b""
        received = received[size:]
        if stream == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
            break
    if message != b"\0\0\0\0\x0c\n\nHello bwos":
        raise Failed(f"the server answered {message!r}")
    connection.sendall(_frame(SETTINGS, ACK, 0))
    return connection


def measure_idle(server, count: int, grpc: bool = False) -> dict:
    """Opens `count` connections that each get one answer, and leaves them open meanwhile."""
    agent.raise_descriptor_limit()
    before = server.sample()["rss_kib"]
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(_called_once(server.grpc) if grpc else _asked_once(server.http))
        time.sleep(SETTLE_S)
        after = server.sample()["rss_kib"]
    except OSError as error:
        raise Failed(f"connection {len(connections) + 1} of {count}: {error}") from error
    finally:
        for connection in connections:
            connection.close()
    return {"requests": count, "errors": 0, "bytes_per_connection": (after - before) * 1024 / count}
