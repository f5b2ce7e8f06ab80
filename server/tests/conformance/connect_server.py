#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""connect_server.py PORT NOTES SERVER FLAG...: what connectrpc's suite starts as a server under test. It reads a
ServerCompatRequest, starts a bwos-server, and writes a ServerCompatResponse with its port for "HTTP" or "gRPC"; both messages
are protobuf behind four bytes of length. SIGTERM ends it, and the server with it. The suite does not look at how that ends, so
the file NOTES is told: a line "began" and, if all was well, a line "ended"."""

import signal
import struct
import sys
import threading

from others import serving

RECEIVE_LIMIT = 6  # of ServerCompatRequest: the most bytes of a message
HOST, PORT = 1, 2  # of ServerCompatResponse


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def numbers(message):
    """The varint fields of a message by their number."""
    at, found = 0, {}

    def read():
        nonlocal at
        value = shift = 0
        while True:  # ends: at a byte below 128, or the message's end, an IndexError
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(read(), 8)
        if kind == 0:
            found[number] = read()
        elif kind == 2:
            at += read()
        else:
            raise ValueError(f"field {number} has type {kind}")
    return found


def note(path, line):
    with open(path, "a", encoding="ascii") as notes:
        notes.write(line + "\n")


def main():
    which, notes, server, *flags = sys.argv[1:]
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set())
    size, = struct.unpack(">I", sys.stdin.buffer.read(4))
    limit = numbers(sys.stdin.buffer.read(size)).get(RECEIVE_LIMIT, 0)
    if limit:
        flags += ["--grpc-message-bytes-max", str(limit)]
    with serving(server, "--grpc-test-service", *flags) as ports:
        port = int(dict(zip(("HTTP", "gRPC"), ports))[which])
        host = b"127.0.0.1"
        answer = bytes([HOST << 3 | 2, len(host)]) + host + bytes([PORT << 3]) + varint(port)
        note(notes, "began")
        sys.stdout.buffer.write(struct.pack(">I", len(answer)) + answer)
        sys.stdout.buffer.flush()
        ends.wait()
    note(notes, "ended")


if __name__ == "__main__":
    main()
