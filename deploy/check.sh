#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shopt -s inherit_errexit
source deploy/lib.sh

usage() {
  cat <<'USAGE'
deploy/check.sh [CHECK...]   installs what is missing, builds the server, and tries what deploy/ holds as far as one machine
                             can: a line for each check, exit 1 if one failed. What one prints is in build/check
deploy/check.sh --quick      the same, but compiles nothing inside an image: runtime in place of image, which it names
The checks: kubernetes compose prometheus metrics systemd notify activation disk seccomp sysctl version deb image, and
runtime: the image around a package of the release build. disk, deb and images need root.
USAGE
}

server=$PWD/build/release/server/bwos-server
logs=$PWD/build/check

die() {
  printf 'check: %s\n' "$*" >&2
  exit 1
}

# not_run WHY: ends a check without a result.
not_run() {
  printf '%s\n' "$*"
  exit 77
}

# ---- helpers

# go_tool MODULE@VERSION COMMAND: where it is, built once.
go_tool() {
  local tools=$PWD/build/go-tools/${1##*@}
  [[ -x $tools/$2 ]] || GOBIN=$tools go install "$1" >&2
  printf '%s' "$tools/$2"
}

# go_module MODULE@VERSION: its folder, with the files it ships.
go_module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

# serve COMMAND...: starts a server that listens on ports of the kernel's choice, or those it is given, and waits for it.
# Leaves its output in $served, its process in $serving and its HTTP address in $http.
serve() {
  served=$(mktemp "$logs/served.XXXXXX")
  "$@" >"$served" 2>&1 &
  serving=$!
  until http=$(sed -n 's/^listening http=\([^ ]*\).*/\1/p' "$served") && [[ -n $http ]]; do
    kill -0 "$serving" 2>/dev/null || die "$* ended: $(cat "$served")"
    sleep 0.1
  done
  http=${http/0.0.0.0/127.0.0.1}
  [[ $(curl --fail --silent --show-error --max-time 10 "http://$http/plaintext") == 'Hello, World!' ]]
  [[ $(curl --fail --silent --show-error --max-time 10 --http2-prior-knowledge --data to "http://$http/echo") == to ]]
}
free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
any_port=(--http-listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0)

# stop: as an operator does; the server must end with 0.
stop() {
  kill -TERM "$serving"
  wait "$serving" || die "the server ended with $?: $(cat "$served")"
}

# said TEXT: whether the server wrote it.
said() { grep --quiet --fixed-strings -- "$1" "$served" || die "the server did not say '$1': $(cat "$served")"; }

# alone FUNCTION ARG...: the function in mount, network and process namespaces of its own, which end with it.
alone() { unshare --mount-proc --net --pid --fork --kill-child deploy/check.sh --alone "$@"; }

need_namespaces() {
  ((EUID == 0)) || not_run 'needs root'
  unshare --mount-proc --net --pid --fork true || not_run 'no namespaces may be made here'
}

# base_system: a bare Debian 12 in $BWOS_CHECK_WORK/base, made once for all checks.
base_system() { [[ -e $BWOS_CHECK_WORK/base/etc/resolv.conf ]] || make_system "$BWOS_CHECK_WORK/base"; }

version() { "$server" --version | cut -d ' ' -f 2; }
package_file() { printf 'bwos-server_%s_%s.deb' "$1" "$(dpkg --print-architecture)"; }

# package VERSION: a Debian package of the release build, under that version.
package() { (cd build/release && cpack -B "$BWOS_CHECK_WORK/packages" -D CPACK_DEBIAN_PACKAGE_VERSION="$1"); }

# use_prometheus: it and promtool from their package, but without installing that, which would start it.
use_prometheus() {
  export PATH=$PATH:$logs/prometheus/usr/bin
  command -v promtool >/dev/null && return
  mkdir -p "$logs/prometheus"
  (cd "$logs/prometheus" && apt-get download prometheus && dpkg-deb --extract prometheus_*.deb .)
}

# ---- checks

check_kubernetes() {
  local kustomize schemas
  command -v go >/dev/null || not_run 'no Go, by which kustomize and the schemas come'
  kustomize=$(go_tool sigs.k8s.io/kustomize/kustomize/v5@v5.4.3 kustomize)
  schemas=$(go_module sigs.k8s.io/kubectl-validate@v0.0.4)/pkg/openapiclient/builtins/1.30
  mkdir -p "$logs/kubernetes"
  "$kustomize" build deploy/kubernetes >"$logs/kubernetes/server.yaml"
  "$kustomize" build deploy/kubernetes/load >"$logs/kubernetes/load.yaml"
  deploy/checks/kubernetes.py "$schemas" "$logs"/kubernetes/{server,load}.yaml
  # And that it can fail.
  wrong_when HorizontalPodAutoscaler add /spec/maxReplica 3 "'maxReplica' was unexpected"
  wrong_when NetworkPolicy replace /spec/podSelector '{}' 'the load job may connect to port 8080 of the server: False'
  wrong_when NetworkPolicy replace /spec/podSelector '{}' 'a neighbour may connect to Prometheus: False'
  wrong_when NetworkPolicy replace /spec/ingress '[{}]' 'a stranger may connect to port 50051 of the server: True'
  wrong_when NetworkPolicy remove /spec/ingress/0/from/0 '""' 'the load job may connect to port 8080 of the server: False'
  wrong_when NetworkPolicy remove /spec/ingress/0/from/1 '""' 'Prometheus may connect to port 8080 of the server: False'
  wrong_when NetworkPolicy remove /spec/ingress/0/ports '""' 'a neighbour may connect to port 8081 of the server: True'
  wrong_when PodDisruptionBudget remove /spec/selector '""' 'PodDisruptionBudget bwos-server selects: []'
  wrong_when Service replace /spec/selector '{"app.kubernetes.io/part-of": "bwos"}' 'Service bwos-server selects: []'
}

# wrong_when KIND OPERATION PATH VALUE FAULT: with that JSON patch of one manifest, the check must find FAULT.
wrong_when() {
  local folder=$logs/kubernetes/wrong
  mkdir -p "$folder"
  printf 'resources: [%s]\npatches:\n- target: {kind: %s}\n  patch: |-\n    [{"op": "%s", "path": "%s", "value": %s}]\n' \
    "$(realpath --relative-to="$folder" deploy/kubernetes)" "${@:1:4}" >"$folder/kustomization.yaml"
  "$kustomize" build "$folder" >"$logs/kubernetes/wrong.yaml"
  if deploy/checks/kubernetes.py "$schemas" "$logs"/kubernetes/{wrong,load}.yaml >"$logs/kubernetes/wrong.log"; then
    die "this was not found: $*"
  fi
  grep --fixed-strings -- "$5" "$logs/kubernetes/wrong.log" || die "$(cat "$logs/kubernetes/wrong.log")"
}

check_compose() {
  if docker compose version; then
    docker compose --file deploy/compose.yaml --profile load config --quiet
  else
    command -v go >/dev/null || not_run 'neither docker compose nor Go'
    # Against the specification's schema.
    deploy/checks/compose.py "$(go_module github.com/compose-spec/compose-go/v2@v2.1.3)/schema/compose-spec.json" \
      deploy/compose.yaml
  fi
}

check_prometheus() {
  use_prometheus
  promtool check config deploy/monitoring/prometheus.yml
  promtool check rules deploy/monitoring/alerts.yml
  promtool test rules deploy/monitoring/alerts_test.yml
}

# What alerts and dashboard ask for is there: by name, and by a Prometheus that watches a server.
check_metrics() {
  local port names unknown
  use_prometheus
  # Both limits are for their metrics alone, which are not there without them: no machine is so busy, and curl and
  # Prometheus open few connections.
  serve "$server" "${any_port[@]}" --queue-age-max 1m --connections-per-address-max 1000
  curl --fail --silent --show-error "http://$http/metrics" >"$logs/metrics.txt"
  for names in deploy/monitoring/alerts.yml deploy/monitoring/grafana/dashboard.json; do
    unknown=$(grep --only-matching --word-regexp 'bwos_[a-z_]*' "$names" | sort --unique |
      grep --invert-match --line-regexp --file <(grep --only-matching '^bwos_[a-z_]*' "$logs/metrics.txt") || true)
    [[ -z $unknown ]] || die "$names asks for what /metrics has not: $unknown"
  done

  mkdir -p "$BWOS_CHECK_WORK/prometheus"
  cp deploy/monitoring/alerts.yml "$BWOS_CHECK_WORK/prometheus"
  sed "s/server:8080/$http/; s/_interval: 5s/_interval: 1s/" deploy/monitoring/prometheus.yml \
    >"$BWOS_CHECK_WORK/prometheus/prometheus.yml"
  port=$(free_port)
  prometheus --config.file="$BWOS_CHECK_WORK/prometheus/prometheus.yml" --log.level=warn \
    --storage.tsdb.path="$BWOS_CHECK_WORK/prometheus/data" --web.listen-address="127.0.0.1:$port" &
  watching=$!
  for _ in {1..40}; do
    curl --fail --silent --show-error --output /dev/null "http://$http/work?us=100"
    sleep 0.25
  done
  deploy/checks/dashboard.py "http://127.0.0.1:$port" deploy/monitoring/grafana/dashboard.json
  kill "$watching"
  stop
}

unit=deploy/debian/bwos-server.service

check_systemd() {
  local complaints
  command -v systemd-analyze >/dev/null || not_run 'no systemd-analyze'
  rm -rf "$logs/systemd"
  mkdir -p "$logs/systemd/wrong" "$logs/systemd/bwos-server.service.d"
  cp deploy/debian/*.socket "$logs/systemd"
  cp deploy/debian/access-log.conf "$logs/systemd/bwos-server.service.d"
  sed "s,/usr/bin/bwos-server,$server," "$unit" >"$logs/systemd/bwos-server.service"
  complaints=$(verify_units "$logs/systemd")
  [[ -z $complaints ]] || die "$complaints"
  systemd-analyze security --offline=true --threshold=20 --no-pager "$logs/systemd/bwos-server.service"
  # And that it can fail.
  cp --recursive "$logs"/systemd/bwos-server* "$logs/systemd/wrong"
  sed -i 's/^FileDescriptorName=/FileDescriptor=/' "$logs/systemd/wrong/bwos-server-grpc.socket"
  sed -i 's/^LogsDirectory=/LogDirectory=/' "$logs/systemd/wrong/bwos-server.service.d/access-log.conf"
  complaints=$(verify_units "$logs/systemd/wrong")
  [[ $complaints == *FileDescriptor* && $complaints == *LogDirectory* ]] || die 'a wrong setting was not found'
  # The system calls that the unit leaves, as a seccomp profile; the server must do with them.
  deploy/checks/unit_calls.py "$unit" >"$logs/systemd/calls.json"
  serve_each_way deploy/checks/under_seccomp.py "$logs/systemd/calls.json"
  # systemd sends a reload's command through the same filter.
  serve "$server" "${any_port[@]}" --access-log "$BWOS_CHECK_WORK/reloaded.log"
  MAINPID=$serving deploy/checks/under_seccomp.py "$logs/systemd/calls.json" \
    /bin/sh -c "exec $(sed -n 's/^ExecReload=//p' deploy/debian/access-log.conf)"
  stop
  # What the unit does not start again, and what it does.
  grep --quiet '^RestartPreventExitStatus=2$' "$unit"
  ends_with 2 "$server" "${any_port[@]}" --workers 0
  serve "$server" "${any_port[@]}"
  ends_with 1 "$server" "${any_port[@]}" --http-listen "$http"
  stop
}

# verify_units FOLDER: systemd's complaints, one for each setting that it does not know. It exits 0 all the same.
verify_units() { systemd-analyze verify --man=no "$1"/*.service "$1"/*.socket 2>&1; }

# ends_with STATUS COMMAND...
ends_with() {
  local status=0
  timeout 20 "${@:2}" || status=$?
  ((status == $1)) || die "${*:2} ended with $status"
}

# What a service manager hears, under the unit's filter.
check_notify() {
  command -v systemd-analyze >/dev/null || not_run 'no systemd-analyze'
  local hears=(deploy/checks/notify.py deploy/checks/under_seccomp.py "$BWOS_CHECK_WORK/calls.json")
  deploy/checks/unit_calls.py "$unit" >"$BWOS_CHECK_WORK/calls.json"
  "${hears[@]}" "$server" "${any_port[@]}"
  # And that it can fail: without a watchdog, and under a filter that lets nothing through to systemd.
  ! "${hears[@]}" env -u WATCHDOG_USEC "$server" "${any_port[@]}" || die 'no watchdog was fed, and that was not seen'
  sed 's/ AF_UNIX$//' "$unit" >"$BWOS_CHECK_WORK/deaf.service"
  deploy/checks/unit_calls.py "$BWOS_CHECK_WORK/deaf.service" >"$BWOS_CHECK_WORK/calls.json"
  ! "${hears[@]}" "$server" "${any_port[@]}" || die 'nothing was sent, and that was not seen'
}

check_activation() {
  command -v systemd-socket-activate >/dev/null || not_run 'no systemd-socket-activate'
  restarts 20 10000
  restarts 20 10000 --reactor io_uring
  restarts 5 2500 --executor asio-io-context
  # And that it can fail.
  ! restarts --unheld 1 500 || die 'nobody was refused, though nobody held the socket'
}

# restarts [--unheld] RESTARTS REQUESTS FLAG...: see checks/restarts.py.
restarts() {
  local port count=2 activating
  if [[ $1 == --unheld ]]; then count=3; fi
  port=$(free_port)
  timeout 120 systemd-socket-activate --listen="127.0.0.1:$port" --fdname=http \
    deploy/checks/restarts.py "${@:1:count}" "$server" --grpc-listen '' --log-level warn "${@:count+1}" &
  activating=$!
  # Whoever comes first starts it.
  curl --fail --silent --show-error --retry-connrefused --retry 20 --retry-delay 1 "http://127.0.0.1:$port/" || true
  wait "$activating"
}

check_disk() {
  need_namespaces
  mkdir -p "$BWOS_CHECK_WORK/disk"
  alone log_to_disk 1m
  # And that it can fail.
  ! alone log_to_disk 64m || die 'the disk was never full, and that was not seen'
}

# log_to_disk SIZE: an access log on a file system as large as that.
log_to_disk() {
  ip link set lo up
  mount -t tmpfs -o size="$1" none "$BWOS_CHECK_WORK/disk"
  deploy/checks/full_disk.py "$BWOS_CHECK_WORK/disk" "$server" "${any_port[@]}"
}

# serve_each_way PREFIX...: every executor, reactor and gRPC transport. Where the kernel has io_uring, so must PREFIX.
serve_each_way() {
  local way uring
  serve "$server" "${any_port[@]}" --reactor io_uring
  uring=$(grep --only-matching 'reactor [a-z_]*: ' "$served")
  stop
  echo "without a filter: $uring"
  for way in '--reactor io_uring --pin' '--reactor epoll --pin' '--grpc grpc++' '--executor asio-pool' \
    '--executor asio-io-context'; do
    # shellcheck disable=SC2086  # a list of flags
    serve "$@" "$server" "${any_port[@]}" $way
    if [[ $way == *io_uring* ]]; then said "$uring"; fi
    if [[ $way == *--pin* ]]; then grep --quiet '^Cpus_allowed_list:[[:space:]]*[0-9]*$' /proc/"$serving"/task/*/status; fi
    stop
  done
}

check_seccomp() {
  serve_each_way deploy/checks/under_seccomp.py deploy/seccomp.json
  # As under Docker's default profile.
  serve deploy/checks/under_seccomp.py deploy/seccomp.json --without io_uring_setup,io_uring_enter,io_uring_register \
    "$server" "${any_port[@]}" --reactor io_uring
  said 'reactor epoll: '
  stop
  # And it is in force.
  if deploy/checks/under_seccomp.py deploy/seccomp.json /bin/mkdir "$BWOS_CHECK_WORK/made"; then
    die 'the profile let mkdir through'
  fi
}

check_sysctl() {
  local name
  while read -r name; do
    [[ -e /proc/sys/${name//.//} ]] || die "this kernel has no $name"
  done < <(sed -n 's/^\([a-z][^ =]*\) *=.*/\1/p' deploy/sysctl.conf)
  sysctl --dry-run --load deploy/sysctl.conf
}

# What deploy/version.sh makes of trees, and that a build has it from there.
check_version() {
  local tree=$BWOS_CHECK_WORK/version built=$BWOS_CHECK_WORK/built release head before rising=() i
  git rev-parse --quiet --verify HEAD || not_run 'no checkout that git reads'
  release=$(sed -n 's/^project(bwos VERSION \([^ ]*\).*/\1/p' CMakeLists.txt)
  mkdir "$tree"
  copy_tree_to "$tree"
  rising+=("$("$tree/deploy/version.sh")")
  git init --quiet "$tree"
  rising+=("$(commit_at "$tree" 2026-11-23T12:00:00+02:00)")
  rising+=("$(commit_at "$tree" 2026-11-23T10:00:00+00:00)")
  echo >>"$tree/README.md"
  rising+=("$("$tree/deploy/version.sh")")
  rising+=("$(commit_at "$tree" 2026-11-23T10:00:01+00:00)")
  commit_at "$tree" 2026-11-23T10:00:02+00:00 >/dev/null
  git clone --quiet --depth 1 "file://$tree" "$BWOS_CHECK_WORK/shallow"
  rising+=("$("$BWOS_CHECK_WORK/shallow/deploy/version.sh")")
  printf '%s\n' "${rising[@]}"
  [[ ${rising[0]} == "$release" && ${rising[1]} == "$release+git20261123100000.1."* ]] || die 'not in that form'
  [[ ${rising[3]} == "${rising[2]}.dirty" ]] || die 'a change is not told'
  for ((i = 1; i < ${#rising[@]}; i++)); do
    dpkg --compare-versions "${rising[i - 1]}" lt "${rising[i]}" || die "${rising[i - 1]} is not older than ${rising[i]}"
  done
  # This checkout, above the commit before it with changes; a clone of it may have no more than the one.
  head=$(deploy/version.sh)
  git clone --quiet --no-checkout "file://$PWD" "$BWOS_CHECK_WORK/before"
  if git -C "$BWOS_CHECK_WORK/before" update-ref --no-deref HEAD HEAD~1; then
    copy_tree_to "$BWOS_CHECK_WORK/before"
    before=$("$BWOS_CHECK_WORK/before/deploy/version.sh")
    dpkg --compare-versions "$before" lt "$head" || die "$before is not older than $head"
    echo "here: $before < $head"
  fi

  echo '== an exported tree inside a checkout, and with a file VERSION'
  mkdir "$tree/exported"
  copy_tree_to "$tree/exported"
  [[ $("$tree/exported/deploy/version.sh") == "$release" ]]
  echo 1.2.3+mine >"$tree/exported/VERSION"
  [[ $("$tree/exported/deploy/version.sh") == 1.2.3+mine ]]
  echo '1.2.3"' >"$tree/exported/VERSION"
  ! "$tree/exported/deploy/version.sh" || die 'a version that is none was taken'

  echo '== a build of a worktree: the next one sees that HEAD has moved, and compiles nothing if it has not'
  git -C "$tree" worktree add --quiet "$built"
  (cd "$built" && cmake --preset release -DBWOS_TESTS=OFF -DBWOS_BENCH=OFF >/dev/null)
  compiles_version "$built" "$("$built/deploy/version.sh")"
  ! compiles_version "$built" "$("$built/deploy/version.sh")" || die 'compiled for nothing'
  compiles_version "$built" "$(commit_at "$built" 2026-11-23T10:00:03+00:00)"
}

# copy_tree_to FOLDER: what a commit of the working tree would hold, but for results.
copy_tree_to() {
  git ls-files -z --cached --others --exclude-standard -- . ':!loadtest/results' |
    tar --create --null --files-from - --ignore-failed-read | tar --extract --no-same-owner --directory "$1"
}

# commit_at FOLDER DATE: commits all there is, or nothing; prints the version.
commit_at() {
  git -C "$1" add --all
  GIT_COMMITTER_DATE=$2 git -C "$1" -c user.name=check -c user.email=check@localhost -c commit.gpgSign=false \
    commit --quiet --allow-empty --message "$2"
  "$1/deploy/version.sh"
}

# compiles_version FOLDER VERSION: whether a build makes a new object, which must have that version.
compiles_version() {
  local object=server/CMakeFiles/bwos_app.dir/app/version.cpp.o compiled
  compiled=$(cd "$1" && cmake --build --preset release --target "$object")
  grep --quiet --fixed-strings --text "$2" "$1/build/release/$object" || die "not $2: $compiled"
  [[ $compiled == *"Building CXX object"* ]]
}

check_deb() {
  need_namespaces
  local root=$BWOS_CHECK_WORK/deb version reload
  version=$(version)
  # cpack by itself gives it the version that the binary says.
  (cd build/release && cpack -B "$BWOS_CHECK_WORK/packages")
  [[ -s $BWOS_CHECK_WORK/packages/$(package_file "$version") ]]
  package "$version+next"
  base_system
  cp --archive "$BWOS_CHECK_WORK/base" "$root"
  cp "$BWOS_CHECK_WORK"/packages/*.deb "$root/root/"
  local apt=(chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 --quiet
    --yes --no-install-recommends)
  local wanted=$root/etc/systemd/system/multi-user.target.wants/bwos-server.service
  local sockets=$root/etc/systemd/system/sockets.target.wants
  "${apt[@]}" update

  echo '== install'
  "${apt[@]}" install "/root/$(package_file "$version")"
  [[ -L $wanted && -s $root/usr/share/man/man1/bwos-server.1.gz ]]
  # The sockets are there for who wants them.
  [[ -e $root/lib/systemd/system/bwos-server.socket && -e $root/lib/systemd/system/bwos-server-grpc.socket ]]
  [[ -z $(find "$root/etc/systemd" -name 'bwos*.socket') ]]
  alone serve_as_unit "$root"

  echo '== an access log that is rotated, on a system without procps'
  "${apt[@]}" install logrotate
  [[ ! -e $root/bin/kill ]] || die 'this system has procps'
  chroot "$root" bash -ec "$(access_log_commands)"
  stand_in_for_systemctl "$root"
  alone rotate_log "$root"
  # And that it can fail: by that program, and by one that signals nobody.
  for reload in "/bin/kill -HUP \$MAINPID" /bin/true; do
    sed -i "s,^ExecReload=.*,ExecReload=$reload," "$root$reload_drop_in"
    ! alone rotate_log "$root" || die "$reload did it, too"
  done
  rm -r "$root${reload_drop_in%/*}" "$root/etc/logrotate.d/bwos-server" "$root/usr/bin/systemctl" "$root/var/log/bwos-server"

  echo '== upgrade: what the administrator has changed stays'
  sed -i 's/^drain-delay.*/drain-delay = "0"/' "$root/etc/bwos-server.toml"
  rm "$wanted"
  mkdir -p "$sockets"
  ln -s /lib/systemd/system/bwos-server.socket "$sockets/bwos-server.socket"
  "${apt[@]}" install "/root/$(package_file "$version+next")"
  chroot "$root" dpkg --list bwos-server | grep --quiet "^ii  bwos-server  *$version+next "
  grep --quiet '^drain-delay = "0"$' "$root/etc/bwos-server.toml"
  [[ ! -e $wanted && -L $sockets/bwos-server.socket && ! -e $sockets/bwos-server-grpc.socket ]]
  alone serve_as_unit "$root"

  echo '== remove, and install again: the settings stay'
  "${apt[@]}" remove bwos-server
  [[ ! -e $root/usr/bin/bwos-server && ! -e $wanted ]]
  grep --quiet '^drain-delay = "0"$' "$root/etc/bwos-server.toml"
  "${apt[@]}" install "/root/$(package_file "$version")"
  alone serve_as_unit "$root"

  echo '== purge: nothing is left'
  "${apt[@]}" purge bwos-server
  purged "$root"

  echo '== once more, where systemd runs: what it is told'
  mkdir -p "$root/run/systemd/system"
  # shellcheck disable=SC2016  # the stand-in's
  printf '#!/bin/sh\necho "$@" >>/told\necho enabled\n' >"$root/usr/bin/systemctl"
  chmod 755 "$root/usr/bin/systemctl"
  "${apt[@]}" install "/root/$(package_file "$version")"
  grep --extended-regexp '(^| )start bwos-server.service' "$root/told"
  "${apt[@]}" install "/root/$(package_file "$version+next")"
  ! grep --extended-regexp '(^| )stop .*bwos-server.service' "$root/told" || die 'stopped by an upgrade'
  grep --extended-regexp '(^| )restart bwos-server.service' "$root/told"
  "${apt[@]}" purge bwos-server
  grep --extended-regexp '(^| )stop bwos-server.socket bwos-server-grpc.socket bwos-server.service' "$root/told"
  purged "$root"
}

reload_drop_in=/etc/systemd/system/bwos-server.service.d/access-log.conf

# access_log_commands: what README.md says, without systemd's own part.
access_log_commands() {
  # shellcheck disable=SC2016  # the ` are the document's
  sed -n '/^\*\*Access log/,/^## / { /^cd /,/^```/ { /^systemctl\|^```/d; p } }' deploy/README.md
}

# stand_in_for_systemctl ROOT: one that knows whether /mainpid runs, and reloads it by the unit's command and as its user.
stand_in_for_systemctl() {
  cat >"$1/usr/bin/systemctl" <<STAND_IN
#!/bin/bash
MAINPID=\$(cat /mainpid)
export MAINPID
case \$1 in
  is-active) [[ -e /proc/\$MAINPID || -e /said-to-be-active ]] ;;
  reload)
    eval "exec setpriv --reuid=65533 --regid=65533 --clear-groups \$(sed -n 's/^ExecReload=//p' $reload_drop_in)"
    ;;
esac
STAND_IN
  chmod 755 "$1/usr/bin/systemctl"
}

# rotate_log ROOT: five rotations of a server that answers all the while; each answer must be a line of one of the files.
rotate_log() {
  ip link set lo up
  mount -t proc proc "$1/proc"
  local command folder=$1/var/log/bwos-server asking answered=2 lines i end  # two by serve
  local rotate=(chroot "$1" logrotate --force /etc/logrotate.d/bwos-server)
  rm -rf "$folder" "$1/said-to-be-active"
  install -d --owner=65533 --group=65533 "$folder"
  read -ra command < <(sed -n 's/^ExecStart=//p' "$1/lib/systemd/system/bwos-server.service")
  serve chroot --userspec=65533:65533 "$1" env "$(sed -n 's/^Environment=//p' "$1$reload_drop_in")" "${command[@]}"
  echo "$serving" >"$1/mainpid"
  touch "$BWOS_CHECK_WORK/asking"
  while [[ -e $BWOS_CHECK_WORK/asking ]]; do
    curl --fail --silent --show-error --output /dev/null "http://$http/plaintext?[1-200]"
    echo 200
  done >"$BWOS_CHECK_WORK/answered" &
  asking=$!
  for i in {1..5}; do
    end=$((SECONDS + 20))
    until [[ -s $folder/access.log ]]; do
      ((SECONDS < end)) || die "after $((i - 1)) rotations there is no new file: $(ls "$folder")"
      sleep 0.05
    done
    "${rotate[@]}" || die "logrotate ended with $?"
  done
  rm "$BWOS_CHECK_WORK/asking"
  wait "$asking"
  stop
  while read -r i; do answered=$((answered + i)); done <"$BWOS_CHECK_WORK/answered"
  lines=$(zcat --force "$folder"/access.log* | wc -l)
  echo "$answered answers, $lines lines in $(find "$folder" -name 'access.log*' | wc -l) files"
  ((lines == answered)) || die 'lines are missing, or counted twice'
  # Nobody is there to be told; and somebody is, but cannot be.
  echo >>"$folder/access.log"
  "${rotate[@]}"
  echo >>"$folder/access.log"
  touch "$1/said-to-be-active"
  ! "${rotate[@]}" || die 'nobody was told, and that was not said'
}

# purged ROOT: neither files nor dpkg know of it.
purged() {
  local left
  left=$(find "$1" -xdev -name '*bwos*' -not -path "$1/root/*")
  [[ -z $left ]] || die "left: $left"
  ! chroot "$1" dpkg-query --show bwos-server || die 'dpkg still knows it'
}

# serve_as_unit ROOT: the unit's command as a user without rights.
serve_as_unit() {
  ip link set lo up
  mount -t proc proc "$1/proc"
  local command
  read -ra command < <(sed -n 's/^ExecStart=//p' "$1/lib/systemd/system/bwos-server.service")
  serve chroot --userspec=65533:65533 "$1" "${command[@]}"
  [[ $http == 127.0.0.1:8080 ]]
  stop
}

images() { buildah --root "$BWOS_CHECK_WORK/storage" --runroot "$BWOS_CHECK_WORK/run" --storage-driver vfs "$@"; }

check_image() {
  need_namespaces
  try_image deploy/Dockerfile
}

# The image around a package of the release build: all of check_image but the Dockerfile's first stage, which compiles.
check_runtime() {
  local container
  need_namespaces
  package "$(version)"
  container=$(images from scratch)
  images add --quiet "$container" "$BWOS_CHECK_WORK/packages/$(package_file "$(version)")" /bwos-server.deb
  images commit --quiet "$container" localhost/package
  sed '/ AS build$/,/^$/c FROM localhost/package AS build' deploy/Dockerfile >"$BWOS_CHECK_WORK/Dockerfile"
  try_image "$BWOS_CHECK_WORK/Dockerfile"
}

# try_image DOCKERFILE: builds it on a bare Debian 12, beside that of the load generator, and lets one ask the other.
try_image() {
  local container load cache=()
  base_system
  container=$(images from scratch)
  images add --quiet "$container" "$BWOS_CHECK_WORK/base" /
  images commit --quiet "$container" localhost/base
  if command -v ccache >/dev/null && mkdir -p "$(ccache --get-config cache_dir)"; then
    cache=(--volume "$(ccache --get-config cache_dir):/root/.cache/ccache")
  fi
  # Docker's format: OCI's has no health check. The network is for apt alone.
  local build=(images build --format docker --isolation chroot --network host --build-arg BASE=localhost/base)
  "${build[@]}" "${cache[@]}" --build-arg VERSION="$(version)" --file "$1" --tag bwos-server .
  "${build[@]}" --tag bwos-load deploy/load
  images images
  images inspect --type image bwos-server >"$logs/server.json"
  images inspect --type image bwos-load >"$logs/load.json"
  container=$(images from localhost/bwos-server)
  load=$(images from localhost/bwos-load)
  alone serve_image "$(images mount "$container")" "$(images mount "$load")"
}

# of_image IMAGE.json EXPRESSION: a list out of c, what an image says of itself; an item a line.
of_image() {
  python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))["Docker"]["config"]
print(*eval(sys.argv[2]), sep="\n")' "$@"
}

# serve_image SERVER LOAD: two roots. The server runs in a container by its image's own words, under deploy/seccomp.json, with
# a root that cannot be written; the load generator, for a second, by its image's.
serve_image() {
  local health wrk inside crun=(crun --root "$BWOS_CHECK_WORK/crun" --cgroup-manager=disabled)
  mapfile -t health < <(of_image "$logs/server.json" 'c["Healthcheck"]["Test"][1:]')
  mapfile -t wrk < <(of_image "$logs/load.json" 'c["Entrypoint"]')
  ip link set lo up
  umount /sys/fs/cgroup/unified 2>/dev/null || true  # crun refuses to see both versions of cgroups
  mkdir -p "$BWOS_CHECK_WORK/bundle"
  deploy/checks/bundle.py "$logs/server.json" "$1" --reactor io_uring --drain-delay 2s \
    >"$BWOS_CHECK_WORK/bundle/config.json"
  serve "${crun[@]}" run --bundle "$BWOS_CHECK_WORK/bundle" server
  [[ $http == 127.0.0.1:8080 ]]
  cat "$served"
  inside=("${crun[@]}" exec --user 65532:65532 server)
  "${inside[@]}" /bin/grep --extended-regexp '^(Uid|CapEff|CapBnd|Seccomp|NoNewPrivs):' /proc/1/status >"$logs/status"
  cat "$logs/status"
  [[ $(tr --squeeze-repeats '[:space:]' ' ' <"$logs/status") == \
    'Uid: 65532 65532 65532 65532 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ' ]]
  ! "${inside[@]}" /bin/touch /tmp/file || die 'the root can be written'
  [[ $("${inside[@]}" /usr/bin/bwos-server --version) == "bwos-server $(version) "* ]] || die 'it is another version'
  "${inside[@]}" "${health[@]}" || die 'not healthy'
  # Options in one argument, as compose.yaml gives them.
  chroot --userspec=65532:65532 "$2" "${wrk[@]}" '-t1 -c8 -d1s' "http://$http/plaintext" | tee "$logs/wrk"
  grep --quiet '^Requests/sec:' "$logs/wrk"
  ! grep 'Non-2xx' "$logs/wrk" || die 'wrk had other answers than 200'
  "${crun[@]}" kill server TERM
  sleep 0.5
  ! "${inside[@]}" "${health[@]}" || die 'healthy, though it drains'
  wait "$serving" || die "the server ended with $?"
}

# ---- the run

results=()

# try NAME: the check of that name, in a shell of its own, so that its first failing command ends it.
try() {
  local status=0 began=$SECONDS
  deploy/check.sh --one "$1" >"$logs/$1.log" 2>&1 || status=$?
  case $status in
    0) printf 'ok       %s (%d s)\n' "$1" $((SECONDS - began)) ;;
    77) printf 'not run: %s (%s)\n' "$1" "$(tail -n 1 "$logs/$1.log")" ;;
    *)
      printf 'FAILED   %s; the end of %s:\n' "$1" "$logs/$1.log"
      tail -n 20 "$logs/$1.log"
      results+=("$1")
      ;;
  esac
}

run() {
  local name
  mkdir -p "$logs"
  rm -f "$logs"/served.*
  install_missing "${build_packages[@]}" "${package_packages[@]}" "${deploy_packages[@]}" >"$logs/install.log"
  use_ccache
  if [[ ! -e build/release/build.ninja ]]; then cmake --preset release -DBWOS_TESTS=OFF -DBWOS_BENCH=OFF; fi \
    >"$logs/build.log"
  cmake --build --preset release --target bwos-server ${BWOS_JOBS:+-j "$BWOS_JOBS"} >>"$logs/build.log"
  BWOS_CHECK_WORK=$(mktemp --directory /var/tmp/bwos-check.XXXXXX)
  export BWOS_CHECK_WORK
  trap 'rm --recursive --force --one-file-system "$BWOS_CHECK_WORK"' EXIT
  chmod 755 "$BWOS_CHECK_WORK"
  for name in "$@"; do try "$name"; done
  cat <<'NOT_RUN'
not run: the containers of compose.yaml, and the dashboard in Grafana (their images come from a registry); without
         Docker's compose plugin the file was held against its schema
not run: the manifests in a cluster (needs one); the unit under systemd (needs one as the first process)
NOT_RUN
  ((${#results[@]} == 0))
}

quick_checks=(kubernetes compose prometheus metrics systemd notify activation disk seccomp sysctl version deb)

case ${1:-} in
  '') run "${quick_checks[@]}" image ;;
  --quick)
    printf 'not run: image, which compiles in a container (deploy/check.sh image)\n'
    run "${quick_checks[@]}" runtime
    ;;
  --help | -h) usage ;;
  --one)
    trap 'kill ${serving:+"$serving"} ${watching:+"$watching"} 2>/dev/null || true' EXIT
    "check_$2"
    ;;
  --alone) "${@:2}" ;;
  -*)
    usage >&2
    exit 2
    ;;
  *)
    for name in "$@"; do [[ $(type -t "check_$name") == function ]] || { usage >&2; exit 2; }; done
    run "$@"
    ;;
esac
