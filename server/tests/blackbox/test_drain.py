# SPDX-License-Identifier: Apache-2.0
"""SIGTERM in the middle of everything: who is served to the end, who is sent away, and a restart on the same port."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import NATIVE, PATIENCE, Reader, Server, is_silent, read_response
from test_native import GOAWAY, PING, Peer, answers, call, frame

PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"
READYZ = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"
ROUNDS = int(os.environ.get("BWOS_TEST_ROUNDS", "2"))  # of each load; more when something was changed here
GHZ = shutil.which("ghz") or shutil.which("ghz", path=os.path.expanduser("~/go/bin"))


class Drain(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def ended_well(self, server):
        self.assertEqual(server.wait(), 0, "".join(server.log))
        self.assertFalse(any("not done" in line for line in server.log), server.log)

    def until_unready(self, server):
        """Whoever asks is told to leave, too."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with server.connect() as s:
                s.sendall(READYZ)
                response = read_response(s)
            if response.status == 503:
                self.assertTrue(response.closes)
                return
            time.sleep(0.005)
        self.fail("/readyz still says 200")

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_during_the_delay_it_is_not_ready_but_serves_whoever_comes(self):
        server = self.serve("--drain-delay", "1500ms", grpc=True)
        kept = server.connect()
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        self.until_unready(server)
        self.assertEqual(self.grpc_health(server), b"\x08\x02")  # NOT_SERVING
        kept.sendall(PLAINTEXT * 3)
        reader = Reader(kept)
        self.assertEqual([reader.next().closes for _ in range(3)], [False, False, True])
        self.assertTrue(reader.at_end())
        kept.close()
        while time.monotonic() - begun < 1.2:
            with server.connect() as s:
                s.sendall(PLAINTEXT)
                response = read_response(s)
                self.assertEqual((response.status, response.closes), (200, True))
            time.sleep(0.05)
        self.assertIsNone(server.process.poll())
        self.ended_well(server)
        self.assertGreaterEqual(time.monotonic() - begun, 1.5)

    @staticmethod
    def grpc_health(server):
        """The message of the health service's answer, asked for in plain HTTP/2."""
        url = f"http://{server.grpc_address}/grpc.health.v1.Health/Check"
        done = subprocess.run(
            ["curl", "-sS", "--http2-prior-knowledge", "-m", "30", "-H", "Content-Type: application/grpc",
             "-H", "TE: trailers", "--data-binary", "@-", url], input=bytes(5), capture_output=True, check=True)
        return done.stdout[5:]

    @unittest.skipUnless(NATIVE, "gRPC has a port of its own")
    def test_during_the_delay_new_connections_of_the_http_port_make_their_calls(self):
        server = self.serve("--drain-delay", "1500ms", grpc=True)
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        self.until_unready(server)
        while time.monotonic() - begun < 1:
            peer = Peer(server, address="%s:%d" % server.address)
            for payload in b"12345678", b"87654321":  # acknowledgements go before a GOAWAY: the second one comes behind
                peer.send(frame(PING, 0, 0, payload))
                kind = None
                while kind != PING:
                    kind = peer.frame()[0]
                    self.assertNotEqual(kind, GOAWAY)
            peer.send(call(1))
            self.assertEqual(answers(peer, 1), 1)
            self.assertEqual(peer.until(GOAWAY)[4:8], bytes(4))  # behind the answer
            peer.close()
        self.ended_well(server)

    def test_a_second_signal_ends_the_delay_at_once(self):
        server = self.serve("--drain-delay", "1m", grpc=True)
        server.signal(signal.SIGTERM)
        self.until_unready(server)
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 128 + signal.SIGINT, "".join(server.log))

    def test_a_pause_of_the_process_does_not_end_the_delay(self):
        server = self.serve("--drain-delay", "1m")
        server.signal(signal.SIGTERM)
        self.until_unready(server)
        server.signal(signal.SIGSTOP)
        server.signal(signal.SIGCONT)
        time.sleep(0.2)
        self.until_unready(server)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 128 + signal.SIGTERM)

    def test_idle_connections_end_after_drain_idle_and_are_answered_until_then(self):
        server = self.serve("--drain-idle", "700ms")
        idle, late = server.connect(), server.connect()
        for s in (idle, late):
            s.sendall(PLAINTEXT)
            self.assertFalse(read_response(s).closes)
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        self.assertTrue(is_silent(idle, 0.5))
        late.sendall(PLAINTEXT)
        response = read_response(late)
        self.assertEqual((response.status, response.closes), (200, True))
        late.close()
        self.assertTrue(Reader(idle).at_end())
        self.assertGreaterEqual(time.monotonic() - begun, 0.7)
        self.ended_well(server)
        idle.close()

    def test_nobody_who_was_let_in_is_reset(self):
        for _ in range(ROUNDS):
            server = self.serve()
            lost, answered = [], []
            clients = [threading.Thread(target=self.connect_again_and_again, args=(server.address, lost, answered))
                       for _ in range(4)]
            for client in clients:
                client.start()
            time.sleep(0.3)
            server.signal(signal.SIGTERM)
            for client in clients:
                client.join()
            self.assertEqual(lost, [])
            self.assertGreater(len(answered), 10)
            self.ended_well(server)

    @staticmethod
    def connect_again_and_again(address, lost, answered):
        while True:
            try:
                s = socket.create_connection(address, PATIENCE)
            except ConnectionRefusedError:
                return
            try:
                s.sendall(PLAINTEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                answered.append(read_response(s).status)
            except (OSError, EOFError) as error:
                lost.append(error)
            s.close()

    @unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
    def test_http_under_full_load_loses_no_request(self):
        for round_number in range(ROUNDS):
            server = self.serve("--drain-delay", "300ms" if round_number % 2 else "0")
            load = subprocess.Popen(["wrk", "-t2", "-c64", "-d2s", "http://%s:%d/plaintext" % server.address],
                                    stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            server.signal(signal.SIGTERM)
            self.ended_well(server)
            report = load.communicate(timeout=PATIENCE)[0]
            self.assertRegex(report, r"\d{3,} requests in")
            self.assertNotIn("Non-2xx", report)
            # To connect and write errors wrk counts its attempts to come back.
            errors = re.search(r"Socket errors: connect \d+, read (\d+), write \d+, timeout (\d+)", report)
            if errors:
                self.assertEqual(errors.groups(), ("0", "0"), report)

    @unittest.skipUnless(GHZ, "ghz is not installed")
    def test_grpc_under_full_load_loses_no_call(self):
        for round_number in range(ROUNDS):
            server = self.serve("--drain-delay", "300ms" if round_number % 2 else "0", grpc=True)
            load = subprocess.Popen(
                [GHZ, "--insecure", "--call", "helloworld.Greeter.SayHello", "-d", '{"name":"world"}', "-c", "16",
                 "--connections", "4", "-z", "2s", "--duration-stop", "ignore", "-O", "json", server.grpc_address],
                stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            server.signal(signal.SIGTERM)
            self.ended_well(server)
            report = json.loads(load.communicate(timeout=PATIENCE)[0])
            self.assertGreater(report["statusCodeDistribution"]["OK"], 16, "not even one for each caller")
            # Calls that never left, as there was nowhere to go, are not the server's. A connection that the server ends
            # under a call is told otherwise: EOF, or reset by peer.
            never_left = ("connection refused|the connection is draining|transport is closing|"
                          "the client connection is closing")
            failed = {what: count for what, count in (report["errorDistribution"] or {}).items()
                      if not re.search(never_left, what)}
            self.assertEqual(failed, {})

    def test_after_kill_9_the_same_ports_can_be_taken_at_once(self):
        for attempts_left in reversed(range(5)):
            try:
                return self.kill_and_take_the_ports()
            except AssertionError as error:
                # Another process may have got one of them in between; that does not happen every time.
                if attempts_left == 0 or "Address already in use" not in str(error):
                    raise

    def kill_and_take_the_ports(self):
        first = self.serve(grpc=True)
        open_ones = [first.connect() for _ in range(20)]
        for s in open_ones[:10]:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).status, 200)
        first.kill()
        try:
            again = self.serve("--http-listen", "%s:%d" % first.address, "--grpc-listen", first.grpc_address)
        finally:
            for s in open_ones:
                s.close()
        self.assertEqual((again.address, again.grpc_address), (first.address, first.grpc_address))
        with again.connect() as s:
            s.sendall(PLAINTEXT)
            self.assertEqual(read_response(s).status, 200)
        again.signal(signal.SIGTERM)
        self.ended_well(again)


if __name__ == "__main__":
    unittest.main()
