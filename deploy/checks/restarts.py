#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Restarts under load, as a service manager does them: restarts.py RESTARTS REQUESTS COMMAND...

Under systemd-socket-activate: holds the socket that it was started with (sd_listen_fds(3)) and gives it to one server
after the other; clients ask without a pause. Exit 1 if one of them was refused, reset, or left without its answer. --unheld as the first argument:
the server opens the address itself, and somebody must be refused.
"""
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

CLIENTS = 4
unheld = sys.argv[1] == "--unheld"
if unheld:
    del sys.argv[1]
restarts, requests, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
held = socket.socket(fileno=3)
address = held.getsockname()
if unheld:
    held.close()
    del os.environ["LISTEN_FDS"]
    command += ["--http-listen", "%s:%d" % address]
answered, lost, over = [0] * CLIENTS, [], threading.Event()


def start():
    """LISTEN_FDS and LISTEN_FDNAMES are there already."""
    server = subprocess.Popen(command, close_fds=unheld, stdout=subprocess.PIPE,
                              preexec_fn=lambda: os.environ.update(LISTEN_PID=str(os.getpid())))
    if not server.stdout.readline().startswith(b"listening"):
        over.set()
        sys.exit("restarts.py: the server does not start")
    return server


def stop(server):
    server.send_signal(signal.SIGTERM)
    if server.wait(60) != 0:
        lost.append(f"a server ended with {server.returncode}")


def ask(me):
    while not over.is_set():
        connection = http.client.HTTPConnection(*address, timeout=20)
        try:
            for _ in range(10):
                connection.request("GET", "/plaintext")
                response = connection.getresponse()
                if response.status != 200 or response.read() != b"Hello, World!":
                    raise OSError(f"answered {response.status}")
                answered[me] += 1
                if response.will_close:
                    break
        except (OSError, http.client.HTTPException) as error:
            lost.append(repr(error))
            time.sleep(0.01)
        finally:
            connection.close()


server = start()
clients = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
for client in clients:
    client.start()
for i in range(restarts):
    end = time.monotonic() + 60
    while sum(answered) < (i + 1) * requests / (restarts + 1) and len(lost) < 1000 and time.monotonic() < end:
        time.sleep(0.01)
    stop(server)
    if unheld:
        time.sleep(2)  # a SYN that came before the end is sent again after a second
    server = start()
while sum(answered) < requests and len(lost) < 1000 and server.poll() is None:
    time.sleep(0.01)
over.set()
for client in clients:
    client.join()
stop(server)
print(f"{sum(answered)} requests answered over {restarts} restarts, {len(lost)} lost", *sorted(set(lost)), sep="\n")
sys.exit(bool(lost) or sum(answered) < requests)
