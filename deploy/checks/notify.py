#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service manager's side of sd_notify(3): notify.py SERVER ARG...    exit 1 if the server does not keep to it

READY=1 once it listens and not before, WATCHDOG=1 at least twice in its time, none while the process hangs, STOPPING=1
when it is told to end.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

WATCHDOG = 1.0  # seconds


def heard(seconds):
    """What comes in so much time: when, and what."""
    end, messages = time.monotonic() + seconds, []
    while (left := end - time.monotonic()) > 0:
        manager.settimeout(left)
        try:
            text = manager.recv(4096).decode()
        except TimeoutError:
            break
        messages.append((time.monotonic(), text))
        print(f"{time.monotonic() - begun:6.2f} s  {text!r}")
    return messages


def require(condition, what):
    if not condition:
        sys.exit(f"notify.py: {what}")


with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
    address = os.path.join(folder, "notify")
    manager.bind(address)
    begun = time.monotonic()
    server = subprocess.Popen(sys.argv[1:], env=os.environ | {
        "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))})
    try:
        manager.settimeout(3)
        try:
            first = manager.recv(4096).decode()
        except TimeoutError:
            first = "nothing"
        print(repr(first))
        require(first.startswith("READY=1\n"), f"not READY=1 first, but {first}")
        http = re.search(r"http=(\S+)", first)[1]
        with urllib.request.urlopen(f"http://{http}/readyz", timeout=10) as answer:
            require(answer.status == 200, "READY=1, though not ready")
        fed = heard(3 * WATCHDOG)
        require({text for _, text in fed} == {"WATCHDOG=1"}, "no watchdog fed, or more than that")
        gaps = [later - sooner for (sooner, _), (later, _) in zip(fed, fed[1:])]
        require(len(fed) >= 4 and max(gaps) < WATCHDOG, f"fed {len(fed)} times, {max(gaps, default=0):.2f} s apart")
        require(len(fed) <= 7, "fed too often")

        server.send_signal(signal.SIGSTOP)
        heard(0.1)  # what was on its way
        require(not heard(2 * WATCHDOG), "fed, though it hangs")
        server.send_signal(signal.SIGCONT)
        require(heard(WATCHDOG), "not fed again")

        server.send_signal(signal.SIGTERM)
        require(any("STOPPING=1" in text.splitlines() for _, text in heard(2)), "no STOPPING=1")
        require(server.wait(30) == 0, "it did not end with 0")
    finally:
        server.kill()
        server.wait()
