#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What version this tree is: deploy/version.sh [HEADER]    prints it, or keeps HEADER at #define BWOS_VERSION "it"
#   0.1.0+git20261123054622.259.41d2dac23917    a checkout of that commit, by its date in UTC, which dpkg sorts by. Among
#                                               commits of one second their number decides; a shallow clone has fewer
#   ...41d2dac23917.dirty                       with changes that are not committed: above the commit, below the next one
#   0.1.0                                       no checkout, or none that git reads; what the file VERSION says, if it is there
set -e
cd "$(dirname "$0")/.."

release=$(sed -n 's/^project(bwos VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)

version() {
  # Not git's own search: an exported tree may lie inside somebody else's checkout.
  if [ ! -e .git ]; then
    if [ -s VERSION ]; then head -n 1 VERSION; else echo "$release"; fi
  elif count=$(git rev-list --count HEAD); then
    # No lock is taken, so that git beside a build finds none.
    changes=$(git --no-optional-locks status --porcelain --untracked-files=no)
    TZ=UTC git log -1 --no-show-signature --abbrev=12 --date=format-local:%Y%m%d%H%M%S \
      --format="$release+git%cd.$count.%h${changes:+.dirty}"
  else
    echo "version.sh: git does not read this checkout, so its version is $release alone" >&2
    echo "$release"
  fi
}

version=$(version)
case $version in
  [!0-9]* | *[!0-9A-Za-z.+~-]* | '')
    echo "version.sh: '$version' is no version: a digit first, then digits, letters and any of . + ~ -" >&2
    exit 1
    ;;
esac
if [ $# = 0 ]; then
  echo "$version"
else
  # What has not changed is left alone, so that nothing is compiled for it.
  line="#define BWOS_VERSION \"$version\""
  if [ ! -e "$1" ] || [ "$(cat "$1")" != "$line" ]; then echo "$line" >"$1"; fi
fi
