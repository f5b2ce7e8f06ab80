// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace bwos::server::rpc {

/// Bytes of a status's message, percent-encoded: half of the 8 KiB of fields that a caller of gRPC
/// accepts by default, so that trailing metadata has room beside it. What is longer would fail the
/// call with another status.
inline constexpr std::size_t status_message_bytes_max = 4096;

/// As much of `message` as that lets through, in whole characters of UTF-8.
[[nodiscard]] constexpr std::string_view shortened(std::string_view message) noexcept {
  std::size_t encoded = 0;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const char each = message[i];
    const bool is_plain = each >= ' ' && each <= '~' && each != '%';
    encoded += is_plain ? 1 : 3;
    if (encoded > status_message_bytes_max) return message.substr(0, whole);
    const bool goes_on = i + 1 < message.size() && (message[i + 1] & 0xc0) == 0x80;
    if (!goes_on) whole = i + 1;
  }
  return message;
}

}  // namespace bwos::server::rpc
