#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The system calls that a unit leaves, as a profile for under_seccomp.py: unit_calls.py UNIT

Follows systemd.exec(5). SystemCallFilter=: the first line makes a list of what is allowed, a line with ~ takes names out, one
without puts them in; @SET is what systemd-analyze says it is, and @default is always allowed. RestrictAddressFamilies=: a
list of families that socket() may be asked for.
"""
import json
import socket
import subprocess
import sys


def names_of(word):
    if not word.startswith("@"):
        return {word}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", word], check=True, capture_output=True, text=True).stdout
    members = {line.strip() for line in listed.splitlines()[1:] if line.strip() and "#" not in line}
    return set().union(*map(names_of, members))


allowed, families = names_of("@default"), []
for line in open(sys.argv[1]):
    setting, _, words = line.strip().partition("=")
    if setting == "SystemCallFilter":
        named = set().union(*map(names_of, words.lstrip("~").split()))
        allowed = allowed - named if words.startswith("~") else allowed | named
    elif setting == "RestrictAddressFamilies":
        families = words.split()
groups = [{"names": sorted(allowed - {"socket"}), "action": "SCMP_ACT_ALLOW"}]
for family in families:
    groups.append({"names": ["socket"], "action": "SCMP_ACT_ALLOW",
                   "args": [{"index": 0, "value": int(getattr(socket, family)), "op": "SCMP_CMP_EQ"}]})
print(json.dumps({"defaultErrnoRet": 1, "syscalls": groups}, indent=1))
