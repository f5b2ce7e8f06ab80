#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/lib.sh

usage() {
  cat <<'USAGE'
deploy/test.sh          installs what is missing, builds build/release and runs its test suite, the server from outside
                        in its usual ways to run
deploy/test.sh --all    also: the server in all its ways to run (ctest's label "variant"), format, scripts, headers,
                        clang with its tidy checks, debug, address, undefined and thread sanitizers, h2spec,
                        grpc-go's interoperability client and connectrpc's conformance suite where Go can build them,
                        deploy/check.sh --quick, and a minute of fuzzing, all targets at once. Every step is tried; the
                        overview at the end names those that failed. The address sanitizer leaves "variant" out
A test of the server or of the load test that fails beside others is tried once more alone, and named: their peers have
timeouts, which a busy machine can miss. A test of the executor never is, nor a crash, a test without end, or what a
sanitizer has reported.
Environment: BWOS_JOBS  compilers at once, and tests twice as many and one (default: one per CPU)
USAGE
}

jobs=${BWOS_JOBS:-$(nproc)}

# GCC 12's sanitizers cannot map their shadow where vm.mmap_rnd_bits is above 28, so whatever may start an instrumented
# program (builds ask test programs for their cases) starts without address randomization, if the system allows that.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi

# configure PRESET [CMAKE OPTION...]. The tests are asked for each time: serve.sh may have left them out of the cache.
configure() { cmake --preset "$1" -DBWOS_TESTS=ON "${@:2}"; }

# compile PRESET [BUILD OPTION...]
compile() { "${fixed_addresses[@]}" cmake --build --preset "$1" -j "$jobs" "${@:2}"; }

# suite PRESET [CTEST OPTION...]: runs the tests of a built preset. Most of them wait more than they compute, so there is
# room for one beside each two that count as two processors.
suite() {
  local run=("${fixed_addresses[@]}" ctest --preset "$1" --no-tests=error)
  rm -f "build/$1/again.log"
  "${run[@]}" --parallel "$((2 * jobs + 1))" --output-log "build/$1/ctest.log" "${@:2}" || failed_but_pass_alone "$1"
}

# failed_but_pass_alone PRESET: whether those that failed may be tried again (see usage), and each then passes.
failed_but_pass_alone() {
  local log=build/$1/ctest.log count
  count=$(failed_tests "$1" | grep -c '(Failed)$') || return 1  # it never came to tests
  # Crashes and timeouts stand, and what a sanitizer or an unlucky server has said of itself.
  [[ $count == "$(failed_tests "$1" | wc -l)" ]] || return 1
  ! grep -qE '(Thread|Address|Leak|UndefinedBehavior)Sanitizer|runtime error:|server ended with' "$log" || return 1
  # ctest's filters do not hold for --rerun-failed.
  local labels='^(server|loadtest)$'
  if failed_tests "$1" | sed -E 's/^\t *[0-9]+ - //; s/ \(Failed\)$//; s/ +# GetParam.*//' |
    grep -vxFf <("${run[@]}" --show-only --label-regex "$labels" | sed -nE 's/^ *Test +#[0-9]+: //; s/ +# GetParam.*//; T; p')
  then return 1; fi
  "${run[@]}" --rerun-failed --output-log "build/$1/again.log" &&
    [[ $(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "build/$1/again.log") == "$count" ]]
}

# failed_tests PRESET: a line each.
failed_tests() { sed --quiet '/^The following tests FAILED:/,$ { /^\t/p }' "build/$1/ctest.log" || true; }

# PRESET: how its tests ended, a line for each that failed.
told() {
  printf '%-7s %s\n' "$1" "$(grep 'tests passed' "build/$1/ctest.log" || echo 'no tests ran')"
  failed_tests "$1"
  if [[ -e build/$1/again.log ]]; then
    printf '        tried again, alone: %s\n' "$(grep 'tests passed' "build/$1/again.log" || echo 'none')"
  fi
}

build_and_test_release() { configure release -DBWOS_BENCH=ON && compile release && suite release "$@"; }
# A variant runs the same parsers and connections on other threads: the thread sanitizer has it, the address sanitizer not.
build_and_test_asan() { configure asan -DBWOS_BENCH=OFF && compile asan && suite asan --label-exclude '^variant$'; }
build_and_test_tsan() { configure tsan -DBWOS_BENCH=OFF && compile tsan && suite tsan; }
coroutines='^(task|spawn|fork_join|workers/fork_join)'
# Unoptimized code is where a coroutine's stack could grow, so there the coroutine tests must run with both compilers.
build_and_test_clang() { configure clang -DBWOS_BENCH=ON && compile clang && suite clang --tests-regex "$coroutines"; }
build_and_test_debug() {
  configure debug -DBWOS_BENCH=OFF &&
    compile debug --target task_test task_handshake_test task_group_test task_graph_test spawn_test fork_join_test &&
    suite debug --tests-regex "$coroutines"
}

# fuzz NAME: for a minute, from the kept corpus and what earlier runs added to build/fuzz. A failing input is kept there.
fuzz() {
  mkdir -p "build/fuzz/found/$1"
  "build/fuzz/server/tests/fuzz/$1_fuzz" -max_total_time=60 -timeout=10 -max_len=2000 -verbosity=0 -print_final_stats=1 \
    -dict="server/tests/fuzz/$1.dict" -artifact_prefix="build/fuzz/$1-" \
    "build/fuzz/found/$1" "server/tests/fuzz/corpus/$1"
}
build_and_fuzz() {
  cmake --preset fuzz && compile fuzz || return 1
  local name result=0
  local -A running=()
  for name in http h2 config; do
    fuzz "$name" >"build/fuzz/$name.log" 2>&1 &
    running[$name]=$!
  done
  for name in "${!running[@]}"; do
    wait "${running[$name]}" || result=1
    printf '%s:\n' "$name"
    cat "build/fuzz/$name.log"
  done
  return "$result"
}

# conform NAME: somebody else's cases, against both ports of the release build.
conform() {
  if ! command -v go >/dev/null; then
    printf 'not run: %s (no Go)\n' "$1"
    return 0
  fi
  "server/tests/conformance/$1.py" build/release/server/bwos-server
}
run_h2spec() { conform h2spec; }
run_interop() { conform interop; }
run_connect() { conform connect; }

# With the release build; what it needs beyond the tests' packages it installs itself.
check_deployment() { deploy/check.sh --quick; }

check_format() {
  find executor server loadtest \( -name '*.hpp' -o -name '*.cpp' \) -print0 |
    xargs -0 clang-format-19 --dry-run -Werror
}

check_scripts() { shellcheck --external-sources deploy/*.sh deploy/debian/{postinst,prerm,postrm} executor/tests/*.sh .ci/run; }

check_headers() { executor/tests/headers_compile_alone.sh executor "${CXX:-c++}"; }

# What clang compiled of ours, tests and benchmarks apart. What several targets compile, the executor's files, is checked
# as the first of them does, the library.
check_tidy() {
  local root
  root=$(sed 's/[^[:alnum:]/]/\\&/g' <<<"$PWD")
  mkdir -p build/clang/tidy
  python3 -c 'import json, sys
commands = json.load(sys.stdin)
json.dump(list({each["file"]: each for each in reversed(commands)}.values()), sys.stdout)' \
    <build/clang/compile_commands.json >build/clang/tidy/compile_commands.json
  run-clang-tidy-19 -p build/clang/tidy -quiet -j "$jobs" "^$root/(executor|server|loadtest)/(?!.*(tests|bench)/).*\.cpp$"
}

overview=()
failed=()

# step NAME FUNCTION: runs it under a heading and notes how it ended.
step() {
  local began=$SECONDS result=ok
  printf '\n== [%4d s] %s\n' "$SECONDS" "$1"
  if ! "$2"; then
    result=FAILED
    failed+=("$1")
  fi
  overview+=("$(printf '%-7s %5d s  %s' "$result" $((SECONDS - began)) "$1")")
}

run_all() {
  install_missing "${build_packages[@]}" "${test_packages[@]}" "${check_packages[@]}"
  use_ccache
  rm -f build/*/{ctest,again}.log  # so that the overview cannot show an earlier run's
  step 'format' check_format
  step 'scripts' check_scripts
  step 'headers: each compiles alone' check_headers
  step 'release: build and suite' build_and_test_release
  step 'clang: build without warnings, coroutine tests' build_and_test_clang
  step 'clang-tidy' check_tidy
  step 'debug: coroutine tests' build_and_test_debug
  step 'address and undefined behaviour sanitizers: build and suite' build_and_test_asan
  step 'thread sanitizer: build and suite' build_and_test_tsan
  step 'HTTP/2: h2spec' run_h2spec
  step "gRPC: grpc-go's interoperability client" run_interop
  step "gRPC: connectrpc's conformance suite" run_connect
  step 'deployment: package, units, image, manifests, rules' check_deployment
  step 'fuzzing: HTTP, HTTP/2 and the command line, a minute' build_and_fuzz

  printf '\n== [%4d s] overview\n' "$SECONDS"
  printf '%s\n' "${overview[@]}"
  local preset
  for preset in clang debug asan tsan release; do told "$preset"; done
  printf '\nrelease suite:\n'
  sed --quiet '/tests passed/,$p' build/release/ctest.log || true
  if ((${#failed[@]})); then
    printf '\nFAILED:'
    printf ' [%s]' "${failed[@]}"
    printf '\n'
    return 1
  fi
}

case ${1:-} in
  '')
    install_missing "${build_packages[@]}" "${test_packages[@]}"
    use_ccache
    build_and_test_release --label-exclude '^variant$'
    ;;
  --all) run_all ;;
  --help | -h) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
