// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace bwos::server {

/// The server cannot start as it was asked to; what() is the line for the user.
struct start_error : std::runtime_error {
  /// `may_pass`: the same start may succeed later, such as when an address is free again.
  explicit start_error(const std::string& what, bool may_pass = false)
      : std::runtime_error(what), may_pass(may_pass) {}

  const bool may_pass;
};

}  // namespace bwos::server
