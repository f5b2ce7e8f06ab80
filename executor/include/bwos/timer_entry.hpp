// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bwos {

/// A place in a doubly linked ring.
struct timer_link {
  timer_link* next = nullptr;
  timer_link* previous = nullptr;
};

/// One deadline of one worker's wheel. Intrusive: it lies in a coroutine frame or a connection, and
/// arming it allocates nothing. While armed it must stay where it is, and only the thread that owns
/// the wheel may touch it.
struct timer_entry : timer_link {
  using function = void (*)(timer_entry&) noexcept;

  constexpr explicit timer_entry(function when_due) noexcept : on_due(when_due) {}
  timer_entry(const timer_entry&) = delete;
  timer_entry& operator=(const timer_entry&) = delete;

  [[nodiscard]] bool armed() const noexcept { return next != nullptr; }

  /// Called on the wheel's thread, the entry no longer armed. May arm, erase and free any entry,
  /// this one included.
  function on_due;
  std::int64_t due_ms = 0;  ///< Set by wheel::insert; a tick of the wheel's clock.
};

}  // namespace bwos
