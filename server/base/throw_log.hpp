// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace bwos::server {

/// Lines about handlers that threw: a request that makes its handler throw may come a million times
/// a second, so there is one line in so much time, and it counts those that got none.
class throw_log {
 public:
  using clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds apart{1};
  /// Bytes of `what` that a line has: what is thrown may have been made of a request.
  static constexpr std::size_t what_bytes_max = 200;

  /// The line about `what`, thrown by `handler`, or none so soon behind the last. Any thread.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::string> note(std::string_view handler, std::string_view what,
                                                clock::time_point now);

 private:
  std::mutex mutex_;
  std::optional<clock::time_point> last_;
  std::uint64_t passed_over_ = 0;
};

/// In a catch block: logs the exception that is being handled, at most once in throw_log::apart for
/// the whole process. `handler` is a route or the path of a method.
void log_thrown(std::string_view handler) noexcept;

}  // namespace bwos::server
