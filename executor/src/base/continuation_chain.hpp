// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/continuation.hpp>
#include <cstddef>

namespace bwos {

/// Continuations linked by `next`; the last one's is null.
struct continuation_chain {
  continuation* first = nullptr;
  continuation* last = nullptr;
  std::size_t count = 0;

  [[nodiscard]] bool empty() const noexcept { return count == 0; }

  void append(continuation& work) noexcept {
    work.next = nullptr;
    (empty() ? first : last->next) = &work;
    last = &work;
    ++count;
  }

  /// All of `other`, which must not be empty, in its order.
  void append(const continuation_chain& other) noexcept {
    (empty() ? first : last->next) = other.first;
    last = other.last;
    count += other.count;
  }

  /// Removes the first; null when empty.
  continuation* take_first() noexcept {
    continuation* const taken = first;
    if (taken == nullptr) return nullptr;
    first = taken->next;
    if (first == nullptr) last = nullptr;
    taken->next = nullptr;
    --count;
    return taken;
  }

  /// Tells each, in order, that it will not run.
  void discard_all() noexcept {
    while (continuation* const work = take_first()) {
      work->invoke(*work, continuation::disposition::discard);
    }
  }
};

}  // namespace bwos
