#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries both commands as a new user would: a bare Debian 12 in a chroot, an ordinary user with sudo, deploy/serve.sh and
# curl, the load test's quick plan, then deploy/test.sh. Needs root. Mounts and processes live in namespaces of their own and end with the script.
#   deploy/try-bare.sh [--keep]    --keep leaves the chroot's folder, whose name is printed
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/deploy/lib.sh"

say() { printf '\n== [%4d s] %s\n' "$((SECONDS))" "$*"; }
die() {
  printf 'try-bare: %s\n' "$*" >&2
  exit 1
}

add_user() {
  chroot "$1" useradd --create-home --shell /bin/bash tester
  echo 'tester ALL=(ALL) NOPASSWD:ALL' >"$1/etc/sudoers.d/tester"
}

# What a commit of the working tree would hold.
copy_tree() {
  local git=(git -C "$root" -c safe.directory="$root")
  if [[ -n $("${git[@]}" status --porcelain) ]]; then echo 'note: the working tree is not what is committed'; fi
  "${git[@]}" ls-files -z --cached --others --exclude-standard |
    tar --create --directory "$root" --null --files-from - --ignore-failed-read --owner=0 --group=0 |
    chroot "$1" bash -c 'mkdir ~tester/bwos && tar --extract --no-same-owner --directory ~tester/bwos &&
      chown --recursive tester: ~tester/bwos'
}

mount_kernel_folders() {
  mount -t proc proc "$1/proc"
  mount -t sysfs -o ro sysfs "$1/sys"
  mount -t tmpfs tmpfs "$1/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
}

# as_user TARGET COMMAND: exec all the way down, so that a signal to the job reaches the command.
as_user() {
  exec chroot --userspec=tester:tester "$1" /usr/bin/env --ignore-environment HOME=/home/tester USER=tester \
    LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin ${BWOS_JOBS:+BWOS_JOBS="$BWOS_JOBS"} \
    bash -c "cd ~/bwos && exec $2"
}

try_serve() {
  local target=$1 log=$1/tmp/serve.log server address=
  # Ports of the kernel's choice: the network is this machine's, where the default ones may be taken.
  (as_user "$target" 'deploy/serve.sh --http-listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0') >"$log" 2>&1 &
  server=$!
  tail --follow --lines=+1 --pid=$server "$log" &
  until address=$(sed -n 's/^.*listening http=\([^ ]*\).*/\1/p;T;q' "$log") && [[ -n $address ]]; do
    kill -0 $server 2>/dev/null || die "deploy/serve.sh ended with status $(wait $server && echo 0 || echo $?)"
    sleep 0.2
  done
  say "serving; curl http://$address"
  curl --fail --silent --show-error "http://$address/"
  curl --fail --silent --show-error "http://$address/plaintext"
  [[ $(curl --fail --silent --show-error --data 'to and fro' "http://$address/echo") == 'to and fro' ]] ||
    die 'POST /echo did not return the body'
  say 'curl is content; ending the server'
  kill -TERM $server
  wait $server || die "the server ended with status $?"
}

# A report within two minutes, of what deploy/serve.sh has set up.
try_load() {
  local began=$SECONDS out=/home/tester/quick
  (as_user "$1" "/usr/bin/python3 loadtest/run.py loadtest/plans/quick.toml --out $out") ||
    die "the quick plan ended with status $?"
  [[ -s $1$out/report.html && -n $(find "$1$out/figures" -name '*.svg' -print -quit) ]] || die 'no report with figures'
  ((SECONDS - began < 120)) || die "the quick plan took $((SECONDS - began)) s"
}

# Inside the namespaces, as their first process.
inside() {
  local target=$1
  trap 'exit 130' INT TERM
  say 'debootstrap: Debian 12, nothing but apt and sudo'
  make_system "$target" sudo
  mount_kernel_folders "$target"
  add_user "$target"
  say 'copying the tree'
  copy_tree "$target"
  say 'deploy/serve.sh'
  try_serve "$target"
  say 'deploy/serve.sh again, with everything installed and built'
  local began=$SECONDS
  try_serve "$target"
  echo "served, tried and ended in $((SECONDS - began)) s"
  say 'the quick plan'
  try_load "$target"
  say 'deploy/test.sh'
  (as_user "$target" deploy/test.sh) || die "deploy/test.sh ended with status $?"
  say 'both commands work on a bare system'
}

if [[ ${1:-} == --inside ]]; then
  inside "$2"
  exit
fi
((EUID == 0)) || die 'needs root, for chroot and mounts'
install_missing debootstrap curl git
target=$(mktemp --directory /var/tmp/bwos-bare.XXXXXX)
chmod 755 "$target"
if [[ ${1:-} == --keep ]]; then
  echo "the chroot stays in $target"
else
  # Once the namespaces are gone nothing is mounted below it; --one-file-system makes sure.
  trap 'rm --recursive --force --one-file-system "$target"' EXIT
fi
unshare --mount --pid --fork --kill-child "${BASH_SOURCE[0]}" --inside "$target"
