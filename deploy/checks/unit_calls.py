#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The system calls that a unit's SystemCallFilter= leaves, as a profile for under_seccomp.py: unit_calls.py UNIT

Follows systemd.exec(5): the first line makes a list of what is allowed, a line with ~ takes names out, one without puts them
in; @SET is what systemd-analyze says it is. @default is always allowed.
"""
import json
import subprocess
import sys


def names_of(word):
    if not word.startswith("@"):
        return {word}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", word], check=True, capture_output=True, text=True).stdout
    members = {line.strip() for line in listed.splitlines()[1:] if line.strip() and "#" not in line}
    return set().union(*map(names_of, members))


allowed = names_of("@default")
for line in open(sys.argv[1]):
    setting, _, words = line.strip().partition("=")
    if setting == "SystemCallFilter":
        named = set().union(*map(names_of, words.lstrip("~").split()))
        allowed = allowed - named if words.startswith("~") else allowed | named
print(json.dumps({"defaultErrnoRet": 1, "syscalls": [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}]}, indent=1))
