// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What thieves are told, by every queue.

namespace bwos {

enum class steal_status : std::uint8_t {
  ok,        ///< `count` entries were taken, at least one.
  done,      ///< All entries are claimed, or the owner keeps the block to itself.
  empty,     ///< Nothing to take now; the owner may still put some there.
  conflict,  ///< Another thief or the owner was faster; trying again may succeed.
};

struct steal_result {
  std::size_t count = 0;
  steal_status status = steal_status::empty;
};

/// The blocks of a queue that may hold something to steal: `count` (at least 1) in a row from
/// `first` on, round the ring of `ring` blocks.
struct block_range {
  std::size_t first = 0;
  std::size_t count = 1;
  std::size_t ring = 1;

  /// The index of its i-th block, i < count.
  constexpr std::size_t operator[](std::size_t i) const noexcept {
    const std::size_t beyond = first + i;
    return beyond < ring ? beyond : beyond - ring;
  }
};

}  // namespace bwos
