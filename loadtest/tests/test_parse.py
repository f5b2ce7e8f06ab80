# SPDX-License-Identifier: Apache-2.0
"""Recorded outputs of the load tools become records."""

import json
import unittest
from dataclasses import replace
from pathlib import Path

from lib import tools
from lib.measure import Failed
from lib.scenario import Cell, RequestClass, burn, say_hello

RECORDED = Path(__file__).resolve().parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


class Wrk(unittest.TestCase):
    def test_a_good_run(self):
        found = tools.parse_wrk(recorded("wrk_plaintext.txt"))
        self.assertEqual(found["requests"], 149642)
        self.assertAlmostEqual(found["requests_per_s"], 149642 / 2.02)
        for key, value in {"p50_us": 586, "p90_us": 3340, "p99_us": 8130, "max_us": 13500}.items():
            self.assertAlmostEqual(found[key], value)
        self.assertEqual(found["errors"], 0)

    def test_answers_other_than_200_are_errors(self):
        self.assertEqual(tools.parse_wrk(recorded("wrk_404.txt"))["errors"], 58949)

    def test_milliseconds_and_seconds(self):
        found = tools.parse_wrk(recorded("wrk_slow.txt"))
        self.assertAlmostEqual(found["p99_us"], 561340.0)
        found = tools.parse_wrk(recorded("wrk_seconds.txt"))  # where wrk writes a blank behind a time
        self.assertEqual((found["p50_us"], found["p99_us"], found["errors"]), (1.05e6, 1.10e6, 983))

    def test_socket_errors_are_counted(self):
        line = "  Socket errors: connect 1, read 20, write 300, timeout 4000\nRequests/sec"
        text = recorded("wrk_plaintext.txt").replace("Requests/sec", line, 1)
        self.assertEqual(tools.parse_wrk(text)["errors"], 4321)

    def test_pipelined_runs_have_no_percentiles(self):
        found = tools.parse_wrk(recorded("wrk_pipelined.txt"))
        self.assertEqual((found["requests"], found["errors"]), (922144, 0))
        self.assertEqual((found["p50_us"], found["p90_us"], found["p99_us"]), (None, None, None))

    def test_no_server_is_a_failure_with_its_text(self):
        with self.assertRaisesRegex(Failed, "Connection refused"):
            tools.parse_wrk(recorded("wrk_no_server.txt"))

    def test_the_command_pins_and_scripts(self):
        cell = Cell("x", connections=7, threads=2, path="/echo", body=1024, client_cpu=1)
        self.assertEqual(
            " ".join(tools.wrk_command(cell, "127.0.0.1:81", 3)),
            "taskset -c 1 wrk -t2 -c7 -d3s --latency -s loadtest/lua/echo.lua http://127.0.0.1:81/echo -- 1024",
        )
        self.assertEqual(
            " ".join(tools.wrk_command(Cell("x", connections=7, pipeline=16), "127.0.0.1:81", 3)),
            "wrk -t1 -c7 -d3s --latency -s loadtest/lua/pipeline.lua http://127.0.0.1:81/plaintext -- 16",
        )
        self.assertIn("--timeout 30s", " ".join(tools.wrk_command(replace(cell, timeout=30), "127.0.0.1:81", 3)))


class Ghz(unittest.TestCase):
    def test_a_good_run(self):
        found = tools.parse_ghz(recorded("ghz.json"))
        self.assertEqual((found["requests"], found["errors"]), (3368, 0))
        self.assertAlmostEqual(found["requests_per_s"], 3352.466, places=3)
        self.assertAlmostEqual(found["p99_us"], 21529.45)
        self.assertAlmostEqual(found["max_us"], 88419.115)

    def test_calls_that_are_not_ok_are_errors(self):
        data = json.loads(recorded("ghz.json"))
        data["statusCodeDistribution"] = {"OK": 3000, "Unavailable": 368}
        self.assertEqual(tools.parse_ghz(json.dumps(data))["errors"], 368)

    def test_a_run_without_a_single_answer(self):
        data = json.loads(recorded("ghz.json"))
        data |= {"count": 0, "latencyDistribution": None, "statusCodeDistribution": None}
        found = tools.parse_ghz(json.dumps(data))
        self.assertEqual((found["requests"], found["p50_us"]), (0, None))

    def test_the_list_of_all_calls_is_not_kept(self):
        self.assertIn("details", json.loads(recorded("ghz.json")))
        kept = tools.without_details(recorded("ghz.json"))
        self.assertNotIn("details", json.loads(kept))
        self.assertEqual(tools.parse_ghz(kept), tools.parse_ghz(recorded("ghz.json")))

    def test_garbage_is_a_failure(self):
        for text in ("", "{}", "connection refused"):
            with self.assertRaises(Failed):
                tools.parse_ghz(text)


class H2load(unittest.TestCase):
    def test_a_good_run(self):
        found = tools.parse_h2load(recorded("h2load.txt"))
        self.assertEqual((found["requests"], found["errors"]), (35700, 0))
        self.assertAlmostEqual(found["requests_per_s"], 35700.0)
        self.assertAlmostEqual(found["max_us"], 99250.0)
        self.assertIsNone(found["p99_us"])

    def test_failed_requests_are_errors(self):
        text = recorded("h2load.txt").replace(" 0 failed, 0 errored", " 3 failed, 4 errored")
        self.assertEqual(tools.parse_h2load(text)["errors"], 7)

    def test_garbage_is_a_failure(self):
        for text in ("", "finished in 1.00s, 1.00 req/s, 1B/s"):
            with self.assertRaises(Failed):
                tools.parse_h2load(text)

    def test_the_command_sends_a_message_with_its_prefix(self):
        cell = Cell("x", "h2load", 10, streams=100, client_cpu=1)
        command = tools.h2load_command(cell, "127.0.0.1:81", 3, "say_hello.bin")
        self.assertEqual(command[-1], "http://127.0.0.1:81/helloworld.Greeter/SayHello")
        self.assertEqual(command[:7], ["taskset", "-c", "1", "h2load", "-t1", "-c10", "-m100"])


class Load(unittest.TestCase):
    def test_the_first_class_gives_the_percentiles(self):
        found = tools.parse_load(recorded("bwos_load.json"))
        self.assertEqual(found["requests"], 3391)
        self.assertAlmostEqual(found["requests_per_s"], 2267.0)
        self.assertEqual((found["p99_us"], found["slow_p99_us"]), (6973.44, 10399.744))
        self.assertEqual(found["late_p99_us"], 5228.544)
        self.assertEqual(found["errors"], 0)

    def test_errors_and_missing_answers_of_any_class_count(self):
        data = json.loads(recorded("bwos_load.json"))
        data["classes"][0]["errors"]["status"] = 2
        data["classes"][1]["outstanding"] = 3
        self.assertEqual(tools.parse_load(json.dumps(data))["errors"], 5)

    def test_connections_share_the_rate_evenly(self):
        classes = (RequestClass("fast", 58, "/plaintext"), RequestClass("slow", 6, "/work?us=200"))
        cell = replace(Cell("x", "bwos-load", classes=classes), rate=6400)
        command = tools.load_command(cell, "127.0.0.1:81", 3, Path("build"), 5, 10)
        self.assertIn("name=fast,path=/plaintext,connections=58,rate=5800.000", command)
        self.assertIn("name=slow,path=/work?us=200,connections=6,rate=600.000", command)
        self.assertEqual(command[command.index("--realtime") + 1], "10")
        self.assertNotIn("burst", " ".join(command))
        self.assertNotIn("--realtime", tools.load_command(cell, "127.0.0.1:81", 3, Path("build"), 5, 0))

    def test_a_class_may_have_its_own_share_and_send_bursts(self):
        classes = (
            RequestClass("fast", 3, "/plaintext"),
            RequestClass("other", 1, "/plaintext"),
            RequestClass("slow", 6, "/work?us=200", share=0.2, burst=16),
        )
        cell = Cell("x", "bwos-load", classes=classes, rate=1000)
        command = tools.load_command(cell, "127.0.0.1:81", 3, Path("build"), 5, 10)
        self.assertIn("name=fast,path=/plaintext,connections=3,rate=600.000", command)
        self.assertIn("name=other,path=/plaintext,connections=1,rate=200.000", command)
        self.assertIn("name=slow,path=/work?us=200,connections=6,rate=200.000,burst=16", command)

    def test_a_closed_loop_has_streams_and_no_rate(self):
        cell = Cell("x", "bwos-load", 10, streams=100, client_cpu=1, classes=(say_hello(connections=10),))
        command = tools.load_command(cell, "127.0.0.1:81", 3, Path("build"), 5, 10)
        self.assertEqual(command[:3], ["taskset", "-c", "1"])
        self.assertIn("--spin", command)
        anywhere = replace(cell, client_cpu=None)
        self.assertNotIn("--spin", tools.load_command(anywhere, "127.0.0.1:81", 3, Path("build"), 5, 10))
        self.assertNotIn("--realtime", command)
        self.assertEqual(
            command[-1],
            "name=hello,path=/helloworld.Greeter/SayHello,protocol=grpc,message=0a0462776f73,"
            "reply=0a0a48656c6c6f2062776f73,connections=10,streams=100",
        )

    def test_a_class_may_share_the_connections_of_another(self):
        classes = (say_hello(connections=50), burn(200, share=0.1, over="hello"))
        cell = Cell("x", "bwos-load", 50, streams=20, classes=classes, rate=1000)
        command = tools.load_command(cell, "127.0.0.1:81", 3, Path("build"), 5, 10)
        self.assertTrue(command[-3].endswith(",connections=50,streams=20,rate=900.000"), command)
        self.assertEqual(
            command[-1],
            "name=burn,path=/bwos.Work/Burn,protocol=grpc,message=08c801,reply=08c801,over=hello,rate=100.000",
        )


if __name__ == "__main__":
    unittest.main()
