# SPDX-License-Identifier: Apache-2.0
"""What the program is told by flags, environment and file, and how it logs."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
from datetime import datetime, timedelta, timezone

from harness import PATIENCE, SERVER, Server, read_response


class Config(unittest.TestCase):
    def write(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            file.write(text)
        self.addCleanup(os.remove, file.name)
        return file.name

    def set(self, name, value):
        os.environ[name] = value
        self.addCleanup(os.environ.pop, name)

    def refused(self, *arguments):
        done = subprocess.run([SERVER, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def burned(self, *flags):
        server = Server(*flags)
        with server.connect() as s:
            s.sendall(b"GET /work?us=1000 HTTP/1.1\r\nHost: a\r\n\r\n")
            body = read_response(s).body
        self.assertEqual(server.stop(), 0)
        return body

    def test_each_source_is_heard_in_its_order(self):
        path = self.write("work-us-max = 1\n")
        self.assertEqual(self.burned("--config", path), b"burned 1 us\n")
        self.set("BWOS_WORK_US_MAX", "2")
        self.assertEqual(self.burned("--config", path), b"burned 2 us\n")
        self.assertEqual(self.burned("--config", path, "--work-us-max", "3"), b"burned 3 us\n")

    def test_what_is_wrong_is_named(self):
        path = self.write("header-timeout = 5\n")
        self.assertRegex(self.refused("--config", path), rf"--header-timeout 5: .*1ms to 24h.*\({path}\)")
        path = self.write("no-such-flag = 5\n")
        self.assertRegex(self.refused("--config", path), rf"--config {path}: 'no-such-flag'")
        self.assertRegex(self.refused("--config", "/nowhere"), "--config /nowhere: No such file")
        self.set("BWOS_LOG_FORMAT", "xml")
        self.assertRegex(self.refused(), r"--log-format xml: must be text\|json \(BWOS_LOG_FORMAT\)")

    def test_json_logs_are_an_object_a_line(self):
        server = Server("--log-format", "json")
        self.assertEqual(server.stop(), 0)
        self.assertGreaterEqual(len(server.log), 3)
        for line in server.log:
            entry = json.loads(line)
            self.assertEqual(list(entry), ["time", "level", "message"])
            self.assertIn(entry["level"], ("info", "warning"))
            self.assertTrue(entry["time"].endswith("Z"))
            written = datetime.fromisoformat(entry["time"][:-1] + "+00:00")
            self.assertLess(abs(datetime.now(timezone.utc) - written), timedelta(minutes=1))
        self.assertTrue(any("draining" in line for line in server.log))

    def test_version_names_the_build(self):
        done = subprocess.run([SERVER, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertRegex(done.stdout, r"^bwos-server \d+\.\d+\.\d+(\+git\d{14}\.\d+\.[0-9a-f]+(\.dirty)?)? \(\w+, \w+ [\d.]+\)\n$")


class Hints(unittest.TestCase):
    """What deploy/serve.sh makes of the server's line."""

    @staticmethod
    def behind(line):
        text = (pathlib.Path(__file__).resolve().parents[3] / "deploy/serve.sh").read_text("utf-8")
        functions = re.findall(r"^\w+\(\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL)
        script = "".join(functions) + "annotate"
        done = subprocess.run(["bash", "-euc", script], input=line, capture_output=True, text=True, timeout=PATIENCE,
                              check=True)
        return done.stdout.removeprefix(line)

    def test_they_are_about_what_is_served(self):
        both = self.behind("listening http=0.0.0.0:1 grpc=[::]:2\n")
        self.assertIn("curl http://127.0.0.1:1/\n", both)
        self.assertRegex(both, r"(?m)^  ghz .* \[::1\]:2$")
        http = self.behind("listening http=127.0.0.1:1\n")
        self.assertIn("curl http://127.0.0.1:1/\n", http)
        self.assertNotRegex(http, "gRPC|ghz")
        grpc = self.behind("listening grpc=127.0.0.1:2\n")
        self.assertRegex(grpc, r"(?m)^  ghz .* 127\.0\.0\.1:2$")
        self.assertNotRegex(grpc, "HTTP|curl")
        self.assertEqual(self.behind("Usage: bwos-server [OPTIONS]\n"), "")


if __name__ == "__main__":
    unittest.main()
