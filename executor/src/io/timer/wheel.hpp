// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <bwos/timer_entry.hpp>

namespace bwos {

/// Ordered deadlines of one worker, in ticks of 1 ms. Owner only: no locks, no atomics. Allocates
/// nothing.
///
/// A hierarchical wheel: level 0 has a slot per tick, level 1 one per 64 ticks, and so on; 11
/// levels cover every 64-bit tick, so that nothing wraps and no deadline is too far. A slot is a
/// ring of entries; a word a level says which slots are occupied.
///
/// INVARIANTS (next_: the first tick that has not fired), all kept by wheel_test.cpp's comparison
/// with a sorted reference:
///
/// W1  An entry due before next_, armed late, is in the overdue ring; the next advance() fires it.
///
/// W2  Any other is at the level of the highest 6-bit digit in which it differs from next_, in the
///     slot of that digit. So a level's occupied slots lie beyond next_'s digit (level 0: at or
///     beyond it), and all of a level is due before anything higher up: the first occupied slot of
///     the lowest occupied level is the earliest.
///
/// W3  A slot's bit is set exactly while its ring has entries, a level's while one of its slots
/// has.
class wheel {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  /// Ticks of a deadline and of the clock. Rounded up and down, so that nothing fires early.
  static std::int64_t due_tick(std::chrono::steady_clock::time_point when) noexcept {
    return std::chrono::ceil<std::chrono::milliseconds>(when.time_since_epoch()).count();
  }
  static std::int64_t now_tick(std::chrono::steady_clock::time_point now) noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count();
  }

  explicit wheel(std::int64_t now_ms) noexcept;
  wheel(const wheel&) = delete;  // rings point into it
  wheel& operator=(const wheel&) = delete;
  ~wheel() = default;  // entries still armed are their owners' affair: drain() first

  /// Arms `entry`, which must not be armed. O(1). A deadline that has passed fires at the next
  /// advance().
  void insert(timer_entry& entry, std::int64_t due_ms) noexcept;

  /// Disarms `entry`, which must be armed, here. O(1).
  void erase(timer_entry& entry) noexcept;

  /// Fires all that is due at `now_ms` and gives how many: first what was armed late, then by
  /// deadline, equals in the order of arming. An entry armed meanwhile fires too if its tick is up
  /// to `now_ms` and behind the one firing; else it waits for the next call, so that re-arming with
  /// no delay cannot loop. Time does not go back: a smaller `now_ms` fires late ones only.
  std::size_t advance(std::int64_t now_ms) noexcept;

  /// Milliseconds that may pass before advance() has something to do: 0 if it has now, `never` if
  /// nothing is armed. Never too long. May be too short for a deadline over 64 ms away (its slot is
  /// due for sorting): a wake-up or two in vain per deadline.
  [[nodiscard]] std::int64_t next_due(std::int64_t now_ms) const noexcept;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Disarms every entry and hands it to `taken`, which may free it, but arms none. In no order.
  template <class Function>
  void drain(Function taken) noexcept {
    for (timer_link& ring : rings_) {
      while (ring.next != &ring) {
        auto& entry = static_cast<timer_entry&>(*ring.next);
        erase(entry);
        taken(entry);
      }
    }
  }

 private:
  using tick = std::uint64_t;  // unsigned: the top level's shifts drop bits, which is then defined
  static constexpr unsigned digit_bits = 6;
  static constexpr unsigned slots = 1U << digit_bits;
  static constexpr unsigned levels = 11;  // derived: 64 bits in digits of 6, rounded up
  static constexpr std::size_t overdue =
      std::size_t{levels} * slots;                    // W1's ring, behind the slots'
  static constexpr std::size_t firing = overdue + 1;  // what advance() works off

  struct place {
    unsigned level;
    unsigned slot;
    tick start;
  };

  static unsigned digit(tick when, unsigned level) noexcept {
    return static_cast<unsigned>(when >> (level * digit_bits)) & (slots - 1);
  }
  static std::size_t ring_of(unsigned level, unsigned slot) noexcept {
    return std::size_t{level} * slots + slot;
  }
  [[nodiscard]] bool vacant(std::size_t ring) const noexcept {
    return rings_[ring].next == &rings_[ring];
  }
  /// The earliest occupied slot and its first tick (W2); only while a slot is occupied.
  [[nodiscard]] place earliest() const noexcept;

  void link(timer_entry& entry) noexcept;
  void append(timer_entry& entry, std::size_t ring) noexcept;
  void clear(std::size_t ring) noexcept;
  void take(std::size_t ring, timer_link& to) noexcept;
  std::size_t fire() noexcept;
  void move_to(tick next) noexcept;

  std::array<timer_link, firing + 1> rings_;
  std::array<std::uint64_t, levels> occupied_{};
  std::uint32_t levels_ = 0;  // bit per level: occupied_[level] != 0
  tick next_;
  std::size_t size_ = 0;
};

}  // namespace bwos
