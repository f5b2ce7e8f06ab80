# SPDX-License-Identifier: Apache-2.0
"""What the machine refuses: io_uring, a place for the log, memory."""

import ctypes
import os
import resource
import select
import struct
import unittest

from harness import SANITIZED, Server, read_response, until

PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"


def refuse_io_uring():
    """From here on io_uring_setup fails with EPERM, as under a container's seccomp profile. An ordinary user may."""
    load, jump_if_equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    io_uring_setup, refused, allowed = 425, 0x00050000 | 1, 0x7FFF0000  # one number on all architectures; ERRNO|EPERM
    code = b"".join(struct.pack("HBBI", *each) for each in (
        (load, 0, 0, 0), (jump_if_equal, 0, 1, io_uring_setup), (give, 0, 0, refused), (give, 0, 0, allowed)))
    held = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, seccomp, filtered = 38, 22, 2
    for arguments in ((no_new_privs, 1, 0, 0, 0), (seccomp, filtered, program, 0, 0)):
        if libc.prctl(*(each if each is program else ctypes.c_ulong(each) for each in arguments)) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


class Faults(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def ask(self, server, request=PLAINTEXT):
        with server.connect() as s:
            s.sendall(request)
            return read_response(s)

    def test_io_uring_refused_falls_back_with_one_warning_that_names_the_errno(self):
        server = self.serve(reactor="io_uring", before=refuse_io_uring)
        self.assertEqual(server.reactor_used(), "epoll")
        self.assertEqual(self.ask(server).status, 200)
        self.assertEqual(server.stop(), 0)
        warnings = [line for line in server.log if "[warning]" in line]
        self.assertEqual(len(warnings), 1, server.log)
        self.assertRegex(warnings[0], r"epoll, because io_uring was asked for .*\(EPERM 1\)")

        silent = self.serve(reactor="auto", before=refuse_io_uring)
        self.assertEqual(silent.reactor_used(), "epoll")
        self.assertEqual(self.ask(silent).status, 200)
        self.assertEqual(silent.stop(), 0)
        self.assertEqual([line for line in silent.log if "[warning]" in line], [])

    def provoke_a_warning(self, server):
        with server.connect() as busy:
            busy.sendall(b"GET /work?us=500000 HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(read_response(busy).status, 200)

    def check_it_serves_without_a_log(self, **options):
        flags = ("--stall-timeout", "100ms", "--work-us-max", "1000000", "--workers", "1")
        server = self.serve(*flags, **options)
        with server.connect() as s:
            for _ in range(3):
                self.provoke_a_warning(server)
                s.sendall(PLAINTEXT)
                self.assertEqual(read_response(s).body, b"Hello, World!")
        self.assertEqual(server.stop(), 0)

    def test_a_full_disk_under_the_log(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.check_it_serves_without_a_log(stderr=full)

    def test_nobody_reads_the_log_any_more(self):
        read, write = os.pipe()
        os.close(read)
        with open(write, "w", encoding="ascii") as pipe:
            self.check_it_serves_without_a_log(stderr=pipe)

    def test_a_log_that_nobody_reads_delays_no_answer_and_no_drain(self):
        read, write = os.pipe()
        os.set_blocking(write, False)
        held = 0
        try:
            while True:
                held += os.write(write, bytes(4096))
        except BlockingIOError:
            os.set_blocking(write, True)
        with open(read, "rb", buffering=0) as log, open(write, "w", encoding="ascii") as pipe:
            self.check_it_serves_without_a_log(stderr=pipe)
            server = self.serve("--stall-timeout", "100ms", "--work-us-max", "1000000", stderr=pipe)
            while held > 0:
                held -= len(log.read(held))
            self.provoke_a_warning(server)  # somebody reads again, and learns what is missing
            self.assertRegex(log.read(1 << 16), rb"^\[[^\n]*\[warning\] \d+ lines of the log dropped: nobody read\n")
            self.assertEqual(server.stop(), 0)

    def test_stderr_closed(self):
        """Where no file is, the next one opened would be: a peer's socket that then gets the log."""
        with open(os.devnull, "w", encoding="ascii") as replaced:
            self.check_it_serves_without_a_log(stderr=replaced, before=lambda: os.close(2))
            server = self.serve(stderr=replaced, before=lambda: os.close(2))
        self.assertEqual(os.readlink(f"/proc/{server.process.pid}/fd/2"), os.devnull)
        self.assertEqual(server.stop(), 0)

    def many_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def no_more_memory(self, server):
        """From here on, until the limit is lifted, its heap grows no more: returns how to lift it."""
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            data = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
        before = resource.prlimit(server.process.pid, resource.RLIMIT_DATA, (data, resource.RLIM_INFINITY))
        return lambda: resource.prlimit(server.process.pid, resource.RLIMIT_DATA, before)

    @unittest.skipIf(SANITIZED, "which has an allocator of its own")
    def test_memory_of_a_burst_goes_back_to_the_system(self):
        """Also where little that is still in use lies between what is free, so that no allocator returns it itself."""
        self.many_descriptors()
        server = self.serve()
        before = server.memory()
        length = 200_000  # below what is mapped for itself alone
        unfinished = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (length + 1) + b"x" * length
        clients = [server.connect() for _ in range(1000)]
        self.addCleanup(lambda: [s.close() for s in clients])
        for s in clients:
            s.sendall(unfinished)
        until(lambda: server.memory() > before + (160 << 20))
        kept = clients[::20]
        for s in clients:
            if s not in kept:
                s.close()
        server.until_metric("bwos_http_connections", len(kept) + 1)
        until(lambda: server.memory() < before + (64 << 20))
        for s in kept:
            s.sendall(b"y")
            self.assertEqual(read_response(s).body, b"x" * length + b"y")
        self.assertEqual(server.stop(), 0)

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory ends with the process's")
    def test_no_memory_for_a_connection_refuses_it_and_the_others_live(self):
        self.many_descriptors()
        server = self.serve("--idle-timeout", "10m", "--workers", "1")  # whose buffers the first request makes
        kept = [server.connect() for _ in range(8)]
        more = []
        self.addCleanup(lambda: [s.close() for s in kept + more])
        for s in kept:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).status, 200)
        # What is kept of connections by their number has room for more than come below, before their memory runs out.
        for s in [server.connect() for _ in range(600)]:
            s.close()
        server.until_metric("bwos_http_connections", len(kept) + 1)
        self.assertEqual(server.metrics()["bwos_http_refused_total"], 0)
        lift = self.no_more_memory(server)
        ended = select.poll()

        def some_are_refused():
            for _ in range(100):
                more.append(server.connect())
                ended.register(more[-1], select.POLLIN)
            return ended.poll(100)

        until(some_are_refused)
        for s in kept:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).body, b"Hello, World!")
        lift()
        self.assertEqual(self.ask(server).status, 200)
        metrics = server.metrics()  # without memory for its task it is refused, and for its state it ends at once
        self.assertGreater(metrics["bwos_http_refused_total"] + metrics["bwos_http_out_of_memory_total"], 0)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
