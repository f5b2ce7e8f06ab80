# SPDX-License-Identifier: Apache-2.0
"""A service manager that speaks systemd's protocol: what it hears of the server, and sockets that it holds for it."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import FLAGS, NATIVE, PATIENCE, REACTOR, SERVER, Reader, Server, executor_flags, is_silent, read_response

PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"
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
        for address, why in (("/nowhere/socket", "No such file"), ("@nobody-there", "Connection refused"), ("@", "not"),
                             ("/" + "x" * 200, "File name too long"), ("vsock:2:1", "not supported")):
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


def activation(files, names, pid=None):
    """What a service manager does in the process of the server: the files from descriptor 3 on, and their names."""
    def before():
        aside = [fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 100) for file in files]
        for i, fd in enumerate(aside):
            os.dup2(fd, 3 + i)
            os.close(fd)
        os.environ["LISTEN_PID"] = str(os.getpid() if pid is None else pid)
        os.environ["LISTEN_FDS"] = str(len(files))
        if names is not None:
            os.environ["LISTEN_FDNAMES"] = names
    return before


def listening():
    """A socket as systemd has it, of which nothing is lost while nobody accepts."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(4096)
    return s


class Load:
    """Clients that ask without a pause, over connections of up to ten requests, until they are told to stop. Who is
    refused, reset, or left without an answer counts as lost."""

    def __init__(self, address, clients=4):
        self.address, self.answered, self.lost = address, [0] * clients, []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, me):
        while not self._over.is_set():
            try:
                with socket.create_connection(self.address, PATIENCE) as s:
                    reader = Reader(s)
                    for _ in range(10):
                        s.sendall(PLAINTEXT)
                        response = reader.next()
                        if response.body != b"Hello, World!":
                            raise AssertionError(response)
                        self.answered[me] += 1
                        if response.closes:
                            break
            except (OSError, EOFError, AssertionError) as error:
                self.lost.append(repr(error))
                if len(self.lost) > 20:
                    return

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join()
        return sum(self.answered)


class Activation(ManagerTest):
    def listening(self):
        s = listening()
        self.addCleanup(s.close)
        return s

    def activated(self, sockets, *flags, grpc=False):
        """`sockets` by name."""
        server = self.serve(*flags, grpc=grpc, before=activation(sockets.values(), ":".join(sockets)))
        if REACTOR == "io_uring" and server.reactor_used() != "io_uring":
            self.skipTest(f"io_uring: the server uses {server.reactor_used()}")
        return server

    def test_it_serves_on_the_socket_and_leaves_it_as_it_was(self):
        held = self.listening()
        server = self.activated({"http": held})
        self.assertEqual(server.address, held.getsockname())
        with open(f"/proc/{server.process.pid}/fdinfo/3", encoding="ascii") as file:
            flags = int(re.search(r"flags:\s+(\d+)", file.read())[1], 8)
        self.assertTrue(flags & os.O_CLOEXEC)
        with server.connect() as s:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).body, b"Hello, World!")
        with server.connect() as unfinished:  # holds the drain up
            unfinished.sendall(PLAINTEXT[:20])
            time.sleep(0.2)
            server.signal(signal.SIGTERM)
            time.sleep(0.5)
            # Whoever comes now is the next one's, neither refused, reset, nor ignored.
            late = socket.create_connection(held.getsockname(), 5)
            self.addCleanup(late.close)
            late.sendall(PLAINTEXT)
            self.assertTrue(is_silent(late, 0.5))
            unfinished.sendall(PLAINTEXT[20:])
            self.assertTrue(read_response(unfinished).closes)
        self.assertEqual(server.wait(), 0, server.log)
        self.assertEqual(held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 1)
        after = socket.create_connection(held.getsockname(), 5)
        self.addCleanup(after.close)
        after.sendall(PLAINTEXT)
        again = self.activated({"http": held})
        for s in (late, after):
            self.assertEqual(read_response(s).body, b"Hello, World!")
        self.assertEqual(again.stop(), 0, again.log)

    def test_a_server_that_leaves_costs_no_cpu_while_another_accepts(self):
        """Its epoll set would go on watching the socket that others keep open."""
        held = self.listening()
        old = self.activated({"http": held})
        with old.connect() as unfinished:
            unfinished.sendall(PLAINTEXT[:20])
            time.sleep(0.2)
            old.signal(signal.SIGTERM)
            time.sleep(0.3)
            new = self.activated({"http": held})
            before = self.switches(old)
            load = Load(held.getsockname())
            time.sleep(1)
            answered = load.stop()
            woken = self.switches(old) - before
            unfinished.sendall(PLAINTEXT[20:])
            self.assertTrue(read_response(unfinished).closes)
        self.assertEqual(load.lost, [])
        self.assertGreater(answered, 200)
        self.assertLess(woken, answered / 40, "woken by connections, of ten answers each, that are another's")
        self.assertEqual(old.wait(), 0, old.log)
        self.assertEqual(new.stop(), 0, new.log)

    @staticmethod
    def switches(server):
        """How often threads other than the first, which looks every 20 ms, have gone to sleep."""
        total = 0
        tasks = f"/proc/{server.process.pid}/task"
        for task in os.listdir(tasks):
            if int(task) == server.process.pid:
                continue
            with open(f"{tasks}/{task}/status", encoding="ascii") as file:
                total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.MULTILINE)[1])
        return total

    def test_ten_thousand_requests_across_twenty_restarts(self):
        held = self.listening()
        load = Load(held.getsockname())
        server = self.activated({"http": held})
        for i in range(20):
            wanted = (i + 1) * 500
            end = time.monotonic() + PATIENCE
            while sum(load.answered) < wanted and not load.lost:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            following = self.activated({"http": held}) if i % 2 else None  # side by side, or as systemd does it
            self.assertEqual(server.stop(), 0, server.log)
            self.assertFalse(any("not done" in line for line in server.log), server.log)
            server = following or self.activated({"http": held})
        total = load.stop()
        self.assertEqual(load.lost, [])
        self.assertGreaterEqual(total, 10_000)
        self.assertEqual(server.stop(), 0, server.log)

    @unittest.skipUnless(NATIVE and shutil.which("curl"), "gRPC C++ has sockets of its own, or curl is not installed")
    def test_native_grpc_takes_the_socket_of_its_name(self):
        http, grpc = self.listening(), self.listening()
        server = self.activated({"grpc": grpc, "http": http}, grpc=True)
        self.assertEqual(server.address, http.getsockname())
        self.assertEqual(server.grpc_address, "%s:%d" % grpc.getsockname())
        url = f"http://{server.grpc_address}/helloworld.Greeter/SayHello"
        done = subprocess.run(
            ["curl", "-sS", "--http2-prior-knowledge", "-m", "30", "-H", "Content-Type: application/grpc", "-H",
             "TE: trailers", "--data-binary", "@-", url], input=b"\0\0\0\0\3\n\1a", capture_output=True, check=True)
        self.assertIn(b"Hello a", done.stdout)
        self.assertEqual(server.stop(), 0, server.log)
        self.assertEqual(grpc.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), 1)

    def refused(self, files, names, *flags):
        done = subprocess.run([SERVER, "--http-listen", "127.0.0.1:0", "--grpc-listen", "", *executor_flags(), *flags],
                              capture_output=True, text=True, timeout=PATIENCE, check=False, close_fds=False,
                              preexec_fn=activation(files, names))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        lines = [line for line in done.stderr.splitlines() if "[info]" not in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_what_is_no_listening_tcp_socket_is_refused_by_name(self):
        udp, idle, unix = socket.socket(type=socket.SOCK_DGRAM), socket.socket(), socket.socket(socket.AF_UNIX)
        unix.bind(f"\0bwos-test-{os.getpid()}")
        unix.listen()
        with udp, idle, unix, tempfile.TemporaryFile() as file:
            udp.bind(("127.0.0.1", 0))
            idle.bind(("127.0.0.1", 0))
            for each in (udp, idle, unix, file):
                self.assertRegex(self.refused([each], "http"),
                                 "LISTEN_FDNAMES 'http', descriptor 3: must be a listening TCP socket")

    def test_other_names_are_refused(self):
        one, two = self.listening(), self.listening()
        self.assertRegex(self.refused([one], "web"), "'web', descriptor 3: must be http or grpc")
        self.assertRegex(self.refused([one], None), "'unknown', descriptor 3: must be http or grpc")
        self.assertRegex(self.refused([one, two], "http:http"), "'http', descriptor 4: must be named once")
        self.assertRegex(self.refused([one, two], "http"), "'http': must have as many names as LISTEN_FDS, 2")
        if "asio-io-context" not in FLAGS:
            self.assertRegex(self.refused([one], "grpc", "--grpc", "grpc++"), r"--grpc grpc\+\+: must be native")

    def test_those_of_another_process_are_not_taken(self):
        held = self.listening()
        server = self.serve(before=activation([held], "http", pid=1))
        self.assertNotEqual(server.address, held.getsockname())
        self.assertEqual(server.stop(), 0, server.log)

    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd is not installed")
    def test_systemd_agrees(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = free.getsockname()
        process = subprocess.Popen(["systemd-socket-activate", "-l", "%s:%d" % address, "--fdname=http", SERVER,
                                    "--grpc-listen", "", *executor_flags()],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    s = socket.create_connection(address, PATIENCE)
                    break
                except ConnectionRefusedError:  # not listening yet
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
            with s:
                s.settimeout(PATIENCE)
                s.sendall(PLAINTEXT)
                self.assertEqual(read_response(s).body, b"Hello, World!")
            process.send_signal(signal.SIGTERM)
            out, log = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, log)
            self.assertEqual(out, "listening http=%s:%d\n" % address)
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    unittest.main()
