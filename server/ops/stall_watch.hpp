// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/pool.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bwos::server {

/// Finds workers that have stalled: that have not turned their loop for `limit`, and so are inside
/// a task that does not end. It asks the workers' own notes, so that it needs no thread and no
/// regular visits.
class stall_watch {
 public:
  /// A limit of 0 finds none, and so does a null pool.
  stall_watch(const pool* workers, std::chrono::microseconds limit);

  /// Any thread: appends a line about the longest stall, if there is one.
  void describe(std::string& to) const;

  /// One thread: logs each stall once. To be called every interval().
  void log_new();
  [[nodiscard]] std::chrono::milliseconds interval() const noexcept;

 private:
  /// How long a worker has been in its turn, if that is a stall.
  [[nodiscard]] std::optional<worker_turn> stall_of(unsigned worker) const noexcept;

  const pool* const workers_;
  const unsigned count_;
  const std::chrono::microseconds limit_;
  std::vector<std::uint64_t> logged_;  // the last stall of each worker that was logged
};

}  // namespace bwos::server
