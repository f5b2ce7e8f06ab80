# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 on the HTTP port: its preface however it comes, other people's clients, drains, and calls of gRPC."""

import os
import shutil
import socket
import subprocess
import threading
import time
import unittest

from harness import FLAGS, NATIVE, Reader, Server, is_silent, read_response, until
from test_native import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
                         WINDOW_UPDATE, Peer, call, frame, literal)

PADDED = 8
PLAINTEXT = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"
STATUS_200 = b"\x88"  # RFC 7541, appendix A


def get(stream, path=b"/plaintext"):
    block = b"".join(literal(*each) for each in (
        (b":method", b"GET"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a")))
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)


def curl(server, *arguments, data=None):
    """Status, fields (of the last header) and body."""
    host, port = server.address
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--include", *arguments[:-1],
         f"http://{host}:{port}{arguments[-1]}"], input=data, capture_output=True, timeout=60, check=True)
    head, body = done.stdout.split(b"\r\n\r\n", 1)
    while body.startswith(b"HTTP/"):
        head, body = body.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    return lines[0].strip(), dict(line.split(": ", 1) for line in lines[1:]), body


class Http2(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, grpc=NATIVE, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def peer(self, server, begin=True):
        peer = Peer(server, begin, address="{}:{}".format(*server.address))
        self.addCleanup(peer.close)
        return peer

    def answer(self, peer, stream):
        """The header's first byte, and the body."""
        first, body = b"", b""
        while True:
            kind, flags, of, payload = peer.frame()
            if of != stream:
                continue
            if kind == HEADERS:
                first = payload[:1]
            if kind == DATA:
                body += payload
            if flags & END_STREAM:
                return first, body

    def test_the_preface_may_be_cut_anywhere(self):
        server = self.serve()
        bytes_sent = PREFACE + frame(SETTINGS, 0, 0) + get(1)
        for cut in range(1, len(PREFACE) + 12):
            peer = self.peer(server, begin=False)
            peer.send(bytes_sent[:cut])
            time.sleep(0.003)
            peer.send(bytes_sent[cut:])
            self.assertEqual(self.answer(peer, 1), (STATUS_200, b"Hello, World!"), cut)
            peer.close()
        peer = self.peer(server, begin=False)
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(bytes_sent)):
            peer.send(bytes_sent[i:i + 1])
            time.sleep(0.001)
        self.assertEqual(self.answer(peer, 1), (STATUS_200, b"Hello, World!"))
        self.assertEqual(server.stop(), 0)

    def test_what_only_begins_like_the_preface_is_http_1(self):
        server = self.serve("--header-timeout", "300ms")
        post = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
        wrong = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX"
        for data, status in ((post, 200), (wrong, 505), (b"PRI / HTTP/1.1\r\nHost: a\r\n\r\n", 501)):
            for cut in (len(data), 1, 2, 3):
                with server.connect() as s:
                    s.sendall(data[:cut])
                    time.sleep(0.005)
                    s.sendall(data[cut:])
                    self.assertEqual(read_response(s).status, status, (data, cut))
        for data in (b"P", b"PRI * HT", PREFACE[:-1]):
            with server.connect() as s:  # and the time of a header, from its first byte
                s.sendall(data)
                self.assertTrue(is_silent(s, 0.15))
                answer = read_response(s)
                self.assertIn(answer.status, (408, 505), data)
                self.assertTrue(answer.closes)
            with server.connect() as s:  # its end is that of a request
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                self.assertIn(read_response(s).status, (400, 505), data)
        self.assertEqual(server.stop(), 0)

    def test_above_the_limit_http_2_gets_503_as_well(self):
        """Clients of gRPC take it for a connection that has not come about, and wait before they try again."""
        server = self.serve("--connections-max", "1")
        first = self.peer(server)
        first.send(get(1))
        self.assertEqual(self.answer(first, 1), (STATUS_200, b"Hello, World!"))
        first.send(get(3)[:20])  # not idle, so that nobody gets its place
        for _ in range(20):
            with server.connect() as above:
                above.sendall(PREFACE + frame(SETTINGS, 0, 0) + get(1))
                reader = Reader(above)
                response = reader.next()
                self.assertEqual((response.status, response.headers["retry-after"]), (503, "1"))
                self.assertTrue(reader.at_end())
        first.send(get(3)[20:])
        self.assertEqual(self.answer(first, 3), (STATUS_200, b"Hello, World!"))
        first.close()
        self.assertEqual(server.stop(), 0)

    @unittest.skipIf("asio-io-context" in FLAGS, "whose listener refuses, whoever is idle")
    def test_at_the_limit_the_longest_idle_makes_room(self):
        server = self.serve("--connections-max", "4")
        idle = self.peer(server)
        idle.send(get(1))
        self.assertEqual(self.answer(idle, 1), (STATUS_200, b"Hello, World!"))
        time.sleep(0.05)  # by which it has been idle for longer than who comes now
        busy = self.peer(server)
        busy.send(get(1)[:20])
        with server.connect() as silent, server.connect() as begun:
            silent.sendall(PLAINTEXT)
            self.assertEqual(read_response(silent).status, 200)
            begun.sendall(PLAINTEXT[:10])
            came = []
            self.addCleanup(lambda: [s.close() for s in came])

            def is_let_in():
                s = server.connect()
                s.sendall(PLAINTEXT)
                if read_response(s).status == 503:
                    s.close()
                    return False
                s.sendall(PLAINTEXT[:10])
                came.append(s)
                return True

            until(is_let_in)
            self.assertEqual(idle.until(GOAWAY)[4:], bytes(4))  # no error
            self.assertIsNone(idle.frame())
            idle.close()
            until(is_let_in)
            self.assertEqual(silent.recv(1), b"")
            self.assertFalse(is_let_in())  # nobody is idle any more
            busy.send(get(1)[20:])
            self.assertEqual(self.answer(busy, 1), (STATUS_200, b"Hello, World!"))
            for s in (begun, *came):
                s.sendall(PLAINTEXT[10:])
                self.assertEqual(read_response(s).status, 200)
        busy.close()
        server.until_metric("bwos_http_connections", len(came) + 1)
        self.assertEqual(server.metrics()["bwos_http_made_room_total"], 2)
        for s in came:
            s.close()
        self.assertEqual(server.stop(), 0)

    def test_an_upgrade_is_ignored(self):
        server = self.serve()
        with server.connect() as s:
            s.sendall(b"GET /plaintext HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                      b"HTTP2-Settings: AAMAAABk\r\n\r\n")
            self.assertEqual(read_response(s).body, b"Hello, World!")
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        server = self.serve("--body-bytes-max", "1MiB")
        status, fields, body = curl(server, "/plaintext")
        self.assertEqual((status, body), ("HTTP/2 200", b"Hello, World!"))
        self.assertEqual(fields["content-type"], "text/plain")
        self.assertEqual(fields["content-length"], "13")
        self.assertRegex(fields["date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        status, fields, body = curl(server, "--head", "/plaintext")
        self.assertEqual((status, fields["content-length"], body), ("HTTP/2 200", "13", b""))
        status, fields, body = curl(server, "--data-binary", "@-", "-H", "content-type: a/b", "/echo", data=b"x" * 1000000)
        self.assertEqual((status, fields["content-type"], body), ("HTTP/2 200", "a/b", b"x" * 1000000))
        self.assertEqual(curl(server, "--data-binary", "@-", "/echo", data=b"x" * 1100000)[0], "HTTP/2 413")
        self.assertEqual(curl(server, "-T", "-", "-X", "POST", "/echo", data=b"y" * 1100000)[0], "HTTP/2 413")
        self.assertEqual(curl(server, "/none")[0], "HTTP/2 404")
        status, fields, _ = curl(server, "--data", "x", "/plaintext")
        self.assertEqual((status, fields["allow"]), ("HTTP/2 405", "GET, HEAD, OPTIONS"))
        self.assertEqual(curl(server, "-H", "x: " + "y" * 17000, "/")[0], "HTTP/2 431")
        self.assertEqual(curl(server, "/work?us=10")[0], "HTTP/2 200")
        self.assertEqual(curl(server, "/readyz")[2], b"ready\n")
        text = curl(server, "/metrics")[2].decode()
        self.assertIn('bwos_http_requests_total{route="/plaintext",status="200"} 2', text)
        self.assertIn('bwos_http_requests_total{route="/plaintext",status="405"} 1', text)
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("nghttp"), "nghttp is not installed")
    def test_nghttp_takes_more_than_its_window(self):
        server = self.serve()
        host, port = server.address
        path = os.path.join(os.path.dirname(__file__), "test_http.py")
        done = subprocess.run(
            ["nghttp", "--window-bits=10", f"--data={path}", f"http://{host}:{port}/echo"], capture_output=True,
            timeout=60, check=True)
        with open(path, "rb") as file:
            self.assertEqual(done.stdout, file.read())
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not installed")
    def test_h2load(self):
        server = self.serve()
        host, port = server.address
        done = subprocess.run(["h2load", "-n", "50000", "-c", "10", "-m", "100", f"http://{host}:{port}/plaintext"],
                              capture_output=True, text=True, timeout=120, check=True)
        self.assertIn("50000 succeeded, 0 failed, 0 errored", done.stdout)
        self.assertEqual(server.metrics()['bwos_http_requests_total{route="/plaintext",status="200"}'], 50000)
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not installed")
    def test_long_requests_are_all_answered(self):
        server = self.serve()
        host, port = server.address
        done = subprocess.run(["h2load", "-n", "500", "-c", "4", "-m", "20", f"http://{host}:{port}/work?us=500"],
                              capture_output=True, text=True, timeout=120, check=True)
        self.assertIn("500 succeeded, 0 failed, 0 errored", done.stdout)
        self.assertEqual(server.stop(), 0)

    def test_floods_end_with_a_goaway_and_leave_others_untouched(self):
        server = self.serve()
        other = self.peer(server)
        floods = {
            "PING": frame(PING, 0, 0, b"12345678") * 11000,
            "SETTINGS": frame(SETTINGS, 0, 0) * 11000,
            "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 11000,
            "empty HEADERS": b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1) for i in range(11000)),
            "unknown frames": frame(0xbe, 0, 0, b"grease") * 11000,
            "padding": frame(HEADERS, END_HEADERS, 1, get(1)[9:]) + frame(DATA, PADDED, 1, b"\2\0\0") * 11000,
            "DATA on a closed stream": get(1) + frame(RST_STREAM, 0, 1, b"\0\0\0\x08") + frame(DATA, 0, 1) * 11000,
            "CONTINUATION": frame(HEADERS, 0, 1, get(1)[9:]) + frame(9, 0, 1) * 20,
            "rapid reset": b"".join(get(2 * i + 1) + frame(RST_STREAM, 0, 2 * i + 1, b"\0\0\0\x08")
                                    for i in range(3000)),
        }
        for name, data in floods.items():
            with self.subTest(name):
                peer = self.peer(server)
                try:
                    peer.send(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                self.assertIn(peer.until(GOAWAY)[7:8], (b"\x0b", b"\2"))
                peer.close()
        other.send(get(1))
        self.assertEqual(self.answer(other, 1), (STATUS_200, b"Hello, World!"))
        self.assertEqual(server.stop(), 0)

    def test_who_opens_a_window_by_a_byte_now_and_then_is_cut_off(self):
        server = self.serve("--write-timeout", "1s")
        dripping = self.peer(server)
        dripping.send(frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0") + get(1, b"/metrics"))
        ended = threading.Event()

        def drip():
            while not ended.wait(0.02):
                dripping.send(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))

        begun = time.monotonic()
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            self.assertEqual(dripping.until(RST_STREAM), b"\0\0\0\x08")
        finally:
            ended.set()
            thread.join()
        self.assertGreaterEqual(time.monotonic() - begun, 1)
        self.assertEqual(server.metrics()['bwos_http_timeouts_total{kind="write"}'], 1)
        dripping.send(get(3) + frame(WINDOW_UPDATE, 0, 3, b"\0\0\1\0"))
        self.assertEqual(self.answer(dripping, 3), (STATUS_200, b"Hello, World!"))
        self.assertEqual(server.stop(), 0)

    def test_silent_peers_are_ended(self):
        server = self.serve("--h2-handshake-timeout", "300ms", "--h2-idle-timeout", "500ms", "--body-timeout", "300ms")
        silent = self.peer(server, begin=False)
        silent.send(PREFACE)
        self.assertEqual(silent.until(GOAWAY)[4:8], b"\0\0\0\1")
        idle = self.peer(server)
        idle.send(get(1))
        self.assertEqual(idle.until(GOAWAY)[4:8], b"\0\0\0\0")
        slow = self.peer(server)
        slow.send(frame(HEADERS, END_HEADERS, 1, get(1)[9:]))
        kind, flags, stream, _ = slow.frame()
        while stream != 1:
            kind, flags, stream, _ = slow.frame()
        self.assertEqual((kind, flags), (HEADERS, END_HEADERS))  # 408
        server.until_metric('bwos_http_timeouts_total{kind="body"}', 1)
        self.assertEqual(server.stop(), 0)

    def test_keepalive_and_age(self):
        server = self.serve("--h2-keepalive", "200ms", "--h2-keepalive-timeout", "300ms", "--h2-age-max", "3s",
                            "--h2-age-grace", "200ms")
        dead = self.peer(server)
        self.assertIsNotNone(dead.until(PING))
        begun = time.monotonic()
        self.assertIsNotNone(dead.until(GOAWAY))
        self.assertLess(0.2, time.monotonic() - begun)
        self.assertIsNone(dead.until(SETTINGS))  # and the end
        lively = self.peer(server)
        lively.send(frame(HEADERS, END_HEADERS, 1, get(1)[9:]))  # a request that does not end
        begun = time.monotonic()
        goaways = []
        while (got := lively.frame()) is not None:
            if got[0] == PING and not got[1] & ACK:
                lively.send(frame(PING, ACK, 0, got[3]))
            if got[0] == GOAWAY:
                goaways.append(got[3])
        self.assertEqual(goaways[0], b"\x7f\xff\xff\xff\0\0\0\0")
        self.assertLess(2.5, time.monotonic() - begun)
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(server.stop(), 0)

    def test_a_drain_tells_the_peer_waits_for_its_last_requests_and_ends(self):
        server = self.serve()
        peer = self.peer(server)
        peer.send(get(1))
        self.assertEqual(self.answer(peer, 1)[1], b"Hello, World!")
        server.signal(15)
        kinds = {}
        while len(kinds) < 2:
            kind, flags, _, payload = peer.frame()
            if kind in (PING, GOAWAY) and not flags & ACK:
                kinds[kind] = payload
        self.assertEqual(list(kinds), [GOAWAY, PING])
        self.assertEqual(kinds[GOAWAY], b"\x7f\xff\xff\xff\0\0\0\0")
        peer.send(get(3) + frame(PING, ACK, 0, kinds[PING]))  # a request that was on its way
        rest = []
        while (got := peer.frame()) is not None:
            rest.append(got)
        self.assertIn((DATA, END_STREAM, 3, b"Hello, World!"), rest)
        self.assertEqual([got[3] for got in rest if got[0] == GOAWAY], [b"\0\0\0\3\0\0\0\0"])
        peer.close()
        self.assertEqual(server.wait(), 0)

    def test_a_drain_under_load_answers_whatever_it_has_taken(self):
        server = self.serve()
        results = []

        def ask():
            """Ten requests at a time, until the last GOAWAY; then what was sent, what it takes, what was answered."""
            peer = self.peer(server)
            peer.send(frame(WINDOW_UPDATE, 0, 0, b"\x7f\0\0\0"))  # for all that may come
            asked, answered, last = [], set(), None
            while True:
                if last is None:
                    asked += range(2 * len(asked) + 1, 2 * len(asked) + 21, 2)
                    peer.send(b"".join(get(stream) for stream in asked[-10:]))
                while last is not None or len(answered) < len(asked):
                    got = peer.frame()
                    if got is None:
                        results.append((asked, last, answered))
                        return
                    kind, flags, stream, payload = got
                    if kind == DATA and flags & END_STREAM and payload == b"Hello, World!":
                        answered.add(stream)
                    if kind == PING and not flags & ACK:
                        peer.send(frame(PING, ACK, 0, payload))
                    if kind == GOAWAY and payload[:4] != b"\x7f\xff\xff\xff":
                        last = int.from_bytes(payload[:4], "big")

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(0.5)
        server.signal(15)
        for each in threads:
            each.join()
        self.assertEqual(server.wait(), 0)
        self.assertFalse(any("not done" in line for line in server.log), server.log)
        self.assertEqual(len(results), 4)
        for asked, last, answered in results:
            self.assertGreater(len(answered), 10)
            self.assertEqual(answered, {stream for stream in asked if stream <= last})

    @unittest.skipUnless(NATIVE, "gRPC is gRPC C++'s")
    def test_calls_and_requests_share_a_connection(self):
        server = self.serve()
        peer = self.peer(server)
        peer.send(call(1) + get(3) + call(5))
        self.assertEqual(replies(peer, 3), [HELLO, HELLO, b"Hello, World!"])
        self.assertEqual(server.metrics()['bwos_grpc_ended_total{result="ok"}'], 2)
        self.assertEqual(server.stop(), 0)

    @unittest.skipIf(NATIVE, "there is gRPC")
    def test_without_native_grpc_a_call_is_a_request_for_nothing(self):
        server = self.serve()
        peer = self.peer(server)
        peer.send(call(1))
        self.assertEqual(self.answer(peer, 1)[0], b"\x8d")  # 404
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(NATIVE, "gRPC is gRPC C++'s")
    def test_both_may_have_one_address(self):
        for _ in range(20):  # a free port may be taken meanwhile
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                address = "127.0.0.1:{}".format(s.getsockname()[1])
            try:
                server = Server("--http-listen", address, "--grpc-listen", address)
                break
            except AssertionError as error:
                if "in use" not in str(error):
                    raise
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        self.assertEqual(server.line, f"listening http={address} grpc={address}\n")
        peer = self.peer(server)
        peer.send(call(1) + get(3))
        self.assertEqual(replies(peer, 2), [HELLO, b"Hello, World!"])
        self.assertEqual(read_response_of(server, b"/plaintext").body, b"Hello, World!")
        server.signal(15)
        self.assertIsNotNone(peer.until(GOAWAY))
        peer.close()
        self.assertEqual(server.wait(), 0)


def replies(peer, streams):
    """Reads until so many streams have ended: all DATA."""
    ended, body = 0, []
    while ended < streams:
        kind, flags, _, payload = peer.frame()
        if kind == DATA:
            body.append(payload)
        ended += kind in (DATA, HEADERS) and flags & END_STREAM
    return sorted(body)


HELLO = b"\0\0\0\0\x09\x0a\x07Hello x"


def read_response_of(server, path):
    with server.connect() as s:
        s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        return read_response(s)


if __name__ == "__main__":
    unittest.main()
