// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "http/message.hpp"
#include "net/byte_buffer.hpp"

namespace bwos::server::h1 {

/// How a response must look on this connection.
struct framing {
  bool keep_alive = true;
  bool http_1_0 = false;   ///< The request was: keeping alive has to be said.
  bool head_only = false;  ///< The answer to HEAD, or the body is sent from where it lies.
};

/// Appends one response.
void write_response(byte_buffer& to, const response& what, framing how, std::string_view date_line);

inline constexpr std::string_view continue_response = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace bwos::server::h1
