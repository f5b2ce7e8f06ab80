# SPDX-License-Identifier: Apache-2.0
"""What idle connections hold: memory of the server with them, less its memory before."""

import socket
import struct
import time

from lib import measure
from lib.measure import Failed

REQUEST = b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"Hello, World!"
SETTLE_S = 0.5
# Closing resets, or thousands of ports would stay in TIME_WAIT for the runs that follow.
LINGER_RESET = struct.pack("ii", 1, 0)


def _asked_once(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
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


def measure_idle(server, count: int) -> dict:
    """Opens `count` connections that each get one answer, and leaves them open meanwhile."""
    if measure.raise_descriptor_limit() < count + 100:
        raise Failed(f"{count} connections need a descriptor limit (ulimit -Hn) of {count + 100}")
    before = measure.rss_kib(server.pid)
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(_asked_once(server.http_port))
        time.sleep(SETTLE_S)
        after = measure.rss_kib(server.pid)
    except OSError as error:
        raise Failed(f"connection {len(connections) + 1} of {count}: {error}") from error
    finally:
        for connection in connections:
            connection.close()
    return {"requests": count, "errors": 0, "bytes_per_connection": (after - before) * 1024 / count}
