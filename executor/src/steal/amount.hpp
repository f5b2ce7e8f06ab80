// SPDX-License-Identifier: Apache-2.0
// How much to steal. One claim takes entries of one block, so a block is the most there is to take;
// and never more than the thief has room for.
#pragma once

#include <algorithm>
#include <bwos/options.hpp>
#include <cstddef>

namespace bwos {

class amount_to_steal {
 public:
  /// `batch`, at least 1: entries if `what` is a batch. `room`, at least 1: what the thief can
  /// keep.
  constexpr amount_to_steal(steal_amount what, std::size_t batch, std::size_t room) noexcept
      : most_(std::min(most(what, batch, room), room)), half_(what == steal_amount::half) {}

  /// Entries to ask for, at least 1, of a block that has had `open` to take a moment ago. It may
  /// have fewer by now: then less is taken.
  [[nodiscard]] constexpr std::size_t of(std::size_t open) const noexcept {
    return half_ ? std::clamp<std::size_t>(open - open / 2, 1, most_) : most_;
  }

 private:
  static constexpr std::size_t most(steal_amount what, std::size_t batch,
                                    std::size_t room) noexcept {
    switch (what) {
      case steal_amount::one:
        return 1;
      case steal_amount::batch:
        return batch;
      case steal_amount::half:
      case steal_amount::block:
        break;
    }
    return room;
  }

  std::size_t most_;
  bool half_;
};

}  // namespace bwos
