// SPDX-License-Identifier: Apache-2.0
// A file of its own, so that a commit costs the compiler no more than this.
#include "app/config.hpp"
#include "bwos_version.hpp"  // written by deploy/version.sh at each build

namespace bwos::server {

const char* version() noexcept {
  return BWOS_VERSION;
}

const char* build() noexcept {
  return BWOS_BUILD;
}

}  // namespace bwos::server
