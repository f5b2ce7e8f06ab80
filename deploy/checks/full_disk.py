#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The access log on a small file system: full_disk.py FOLDER SERVER ARG...    exit 1 if it is not as it should be

FOLDER is that file system's. Until it is full, and beyond, every request is answered, and every line written or counted
as dropped; with room again lines are written, and each line in the file is JSON.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

REQUESTS = 6_000


def counts():
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return [int(re.search(rf'^bwos_access_log_lines_total{{result="{each}"}} (\d+)$', text, re.MULTILINE)[1])
            for each in ("written", "dropped")]


def ask(times):
    for _ in range(times):
        connection.request("GET", "/plaintext")
        response = connection.getresponse()
        require(response.status == 200 and response.read() == b"Hello, World!", f"answered {response.status}")


def require(condition, what):
    if not condition:
        sys.exit(f"full_disk.py: {what}")


log, ballast = (os.path.join(sys.argv[1], name) for name in ("access.log", "ballast"))
room = os.statvfs(sys.argv[1])
with open(ballast, "wb") as file:
    file.write(bytes(room.f_bavail * room.f_frsize // 2))
server = subprocess.Popen([*sys.argv[2:], "--access-log", log], stdout=subprocess.PIPE, text=True)
try:
    http_at = re.search(r"http=(\S+)", server.stdout.readline())[1]
    connection = http.client.HTTPConnection(http_at, timeout=20)
    ask(REQUESTS)
    for asked in range(100):  # each of which is a line, too
        written, dropped = counts()
        cut = REQUESTS + asked - written - dropped
        if cut in (0, 1):  # a line that is half written is neither
            break
        time.sleep(0.1)
    print(f"{REQUESTS} answered, {written} lines written, {dropped} dropped, {cut} cut")
    require(cut in (0, 1), "lines are neither written nor dropped")
    require(dropped > 0 and written > 0, "the disk was never full, or never empty")
    time.sleep(0.2)  # until the line of /metrics is dropped
    os.remove(ballast)
    ask(100)
    server.send_signal(signal.SIGTERM)
    require(server.wait(30) == 0, f"the server ended with {server.returncode}")
    with open(log, encoding="ascii") as file:
        lines = [json.loads(line) for line in file]
    print(f"{len(lines)} lines in the file")
    require(len(lines) == written + cut + 100, "lines are missing, or counted twice")
finally:
    server.kill()
    server.wait()
