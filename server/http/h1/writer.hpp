// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "http/message.hpp"
#include "net/byte_buffer.hpp"

namespace bwos::server::http1 {

/// The Date header's line of the present second. One per worker: no locks.
class date_cache {
 public:
  using clock = std::chrono::steady_clock;

  /// "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n". `now` may lag behind; the line lags with it.
  std::string_view line(clock::time_point now) noexcept {
    if (now >= valid_until_) [[unlikely]]
      refresh(now);
    return {text_.data(), text_.size()};
  }

 private:
  void refresh(clock::time_point now) noexcept;

  clock::time_point valid_until_ = clock::time_point::min();
  std::array<char, 37> text_{};
};

/// Writes `seconds` since the epoch as RFC 9110 has it (IMF-fixdate), 29 bytes.
void write_http_date(std::time_t seconds, char* to) noexcept;

/// How a response must look on this connection.
struct framing {
  bool keep_alive = true;
  bool http_1_0 = false;   ///< The request was: keeping alive has to be said.
  bool head_only = false;  ///< The answer to HEAD: the length that GET would have, and no body.
};

/// Appends one response.
void write_response(byte_buffer& to, const response& what, framing how, std::string_view date_line);

inline constexpr std::string_view continue_response = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace bwos::server::http1
