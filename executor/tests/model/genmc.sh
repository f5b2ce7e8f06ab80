#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The queues under GenMC, a stateless model checker: as they ship, with each order weakened, and with each rule of the
# protocol removed. Prints a table, and fails when an outcome is not the expected one. Not a part of CI; genmc-results.txt
# keeps what `all` printed, LIMIT seconds (300) a run, the longest with more.
#
#   GENMC=<folder where GenMC was built> executor/tests/model/genmc.sh [quick|all]
#
# quick leaves out what takes more than some seconds. LIMIT: seconds that a run may take (300). LLVM: the version that GenMC
# was built with (16).
#
# A plan is what the client's threads do, owner|thief|thief, and the client's other definitions (fork_client.cpp has the
# letters). Outcomes: passes (every execution explored, no fault), found (GenMC objects: a race, the sum, an
# entry that was never written, a put that a request missed), unfinished (LIMIT). What finds a fault, passes as written.
set -u

if [ ! -x "${GENMC:-}/genmc" ]; then
  cat >&2 <<'END'
GENMC must name the folder in which GenMC was built:
  apt-get install clang-16 llvm-16-dev libclang-16-dev autoconf automake libffi-dev zlib1g-dev libedit-dev
  git clone --branch v0.10.3 https://github.com/MPI-SWS/genmc && cd genmc && autoreconf --install
  ./configure --with-llvm=/usr/lib/llvm-16 --with-clang=/usr/bin/clang-16 --with-clangxx=/usr/bin/clang++-16 && make
END
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../../include
mode=${1:-quick} limit=${LIMIT:-300} llvm=${LLVM:-16}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
declare -A passed=()  # plans that are in the table as written
wanted=()             # plans that have found something, and are to pass as written

# run <client> <change> <word of the plan>...: sets outcome, executions, seconds. The change is "-", a tag to weaken, or a
# mutant. The IR is inlined and taken apart into scalars, as GenMC wants no access of 16 bytes, and has no other
# optimisation, which might remove a fault. GenMC's code condenser, an optimisation of its own, makes invalid IR of it.
run() {
  local client=$1 change=$2
  shift 2
  local -a flags=(-std=c++20 "-I$GENMC/include")
  if [ -d "$work/$change" ]; then
    flags+=("-I$work/$change")
  elif [ "$change" != - ]; then
    flags+=("-DBWOS_WEAKEN=$change")
  fi
  flags+=("-I$source")
  local word owner thief_1 thief_2 model=rc11
  for word in "$@"; do
    if [[ $word == *"|"* ]]; then
      IFS='|' read -r owner thief_1 thief_2 <<<"$word"
      flags+=("-DBWOS_CLIENT_OWNER=\"$owner\"" "-DBWOS_CLIENT_THIEF_1=\"$thief_1\"" "-DBWOS_CLIENT_THIEF_2=\"$thief_2\"")
    elif [ "$word" = imm ]; then
      model=imm
    else
      flags+=("-DBWOS_CLIENT_$word")
    fi
  done
  outcome=broken executions=- seconds=-
  "clang++-$llvm" "${flags[@]}" -O1 -Xclang -disable-llvm-passes -w -S -emit-llvm -o "$work/client.ll" \
    "$here/${client}_client.cpp" || return
  "opt-$llvm" -S -passes=inline,sroa -o "$work/plain.ll" "$work/client.ll" || return
  timeout "$limit" nice "$GENMC/genmc" --$model --disable-mm-detector --disable-estimation --disable-code-condenser \
    --input-from-bitcode-file "$work/plain.ll" >"$work/log" 2>&1
  local status=$?
  seconds=$(sed -n 's/^Total wall-clock time: //p' "$work/log")
  executions=$(sed -n 's/^Number of complete executions explored: //p' "$work/log")
  if grep -q '^No errors were detected' "$work/log"; then
    outcome=passes
  elif [ $status = 124 ]; then
    outcome=unfinished executions=- seconds=${limit}s
  elif grep -q '^Error: Non-atomic race' "$work/log"; then
    outcome='found: race'
  elif grep -q '^Assertion violation' "$work/log"; then
    outcome='found: sum'
    [[ $* == *ASKS* ]] && outcome='found: missed'
  elif grep -q '^Error: Attempt to read from uninitialized' "$work/log"; then
    outcome='found: empty'
  elif grep -q '^Error: ' "$work/log"; then
    outcome="found: $(sed -n 's/^Error: \(.*\)!$/\1/p' "$work/log" | head -1)"
  fi
}

# check <client> <change> <expected> <plan>...: a row for each plan, or, where something is to be found, for the first that
# finds it. A plan: its threads and definitions, separated by spaces.
check() {
  local client=$1 change=$2 expected=$3 text=
  shift 3
  for plan in "$@"; do
    [ "$change" = - ] && passed[$client $plan]=$expected
    # shellcheck disable=SC2086  # words
    run "$client" "$change" $plan
    [[ $expected = found && $outcome = passes && $plan != "${!#}" ]] && continue
    text=
    if [[ $outcome != "$expected"* ]]; then
      text=' <-- not as expected'
      failures=$((failures + 1))
    fi
    printf '%-5s %-38s %-36s %-10s %-14s %9s %9s%s\n' "$client" "$plan" "$change" "$expected" "$outcome" \
      "$executions" "$seconds" "$text"
    if [ "$expected" = found ]; then
      [ -z "${passed[$client $plan]:-}" ] && wanted+=("$client $plan")
      return
    fi
  done
}

# mutant <name> <file of bwos/queue> <from> <to>: a copy of the file with one place changed; again for another place.
mutant() {
  local copy=$work/$1/bwos/queue/$2
  mkdir -p "$work/$1/bwos/queue"
  [ -f "$copy" ] || cp "$source/bwos/queue/$2" "$copy"
  local text changed
  text=$(<"$copy")
  changed=${text/"$3"/"$4"}
  if [ "$text" = "$changed" ]; then
    echo "$2 has changed, and mutant $1 must be written anew: there is no $3" >&2
    exit 2
  fi
  printf '%s\n' "$changed" >"$copy"
}

slow() { [ "$mode" = all ] && check "$@"; }

"$GENMC/genmc" --version | sed -n '2,3p'
echo "model: RC11, or IMM where the plan says so; commit: $(git -C "$here" describe --always --dirty --exclude '*'); limit of a run: $limit s"
printf '\n%-5s %-38s %-36s %-10s %-14s %9s %9s\n' queue plan changed expected outcome executions time
. "$here/genmc_plans.sh"

echo
[ $failures = 0 ] && echo "as expected" || echo "not as expected: $failures"
[ $failures = 0 ]
