// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <ctime>
#include <string_view>

namespace bwos::server {

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

}  // namespace bwos::server
