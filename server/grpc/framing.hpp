// SPDX-License-Identifier: Apache-2.0
// How messages lie in a stream of bytes (gRPC's PROTOCOL-HTTP2.md, Length-Prefixed-Message): each
// behind a byte that says whether it is compressed, and its size in four, most significant first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bwos::server::rpc {

struct message_prefix {
  static constexpr std::size_t bytes = 5;

  std::uint8_t flag = 0;  ///< 1: compressed; 0: not. No other is right.
  std::uint32_t size = 0;

  [[nodiscard]] static message_prefix read(std::span<const std::byte, bytes> from) noexcept {
    message_prefix made{.flag = std::to_integer<std::uint8_t>(from[0])};
    for (const std::byte each : from.subspan<1>()) {
      made.size = made.size << 8 | std::to_integer<std::uint32_t>(each);
    }
    return made;
  }
  /// `to` has room for so many bytes.
  void write(char* to) const noexcept {
    to[0] = static_cast<char>(flag);
    for (std::size_t i = 0; i < 4; ++i) to[1 + i] = static_cast<char>(size >> (24 - 8 * i));
  }
};

/// Gathers a prefix whose bytes may come one by one. One thread at a time.
class prefix_reader {
 public:
  /// Takes what belongs to it off `from`. True: it is whole.
  [[nodiscard]] bool take(std::span<const std::byte>& from) noexcept {
    const std::size_t taken = std::min(bytes_.size() - have_, from.size());
    std::copy_n(from.begin(), taken, bytes_.begin() + have_);
    have_ = static_cast<std::uint8_t>(have_ + taken);
    from = from.subspan(taken);
    return is_whole();
  }
  [[nodiscard]] bool has_begun() const noexcept { return have_ > 0; }
  [[nodiscard]] bool is_whole() const noexcept { return have_ == bytes_.size(); }
  /// Once it is whole.
  [[nodiscard]] message_prefix get() const noexcept { return message_prefix::read(bytes_); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// For the next one.
  void clear() noexcept { have_ = 0; }

 private:
  std::array<std::byte, message_prefix::bytes> bytes_{};
  std::uint8_t have_ = 0;
};

}  // namespace bwos::server::rpc
