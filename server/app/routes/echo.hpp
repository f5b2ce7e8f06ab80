// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/message.hpp"

namespace bwos::server::handlers {

/// The request's body, under the content type that it came with. 411 without a length: no empty
/// body, as a peer that does not say may have meant to send one.
inline response echo(const request& what) noexcept {
  if (!what.length_known) return error_response(status::length_required);
  const bool typed = !what.content_type.empty();
  return {.code = status::ok,
          .content_type = typed ? what.content_type : std::string_view("application/octet-stream"),
          .body = what.body};
}

}  // namespace bwos::server::handlers
