// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "net/byte_buffer.hpp"

namespace bwos::server {

/// Buffers that nobody uses for now, the newest last: its memory is likely to be in a cache.
class buffer_list {
 public:
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// The newest that has so much capacity; or none, which has no capacity.
  [[nodiscard]] byte_buffer take(std::size_t capacity) noexcept {
    for (std::size_t i = count_; i-- > 0;) {
      if (buffers_[i].capacity() == capacity) return remove(i);
    }
    return {};
  }
  /// True: there is room for one more of so much capacity, where there may be `bytes_max`.
  [[nodiscard]] bool has_room(std::size_t capacity, std::size_t bytes_max) const noexcept {
    return count_ < buffers_.size() && bytes_ + capacity <= bytes_max;
  }
  /// Where there is room.
  void put(byte_buffer used) noexcept {
    bytes_ += used.capacity();
    used.clear(used.capacity());
    buffers_[count_++] = std::move(used);
  }
  /// There is one.
  [[nodiscard]] byte_buffer take_oldest() noexcept { return remove(0); }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

 private:
  [[nodiscard]] byte_buffer remove(std::size_t at) noexcept {
    byte_buffer removed = std::move(buffers_[at]);
    for (--count_; at < count_; ++at) buffers_[at] = std::move(buffers_[at + 1]);
    bytes_ -= removed.capacity();
    return removed;
  }

  std::array<byte_buffer, 64> buffers_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace bwos::server
