// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/pool.hpp>
#include <cstddef>

namespace bwos::bench {

/// A task that posts itself until it has run `runs` times.
struct chain : continuation {
  chain(pool& where, std::size_t runs) : continuation(&run), where_(where), left_(runs) {}

 private:
  static void run(continuation& self, disposition how) noexcept {
    auto& mine = static_cast<chain&>(self);
    if (how == disposition::run && --mine.left_ != 0) mine.where_.post(mine);
  }
  pool& where_;
  std::size_t left_;
};

}  // namespace bwos::bench
