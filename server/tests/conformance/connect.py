#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""connect.py SERVER: runs connectrpc's conformance suite, all of its cases for a gRPC server without TLS, against both
transports of a bwos-server. Exits with 1 where a case ends otherwise than is said here. Needs Go, which builds the suite into
build/tools once."""

import os
import re
import subprocess
import sys
import tempfile

from others import build

MODULE = "connectrpc.com/conformance/cmd/connectconformance@v1.0.7"
CASES = 374 + 88  # the latter with deflate, for which it has to be asked
CONFIG = """
features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]
  codecs: [CODEC_PROTO]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP, COMPRESSION_DEFLATE]
  supportsTls: false
"""
LEFT_OUT = {
    "Connect, gRPC-Web": "the server does not speak them",
    "TLS": "the server has none; something in front of it does that",
    "JSON": "messages are protobuf alone",
    "br, zstd, snappy": "gRPC's clients compress with gzip or deflate",
}

# Cases that are answered differently, with the reason: on the HTTP port, and by gRPC C++, to which we are a user.
NOT_415 = "Unexpected Requests/**/unexpected-content-type"
HTTP_PORT = {
    NOT_415:
        "415 is wanted; on this port what is no gRPC is HTTP, whose routes do not have that path: 404",
}
ONE_MESSAGE = "UNIMPLEMENTED is wanted; gRPC C++ reads the one message that it wants, and answers"
INCOMPLETE = "INTERNAL is wanted; to gRPC C++ an incomplete message at the end is none, and nobody is told"
GRPC_CPP = {
    NOT_415: "415 is wanted; gRPC C++ answers 200, with a status, but was once seen to pass",
    "gRPC Unexpected Requests/**/unary/multiple-requests": ONE_MESSAGE,
    "gRPC Unexpected Requests/**/server-stream/multiple-requests": ONE_MESSAGE,
    "gRPC Unexpected Requests/**/client-stream/incomplete-message": INCOMPLETE,
    "gRPC Unexpected Requests/**/client-stream/incomplete-message-prefix": INCOMPLETE,
    "gRPC Unexpected Requests/**/unary/no-request": "UNIMPLEMENTED is wanted; gRPC C++ says INTERNAL",
    "gRPC Unexpected Requests/**/unexpected-compression": "UNIMPLEMENTED is wanted; gRPC C++ says INTERNAL",
    "gRPC Unexpected Requests/**/unexpected-codec":
        "an error is wanted; gRPC C++ does not look at the content-type beyond application/grpc+",
    "gRPC Unexpected Requests/**/unexpected-compressed-message":
        "INTERNAL is wanted; gRPC C++ takes the message as it is where no encoding was named",
}
MAY_PASS = {NOT_415}  # of GRPC_CPP; all others must be answered differently
# Of each server: its flags, and for the ports (HTTP's, gRPC's) that answer gRPC what is answered differently.
NATIVE = {"HTTP": HTTP_PORT, "gRPC": {}}
TRANSPORTS = {
    "native, epoll": (["--grpc", "native", "--reactor", "epoll"], NATIVE),
    "native, io_uring": (["--grpc", "native", "--reactor", "io_uring"], NATIVE),
    "native, asio-pool": (["--grpc", "native", "--executor", "asio-pool"], NATIVE),
    "grpc++": (["--grpc", "grpc++"], {"gRPC": GRPC_CPP}),
}
ADAPTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "connect_server.py")
PATIENCE = 120  # seconds, of a run, which takes about three


def run(program, folder, different, port, server):
    """(passed, answered differently, what the suite wrote where it is not content)."""
    notes = os.path.join(folder, "notes")
    with open(notes, "w", encoding="ascii"):
        pass
    may_pass = MAY_PASS if different is GRPC_CPP else ()
    flags = [each for case in different for each in ("--known-flaky" if case in may_pass else "--known-failing", case)]
    command = [program, "--conf", os.path.join(folder, "config.yaml"), "--mode", "server", *flags, "--",
               sys.executable, ADAPTER, port, notes, *server]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        return 0, 0, f"{(expired.stdout or b'').decode(errors='replace')}no end in {PATIENCE} s"
    output = done.stdout.decode(errors="replace")
    total = re.search(r"^Total cases: (\d+)\n(\d+) passed, (\d+) failed", output, re.MULTILINE)
    passed, expected = (int(total[2]), output.count("(as expected)")) if total else (0, 0)
    with open(notes, encoding="ascii") as lines:
        told = lines.read().split()
    if told.count("began") == 0 or told.count("began") != told.count("ended"):
        output += f"servers that began: {told.count('began')}, that ended well: {told.count('ended')}\n"
    elif done.returncode == 0 and total is not None and int(total[1]) == CASES:
        return passed, expected, None
    return passed, expected, f"{output}exit status {done.returncode}"


def main():
    program = build(MODULE)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.yaml"), "w", encoding="ascii") as config:
            config.write(CONFIG)
        for transport, (flags, open_ports) in TRANSPORTS.items():
            for port, different in open_ports.items():
                passed, expected, why = run(program, folder, different, port, [sys.argv[1], *flags])
                print(f"connectrpc's suite, {transport}, {port} port: {CASES} cases, {passed} passed, {expected} answered "
                      f"differently, {CASES - passed - expected} failed", flush=True)
                for case, reason in different.items():
                    print(f"  answered differently: {case}: {reason}")
                if why is not None:
                    print("  FAILED: " + why.strip().replace("\n", "\n    "), flush=True)
                good = good and why is None
    for cases, why in LEFT_OUT.items():
        print(f"  left out: {cases}: {why}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
