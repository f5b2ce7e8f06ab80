// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace bwos::server {

/// The server cannot start as it was asked to; what() is the line for the user.
struct start_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace bwos::server
