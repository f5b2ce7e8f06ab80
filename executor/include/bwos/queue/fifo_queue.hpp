// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <bwos/base/cache_line.hpp>
#include <bwos/queue/fifo_block.hpp>

// A bounded FIFO work-stealing queue: Wang et al., "BWoS: Formally Verified Block-based Work
// Stealing for Parallel Processing", OSDI '23, sections 3 to 5; with three refinements: thieves
// compare rounds (one release-acquire pair less), the owner counts its own share of a block (no
// read-modify-write in a takeover beyond one exchange), and share().
//
// ROLES  The owner, one thread, does put, get and share. Thieves, any number of threads, do sample
// and steal.
//
// STATE  A ring of blocks; a block's positions are words of (round : 32 | index : 32), explained in
// fifo_block.hpp. The round counts the ring's laps and wraps. The owner puts at the end of the
// `back` block and gets from the `front` block, which it has closed to thieves ("taken"): every get
// inside a block is free of atomics. The blocks between are the thieves' until the front reaches
// them. The front moves on only when get() needs it to, so back may lap into the exhausted front
// block. The blocks from front to back are published as a range, in a word of its own, so that
// thieves need not look at all the others.
//
// INVARIANTS
// I1  A block whose steal index is below Entries is open in the round of that word, and nobody has
//     read the entry at that index.
//       fifo_queue_test: every_element_is_got_or_stolen_once, thief_gets_nothing_of_a_taken_block
// I2  At index == Entries no claim can succeed, so the owner's plain stores to that word (open,
//     reopen) race no claim.
//       fifo_queue_test: every_element_is_got_or_stolen_once; tests/model/fifo_client.cpp
// I3  Within a round the steal index only grows, except in share(), which restores one at or above
//     every earlier claim: a claim that succeeds late still claims entries that nobody has.
//       fifo_queue_test: share_gives_back_what_is_unread, every_element_is_got_or_stolen_once
// I4  A block starts a new round only after the owner has consumed it to its end and stolen_ equals
//     what thieves claimed in the previous round: no entry is overwritten while somebody reads it.
//       tests/weaken: queue.steal_finish, queue.reuse
// I5  Rounds wrap after 2^32 laps; a thief would have to sleep that long between its loads and its
//     claim to mistake one round for another.
//       fifo_queue_test: rounds_wrap, and the stress starts at round 2^32 - 3
// I6  With back in the front block, but in another round than the front's, the queue is full though
//     the next block is not the front.
//       fifo_queue_test: put_after_lapping_into_the_front_block_says_full
// I7  Every block with something to steal lies in the published range: a block enters it before an
//     entry is published there, and leaves it only behind the front, closed. The range's store
//     comes first in the owner's program order, so whatever the publication happens before, the
//     store happens before: a look through the range misses nothing that a look at all blocks,
//     begun at the same moment, must find.
//       fifo_queue_steps_test; fifo_queue_test: the_range_follows_front_and_back_round_the_ring,
//       every_block_with_something_to_steal_lies_in_the_range,
//       put_and_announcement_cannot_miss_each_other
//
// WHAT I7 GIVES TO A WORKER THAT PARKS  It announces itself by a read-modify-write of the idle word
// and then looks through the ranges (idle_set.hpp, I1).
// - Where a read-modify-write of that word by the owner (end_search, leave, a claim) follows its
//   put, one of the two reads what the other wrote: the parking worker finds range and entry, or
//   the owner's next look at the word finds the worker.
// - Where the owner only loads the word after its put, nothing orders that load behind the put's
//   stores: on x86, too, they may still be in the store buffer. Then both can miss each other. This
//   is a window of the entry's own publication, and the range does not widen it: on x86 and AArch64
//   the range becomes visible no later than the entry, so who is too early for the one is too early
//   for the other. The monitor closes it: stores become visible in finite time, and it looks again
//   as long as the task is running that they wait behind (monitor.hpp, M2). Otherwise the
//   owner itself comes to the entry.

namespace bwos {

template <class T, std::size_t Entries = 64, std::size_t Blocks = 128>
class alignas(cache_line) fifo_queue {
  static_assert(Entries >= 1 && Entries < std::numeric_limits<std::uint32_t>::max());
  static_assert(Blocks < std::numeric_limits<std::uint32_t>::max());
  static_assert(Blocks >= 2, "the owner's back needs a block to go to while its front holds one");
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= sizeof(void*), "queue pointers to larger things");

  using block = detail::fifo_block<T, Entries>;
  static_assert(alignof(block) == cache_line);
  static_assert(sizeof(block) ==
                2 * cache_line + (Entries * sizeof(T) + cache_line - 1) / cache_line * cache_line);

 public:
  using value_type = T;
  static constexpr std::size_t block_entries = Entries;
  static constexpr std::size_t block_count = Blocks;
  static constexpr std::size_t capacity = Entries * Blocks;

  class owner;
  class thief;

  /// `first_round` is for tests, which start just before the rounds wrap.
  explicit fifo_queue(std::uint32_t first_round = 1) noexcept : owner_(*this, first_round) {}
  fifo_queue(const fifo_queue&) = delete;
  fifo_queue& operator=(const fifo_queue&) = delete;

  /// The owner's side: for one thread at a time.
  owner& as_owner() noexcept { return owner_; }
  /// A thief's side: a handle for any thread, valid as long as the queue.
  thief as_thief() noexcept { return thief(*this); }
  /// How many entries thieves could have taken a moment ago, of all blocks. Any thread; writes
  /// nothing.
  std::size_t stealable() const noexcept {
    const block_range range = in_use_.look(Blocks);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < range.count; ++i) sum += blocks_[range[i]].open_entries();
    return sum;
  }

 private:
  std::array<block, Blocks> blocks_;
  owner owner_;
  // Behind the owner's accounts, a line that is seldom written: its other neighbour, the owner's
  // own line, is written with every get, and thieves read this one all the time.
  detail::published_range in_use_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class fifo_queue<T, Entries, Blocks>::thief {
 public:
  /// The blocks worth a look: all that have something to steal, and others (I7). One load.
  block_range in_use() const noexcept { return queue_->in_use_.look(Blocks); }

  /// Whether `block_index` (below block_count) had something to steal a moment ago. Writes nothing.
  bool sample(std::size_t block_index) const noexcept {
    return queue_->blocks_[block_index].stealable();
  }

  /// How many entries it had to steal a moment ago, 0 to block_entries. Writes nothing.
  std::size_t open_entries(std::size_t block_index) const noexcept {
    return queue_->blocks_[block_index].open_entries();
  }

  /// Takes up to `max` (>= 1) of the oldest entries of that block into `out`: one, several, or with
  /// block_entries all.
  steal_result steal(std::size_t block_index, T* out, std::size_t max) const noexcept {
    return queue_->blocks_[block_index].steal(out, max);
  }

 private:
  friend fifo_queue;
  explicit thief(fifo_queue& queue) noexcept : queue_(&queue) {}

  fifo_queue* queue_;
};

template <class T, std::size_t Entries, std::size_t Blocks>
class alignas(cache_line) fifo_queue<T, Entries, Blocks>::owner {
 public:
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;

  /// False: full. That may be for a moment only, while a thief is still reading the block to be
  /// used next; put never waits for it.
  bool put(T value) noexcept {
    if (back_->append(value)) [[likely]] {
      return true;
    }
    return put_into_next_block(value);
  }

  /// The oldest entry that no thief has taken; false: empty.
  bool get(T& value) noexcept {
    if (get_cursor_ == get_end_) [[unlikely]] {
      return get_beyond_end(value);
    }
    value = *get_cursor_++;
    return true;
  }

  /// Opens the unread rest of the front block to thieves, until the next get(), or a put() that
  /// comes round to that block. Without it thieves see nothing of the front block, in a short queue
  /// of nothing at all. True when that made something visible; false when nothing is left there or
  /// it is open already.
  bool share() noexcept {
    if (shared_ || get_cursor_ == front_->end()) return false;
    const std::uint32_t first = static_cast<std::uint32_t>(get_cursor_ - front_->begin());
    if (first == detail::index_of(front_->back())) return false;
    reopen_front(first);
    return true;
  }

  /// Whether get() would find nothing. "True" stays so until the next put; "false" lasts until
  /// thieves come.
  bool empty() const noexcept { return get_cursor_ == get_end_ && nothing_left(); }

  /// get() up to `max` (>= 1) times, but only from one block: the rest of the front block or, when
  /// it has none, the next one's. What a full queue spills.
  [[gnu::noinline]] std::size_t drain_front(T* out, std::size_t max) noexcept {
    if (!get(out[0])) return 0;
    get_end_ = front_->begin() + detail::index_of(front_->back());  // puts since the last look
    std::size_t count = 1;
    while (count < max && get_cursor_ != get_end_) out[count++] = *get_cursor_++;
    return count;
  }

 private:
  friend fifo_queue;

  /// Entries of a block's current round that are not the owner's. `claimed`: by thieves, as known
  /// at the last take; `granted`: the index at which the block was last opened.
  struct account {
    std::uint32_t claimed = 0;
    std::uint32_t granted = 0;
  };

  owner(fifo_queue& queue, std::uint32_t first_round) noexcept
      : get_cursor_(queue.blocks_[0].begin()),
        get_end_(get_cursor_),
        back_(queue.blocks_.data()),
        front_(back_),
        blocks_(back_),
        in_use_(queue.in_use_),
        front_round_(first_round) {
    static_assert(sizeof(owner) == cache_line + (Blocks * sizeof(account) + cache_line - 1) /
                                                    cache_line * cache_line);
    queue.blocks_[0].construct(first_round, 0);
    for (std::size_t i = 1; i < Blocks; ++i) queue.blocks_[i].construct(first_round - 1, Entries);
  }

  block* after(block* current) const noexcept {
    return current + 1 == blocks_ + Blocks ? blocks_ : current + 1;
  }
  std::uint32_t round_after(std::uint32_t round, const block* next) const noexcept {
    return next == blocks_ ? round + 1 : round;
  }
  account& account_of(const block* where) noexcept {
    return accounts_[static_cast<std::size_t>(where - blocks_)];
  }
  void publish_range() noexcept {
    in_use_.publish(range_first_, range_count_ < Blocks ? range_count_ : Blocks);
  }

  [[gnu::noinline]] bool put_into_next_block(T value) noexcept {
    return advance_back() && back_->append(value);
  }

  bool advance_back() noexcept {
    block* const next = after(back_);
    const std::uint32_t round = round_after(detail::round_of(back_->back()), next);
    if (range_count_ > Blocks) return false;  // I6
    if (next == front_) {
      if (shared_) take_front();
      if (get_cursor_ != front_->end()) return false;
    }
    account& next_account = account_of(next);
    // Nothing claimed: no thief has touched the entries, and stolen_ need not be read.
    if (next_account.claimed != 0 && !next->readers_done(round - 1, next_account.claimed)) {
      return false;  // I4
    }
    next_account = {};
    ++range_count_;
    publish_range();  // before an entry is published there (I7)
    next->open(round);
    back_ = next;
    return true;
  }

  [[gnu::noinline]] bool get_beyond_end(T& value) noexcept {
    if (!advance_front()) return false;
    value = *get_cursor_++;
    return true;
  }

  /// Makes get_cursor_ != get_end_, or returns false: empty.
  bool advance_front() noexcept {
    if (shared_) take_front();
    // Ends: every turn takes one block off the range.
    while (get_cursor_ == front_->end()) {
      if (range_count_ == 1) return false;
      front_ = after(front_);
      front_round_ = round_after(front_round_, front_);
      take_front();
      range_first_ = range_first_ + 1 == Blocks ? 0 : range_first_ + 1;
      --range_count_;
      publish_range();
    }
    get_end_ = front_->begin() + detail::index_of(front_->back());
    return get_cursor_ != get_end_;
  }

  void take_front() noexcept {
    const std::uint32_t first = front_->close(front_round_);
    account& taken = account_of(front_);
    taken.claimed += first - taken.granted;
    get_cursor_ = get_end_ = front_->begin() + first;
    shared_ = false;
  }

  [[gnu::noinline]] void reopen_front(std::uint32_t first) noexcept {
    account_of(front_).granted = first;
    get_end_ = get_cursor_;  // so that the next get() takes the block again
    shared_ = true;
    front_->reopen(front_round_, first);
  }

  [[gnu::noinline]] bool nothing_left() const noexcept {
    if (shared_) {
      if (front_->stealable()) return false;
    } else if (get_cursor_ != front_->end() &&
               get_cursor_ != front_->begin() + detail::index_of(front_->back())) {
      return false;
    }
    // The last turn looks at the front block itself where back has lapped into it (I6).
    block* next = front_;
    for (std::uint32_t left = range_count_; left > 1; --left) {
      next = after(next);
      if (next->stealable()) return false;
    }
    return true;
  }

  // One cache line for all that put and get touch besides the entries and back_'s word.
  T* get_cursor_;  // next entry to get, in the front block
  T* get_end_;  // end of what get may take without looking again; equal to the cursor while shared
  block* back_;
  block* front_;
  block* const blocks_;
  detail::published_range& in_use_;
  std::uint32_t front_round_;
  std::uint32_t range_first_ = 0;  // the index of front_
  std::uint32_t range_count_ = 1;  // from front_ to back_; Blocks + 1 where I6 says full
  bool shared_ = false;
  alignas(cache_line) std::array<account, Blocks> accounts_{};
};

}  // namespace bwos
