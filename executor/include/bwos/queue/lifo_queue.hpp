// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <bwos/base/cache_line.hpp>
#include <bwos/queue/lifo_block.hpp>

// A bounded LIFO work-stealing queue: Wang et al., "BWoS: Formally Verified Block-based Work
// Stealing for Parallel Processing", OSDI '23, sections 3 to 5. Its owner gets what it put last;
// thieves take the oldest. Refinement: share(), for which the end of what thieves may claim stands
// in the word that they compare and swap.
//
// ROLES  The owner, one thread, does put, get and share. Thieves, any number of threads, do sample
// and steal.
//
// STATE  A stack that lies on a ring of blocks. A place of the stack is (round, block, entry); the
// round counts the ring's laps upwards and wraps. The owner works in the `top` block, which is
// closed to thieves: every put and get inside it is free of atomics. When the top is full, the
// owner opens it to thieves and goes up to the next block; when it is empty, the owner goes down
// and closes the block below. Thieves take from the block at `bottom`, the lowest that may hold
// something, which they alone move, upwards.
//
//     bottom                    top
//     v                         v
//   [ stolen | stealable ] [ stealable ] [ owner's | free ]
//
// INVARIANTS
// L1  Entries [index, end) of steal_ are full, published by the store that opened them, and nobody
//     has read them. All entries below a block's index have been claimed by thieves in this round,
//     each once.
//       lifo_queue_test: every_element_is_got_or_stolen_once
// L2  A closed block has index == Entries, above every `end`, so no claim succeeds, and the owner's
//     plain store to that word (open) races no claim.
//       tests/model/lifo_client.cpp
// L3  Within a round a block's index only grows, from one opening to the next as well: the owner
//     keeps where thieves had come (`first`) and opens the block from there. A claim that succeeds
//     late, on a word that has come back (ABA), claims entries that are there and that nobody has.
//       lifo_queue_test: a_block_taken_back_and_refilled_is_opened_where_thieves_had_come
// L4  The owner goes up into a block of a new round only when thieves have taken and finished
//     reading every entry of its round before: no entry is overwritten while somebody reads it.
//     Else the queue is full. A block that it goes up into again in the same round needs no such
//     look: it was empty when the owner left it downwards.
//       tests/weaken: lifo.steal_finish, lifo.reuse
// L5  A thief leaves a block only when all of it has been stolen in that round, which is true for
//     good. "All that is open is claimed" would not do: the owner may have the block, refill and
//     open it, and what is in it would then lie below bottom, where nobody looks, while the owner
//     takes the thieves' progress in the blocks above for a sign that there is nothing below (L6).
//       lifo_queue_test: a_thief_stays_at_a_block_that_the_owner_has_taken
// L6  When thieves have claimed any entry of a block, they have claimed all below it (L5). So the
//     owner, whose get finds that of its own block, is done: empty.
//       lifo_queue_test: thieves_that_reach_the_top_leave_nothing_below
// L7  Rounds wrap after 2^32 laps; a thief would have to sleep for half as long between its loads
//     and its claim to mistake one round for another.
//       lifo_queue_test: rounds_wrap, and the stress starts at round 2^32 - 3

namespace bwos {

template <class T, std::size_t Entries = 64, std::size_t Blocks = 128>
class alignas(cache_line) lifo_queue {
  static_assert(Blocks >= 2, "the owner needs a block to go up to");
  static_assert(Blocks < std::numeric_limits<std::uint32_t>::max());
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= sizeof(void*), "queue pointers to larger things");

  using block = detail::lifo_block<T, Entries>;
  static_assert(alignof(block) == cache_line);
  static_assert(sizeof(block) ==
                cache_line + (Entries * sizeof(T) + cache_line - 1) / cache_line * cache_line);

 public:
  using value_type = T;
  static constexpr std::size_t block_entries = Entries;
  static constexpr std::size_t block_count = Blocks;
  static constexpr std::size_t capacity = Entries * Blocks;

  class owner;
  class thief;

  /// `first_round` is for tests, which start just before the rounds wrap.
  explicit lifo_queue(std::uint32_t first_round = 1) noexcept
      : owner_(*this, first_round), bottom_(detail::make_position(first_round, 0)) {}
  lifo_queue(const lifo_queue&) = delete;
  lifo_queue& operator=(const lifo_queue&) = delete;

  /// The owner's side: for one thread at a time.
  owner& as_owner() noexcept { return owner_; }
  /// A thief's side: a handle for any thread, valid as long as the queue.
  thief as_thief() noexcept { return thief(*this); }

 private:
  std::array<block, Blocks> blocks_;
  owner owner_;
  detail::lifo_bottom bottom_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class lifo_queue<T, Entries, Blocks>::thief {
 public:
  /// Whether there was something to steal a moment ago. Writes nothing, so it does not look beyond
  /// the block where thieves are: steal() may find something where this said no.
  bool sample() const noexcept {
    const detail::position at = queue_->bottom_.look();
    const block& here = queue_->blocks_[detail::index_of(at)];
    return here.stealable(detail::round_of(at)) || here.may_leave(detail::round_of(at));
  }

  /// Takes up to `max` (>= 1) of the oldest entries into `out`, all of one block. `conflict`:
  /// another thief or the owner was faster.
  steal_result steal(T* out, std::size_t max) const noexcept {
    for (;;) {  // ends: each turn but the last goes one block up, and the top is not left
      const detail::position at = queue_->bottom_.look();
      const std::uint32_t round = detail::round_of(at);
      const std::uint32_t index = detail::index_of(at);
      block& here = queue_->blocks_[index];
      const steal_result result = here.steal(round, out, max);
      if (result.status != steal_status::empty || !here.may_leave(round)) return result;
      queue_->bottom_.move(at, index + 1 == Blocks ? detail::make_position(round + 1, 0) : at + 1);
    }
  }

 private:
  friend lifo_queue;
  explicit thief(lifo_queue& queue) noexcept : queue_(&queue) {}

  lifo_queue* queue_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class alignas(cache_line) lifo_queue<T, Entries, Blocks>::owner {
 public:
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;

  /// False: full. That may be for a moment only, while a thief is still reading the block to be
  /// used next; put never waits for it.
  bool put(T value) noexcept {
    if (cursor_ == high_) [[unlikely]] {
      return put_above(value);
    }
    *cursor_++ = value;
    return true;
  }

  /// What was put last and no thief has taken; false: empty.
  bool get(T& value) noexcept {
    if (cursor_ == low_) [[unlikely]] {
      return get_below(value);
    }
    value = *--cursor_;
    return true;
  }

  /// Opens the top block to thieves, until the next put() or get(). True when that made something
  /// visible; false when nothing is there or it is open already.
  bool share() noexcept {
    if (shared_ || cursor_ == low_) return false;
    open_top();
    return true;
  }

  /// Whether get() would find nothing. "True" stays so until the next put; "false" lasts until
  /// thieves come.
  bool empty() const noexcept {
    if (shared_) return !top_->stealable(top_round_) && nothing_below();
    return cursor_ == low_ && nothing_below();
  }

 private:
  friend lifo_queue;

  /// What the owner remembers of a block that it has left upwards, or taken.
  struct account {
    std::uint32_t round = 0;  // the last that the block was used in
    std::uint32_t first = 0;  // entries below were taken by thieves in this round
  };

  owner(lifo_queue& queue, std::uint32_t first_round) noexcept
      : cursor_(queue.blocks_[0].begin()),
        low_(cursor_),
        high_(queue.blocks_[0].end()),
        top_(queue.blocks_.data()),
        blocks_(top_),
        top_round_(first_round) {
    queue.blocks_[0].construct(first_round, 0);
    accounts_[0].round = first_round;
    for (std::size_t i = 1; i < Blocks; ++i) {
      queue.blocks_[i].construct(first_round - 1, Entries);
      accounts_[i].round = first_round - 1;
    }
  }

  block* above(block* current) const noexcept {
    return current + 1 == blocks_ + Blocks ? blocks_ : current + 1;
  }
  block* below(block* current) const noexcept {
    return current == blocks_ ? blocks_ + Blocks - 1 : current - 1;
  }
  account& account_of(const block* where) noexcept {
    return accounts_[static_cast<std::size_t>(where - blocks_)];
  }
  const account& account_of(const block* where) const noexcept {
    return accounts_[static_cast<std::size_t>(where - blocks_)];
  }

  [[gnu::noinline]] bool put_above(T value) noexcept {
    if (shared_) {
      take_top_back();
      if (cursor_ != high_) {
        *cursor_++ = value;
        return true;
      }
    }
    if (!go_up()) return false;
    *cursor_++ = value;
    return true;
  }

  bool go_up() noexcept {
    block* const next = above(top_);
    const std::uint32_t round = next == blocks_ ? top_round_ + 1 : top_round_;
    account& entered = account_of(next);
    if (entered.round != round) {
      if (!next->all_stolen(round - 1)) return false;  // L4
      next->begin_round(round);
      entered = {.round = round, .first = 0};
    }
    top_->open(top_round_, Entries, account_of(top_).first);
    top_ = next;
    top_round_ = round;
    stand_in(next, 0);
    return true;
  }

  [[gnu::noinline]] bool get_below(T& value) noexcept {
    if (shared_) take_top_back();
    while (cursor_ == low_) {
      if (!go_down()) return false;
    }
    value = *--cursor_;
    return true;
  }

  /// Into the block below, which is full but for what thieves took; false: nothing is there.
  bool go_down() noexcept {
    if (nothing_below()) return false;
    block* const next = below(top_);
    if (top_ == blocks_) --top_round_;
    top_ = next;
    account_of(top_).first = top_->close(top_round_);
    stand_in(top_, Entries);
    return true;
  }

  /// Says so as well where thieves have come to the top block (L6).
  bool nothing_below() const noexcept {
    if (account_of(top_).first != 0) return true;
    const block* const next = below(const_cast<block*>(top_));
    const std::uint32_t round = top_ == blocks_ ? top_round_ - 1 : top_round_;
    return account_of(next).round != round || next->exhausted();
  }

  /// The owner's limits in a block of which `count` entries were put, thieves' ones included.
  void stand_in(block* where, std::size_t count) noexcept {
    low_ = where->begin() + account_of(where).first;
    cursor_ = where->begin() + count;
    high_ = where->end();
    if (cursor_ < low_) cursor_ = low_;
  }

  [[gnu::noinline]] void open_top() noexcept {
    top_end_ = static_cast<std::uint32_t>(cursor_ - top_->begin());
    high_ = low_ = cursor_;  // so that the next put or get takes the block back
    shared_ = true;
    top_->open(top_round_, top_end_, account_of(top_).first);
  }

  void take_top_back() noexcept {
    account_of(top_).first = top_->close(top_round_);
    stand_in(top_, top_end_);
    shared_ = false;
  }

  // One cache line for all that put and get touch besides the entries.
  T* cursor_;  // where the next put goes, in the top block
  T* low_;     // the lowest entry that is the owner's; equal to the cursor while shared
  T* high_;    // the end of the top block; equal to the cursor while shared
  block* top_;
  block* const blocks_;
  std::uint32_t top_round_;
  std::uint32_t top_end_ = 0;  // while shared: of what was put into the top block
  bool shared_ = false;
  alignas(cache_line) std::array<account, Blocks> accounts_{};
};

}  // namespace bwos
