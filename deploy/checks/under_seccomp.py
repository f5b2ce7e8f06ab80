#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program under a seccomp profile in Docker's format: under_seccomp.py PROFILE [--without NAME,...] PROGRAM ARG...

As a container runtime does, for the part of the format that is used here: names that are allowed, perhaps with arguments that
must be equal, and an error for all else. --without takes names out again. Needs Debian's python3-seccomp (and so Debian's Python); no privileges.
"""
import ctypes
import json
import os
import sys

import seccomp

profile, program, without = json.load(open(sys.argv[1])), sys.argv[2:], set()
if program[0] == "--without":
    without, program = set(program[1].split(",")), program[2:]
rules = seccomp.SyscallFilter(seccomp.ERRNO(profile["defaultErrnoRet"]))
for group in profile["syscalls"]:
    assert group["action"] == "SCMP_ACT_ALLOW" and set(group) <= {"comment", "names", "action", "args"}, group
    arguments = [seccomp.Arg(one["index"], seccomp.EQ, one["value"]) for one in group.get("args", [])]
    for name in set(group["names"]) - without:
        if seccomp.resolve_syscall(seccomp.Arch(), name) != -1:  # a name that nobody here knows: runtimes pass over it
            rules.add_rule(seccomp.ALLOW, name, *arguments)
PR_SET_NO_NEW_PRIVS = 38
ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
rules.load()
os.execv(program[0], program)
