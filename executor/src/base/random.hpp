// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bwos {

/// A small generator for choosing victims and blocks (splitmix64: Steele, Lea, Flood, OOPSLA '14).
/// Not for secrets. One thread at a time. Equal seeds give equal sequences; any seed is good, 0 and
/// consecutive ones too.
class random_source {
 public:
  constexpr explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
  }

  /// A number in [0, bound); bound >= 1. A product instead of a division: the bias is below bound /
  /// 2^32.
  constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace bwos
