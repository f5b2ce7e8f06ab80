// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "http/message.hpp"

namespace bwos::server::handlers {

/// Whether the process works at all: restart it if this fails. `stall`: what is said of a worker
/// that has stalled, or nothing.
inline response healthz(std::string_view stall) noexcept {
  return {.code = stall.empty() ? status::ok : status::service_unavailable,
          .content_type = plain_text,
          .body = stall.empty() ? "ok\n" : stall};
}

/// Whether to send it requests.
inline response readyz(bool draining) noexcept {
  return {.code = draining ? status::service_unavailable : status::ok,
          .content_type = plain_text,
          .body = draining ? "draining\n" : "ready\n"};
}

}  // namespace bwos::server::handlers
