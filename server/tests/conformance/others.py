# SPDX-License-Identifier: Apache-2.0
"""Somebody else's client, built from its source, and the server that it tries."""

import contextlib
import os
import re
import subprocess
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
TOOLS = os.path.join(ROOT, "build/tools")


def build(module):
    """The program of a Go module "path@version". Needs Go, once for each version."""
    path, version = module.split("@")
    folder = os.path.join(TOOLS, f"{path.replace('/', '.')}@{version}")
    program = os.path.join(folder, os.path.basename(path))
    if not os.path.exists(program):
        os.makedirs(folder, exist_ok=True)
        for seconds in (10, 60, None):  # it downloads, which may fail for a while
            done = subprocess.run(["go", "install", module], cwd=folder, check=seconds is None,
                                  env={**os.environ, "GOBIN": folder, "GOFLAGS": "-mod=mod"})
            if done.returncode == 0:
                break
            time.sleep(seconds)
    return program


@contextlib.contextmanager
def serving(server, *flags):
    """Ports of a running server: HTTP's and gRPC's. It must then stop by itself, with 0."""
    process = subprocess.Popen(
        [server, "--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--workers", "2",
         "--log-level", "off", *flags], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        listening = re.fullmatch(r"listening http=\S+:(\d+) grpc=\S+:(\d+)\n", line)
        if listening is None:
            raise RuntimeError(f"not ready: {line!r}")
        yield listening.groups()
        process.terminate()
        if process.wait(60) != 0:
            raise RuntimeError(f"server ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
