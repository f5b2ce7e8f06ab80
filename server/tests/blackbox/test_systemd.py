# SPDX-License-Identifier: Apache-2.0
"""A service manager that speaks systemd's protocol: what it hears of the server."""

import os
import re
import signal
import socket
import tempfile
import time
import unittest

from harness import FLAGS, PATIENCE, Server, read_response

READYZ = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"
KNOWS_STALLS = "--executor" not in FLAGS


class ManagerTest(unittest.TestCase):
    def set(self, name, value):
        os.environ[name] = value
        self.addCleanup(os.environ.pop, name, None)

    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server


class Notify(ManagerTest):
    def manager(self, address):
        """A fake of its socket, and the variable that names it. '@': abstract, as systemd writes it."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.bind("\0" + address[1:] if address.startswith("@") else address)
        s.settimeout(PATIENCE)
        self.set("NOTIFY_SOCKET", address)
        return s

    def path(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return os.path.join(folder.name, "notify")

    @staticmethod
    def heard(manager, seconds):
        """All that comes in so much time."""
        end = time.monotonic() + seconds
        messages = []
        while (left := end - time.monotonic()) > 0:
            manager.settimeout(left)
            try:
                messages.append(manager.recv(4096).decode())
            except TimeoutError:
                break
        manager.settimeout(PATIENCE)
        return messages

    def test_ready_when_it_listens_stopping_when_the_drain_begins_and_nothing_else(self):
        for address in (self.path(), f"@bwos-test-{os.getpid()}"):
            manager = self.manager(address)
            server = self.serve("--drain-delay", "1s", grpc=True)
            lines = manager.recv(4096).decode().splitlines()
            self.assertEqual(lines, ["READY=1", "STATUS=" + server.line.strip()])
            with server.connect() as s:
                s.sendall(READYZ)
                self.assertEqual(read_response(s).status, 200)
            self.assertEqual(self.heard(manager, 0.3), [])
            server.signal(signal.SIGTERM)
            self.assertEqual(manager.recv(4096).decode().splitlines(), ["STOPPING=1", "STATUS=draining"])
            with server.connect() as s:  # it has begun, and nothing more
                s.sendall(READYZ)
                self.assertEqual(read_response(s).status, 503)
            self.assertEqual(server.wait(), 0, server.log)
            self.assertEqual(self.heard(manager, 0.1), [])
            manager.close()

    def test_the_watchdog_is_fed_twice_in_its_time_and_during_the_drain(self):
        manager = self.manager(self.path())
        self.set("WATCHDOG_USEC", "1000000")
        server = self.serve("--drain-delay", "2s")
        self.assertTrue(manager.recv(4096).startswith(b"READY=1\n"))
        messages = self.heard(manager, 4)
        self.assertEqual(set(messages), {"WATCHDOG=1"})
        self.assertGreaterEqual(len(messages), 4)  # which systemd asks for; on a quiet machine they are 7 or 8
        self.assertLessEqual(len(messages), 8)
        server.signal(signal.SIGTERM)
        messages = self.heard(manager, 1.9)
        self.assertEqual(messages.pop(next(i for i, each in enumerate(messages) if "STOPPING=1" in each)),
                         "STOPPING=1\nSTATUS=draining")
        self.assertEqual(set(messages), {"WATCHDOG=1"})
        self.assertEqual(server.wait(), 0, server.log)

    @unittest.skipUnless(KNOWS_STALLS, "this executor does not tell when its threads turn")
    def test_it_starves_while_a_worker_is_stalled(self):
        manager = self.manager(self.path())
        self.set("WATCHDOG_USEC", "400000")
        server = self.serve("--work-us-max", "20000000", "--stall-timeout", "500ms")
        manager.recv(4096)
        with server.connect() as busy:
            busy.sendall(b"GET /work?us=4000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            end = time.monotonic() + PATIENCE
            while not any("inside one task" in line for line in list(server.log)):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.heard(manager, 0.1)  # what came before
            self.assertEqual(self.heard(manager, 2), [])
            self.assertEqual(read_response(busy).status, 200)
        self.assertEqual(manager.recv(4096), b"WATCHDOG=1")
        self.assertEqual(server.stop(), 0)

    def test_without_a_watchdog_of_its_own_nothing_is_fed(self):
        manager = self.manager(self.path())
        self.set("WATCHDOG_USEC", "100000")
        self.set("WATCHDOG_PID", "1")
        server = self.serve()
        self.assertTrue(manager.recv(4096).startswith(b"READY=1\n"))
        self.assertEqual(self.heard(manager, 0.5), [])
        self.assertEqual(server.stop(), 0)

    def test_a_manager_that_cannot_be_told_is_logged_once_and_served_without(self):
        self.set("WATCHDOG_USEC", "100000")
        for address, why in (("/nowhere/socket", "No such file"), ("@nobody-there", "Connection refused"),
                             ("/" + "x" * 200, "File name too long"), ("vsock:2:1", "not supported"), ("@", "not supp")):
            self.set("NOTIFY_SOCKET", address)
            server = self.serve()
            time.sleep(0.4)
            with server.connect() as s:
                s.sendall(READYZ)
                self.assertEqual(read_response(s).status, 200)
            self.assertEqual(server.stop(), 0, server.log)
            told = [line for line in server.log if "NOTIFY_SOCKET" in line]
            self.assertEqual(len(told), 1, server.log)
            self.assertRegex(told[0], rf"\[warning\] NOTIFY_SOCKET {re.escape(address)}: .*{why}")


if __name__ == "__main__":
    unittest.main()
