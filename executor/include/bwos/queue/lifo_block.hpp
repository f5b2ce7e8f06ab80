// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/queue/position.hpp>
#include <bwos/queue/steal.hpp>

// One block of the LIFO BWoS queue, and the position where its thieves are (lifo_queue.hpp has the
// roles, the invariants and the paper). All atomic accesses of the queue stand in this file, each
// in a function named after its part in the protocol.
//
// State: two words a block,
//   steal_   (s_pos in the paper)  round : 32 | end : 16 | index : 16; thieves may claim the
//            entries [index, end); index == Entries: closed, or all are claimed
//   stolen_  (s_cnt)  round : 32 | entries that thieves have finished reading in this round : 32
// and one word a queue:
//   bottom   round : 32 | block : 32, where the oldest entry may be.
//
// The entries themselves are plain: the two release-acquire pairs below keep their accesses apart,
// and a race detector proves it.

namespace bwos::detail {

template <class T, std::size_t Entries>
class lifo_block {
  static_assert(Entries >= 1 && Entries <= 0xffff, "end and index have 16 bits each");

 public:
  static constexpr std::uint32_t entries = static_cast<std::uint32_t>(Entries);

  // Owner.

  T* begin() noexcept { return entries_.data(); }
  T* end() noexcept { return entries_.data() + Entries; }
  const T* begin() const noexcept { return entries_.data(); }

  /// Before the queue is handed to threads: closed. `stolen`: as if thieves had read so many.
  void construct(std::uint32_t round, std::uint32_t stolen) noexcept {
    // [lifo.construct_steal] relaxed: whoever hands the queue to a thread orders this.
    // Partner: none (not shared yet).
    steal_.store(make_grant(round, entries, entries), relaxed);
    // [lifo.construct_stolen] relaxed: as for steal_ above. Partner: none (not shared yet).
    stolen_.store(make_position(round, stolen), relaxed);
  }

  /// Whether thieves have taken every entry of `round` and have finished reading: then the block
  /// may be used for the next round (L4).
  bool all_stolen(std::uint32_t round) const noexcept {
    // [lifo.reuse] acquire: the entries are overwritten next, so the thieves' reads must have
    // happened before. Partner: [lifo.steal_finish].
    return stolen_.load(order_of("lifo.reuse", acquire)) == make_position(round, entries);
  }

  /// Starts `round`, still closed: its steal word is that of the last round, all of which is
  /// claimed, until the block is opened. Only after all_stolen(round - 1).
  void begin_round(std::uint32_t round) noexcept {
    // [lifo.begin_round] relaxed: thieves add to it only after a claim in this round, and one that
    // reads it to leave the block finds a count that does not let it go yet. Partner:
    // [lifo.steal_finish], [lifo.leave].
    stolen_.store(make_position(round, 0), relaxed);
  }

  /// Lets thieves claim [index, end). Closed until now, so no claim races the store (L2).
  void open(std::uint32_t round, std::uint32_t end, std::uint32_t index) noexcept {
    // [lifo.grant] release: a thief that claims one of these entries must see it. Partner:
    // [lifo.claim].
    steal_.store(make_grant(round, end, index), order_of("lifo.grant", release));
  }

  /// Shuts thieves out; the entries from the returned index on are the owner's.
  std::uint32_t close(std::uint32_t round) noexcept {
    // [lifo.take] relaxed: atomicity alone decides between the owner and a claim, and the owner
    // wrote the entries itself. Partner: [lifo.claim].
    return grant_index(steal_.exchange(make_grant(round, entries, entries), relaxed));
  }

  // Thieves; exhausted() and stealable() for the owner as well.

  /// Whether every entry that was ever opened in this round is claimed. Stays true until the owner
  /// opens the block anew.
  bool exhausted() const noexcept {
    // [lifo.exhausted] relaxed: the owner opened the block itself, and claims only raise the index.
    // Partner: [lifo.claim].
    return grant_index(steal_.load(relaxed)) == entries;
  }

  /// Whether a claim in `round` would have succeeded a moment ago.
  bool stealable(std::uint32_t round) const noexcept {
    // [lifo.sample] relaxed: a hint, steal() decides. Partner: [lifo.grant].
    return is_open(steal_.load(relaxed), round);
  }

  /// Takes up to `max` entries of `round`, oldest first.
  steal_result steal(std::uint32_t round, T* out, std::size_t max) noexcept {
    // [lifo.steal_position] relaxed: only names a candidate. An acquire here would not do: the word
    // may be granted, taken back, refilled and granted again with the same value, and then the
    // claim succeeds on a grant that this load did not see (ABA). Partner: [lifo.grant].
    position first = steal_.load(relaxed);
    if (!is_open(first, round)) return {0, steal_status::empty};
    const std::uint32_t index = grant_index(first);
    const std::uint32_t left = grant_end(first) - index;
    const std::uint32_t count = max < left ? static_cast<std::uint32_t>(max) : left;
    // [lifo.claim] acquire/relaxed: synchronises with the very grant whose entries it gets, and
    // its atomicity gives them to one thread. Failed, nothing is read. Partner: [lifo.grant],
    // [lifo.take].
    if (!steal_.compare_exchange_strong(first, first + count, order_of("lifo.claim", acquire),
                                        relaxed)) {
      return {0, steal_status::conflict};
    }
    for (std::uint32_t i = 0; i < count; ++i) out[i] = entries_[index + i];
    // [lifo.steal_finish] release: the reads above must be over before the owner sees the count and
    // writes these entries anew. Partner: [lifo.reuse].
    stolen_.fetch_add(count, order_of("lifo.steal_finish", release));
    return {count, steal_status::ok};
  }

  /// Whether a thief at `round` may go on to the next block: this one is done with for good (L5).
  bool may_leave(std::uint32_t round) const noexcept {
    // [lifo.leave] relaxed: it only decides where thieves look next. Partner: [lifo.steal_finish],
    // [lifo.begin_round].
    const position stolen = stolen_.load(relaxed);
    // Rounds wrap, so they are compared by their difference.
    return static_cast<std::int32_t>(round_of(stolen) - round) > 0 ||
           stolen == make_position(round, entries);
  }

 private:
  static bool is_open(position word, std::uint32_t round) noexcept {
    return round_of(word) == round && grant_index(word) < grant_end(word);
  }

  // Two groups: what thieves write at every claim, and the entries.
  alignas(cache_line) atomic<position> steal_;
  atomic<position> stolen_;
  alignas(cache_line) std::array<T, Entries> entries_;
};

/// Where thieves are: the block of the oldest entry that nobody has taken, or one before it. Only
/// thieves move it, and only forwards.
class alignas(cache_line) lifo_bottom {
 public:
  explicit lifo_bottom(position start) noexcept : word_(start) {}

  position look() const noexcept {
    // [lifo.bottom_look] relaxed: it only names a block, whose own words decide. Partner:
    // [lifo.bottom_move].
    return word_.load(relaxed);
  }

  /// From `seen` to `next`, unless another thief was faster.
  void move(position seen, position next) noexcept {
    // [lifo.bottom_move] relaxed: as for [lifo.bottom_look]. Partner: [lifo.bottom_look].
    word_.compare_exchange_strong(seen, next, relaxed, relaxed);
  }

 private:
  atomic<position> word_;
};

}  // namespace bwos::detail
