#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds a release and serves. Arguments go to the server (deploy/serve.sh --help lists them).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/lib.sh

build() {
  local options=()
  # Whoever only serves needs no test libraries. A folder that test.sh configured keeps its tests.
  if [[ -n $(missing_packages "${test_library_packages[@]}") ]]; then
    options=(-DBWOS_TESTS=OFF -DBWOS_BENCH=OFF)
  fi
  use_ccache
  # Ninja configures anew by itself when a CMakeLists.txt changes, but does not watch the presets.
  if [[ ! build/release/build.ninja -nt CMakePresets.json ]]; then
    cmake --preset release "${options[@]}"
  fi
  cmake --build --preset release --target bwos-server ${BWOS_JOBS:+-j "$BWOS_JOBS"}
}

# Addresses one can connect to: a wildcard is reached through loopback.
reachable() {
  case $1 in
    0.0.0.0:*) printf '127.0.0.1:%s' "${1##*:}" ;;
    '[::]:'*) printf '[::1]:%s' "${1##*:}" ;;
    *) printf '%s' "$1" ;;
  esac
}

# From the server's line "listening http=HOST:PORT grpc=HOST:PORT", of which one may be missing.
print_hints() {
  local http grpc
  http=$(reachable "$(sed -n 's/.*http=\([^ ]*\).*/\1/p' <<<"$1")")
  grpc=$(reachable "$(sed -n 's/.*grpc=\([^ ]*\).*/\1/p' <<<"$1")")
  printf '\n'
  if [[ -n $http ]]; then
    cat <<HINTS
HTTP on http://$http. From another terminal (apt-get install curl):
  curl http://$http/
  curl -d 'hello' -H 'Content-Type: text/plain' http://$http/echo
  wrk -t2 -c64 -d10s --latency http://$http/plaintext
HINTS
  fi
  if [[ -n $grpc ]]; then
    cat <<HINTS
gRPC on $grpc. ghz needs Go 1.23 or newer: go install github.com/bojand/ghz/cmd/ghz@v0.121.0
  ghz --insecure --call helloworld.Greeter.SayHello -d '{"name":"world"}' -c 64 -z 10s $grpc
HINTS
  fi
  cat <<HINTS
A minute of load on each executor, without this server, and a report with figures:
  /usr/bin/python3 loadtest/run.py loadtest/plans/quick.toml
Ctrl-C ends the server once requests in flight are answered.

HINTS
}

# Passes the server's output on and adds the hints once it listens. It ends with that output, not by a signal, so that
# the server's last words are not lost when Ctrl-C reaches both.
annotate() {
  trap '' INT TERM
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if [[ $line =~ ^listening\ (http|grpc)= ]]; then print_hints "$line"; fi
  done
}

install_missing "${build_packages[@]}" "${load_packages[@]}"
build
# exec: signals sent to this script reach the server, and its exit status is this script's.
exec build/release/server/bwos-server "$@" > >(annotate)
