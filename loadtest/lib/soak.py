# SPDX-License-Identifier: Apache-2.0
"""Whether memory grows: resident memory once a second under mixed load whose connections come and go."""

import csv
import random
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from lib import idle, measure, tools
from lib.measure import Failed

SLICE_S = 5  # each tool runs so long with the same connections, then again with new ones
HELD = 200  # connections that are kept open between two requests, each until chance takes it

PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"
ECHO = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
WHOLE = (PLAINTEXT, ECHO, CHUNKED, PLAINTEXT * 16)
BROKEN = (
    b"", PLAINTEXT[:10], PLAINTEXT[:-1], ECHO[:100], ECHO[:10_000], CHUNKED[:-4], b"GET / HTTP/1.1\r\n\r\n", b"\0" * 50
)  # fmt: skip


class Churn(threading.Thread):
    """Peers of every kind, one after the other."""

    def __init__(self, target: str):
        super().__init__()
        self.requests = 0
        self.errors: list[str] = []
        self._target = target
        self._over = threading.Event()
        self._random = random.Random(1)
        self._held: list[socket.socket] = []

    def stop(self) -> None:
        self._over.set()
        self.join()
        for each in self._held:
            each.close()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._one()
            except OSError as error:
                self.errors.append(str(error))
            time.sleep(0.001)

    def _one(self) -> None:
        peer = idle.connected(self._target, 60)
        if self._random.random() < 0.5:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, idle.LINGER_RESET)
        if self._random.random() < 0.4:  # leaves in the middle of something, or is wrong
            peer.sendall(self._random.choice(BROKEN))
            if self._random.random() < 0.5:
                time.sleep(0.001)
            return peer.close()
        peer.sendall(self._random.choice(WHOLE))
        if not peer.recv(4096).startswith(b"HTTP/1.1 200 "):
            self.errors.append("no answer")
        self.requests += 1
        if self._random.random() < 0.5:
            return peer.close()  # perhaps with most of its answer unread
        self._held.append(peer)
        if len(self._held) > HELD:
            self._held.pop(self._random.randrange(HELD)).close()


def _tools(server, cell, ghz: str | None) -> list[list[str]]:
    """What keeps its connections for a slice."""
    loads = [
        replace(cell, path="/plaintext"),
        replace(cell, path="/echo", body=128),
        replace(cell, path="/work?us=300", connections=4),
        replace(cell, path="/plaintext", pipeline=16, connections=8),
    ]
    commands = [tools.wrk_command(each, server.http, SLICE_S) for each in loads]
    if server.grpc and ghz:
        command = tools.ghz_command(replace(cell, connections=4, streams=4), server.grpc, SLICE_S)
        commands.append([ghz if word == "ghz" else word for word in command])
    return commands


def measure_soak(server, cell, seconds: int, samples: Path, ghz: str | None) -> dict:
    """Samples go to the file `samples`, a line a second. Early is the second tenth of the time, late the last."""
    churn = Churn(server.http)
    churn.start()
    running: list[subprocess.Popen] = []
    rss: list[int] = []
    began = time.monotonic()
    try:
        with samples.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["second", "rss_kib"])
            while len(rss) < seconds:
                if all(each.poll() is not None for each in running):
                    for each in running:
                        measure.stop(each)
                    running = [
                        measure.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for command in _tools(server, cell, ghz)
                    ]
                time.sleep(max(0.0, began + len(rss) + 1 - time.monotonic()))
                rss.append(server.sample()["rss_kib"])
                lines.writerow([len(rss), rss[-1]])
                file.flush()
    finally:
        for each in running:
            measure.stop(each)
        churn.stop()
    if churn.requests == 0:
        raise Failed(f"no request was answered: {churn.errors[:3]}")
    tenth = max(1, seconds // 10)
    early, late = median(rss[tenth : 2 * tenth] or rss), median(rss[-tenth:])
    return {
        "requests": churn.requests,
        "errors": len(churn.errors),
        "server_rss_kib": late,
        "rss_growth_kib": late - early,
    }
