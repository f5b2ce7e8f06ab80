#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An OCI bundle's config.json for crun, out of what buildah inspect says of an image: bundle.py IMAGE.json ROOTFS FLAG...

As compose.yaml and the Kubernetes manifests run it: the image's user and command, a root that cannot be written, no
capability, deploy/seccomp.json; FLAGs are the server's. The network is the caller's.
"""
import json
import pathlib
import sys

image = json.load(open(sys.argv[1]))["Docker"]["config"]
seccomp = json.loads((pathlib.Path(__file__).parent.parent / "seccomp.json").read_text())
for group in seccomp["syscalls"]:
    del group["comment"]  # Docker's format has it, OCI's has not
uid, gid = map(int, image["User"].split(":"))
print(json.dumps({
    "ociVersion": "1.0.0",
    "root": {"path": sys.argv[2], "readonly": True},
    "process": {
        "user": {"uid": uid, "gid": gid},
        "cwd": "/",
        "env": image["Env"],
        "args": image["Entrypoint"] + sys.argv[3:],
        "capabilities": {},
        "noNewPrivileges": True,
    },
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
               {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]}],
    "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")], "seccomp": seccomp},
}, indent=1))
