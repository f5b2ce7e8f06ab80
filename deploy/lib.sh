# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034  # the lists are used by the scripts that source this
# What the scripts here and the Dockerfile share: the packages, and how they are installed. Sourced, never run.

build_packages=(
  ca-certificates g++ cmake ninja-build pkg-config
  libasio-dev liburing-dev node-llhttp libcli11-dev libnghttp2-dev libspdlog-dev zlib1g-dev
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
)
# What loadtest/run.py needs for plans of wrk and a report with figures.
load_packages=(python3 python3-matplotlib wrk)
# What cpack needs beyond these to make the Debian package (deploy/debian/package.cmake).
package_packages=(dpkg-dev file help2man)
# Without these CMake cannot configure the tests and benchmarks.
test_library_packages=(libgtest-dev libbenchmark-dev)
test_packages=("${test_library_packages[@]}" "${load_packages[@]}" curl dropbear-bin iproute2 nghttp2-client
  openssh-client procps python3-grpcio python3-protobuf)
# What check.sh uses beyond these; kustomize and the schemas come by Go, promtool out of its package.
deploy_packages=(buildah crun curl debootstrap iproute2 procps python3-jsonschema python3-seccomp python3-yaml systemd)
check_packages=(ccache clang-19 clang-tidy-19 clang-format-19 git libclang-rt-19-dev shellcheck)

# missing_packages NAME...: those that are not installed, one a line. Asks dpkg alone, so it takes no time.
missing_packages() {
  local installed package
  installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' -- "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep --quiet --line-regexp --fixed-strings "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done
}

# install_missing NAME...: installs what is missing, with sudo where needed. Without root and sudo it says what to run
# and exits 3. A system that has everything is left alone: no sudo, no network.
install_missing() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    # With a terminal sudo may ask for the password; without one it must not wait for it.
    if [[ -t 0 ]]; then as_root=(sudo); else as_root=(sudo --non-interactive); fi
    if ! command -v sudo >/dev/null || ! "${as_root[@]}" true; then
      printf 'These packages are missing and sudo cannot install them. As root, run:\n' >&2
      printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      exit 3
    fi
  fi
  printf 'installing %d packages: %s\n' "${#missing[@]}" "${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# use_ccache: lets CMake's first configuration of a folder take ccache where it is installed. What one checkout compiled
# serves another.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
}

# The packages come from where this machine gets its own, so that it works behind a mirror or a proxy.
host_sources() {
  # shellcheck disable=SC2016  # the $() are apt's
  apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    grep -E ' bookworm(-updates|-security)? main$' | sort -u
}
host_proxy() { apt-config dump | grep -E '^Acquire::https?::Proxy' || true; }

# make_system FOLDER [PACKAGE,...]: a bare Debian 12 there. Needs root.
make_system() {
  local target=$1 mirror proxy=
  mirror=$(host_sources | awk '$3 == "bookworm" { print $2; exit }')
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase ${2:+--include="$2"} bookworm "$target" ${mirror:+"$mirror"}
  if [[ -n $mirror ]]; then host_sources >"$target/etc/apt/sources.list"; fi
  host_proxy >"$target/etc/apt/apt.conf.d/90proxy"
  cp /etc/hosts /etc/resolv.conf "$target/etc/"
}
