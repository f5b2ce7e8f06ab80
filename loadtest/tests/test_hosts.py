# SPDX-License-Identifier: Apache-2.0
"""The agent that runs on each host, and the link to it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from lib import agent, hosts
from lib.hosts import Host, Hosts
from lib.measure import REPOSITORY, Failed


def ended(pid: int, within_s: float = 10) -> bool:
    end = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Usage(unittest.TestCase):
    def test_another_process_is_seen_to_burn_what_it_burns(self):
        burn = (
            "import time\n"
            "end = time.process_time() + 0.3\n"
            "while time.process_time() < end: pass\n"
            "print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            used = agent.usage(child.pid)
            child.communicate(b"\n")
        self.assertGreaterEqual(used["cpu_s"], 0.3)
        self.assertLess(used["cpu_s"], 5)
        self.assertAlmostEqual(used["user_s"] + used["system_s"], used["cpu_s"], delta=0.05)

    def test_time_of_threads_that_ended_is_kept(self):
        burn = (
            "import threading, time\n"
            "def work():\n"
            "  end = time.thread_time() + 0.2\n"
            "  while time.thread_time() < end: pass\n"
            "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
            "print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            self.assertGreaterEqual(agent.process_cpu_s(child.pid), 0.2)
            child.communicate(b"\n")

    def test_what_a_server_started_is_counted_with_it(self):
        burn = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
        script = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
        with subprocess.Popen([sys.executable, "-c", script, burn], start_new_session=True) as parent:
            self.addCleanup(os.killpg, parent.pid, signal.SIGKILL)
            end = time.monotonic() + 20
            while (used := agent.usage(parent.pid))["cpu_s"] < 0.3 and time.monotonic() < end:
                time.sleep(0.02)
            alone = agent.process_cpu_s(parent.pid)
            self.doCleanups()
        self.assertGreaterEqual(used["cpu_s"] - alone, 0.2)

    def test_a_process_that_is_gone_is_wrong_waited_for_or_not(self):
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with self.assertRaisesRegex(agent.Wrong, "has ended"):
            agent.usage(child.pid)
        child.wait()
        with self.assertRaisesRegex(agent.Wrong, "is gone"):
            agent.usage(child.pid)

    def test_each_cpu_has_its_kinds_of_time(self):
        found = agent.cores()
        self.assertEqual(len(found), os.cpu_count())
        self.assertEqual(set(found["0"]), set(agent.KINDS))


class OnAHost(unittest.TestCase):
    def setUp(self):
        self.host = Host("here")
        self.host.open()
        self.addCleanup(self.host.close)

    def test_a_tool_is_run_to_its_end_in_the_repository(self):
        done = self.host.call("run", command=["sh", "-c", "pwd; echo no >&2; exit 3"], timeout_s=10)
        self.assertEqual(done["exit_code"], 3)
        self.assertEqual(self.host.call("said"), {"output": f"{REPOSITORY}\n", "errors": "no\n"})
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        done = self.host.call("run", command=[sys.executable, "-c", burn], timeout_s=10)
        self.assertGreaterEqual(done["cpu_s"], 0.2)
        self.assertGreaterEqual(done["wall_s"], 0.2)

    def test_a_tool_that_hangs_is_ended_with_what_it_started(self):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            script = f"sleep 61 & echo $! > {folder}/pid; sleep 62"
            with self.assertRaisesRegex(Failed, "sh did not end within 1 s"):
                self.host.call("run", command=["sh", "-c", script], timeout_s=1)
            self.assertTrue(ended(int(Path(folder, "pid").read_text())))
        self.assertLess(time.monotonic() - began, 30)

    def test_a_program_that_is_not_there_is_named(self):
        for do, more in (("run", {"timeout_s": 1}), ("start", {"timeout_s": 1})):
            with self.assertRaisesRegex(Failed, "'./nothing'"):
                self.host.call(do, command=["./nothing"], **more)
        self.assertIsNone(self.host.find("no-such-program"))

    def test_a_server_is_asked_for_its_first_line_and_its_log(self):
        link = self.host.link()
        started = link.call("start", command=["sh", "-c", "echo told >&2; echo ready; exec sleep 60"], timeout_s=10)
        self.assertEqual(started["line"], "ready")
        self.assertTrue(link.call("alive", pid=started["pid"]))
        self.assertTrue(link.call("holds", pid=started["pid"], kind="pipe:"))
        self.assertFalse(link.call("holds", pid=started["pid"], kind="[io_uring]"))
        self.assertEqual(link.call("stop", pid=started["pid"]), "told\n")
        self.assertTrue(ended(started["pid"]))
        silent = link.call("start", command=["sleep", "60"], timeout_s=0.1)
        self.assertEqual(silent["line"], "")
        link.call("stop", pid=silent["pid"])

    def test_a_server_that_ignores_its_end_is_killed(self):
        script = "trap '' TERM; echo ready; while :; do sleep 1; done"
        pid = self.host.call("start", command=["sh", "-c", script], timeout_s=10)["pid"]
        self.host.call("stop", pid=pid, patience_s=0.2)
        self.assertTrue(ended(pid))

    def test_all_ends_with_the_link(self):
        pid = self.host.call("start", command=["sh", "-c", "echo ready; exec sleep 60"], timeout_s=10)["pid"]
        folder = Path(self.host.put("kept", b"text")).parent
        self.assertEqual((folder / "kept").read_bytes(), b"text")
        self.host.close()
        self.assertTrue(ended(pid))
        self.assertFalse(folder.exists())

    def test_all_ends_with_an_agent_that_is_killed(self):
        link = self.host.link()
        self.addCleanup(shutil.rmtree, Path(self.host.put("kept", b"")).parent)
        pid = link.call("start", command=["sh", "-c", "echo ready; exec sleep 60"], timeout_s=10)["pid"]
        link._process.kill()
        self.assertTrue(ended(pid))
        with self.assertRaisesRegex(Failed, "the link to here is lost"):
            link.call("alive", pid=pid)
        self.assertIsNot(self.host.link(), link)  # and another agent takes its place
        self.assertEqual(self.host.call("run", command=["true"], timeout_s=5)["exit_code"], 0)

    def test_a_link_that_is_found_lost_later_is_a_failure_too(self):
        with mock.patch.object(hosts, "HEARTBEAT_S", 0.05):
            self.host.open()
            link = self.host.link()
            self.addCleanup(shutil.rmtree, Path(self.host.put("kept", b"")).parent)
            link._process.kill()
            link._process.wait()
            time.sleep(0.3)  # heartbeats fail meanwhile
            for _ in range(2):
                with self.assertRaises(hosts.LinkLost):
                    link.call("find", name="sh")

    def test_a_host_that_does_not_come_back_ends_the_waiting(self):
        self.host.open()
        self.host.close()
        self.host.prefix = ("false",)
        with mock.patch.object(hosts, "LOST_S", 1), mock.patch("builtins.print"):
            with self.assertRaisesRegex(hosts.Lost, "here did not come back within 1 s: the link to here is lost"):
                self.host.link()

    def test_words_of_a_login_shell_are_passed_over(self):
        chatty = Host("chatty", ("sh", "-c", "echo Welcome; exec " + "sh -c \"$1\"", "sh"), far=True)
        chatty.open()
        self.addCleanup(chatty.close)
        self.assertEqual(chatty.call("run", command=["true"], timeout_s=5)["exit_code"], 0)

    def test_an_agent_that_hears_nothing_ends(self):
        link = self.host.link()
        with mock.patch.object(hosts, "SOURCE", hosts.SOURCE.replace(b"SILENCE_S = 20", b"SILENCE_S = 1")):
            with mock.patch.object(hosts, "HEARTBEAT_S", 0.3):
                self.host.open()
                kept = self.host.call("start", command=["sh", "-c", "echo ready; exec sleep 60"], timeout_s=10)["pid"]
                time.sleep(2)
                self.assertTrue(self.host.call("alive", pid=kept))
            self.host.close()
            with mock.patch.object(hosts, "HEARTBEAT_S", 60):
                self.host.open()
                forgotten = self.host.call("start", command=["sh", "-c", "echo ready; exec sleep 60"], timeout_s=10)["pid"]
                self.assertTrue(ended(forgotten))
                end = time.monotonic() + 10
                while self.host._link.alive and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertFalse(self.host._link.alive)
        link.close()

    def test_files_of_ours_are_copied_to_a_host_of_its_own(self):
        command = ["wrk", "-s", "loadtest/lua/echo.lua", "http://127.0.0.1:1/echo"]
        self.assertEqual(self.host.carried(command), command)
        far = Host("there", ("sh", "-c"), far=True)
        far.open()
        self.addCleanup(far.close)
        carried = far.carried(command)
        self.assertEqual(carried[:2] + carried[3:], command[:2] + command[3:])
        self.assertEqual(Path(carried[2]).read_bytes(), (REPOSITORY / "loadtest/lua/echo.lua").read_bytes())
        self.assertNotIn(str(REPOSITORY), carried[2])
        self.assertEqual(far.carried(command), carried)
        far.call("run", command=["pwd"], timeout_s=5)
        self.assertNotEqual(far.call("said")["output"].strip(), str(REPOSITORY))

    def test_the_answer_to_an_interrupted_call_is_not_that_to_the_next(self):
        link = self.host.link()
        with mock.patch.object(link, "_line", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                link.call("find", name="sh")
        self.assertEqual(link.call("run", command=["sh", "-c", "exit 3"], timeout_s=5)["exit_code"], 3)

    def test_what_cannot_be_reached_says_why(self):
        nobody = Host("nobody", ("sh", "-c", "echo no key >&2; exit 255"), far=True)
        with self.assertRaisesRegex(Failed, "the link to nobody is lost: no key"):
            nobody.open()


class Limits(unittest.TestCase):
    def hosts(self, server: dict, client: dict) -> Hosts:
        enough = {"descriptors": 20000, "ports": "32768\t60999", "somaxconn": "4096", "syn_backlog": "4096"}
        both = Hosts(Host("s"), Host("c"))
        both.server.facts, both.client.facts = {"limits": enough | server}, {"limits": enough | client}
        return both

    def test_what_is_too_little_is_named_with_its_side(self):
        self.assertIsNone(hosts.too_many(self.hosts({}, {}), 10_000))
        self.assertRegex(hosts.too_many(self.hosts({"descriptors": 10_199}, {}), 10_000), r"the server \(s\) may have 10199")
        self.assertRegex(hosts.too_many(self.hosts({}, {"descriptors": 1024}), 10_000), r"the client \(c\) may have 1024")
        self.assertRegex(hosts.too_many(self.hosts({}, {"ports": "32768 40000"}), 10_000), r"\(c\) has 7233: .*port_range")
        self.assertIsNone(hosts.too_many(self.hosts({"ports": "32768 40000"}, {}), 10_000))

    def test_short_queues_are_told(self):
        self.assertEqual(hosts.short_queues(self.hosts({}, {"somaxconn": "1"}), 10_000), [])
        said = hosts.short_queues(self.hosts({"somaxconn": "128", "syn_backlog": "512"}, {}), 1000)
        self.assertEqual([line.rpartition("sysctl")[2] for line in said],
                         [" -w net.core.somaxconn=1000", " -w net.ipv4.tcp_max_syn_backlog=1000"])  # fmt: skip
        self.assertEqual(hosts.short_queues(self.hosts({"somaxconn": "128"}, {}), 100), [])


if __name__ == "__main__":
    unittest.main()
