#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each header as if nothing had been included before it, free of warnings; public ones without the sources'
# folder. The compiler names what fails.   headers_compile_alone.sh EXECUTOR_FOLDER COMPILER [OPTION...]
set -euo pipefail
executor=$1
shift
compile=("$@" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only -x c++ -I "$executor/include")

# each_header FOLDER [OPTION...]
each_header() {
  local headers
  mapfile -t headers < <(find "$1" -name '*.hpp')
  ((${#headers[@]})) || { echo "no headers in $1" >&2 && return 1; }
  printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc)" -I{} "${compile[@]}" "${@:2}" -include {} /dev/null
}

status=0
each_header "$executor/include" || status=1
each_header "$executor/src" -I "$executor/src" || status=1
exit $status
