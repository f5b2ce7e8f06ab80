# SPDX-License-Identifier: Apache-2.0
"""Every status and feature of HTTP/1.1, each request whole, split at every byte, byte by byte and pipelined."""

import re
import shutil
import socket
import subprocess
import time
import unittest
from email.utils import parsedate_to_datetime

from harness import FLAGS, Reader, ServerTest, is_silent, read_response

HOST = b"Host: a\r\n"
TEXT = "text/plain; charset=utf-8"


def get(path, extra=b"", version=b"1.1", verb=b"GET"):
    return verb + b" " + path + b" HTTP/" + version + b"\r\n" + HOST + extra + b"\r\n"


def post(path, body, extra=b""):
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


CHUNKED = (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Type: a/b\r\n\r\n"
           b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: z\r\n\r\n")

# Name: request, status, headers that must be there, body (None: any). All leave the connection open.
KEPT = {
    "plaintext": (get(b"/plaintext"), 200, {"content-type": "text/plain"}, b"Hello, World!"),
    "query": (get(b"/plaintext?a=b"), 200, {}, b"Hello, World!"),
    "absolute form": (get(b"http://a/plaintext"), 200, {}, b"Hello, World!"),
    "help": (get(b"/"), 200, {"content-type": TEXT}, None),
    "echo": (post(b"/echo", b"hello", b"Content-Type: a/b; c=d\r\n"), 200, {"content-type": "a/b; c=d"}, b"hello"),
    "echo untyped": (post(b"/echo", b"\0\r\n\xff"), 200, {"content-type": "application/octet-stream"}, b"\0\r\n\xff"),
    "echo empty": (post(b"/echo", b""), 200, {}, b""),
    "echo chunked": (CHUNKED, 200, {"content-type": "a/b"}, b"hello world"),
    "work": (get(b"/work?us=5"), 200, {}, b"burned 5 us\n"),
    "work capped": (get(b"/work?us=99999999"), 200, {}, b"burned 300 us\n"),
    "work bad": (get(b"/work?us=x"), 400, {}, None),
    "healthz": (get(b"/healthz"), 200, {}, b"ok\n"),
    "readyz": (get(b"/readyz"), 200, {}, b"ready\n"),
    "not found": (get(b"/nothing"), 404, {}, b"not found\n"),
    "method": (get(b"/plaintext", verb=b"DELETE"), 405, {"allow": "GET, HEAD, OPTIONS"}, None),
    "method of echo": (get(b"/echo"), 405, {"allow": "POST, OPTIONS"}, None),
    "options": (get(b"/plaintext", verb=b"OPTIONS"), 200, {"allow": "GET, HEAD, OPTIONS"}, b""),
    "options of echo": (get(b"/echo", verb=b"OPTIONS"), 200, {"allow": "POST, OPTIONS"}, b""),
    "options of the server": (get(b"*", verb=b"OPTIONS"), 200, {"allow": "GET, HEAD, POST, OPTIONS"}, b""),
    "options of nothing": (get(b"/nothing", verb=b"OPTIONS"), 404, {}, None),
    "echo without a length": (get(b"/echo", verb=b"POST"), 411, {}, None),
    "post elsewhere without a length": (get(b"/plaintext", verb=b"POST"), 405, {}, None),
    "trace": (get(b"/", verb=b"TRACE"), 405, {"allow": "GET, HEAD, OPTIONS"}, None),
    "a later 1.x": (get(b"/plaintext", version=b"1.5"), 200, {}, b"Hello, World!"),
    "trailer that would close": (CHUNKED.replace(b"Trailer: z", b"Connection: close"), 200, {}, b"hello world"),
    "upgrade": (get(b"/plaintext", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
                200, {}, b"Hello, World!"),
    "websocket": (get(b"/plaintext", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), 200, {}, b"Hello, World!"),
    "1.0 keep-alive": (get(b"/plaintext", b"Connection: keep-alive\r\n", b"1.0"), 200, {"connection": "keep-alive"},
                       b"Hello, World!"),
}

# The same for requests whose answer closes the connection.
CLOSED = {
    "close": (get(b"/plaintext", b"Connection: close\r\n"), 200, {}, b"Hello, World!"),
    "1.0": (get(b"/plaintext", version=b"1.0"), 200, {}, b"Hello, World!"),
    "garbage": (b"\x16\x03\x01\r\n\r\n", 400, {}, None),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, {}, None),
    "two hosts": (get(b"/", HOST), 400, {}, None),
    "host with a path": (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, {}, None),
    "two lengths": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
                    400, {}, None),
    "list of lengths": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\nx", 400, {}, None),
    "signed length": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\nx", 400, {}, None),
    "length and chunks": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                          400, {}, None),
    "chunked twice": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
                      400, {}, None),
    "chunked not last": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
                         400, {}, None),
    "unknown coding": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                       501, {}, None),
    "chunk with a sign": (CHUNKED.replace(b"5\r\nhello", b"+5\r\nhello"), 400, {}, None),
    "chunk with a space": (CHUNKED.replace(b"5\r\nhello", b"5 \r\nhello"), 400, {}, None),
    "chunk with a bare line feed": (CHUNKED.replace(b"5\r\nhello", b"5\nhello"), 400, {}, None),
    "chunk that is longer": (CHUNKED.replace(b"hello", b"hello!"), 400, {}, None),
    "trailers with a bare line feed": (CHUNKED.replace(b"z\r\n\r\n", b"z\r\n\n"), 400, {}, None),
    "space before the colon": (get(b"/", b"X : y\r\n"), 400, {}, None),
    "folded field": (get(b"/", b"X: y\r\n z\r\n"), 400, {}, None),
    "control character": (get(b"/", b"X: \x01\r\n"), 400, {}, None),
    "empty name": (get(b"/", b": y\r\n"), 400, {}, None),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: a\n\n", 400, {}, None),
    "bare line feed at the end": (get(b"/")[:-2] + b"\n", 400, {}, None),
    "bare carriage return": (get(b"/", b"X: y\rz\r\n"), 400, {}, None),
    "unknown method": (get(b"/", verb=b"NONSENSE"), 501, {}, None),
    "webdav": (get(b"/", verb=b"PROPFIND"), 501, {}, None),
    "http/2": (get(b"/", version=b"2.0"), 505, {}, None),
    "http/3": (get(b"/", version=b"3.1"), 505, {}, None),
    "http/2 preface, nearly": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", 505, {}, None),
    "connect": (b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", 405, {"allow": "GET, HEAD, POST, OPTIONS"}, None),
    "expectation": (post(b"/echo", b"x", b"Expect: a-miracle\r\n"), 417, {}, None),
    "header too large": (get(b"/", b"X: " + b"x" * 1100 + b"\r\n"), 431, {}, None),
    "target too long": (get(b"/" + b"x" * 1100), 414, {}, None),
    "body too large": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 200001\r\n\r\n", 413, {}, None),
    "chunks too large": (b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n30D41\r\n", 413, {}, None),
}


class Http(ServerTest):
    FLAGS = ("--header-bytes-max", "1KiB", "--body-bytes-max", "200000B", "--work-us-max", "300")

    def check(self, response, case, name):
        _, status, headers, body = case
        self.assertEqual(response.status, status, name)
        for key, value in headers.items():
            self.assertEqual(response.headers.get(key), value, name)
        if body is not None:
            self.assertEqual(response.body, body, name)
        self.assertIn("date", response.headers)

    def answers(self, pieces_of_each):
        """Sends every list of pieces on a connection of its own, the n-th pieces of all together; what came back."""
        sockets = [self.server.connect() for _ in pieces_of_each]
        for turn in range(max(map(len, pieces_of_each))):
            if turn:
                time.sleep(0.05)  # so that the server sees the pieces apart
            for s, pieces in zip(sockets, pieces_of_each):
                try:
                    s.sendall(pieces[turn])
                except (BrokenPipeError, ConnectionResetError):
                    pass  # already answered and closed: what came back says with what
        try:
            return [(read_response(s), s) for s in sockets]
        except (EOFError, ConnectionError) as error:
            raise AssertionError(str(error)) from error

    def test_each_request_whole(self):
        for name, case in KEPT.items():
            with self.subTest(name), self.server.connect() as s:
                s.sendall(case[0])
                response = read_response(s)
                self.check(response, case, name)
                self.assertFalse(response.closes)
                s.sendall(get(b"/plaintext"))
                self.assertEqual(read_response(s).status, 200)

    def test_each_closing_request_whole(self):
        for name, case in CLOSED.items():
            with self.subTest(name), self.server.connect() as s:
                s.sendall(case[0])
                reader = Reader(s)
                response = reader.next()
                self.check(response, case, name)
                self.assertTrue(response.closes)
                self.assertTrue(reader.at_end())

    def test_nothing_behind_a_closing_request_is_answered(self):
        for name, case in CLOSED.items():
            with self.subTest(name), self.server.connect() as s:
                s.sendall(case[0] + get(b"/plaintext") * 3)
                reader = Reader(s)
                self.check(reader.next(), case, name)
                self.assertTrue(reader.at_end())

    def test_each_request_split_at_every_byte(self):
        for name, case in {**KEPT, **CLOSED}.items():
            request = case[0]
            step = max(1, len(request) // 200)  # the large ones: at 200 places
            cuts = range(1, len(request), step)
            with self.subTest(name):
                for response, s in self.answers([[request[:cut], request[cut:]] for cut in cuts]):
                    self.check(response, case, name)
                    s.close()

    def test_requests_byte_by_byte(self):
        for name in ("echo", "echo chunked", "upgrade"):
            with self.subTest(name), self.server.connect() as s:
                for i in range(len(KEPT[name][0])):
                    s.sendall(KEPT[name][0][i:i + 1])
                    time.sleep(0.0005)
                self.check(read_response(s), KEPT[name], name)

    def test_each_request_pipelined(self):
        for name, case in KEPT.items():
            with self.subTest(name), self.server.connect() as s:
                s.sendall(case[0] * 20)
                reader = Reader(s)
                for _ in range(20):
                    self.check(reader.next(), case, name)
                self.assertTrue(is_silent(s, 0))

    def test_different_requests_pipelined_in_order_and_cut_anywhere(self):
        everything = b"".join(case[0] for case in KEPT.values())
        cuts = range(1, len(everything), 7)
        for first, s in self.answers([[everything[:cut], everything[cut:]] for cut in cuts]):
            del first
            s.close()
        for cut in range(1, len(everything), 97):
            with self.server.connect() as s:
                s.sendall(everything[:cut])
                time.sleep(0.005)
                s.sendall(everything[cut:])
                reader = Reader(s)
                for name, case in KEPT.items():
                    self.check(reader.next(), case, name)

    def test_nothing_behind_an_error_is_answered(self):
        for name, case in CLOSED.items():
            with self.subTest(name), self.server.connect() as s:
                s.sendall(get(b"/healthz") + case[0] + get(b"/plaintext"))
                reader = Reader(s)
                self.assertEqual(reader.next().body, b"ok\n")
                self.check(reader.next(), case, name)
                self.assertTrue(reader.at_end())

    def test_a_batch_of_pipelined_requests_is_answered_with_one_write(self):
        with self.server.connect() as s:
            s.sendall(get(b"/plaintext"))
            size = len(s.recv(65536))
            whole = 0
            for _ in range(50):
                s.sendall(get(b"/plaintext") * 4)
                got = len(s.recv(65536))
                whole += got == 4 * size
                while got < 4 * size:  # it took longer than a turn
                    got += len(s.recv(65536))
            self.assertGreater(whole, 25)

    def test_more_pipelined_requests_than_one_turn_takes(self):
        with self.server.connect() as s:
            reader = Reader(s)
            s.sendall(get(b"/plaintext") * 3000)
            for _ in range(3000):
                self.assertEqual(reader.next().body, b"Hello, World!")

    def test_head_is_get_without_the_body(self):
        for path in (b"/", b"/plaintext", b"/work?us=1", b"/healthz", b"/readyz", b"/nothing"):
            with self.subTest(path), self.server.connect() as s:
                s.sendall(get(path))
                full = read_response(s)
                s.sendall(get(path, verb=b"HEAD"))
                head = read_response(s, head=True)
                self.assertEqual(head.key()[:2], full.key()[:2])
                self.assertTrue(is_silent(s, 0.01))

    def test_expect_100_continue(self):
        request = post(b"/echo", b"hello", b"Expect: 100-continue\r\n")
        head, body = request[:-5], request[-5:]
        for cut in range(1, len(head)):
            with self.server.connect() as s:
                s.sendall(head[:cut])
                if cut % 16 == 0:
                    time.sleep(0.002)
                s.sendall(head[cut:])
                reader = Reader(s)
                self.assertEqual(reader.next().status, 100)
                s.sendall(body)
                self.assertEqual(reader.next().body, b"hello")
        with self.server.connect() as s:  # a body that comes along needs no invitation
            s.sendall(request)
            self.assertEqual(read_response(s).status, 200)
        with self.server.connect() as s:  # a body that would not be taken is not asked for
            s.sendall(b"POST /echo HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 999999\r\n\r\n")
            self.assertEqual(read_response(s).status, 413)

    def test_bodies_larger_than_any_buffer(self):
        body = bytes(range(256)) * 781
        chunks = b"".join(b"%x\r\n" % len(body[i:i + 999]) + body[i:i + 999] + b"\r\n" for i in range(0, len(body), 999))
        chunked = b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        with self.server.connect() as s:
            reader = Reader(s)
            for request in (post(b"/echo", body), chunked, post(b"/echo", body) * 3):
                s.sendall(request)
                for _ in range(request.count(b"POST ")):
                    self.assertEqual(reader.next().body, body)

    def test_413_reaches_a_peer_that_sends_its_whole_body_first(self):
        with self.server.connect() as s:
            s.sendall(post(b"/echo", b"x" * 3_000_000))
            reader = Reader(s)
            self.assertEqual(reader.next().status, 413)
            self.assertTrue(reader.at_end())

    def test_a_peer_that_closed_its_side_is_answered(self):
        for count in (1, 5, 500):
            with self.server.connect() as s:
                s.sendall(get(b"/plaintext") * count)
                s.shutdown(socket.SHUT_WR)
                reader = Reader(s)
                for _ in range(count):
                    self.assertEqual(reader.next().status, 200)
                self.assertTrue(reader.at_end())

    def test_a_peer_that_ends_within_a_request_is_told(self):
        for part in (b"G", b"GET / HTTP/1.1\r\nHost:", post(b"/echo", b"hello")[:-1]):
            with self.subTest(part), self.server.connect() as s:
                s.sendall(part)
                s.shutdown(socket.SHUT_WR)
                reader = Reader(s)
                self.assertEqual(reader.next().status, 400)
                self.assertTrue(reader.at_end())

    def test_date_is_now(self):
        with self.server.connect() as s:
            for _ in range(3):
                before = int(time.time())
                s.sendall(get(b"/plaintext"))
                text = read_response(s).headers["date"]
                # The worker's clock may be a millisecond late.
                self.assertLessEqual(before - 1, parsedate_to_datetime(text).timestamp())
                self.assertLessEqual(parsedate_to_datetime(text).timestamp(), time.time())
                self.assertRegex(text, r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|"
                                       r"Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT$")
                time.sleep(0.7)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        url = "http://%s:%d" % self.server.address

        def curl(*arguments):
            return subprocess.run(["curl", "-sS", "-i", "-m", "30", *arguments], capture_output=True, check=True).stdout

        answer = curl("--http2", url + "/plaintext")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer)
        self.assertTrue(answer.endswith(b"Hello, World!"), answer)
        answer = curl("-H", "Expect: 100-continue", "--data-binary", "@/etc/passwd", url + "/echo")
        with open("/etc/passwd", "rb") as file:
            self.assertTrue(answer.endswith(file.read()))
        self.assertTrue(answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"), answer)
        self.assertTrue(curl("-I", url + "/").startswith(b"HTTP/1.1 200 OK\r\n"))


class Metrics(ServerTest):
    def test_they_count_what_happened(self):
        before = self.server.metrics()
        with self.server.connect() as s:
            reader = Reader(s)
            s.sendall(get(b"/plaintext") * 7 + post(b"/echo", b"hello") + get(b"/x") + b"garbage\r\n\r\n")
            received = len(get(b"/plaintext") * 7 + post(b"/echo", b"hello") + get(b"/x") + b"garbage\r\n\r\n")
            self.assertEqual([reader.next().status for _ in range(10)], [200] * 8 + [404, 400])
            self.assertTrue(reader.at_end())
        after = self.server.metrics()

        def grown(series):
            return after[series] - before.get(series, 0)

        self.assertEqual(grown('bwos_http_requests_total{route="/plaintext",status="200"}'), 7)
        self.assertEqual(grown('bwos_http_requests_total{route="/echo",status="200"}'), 1)
        self.assertEqual(grown('bwos_http_requests_total{route="other",status="404"}'), 1)
        self.assertEqual(grown('bwos_http_requests_total{route="other",status="400"}'), 1)
        self.assertGreaterEqual(grown("bwos_http_request_duration_seconds_count"), 10)
        self.assertGreaterEqual(grown("bwos_http_received_bytes_total"), received)
        self.assertGreater(grown("bwos_http_sent_bytes_total"), 1000)
        self.assertGreaterEqual(grown("bwos_http_accepted_total"), 2)
        if "--executor" in FLAGS:
            self.assertFalse([series for series in after if series.startswith("bwos_pool_")])
        else:
            self.assertGreater(grown('bwos_pool_run_total{worker="0"}') + grown('bwos_pool_run_total{worker="1"}'), 0)

    def test_the_gauge_follows_connections(self):
        sockets = [self.server.connect() for _ in range(20)]
        self.server.until_metric("bwos_http_connections", 21)  # and the one that asks
        for s in sockets:
            s.close()
        self.server.until_metric("bwos_http_connections", 1)

    def test_their_text_is_well_formed(self):
        with self.server.connect() as s:
            s.sendall(get(b"/metrics"))
            response = read_response(s)
        self.assertTrue(response.headers["content-type"].startswith("text/plain; version=0.0.4"))
        pattern = re.compile(r'# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')
        for line in response.body.decode().splitlines():
            self.assertRegex(line, pattern)


if __name__ == "__main__":
    unittest.main()
