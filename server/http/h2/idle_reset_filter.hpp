// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bwos::server::h2 {

/// Takes RST_STREAM of streams that have not begun out of what a peer sends. It is an error of the
/// connection (RFC 9113, 6.4), for which nghttp2 ends it; but gRPC C++'s client sends it for a call
/// that ends before its HEADERS are written, and all its other calls would be lost (gRPC's issue
/// 19655). gRPC's servers skip it too. Takes none before start(). Reading every frame's head
/// anyway, it counts what it passes. One thread at a time.
class idle_reset_filter {
 public:
  struct part {
    std::span<const std::byte> bytes;  // to go on with; valid until the next call
    bool was_reset;                    // one was taken out, behind them
  };

  /// Of the parts that it has passed.
  struct count {
    std::uint64_t frames;      // whose heads end there
    std::uint64_t data_bytes;  // of DATA whose head does, with padding
  };

  void start() noexcept { started_ = true; }
  [[nodiscard]] count passed() const noexcept { return passed_; }

  /// Takes a beginning off `all`, which begins with the client's preface (RFC 9113, 3.4) and may be
  /// cut anywhere. A frame's head is not passed before it is whole.
  part next(std::span<const std::byte>& all) noexcept {
    if (skip_ > 0) {
      const std::size_t size = std::min(skip_, all.size());
      skip_ -= size;
      all = all.subspan(size);
    }
    if (head_bytes_ > 0) return finish_head(all);
    std::size_t at = 0;
    while (left_ < all.size() - at) {
      at += left_;
      left_ = 0;
      if (all.size() - at < head_size) {
        std::ranges::copy(all.subspan(at), head_.begin());
        head_bytes_ = all.size() - at;
        return {take(all, at, all.size() - at), false};
      }
      // What stands before it may be what makes the owner start().
      if (at > 0 && !started_ && is_idle_reset(all.data() + at)) return {take(all, at, 0), false};
      if (begins_reset(all.data() + at)) return {take(all, at, head_size), true};
      left_ += head_size;
    }
    left_ -= all.size() - at;
    return {take(all, all.size(), 0), false};
  }

 private:
  static constexpr std::size_t head_size = 9;  // RFC 9113, 4.1
  static constexpr std::size_t preface_size = 24;
  static constexpr std::size_t reset_size = 4;  // RFC 9113, 6.4

  static std::span<const std::byte> take(std::span<const std::byte>& all, std::size_t size,
                                         std::size_t behind) noexcept {
    const auto taken = all.first(size);
    all = all.subspan(size + behind);
    return taken;
  }

  part finish_head(std::span<const std::byte>& all) noexcept {
    const auto more = take(all, std::min(head_size - head_bytes_, all.size()), 0);
    std::ranges::copy(more, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
    head_bytes_ += more.size();
    if (head_bytes_ < head_size) return {{}, false};
    head_bytes_ = 0;
    if (begins_reset(head_.data())) return {{}, true};
    return {head_, false};
  }

  enum : std::uint8_t { data = 0, headers = 1, rst_stream = 3, continuation = 9 };

  struct frame_head {
    explicit frame_head(const std::byte* bytes) noexcept
        : size(number(bytes) >> 8),
          type(std::to_integer<std::uint8_t>(bytes[3])),
          flags(std::to_integer<std::uint8_t>(bytes[4])),
          stream(number(bytes + 5) & 0x7fffffff) {}

    static std::uint32_t number(const std::byte* bytes) noexcept {
      std::uint32_t value = 0;
      for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
      return value;
    }

    std::uint32_t size;
    std::uint8_t type;
    std::uint8_t flags;
    std::uint32_t stream;
  };

  [[nodiscard]] bool is_idle_reset(const std::byte* bytes) const noexcept {
    const frame_head head(bytes);
    // Else it is wrong in another way too: that is nghttp2's to judge.
    const bool is_idle = head.stream > newest_ && head.stream % 2 == 1;
    return head.type == rst_stream && is_idle && head.size == reset_size && !in_block_;
  }

  /// Notes what a frame's head means for those that follow.
  bool begins_reset(const std::byte* bytes) noexcept {
    if (started_ && is_idle_reset(bytes)) {
      skip_ = reset_size;
      return true;
    }
    constexpr std::uint8_t end_headers = 4;
    const frame_head head(bytes);
    if (head.type == headers) newest_ = std::max(newest_, head.stream);
    if (head.type == headers || head.type == continuation) {
      in_block_ = (head.flags & end_headers) == 0;
    }
    ++passed_.frames;
    passed_.data_bytes += head.type == data ? head.size : 0U;
    left_ = head.size;
    return false;
  }

  count passed_{};
  std::size_t left_ = preface_size;  // of what is passed as it is
  std::size_t skip_ = 0;
  std::array<std::byte, head_size> head_{};  // that is not whole
  std::size_t head_bytes_ = 0;
  std::uint32_t newest_ = 0;  // of the peer's streams
  bool started_ = false;
  bool in_block_ = false;  // CONTINUATION must follow
};

}  // namespace bwos::server::h2
