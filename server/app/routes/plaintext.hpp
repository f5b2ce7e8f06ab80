// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/message.hpp"

namespace bwos::server::handlers {

/// 13 bytes, for measuring what everything else costs.
inline response plaintext() noexcept {
  return {.code = status::ok, .content_type = "text/plain", .body = "Hello, World!"};
}

}  // namespace bwos::server::handlers
