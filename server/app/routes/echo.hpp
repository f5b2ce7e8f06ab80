// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/message.hpp"

namespace bwos::server::handlers {

/// The request's body, under the content type that it came with.
inline response echo(const request& what) noexcept {
  const bool typed = !what.content_type.empty();
  return {.code = status::ok,
          .content_type = typed ? what.content_type : std::string_view("application/octet-stream"),
          .body = what.body};
}

}  // namespace bwos::server::handlers
