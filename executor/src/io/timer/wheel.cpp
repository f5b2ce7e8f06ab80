// SPDX-License-Identifier: Apache-2.0
#include "io/timer/wheel.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace bwos {

wheel::wheel(std::int64_t now_ms) noexcept
    : next_(static_cast<tick>(std::max<std::int64_t>(now_ms, 0))) {
  for (timer_link& ring : rings_) ring.next = ring.previous = &ring;
}

void wheel::insert(timer_entry& entry, std::int64_t due_ms) noexcept {
  BWOS_CHECK_hot(!entry.armed());
  entry.due_ms = due_ms;
  link(entry);
  ++size_;
}

void wheel::erase(timer_entry& entry) noexcept {
  BWOS_CHECK_hot(entry.armed());
  if (entry.next == entry.previous) {  // alone in its ring: both neighbours are the ring's head
    const auto ring = static_cast<std::size_t>(entry.next - rings_.data());
    if (ring < overdue) clear(ring);
  }
  entry.previous->next = entry.next;
  entry.next->previous = entry.previous;
  entry.next = entry.previous = nullptr;
  --size_;
}

std::size_t wheel::advance(std::int64_t now_ms) noexcept {
  const tick now = static_cast<tick>(std::max<std::int64_t>(now_ms, 0));
  take(overdue, rings_[firing]);
  std::size_t fired = fire();
  while (levels_ != 0) {  // ends: each turn empties a slot, and next_ only grows, up to now + 1
    const place first = earliest();
    if (first.start > now) break;
    if (first.level == 0) {
      take(first.slot,
           rings_[firing]);      // before moving, which may sort later ticks into the same slot
      move_to(first.start + 1);  // before firing: what is armed now for this tick is late (W1)
      fired += fire();
    } else {
      move_to(first.start);
    }
  }
  if (next_ <= now) move_to(now + 1);
  return fired;
}

std::int64_t wheel::next_due(std::int64_t now_ms) const noexcept {
  if (size_ == 0) return never;
  if (!vacant(overdue)) return 0;
  // The first tick of a slot of entries lies at or below the largest of their deadlines, which fit
  // an int64_t.
  const auto start = static_cast<std::int64_t>(earliest().start);
  return std::max<std::int64_t>(start - std::max<std::int64_t>(now_ms, 0), 0);
}

wheel::place wheel::earliest() const noexcept {
  const auto level = static_cast<unsigned>(std::countr_zero(levels_));
  const auto slot = static_cast<unsigned>(std::countr_zero(occupied_[level]));
  const unsigned shift = level * digit_bits;
  const tick below =
      (tick{slots} << shift) - 1;  // this digit and those below; all ones at the top level
  return {level, slot, (next_ & ~below) | (tick{slot} << shift)};
}

/// W1, W2: where an entry belongs as seen from next_.
void wheel::link(timer_entry& entry) noexcept {
  const tick due = static_cast<tick>(std::max<std::int64_t>(entry.due_ms, 0));
  if (due < next_) return append(entry, overdue);
  const auto highest = static_cast<unsigned>(std::bit_width((due ^ next_) | 1) - 1);
  const unsigned level = highest / digit_bits;
  const unsigned slot = digit(due, level);
  occupied_[level] |= std::uint64_t{1} << slot;
  levels_ |= 1U << level;
  append(entry, ring_of(level, slot));
}

void wheel::append(timer_entry& entry, std::size_t ring) noexcept {
  timer_link& head = rings_[ring];
  entry.next = &head;
  entry.previous = head.previous;
  head.previous->next = &entry;
  head.previous = &entry;
}

void wheel::clear(std::size_t ring) noexcept {
  const std::size_t level = ring / slots;
  occupied_[level] &= ~(std::uint64_t{1} << (ring % slots));
  if (occupied_[level] == 0) levels_ &= ~(1U << level);
}

/// Moves a ring's entries to `to`, which is empty: what they cause to be linked meanwhile lands
/// elsewhere.
void wheel::take(std::size_t ring, timer_link& to) noexcept {
  if (vacant(ring)) return;
  timer_link& from = rings_[ring];
  to = from;
  to.next->previous = &to;
  to.previous->next = &to;
  from.next = from.previous = &from;
  if (ring < overdue) clear(ring);
}

std::size_t wheel::fire() noexcept {
  std::size_t fired = 0;
  for (; !vacant(firing); ++fired) {  // ends: callbacks may erase here, but link only elsewhere
    auto& entry = static_cast<timer_entry&>(*rings_[firing].next);
    erase(entry);
    entry.on_due(entry);
  }
  return fired;
}

/// Sets next_, and sorts into lower levels what thereby shares a further digit with it (W2). All
/// that is due before `next` must have been taken.
void wheel::move_to(tick next) noexcept {
  const tick changed = next_ ^ next;
  next_ = next;
  for (unsigned level = 1; level < levels && changed >> (level * digit_bits) != 0; ++level) {
    timer_link sorting;
    sorting.next = sorting.previous = &sorting;
    take(ring_of(level, digit(next, level)), sorting);
    for (timer_link* each = sorting.next; each != &sorting;) {
      auto& entry = static_cast<timer_entry&>(*each);
      each = each->next;
      link(entry);
    }
  }
}

}  // namespace bwos
