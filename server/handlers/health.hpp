// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

namespace bwos::server::handlers {

/// Whether the process works at all: restart it if this fails.
inline response healthz() noexcept {
  return {.code = status::ok, .content_type = plain_text, .body = "ok\n"};
}

/// Whether to send it requests.
inline response readyz(bool draining) noexcept {
  return {.code = draining ? status::service_unavailable : status::ok,
          .content_type = plain_text,
          .body = draining ? "draining\n" : "ready\n"};
}

}  // namespace bwos::server::handlers
