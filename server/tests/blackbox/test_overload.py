# SPDX-License-Identifier: Apache-2.0
"""--queue-age-max: where requests wait too long for a worker new ones get 503, and it ends as the queue does."""

import selectors
import threading
import time
import unittest

from harness import Reader, Server, read_response, until


def get(path):
    return b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode()


def work(seconds):
    return get(f"/work?us={int(seconds * 1e6)}")


PLAINTEXT = get("/plaintext")
ECHO = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


class Flood:
    """Connections that ask again as soon as they are answered. Counts the answers, in their order."""

    def __init__(self, server, connections, request):
        self.statuses = []
        self._request = request
        self._sockets = [server.connect() for _ in range(connections)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        for s in self._sockets:
            s.close()

    def _run(self):
        with selectors.DefaultSelector() as ready:
            for s in self._sockets:
                ready.register(s, selectors.EVENT_READ, Reader(s))
                s.sendall(self._request)
            asking = len(self._sockets)
            while asking > 0:  # ends: after the last answers
                for key, _ in ready.select(0.1):
                    self.statuses.append(key.data.next().status)
                    if self._over.is_set():
                        asking -= 1
                    else:
                        key.fileobj.sendall(self._request)


class Overload(unittest.TestCase):
    def serve(self, *flags):
        server = Server("--work-us-max", "20000000", *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server

    def ask(self, server, request):
        with server.connect() as s:
            s.sendall(request)
            return read_response(s)

    def until_served(self, server):
        until(lambda: self.ask(server, PLAINTEXT).status == 200)

    def behind_a_long_request(self, server, requests):
        """What requests get that wait behind a second of work, all on one connection."""
        with server.connect() as busy, server.connect() as s:
            for each in (busy, s):
                each.sendall(get("/healthz"))  # both are accepted
                read_response(each)
            busy.sendall(work(1))
            time.sleep(0.2)
            s.sendall(b"".join(requests))
            reader = Reader(s)
            answers = [reader.next() for _ in requests]
            self.assertEqual(read_response(busy).status, 200)
            self.until_served(server)
            s.sendall(PLAINTEXT)  # the connection goes on
            self.assertEqual(reader.next().status, 200)
        return answers

    def test_what_waited_too_long_for_a_worker_gets_503_but_for_probes(self):
        server = self.serve("--workers", "1", "--lane-threshold-us", "0", "--queue-age-max", "300ms")
        self.assertEqual(self.ask(server, PLAINTEXT).status, 200)
        requests = [PLAINTEXT, get("/healthz"), ECHO, get("/readyz"), get("/nothing"), get("/metrics"), work(0)]
        answers = self.behind_a_long_request(server, requests)
        self.assertEqual([each.status for each in answers], [503, 200, 503, 200, 503, 200, 503])
        for each in answers:
            self.assertEqual(each.headers.get("retry-after"), "1" if each.status == 503 else None)
            self.assertNotIn("connection", each.headers)
        seen = dict(line.rsplit(" ", 1) for line in answers[5].body.decode().splitlines())
        self.assertGreater(float(seen["bwos_queue_age_seconds"]), 0.3)
        self.assertGreaterEqual(float(seen["bwos_http_shed_total"]), 3)
        until(lambda: server.metrics()["bwos_queue_age_seconds"] < 0.3)
        after = server.metrics()
        shed = sum(value for series, value in after.items()
                   if series.startswith("bwos_http_requests_total") and 'status="503"' in series)
        self.assertEqual(after["bwos_http_shed_total"], shed)
        self.assertEqual(server.stop(), 0)

    def test_without_a_bound_all_are_served(self):
        server = self.serve("--workers", "1")
        answers = self.behind_a_long_request(server, [PLAINTEXT, ECHO])
        self.assertEqual([each.status for each in answers], [200, 200])
        metrics = server.metrics()
        self.assertEqual(metrics["bwos_http_shed_total"], 0)
        self.assertNotIn("bwos_queue_age_seconds", metrics)
        self.assertEqual(server.stop(), 0)

    def test_under_a_flood_service_goes_on_and_afterwards_all_is_served(self):
        server = self.serve("--workers", "1", "--lane-threshold-us", "0", "--queue-age-max", "100ms")
        with Flood(server, 40, work(0.01)) as flood:
            until(lambda: 503 in flood.statuses)
            first = flood.statuses.index(503)
            # It does not stay so: turning away lets the queue's age fall, though all ask again at once.
            until(lambda: 200 in flood.statuses[first:])
            seen = set()

            def ask():
                seen.add(self.ask(server, PLAINTEXT).status)
                self.assertEqual(self.ask(server, get("/healthz")).status, 200)
                return seen == {200, 503}

            until(ask)
        self.until_served(server)
        shed = server.metrics()["bwos_http_shed_total"]
        for _ in range(50):
            self.assertEqual(self.ask(server, PLAINTEXT).status, 200)
        self.assertEqual(server.metrics()["bwos_http_shed_total"], shed)
        self.assertEqual(server.stop(), 0)

    def test_a_long_queue_in_the_lane_is_no_reason_to_turn_short_requests_away(self):
        server = self.serve("--lane-threshold-us", "50", "--queue-age-max", "400ms")
        # More than a second of work, for which nobody but the lane has to wait.
        with Flood(server, 600, work(0.005)) as flood, server.connect() as s:
            until(lambda: 503 in flood.statuses)
            statuses = []
            for _ in range(100):
                s.sendall(PLAINTEXT)
                statuses.append(read_response(s).status)
                time.sleep(0.005)
            # For a worker of its own now and then, on a busy machine; not for all that time.
            self.assertGreater(statuses.count(200), 20)
        until(lambda: self.ask(server, work(0)).status == 200)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
