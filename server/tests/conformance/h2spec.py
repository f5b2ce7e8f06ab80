#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h2spec.py SERVER: runs h2spec, all of generic, http2 and hpack, against the HTTP port and the gRPC port of a
bwos-server, on each reactor. Exits with 1 where a case ends otherwise than DIFFERENT says. Needs Go, which builds h2spec into
build/tools once."""

import os
import subprocess
import sys
import xml.etree.ElementTree

from others import TOOLS, build, serving

CASES = 145
MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

# Cases that we answer differently, for each port, with the sentence of RFC 9113 that allows it, or why we do all the same.
PREFACE = ("3.4: Clients and servers MUST treat an invalid connection preface as a connection error of type PROTOCOL_ERROR. A "
           "GOAWAY frame MAY be omitted in this case, since an invalid preface indicates that the peer is not using HTTP/2. "
           "(It is using HTTP/1.1, and is told so.)")
CLOSED = ("5.1: An endpoint MUST minimally process and then discard any frames it receives in this state. [...] An endpoint "
          "can perform this minimal processing for all streams that are in the \"closed\" state. (The answer was whole, or "
          "the stream was reset, before the frame came.)")
EARLY = ("8.1: A server can send a complete response prior to the client sending an entire request if the response does not "
         "depend on any portion of the request that has not been sent and received. (What is no POST of gRPC gets 405 when "
         "its header has come; then the stream is closed.)")
NO_BODY = "8.1: An HTTP message consists of: [...] zero or more DATA frames containing the message content. (405 has none.)"
NOT_BEGUN = ("Against 6.4: gRPC C++'s client sends it for a call that ends before its HEADERS are written, and gRPC's servers "
             "skip it. (So do we, of peers that speak gRPC.)")
AFTER_THE_ANSWER = {
    "http2/5.1: half closed (remote): Sends a DATA frame": CLOSED,
    "http2/5.1: half closed (remote): Sends a HEADERS frame": CLOSED,
    "http2/5.1: closed: Sends a DATA frame after sending RST_STREAM frame": CLOSED,
    "http2/5.1: closed: Sends a HEADERS frame after sending RST_STREAM frame": CLOSED,
    "http2/5.1: closed: Sends a DATA frame": CLOSED,
    "http2/5.1: closed: Sends a HEADERS frame": CLOSED,
    'http2/6.1: Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state': CLOSED,
}
DIFFERENT = {
    "HTTP": {"http2/3.5: Sends invalid connection preface": PREFACE, **AFTER_THE_ANSWER},
    "gRPC": {
        **AFTER_THE_ANSWER,
        "http2/5.1: idle: Sends a RST_STREAM frame": NOT_BEGUN,
        "http2/6.4: Sends a RST_STREAM frame on a idle stream": NOT_BEGUN,
        "generic/2: Sends a WINDOW_UPDATE frame on half-closed (remote) stream": NO_BODY,
        "generic/2: Sends a PRIORITY frame on half-closed (remote) stream": NO_BODY,
        "http2/5.1.2: Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded": EARLY,
        "http2/6.1: Sends a DATA frame with invalid pad length": EARLY,
        "http2/6.9: Sends a WINDOW_UPDATE frame with a flow control window increment of 0 on a stream": EARLY,
        "http2/6.9.1: Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream":
            EARLY,
        "http2/8.1: Sends a second HEADERS frame without the END_STREAM flag": EARLY,
        "http2/8.1.2.1: Sends a HEADERS frame that contains a pseudo-header field as trailers": EARLY,
        'http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame '
        "payload length": EARLY,
        'http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the sum of the '
        "multiple DATA frames payload length": EARLY,
    },
}


def run(program, port, path, report):
    """Name of each case to "passed", "skipped" or what failed."""
    subprocess.run([program, "generic", "http2", "hpack", "-h", "127.0.0.1", "-p", port, "-P", path, "-o", "2", "-j", report],
                   stdout=subprocess.DEVNULL, check=False, timeout=500)
    results = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('package')}: {case.get('classname')}"
        failed = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failed is not None:
            results[name] = "".join(failed.itertext()).strip()
        else:
            results[name] = "skipped" if case.find("skipped") is not None else "passed"
    return results


def main():
    program = build(MODULE)
    good = True
    for reactor in ("epoll", "io_uring"):
        with serving(sys.argv[1], "--grpc", "native", "--reactor", reactor) as (http, grpc):
            for name, port, path in (("HTTP", http, "/plaintext"), ("gRPC", grpc, "/")):
                results = run(program, port, path, os.path.join(TOOLS, "h2spec.xml"))
                failed = {case: why for case, why in results.items() if why not in ("passed", "skipped")}
                skipped = [case for case, what in results.items() if what == "skipped"]
                passed = len(results) - len(failed) - len(skipped)
                print(f"h2spec, {name} port, {reactor}: {len(results)} cases, {passed} passed, {len(skipped)} skipped, "
                      f"{len(failed)} failed", flush=True)
                for case in skipped:
                    print(f"  skipped: {case}")
                for case, why in failed.items():
                    if case in DIFFERENT[name]:
                        print(f"  answered differently: {case}\n    RFC 9113, {DIFFERENT[name][case]}")
                    else:
                        print(f"  FAILED: {case}: {why}")
                good = good and len(results) == CASES and not set(failed) - set(DIFFERENT[name])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
