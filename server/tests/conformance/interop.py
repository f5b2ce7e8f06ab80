#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""interop.py SERVER: runs grpc-go's interoperability client against both transports of a bwos-server, a process for
each case. Exits with 1 where one fails. Needs Go, which builds the client into build/tools once."""

import subprocess
import sys

from others import build, serving

MODULE = "google.golang.org/grpc/interop/client@v1.64.0"

# grpc/doc/interop-test-descriptions.md has what each does.
CASES = (
    "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
    "custom_metadata", "status_code_and_message", "special_status_message", "unimplemented_method",
    "unimplemented_service", "cancel_after_begin", "cancel_after_first_response", "timeout_on_sleeping_server",
    "rpc_soak", "channel_soak",
)
LEFT_OUT = {
    "client_compressed_unary, client_compressed_streaming, server_compressed_unary, server_compressed_streaming":
        "this client lacks them; gRPC C++'s has them (server/tests/clients/interop_test.cpp)",
    "pick_first_unary": "needs servers that say their names",
    "orca_per_rpc, orca_oob": "load reports, which the server has none of",
    "compute_engine_creds, compute_engine_channel_credentials, service_account_creds, jwt_token_creds, per_rpc_creds, "
    "oauth2_auth_token, google_default_credentials": "no TLS, no credentials",
}
# Of each server: its flags, and the ports (HTTP's, gRPC's) that answer gRPC.
TRANSPORTS = {
    "native, epoll": (["--grpc", "native", "--reactor", "epoll"], ("HTTP", "gRPC")),
    "native, io_uring": (["--grpc", "native", "--reactor", "io_uring"], ("HTTP", "gRPC")),
    "native, asio-pool": (["--grpc", "native", "--executor", "asio-pool"], ("HTTP", "gRPC")),
    "grpc++": (["--grpc", "grpc++"], ("gRPC",)),
}
PATIENCE = 60  # seconds, of a case; nothing is expected to take as long


def run(program, port, case):
    """What the client wrote, where the case failed."""
    try:
        done = subprocess.run([program, "-server_host", "127.0.0.1", "-server_port", port, "-test_case", case],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        return f"{(expired.stdout or b'').decode(errors='replace')}no end in {PATIENCE} s"
    return None if done.returncode == 0 else f"{done.stdout.decode(errors='replace')}exit status {done.returncode}"


def main():
    program = build(MODULE)
    good = True
    for transport, (flags, open_ports) in TRANSPORTS.items():
        with serving(sys.argv[1], "--grpc-test-service", *flags) as ports:
            for name, port in zip(("HTTP", "gRPC"), ports):
                if name not in open_ports:
                    continue
                failed = {case: why for case in CASES if (why := run(program, port, case)) is not None}
                print(f"grpc-go's client, {transport}, {name} port: {len(CASES)} cases, "
                      f"{len(CASES) - len(failed)} passed, {len(failed)} failed", flush=True)
                for case, why in failed.items():
                    print(f"  FAILED: {case}: " + why.strip().replace("\n", "\n    "), flush=True)
                good = good and not failed
    for cases, why in LEFT_OUT.items():
        print(f"  left out: {cases}: {why}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
