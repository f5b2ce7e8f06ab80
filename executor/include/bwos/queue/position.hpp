// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// A place in a ring, and the lap in which it is meant: (round : 32 | index : 32). A word that names
// the lap cannot be mistaken for one of an earlier lap.

namespace bwos::detail {

using position = std::uint64_t;

constexpr position make_position(std::uint32_t round, std::uint32_t index) noexcept {
  return position{round} << 32 | index;
}
constexpr std::uint32_t round_of(position word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr std::uint32_t index_of(position word) noexcept {
  return static_cast<std::uint32_t>(word);
}

/// What thieves may claim of a LIFO queue's block, the entries [index, end): (round : 32 | end : 16
/// | index : 16).
constexpr position make_grant(std::uint32_t round, std::uint32_t end,
                              std::uint32_t index) noexcept {
  return position{round} << 32 | position{end} << 16 | index;
}
constexpr std::uint32_t grant_end(position word) noexcept {
  return static_cast<std::uint32_t>(word >> 16) & 0xffff;
}
constexpr std::uint32_t grant_index(position word) noexcept {
  return static_cast<std::uint32_t>(word) & 0xffff;
}

}  // namespace bwos::detail
