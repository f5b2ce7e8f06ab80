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

}  // namespace bwos::detail
