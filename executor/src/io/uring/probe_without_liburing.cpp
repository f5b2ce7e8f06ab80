// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "io/uring/probe.hpp"

namespace bwos {

uring_support probe_uring() {
  return {.usable = false, .why = "built without liburing"};
}

std::unique_ptr<reactor> make_uring_reactor(const options&) {
  BWOS_CHECK(false);
  return nullptr;
}

}  // namespace bwos
