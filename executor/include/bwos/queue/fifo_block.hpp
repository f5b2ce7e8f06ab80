// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/queue/position.hpp>
#include <bwos/queue/steal.hpp>

// One block of the FIFO BWoS queue (fifo_queue.hpp has the roles, the invariants and the paper).
// All atomic accesses of the queue stand in this file, each in a function named after its part in
// the protocol.
//
// State: three words of (round : 32 | index : 32).
//   back_    (b_pos in the paper)  next entry that the owner writes; thieves read it
//   steal_   (s_pos)  next entry that a thief may claim; Entries: closed, or all are claimed
//   stolen_  (s_cnt)  entries that thieves have finished reading in this round
// and one word a queue: the range of blocks in use, (first : 32 | count : 32).
//
// The entries themselves are plain: the two release-acquire pairs below keep their accesses apart,
// and a race detector proves it.

namespace bwos::detail {

template <class T, std::size_t Entries>
class fifo_block {
 public:
  static constexpr std::uint32_t entries = static_cast<std::uint32_t>(Entries);

  // Owner.

  T* begin() noexcept { return entries_.data(); }
  T* end() noexcept { return entries_.data() + Entries; }
  const T* begin() const noexcept { return entries_.data(); }
  const T* end() const noexcept { return entries_.data() + Entries; }

  /// Before the queue is handed to threads: closed, with `index` entries counted as put and none as
  /// stolen.
  void construct(std::uint32_t round, std::uint32_t index) noexcept {
    // [queue.construct_back] relaxed: whoever hands the queue to a thread orders this.
    // Partner: none (not shared yet).
    back_.store(make_position(round, index), relaxed);
    // [queue.construct_steal] relaxed: as for back_ above. Partner: none (not shared yet).
    steal_.store(make_position(round, entries), relaxed);
    // [queue.construct_stolen] relaxed: as for back_ above. Partner: none (not shared yet).
    stolen_.store(make_position(round, 0), relaxed);
  }

  /// Writes one entry; false when the block is full.
  bool append(T value) noexcept {
    // [queue.append] relaxed: the owner's own last store to this word. Partner: none (own store).
    const position back = back_.load(relaxed);
    const std::uint32_t index = index_of(back);
    if (index >= entries) [[unlikely]] {
      return false;
    }
    entries_[index] = value;
    // [queue.publish] release: a thief that sees this index must see the entry below it, else it
    // reads a stale payload. Partner: [queue.steal_bound].
    back_.store(back + 1, order_of("queue.publish", release));
    return true;
  }

  /// Round and end of what was put.
  position back() const noexcept {
    // [queue.own_back] relaxed: the owner's own last store to this word. Partner: none (own store).
    return back_.load(relaxed);
  }

  /// Whether every thief that claimed entries in `round` has finished reading; `claimed` is what
  /// they took.
  bool readers_done(std::uint32_t round, std::uint32_t claimed) const noexcept {
    // [queue.reuse] acquire: the entries are overwritten next, so the thieves' reads must have
    // happened before. Partner: [queue.steal_finish].
    return stolen_.load(order_of("queue.reuse", acquire)) == make_position(round, claimed);
  }

  /// Starts `round` with no entries and lets thieves in. Only after readers_done (invariant I4).
  void open(std::uint32_t round) noexcept {
    // [queue.open_stolen] relaxed: thieves add to it only after a claim in this round.
    // Partner: [queue.steal_finish].
    stolen_.store(make_position(round, 0), relaxed);
    // [queue.open_back] relaxed: carries no entry; a thief that still sees the old round here goes
    // away empty because the rounds differ, which spares a release-acquire pair on steal_.
    // Partner: [queue.steal_bound].
    back_.store(make_position(round, 0), relaxed);
    // [queue.grant] relaxed: no claim can succeed on the closed word (I2), and what a claim needs
    // to see comes by [queue.publish]. Partner: [queue.steal_position].
    steal_.store(make_position(round, 0), relaxed);
  }

  /// Shuts thieves out; the entries from the returned index on are the owner's.
  std::uint32_t close(std::uint32_t round) noexcept {
    // [queue.take] relaxed: atomicity alone decides between the owner and a claim, and the owner
    // wrote the entries itself. Partner: [queue.claim].
    return index_of(steal_.exchange(make_position(round, entries), relaxed));
  }

  /// Lets thieves in again, from `index` on.
  void reopen(std::uint32_t round, std::uint32_t index) noexcept {
    // [queue.share] relaxed: closed until now, so no claim races it (I2), and the entries were
    // published by [queue.publish]. Partner: [queue.steal_position].
    steal_.store(make_position(round, index), relaxed);
  }

  // Thieves; stealable() for the owner as well.

  /// Whether a claim would have succeeded a moment ago.
  bool stealable() const noexcept { return open_entries() != 0; }

  /// How many entries a claim could have taken a moment ago.
  std::uint32_t open_entries() const noexcept {
    // [queue.sample_position] relaxed: a hint, steal() decides. Partner: [queue.grant].
    const position first = steal_.load(relaxed);
    if (index_of(first) == entries) return 0;  // without a look at the owner's line
    // [queue.sample_bound] relaxed: a hint, no entry is read. Partner: [queue.publish].
    const position back = back_.load(relaxed);
    const bool any = round_of(back) == round_of(first) && index_of(first) < index_of(back);
    return any ? index_of(back) - index_of(first) : 0;
  }

  /// Takes up to `max` entries, oldest first.
  steal_result steal(T* out, std::size_t max) noexcept {
    // [queue.steal_position] relaxed: only names a candidate; the rounds are compared below, and
    // the claim fails if it has become old. Partner: [queue.grant].
    position first = steal_.load(relaxed);
    if (index_of(first) == entries) return {0, steal_status::done};
    // [queue.steal_bound] acquire: makes the entries below the index visible. Partner:
    // [queue.publish].
    const position back = back_.load(order_of("queue.steal_bound", acquire));
    // ">=": this view of back_ may be older than that of steal_.
    if (round_of(back) != round_of(first) || index_of(first) >= index_of(back)) {
      return {0, steal_status::empty};
    }
    const std::uint32_t left = index_of(back) - index_of(first);
    const std::uint32_t count = max < left ? static_cast<std::uint32_t>(max) : left;
    const std::uint32_t index = index_of(first);
    // [queue.claim] relaxed/relaxed: atomicity gives these entries to one thread; their visibility
    // came by [queue.steal_bound]. Partner: [queue.take].
    if (!steal_.compare_exchange_strong(first, first + count, relaxed, relaxed)) {
      return {0, steal_status::conflict};
    }
    for (std::uint32_t i = 0; i < count; ++i) out[i] = entries_[index + i];
    // [queue.steal_finish] release: the reads above must be over before the owner sees the count
    // and writes these entries anew. Partner: [queue.reuse].
    stolen_.fetch_add(count, order_of("queue.steal_finish", release));
    return {count, steal_status::ok};
  }

 private:
  // Three groups by who writes: the owner at every put; thieves at every claim; the entries.
  alignas(cache_line) atomic<position> back_;
  alignas(cache_line) atomic<position> steal_;
  atomic<position> stolen_;
  alignas(cache_line) std::array<T, Entries> entries_;
};

/// Where thieves look: which blocks are in use. The owner stores it when its back or its front goes
/// on to another block, so that the line is written once in a block's worth of operations.
class alignas(cache_line) published_range {
 public:
  void publish(std::uint32_t first, std::uint32_t count) noexcept {
    // [queue.range_store] relaxed: it only names blocks, whose own words decide. What matters is
    // its place, before any publication of an entry in a new block: that is a release, so whatever
    // it happens before, this store happens before (I7). Partner: [queue.range_look].
    word_.store(pack(first, count), relaxed);
  }

  block_range look(std::size_t ring) const noexcept {
    // [queue.range_look] relaxed: a worker that has announced itself is handed what it must see by
    // the read-modify-writes of the idle word, if at all (I7); to others an old range is a hint.
    // Partner: [queue.range_store].
    const std::uint64_t word = word_.load(relaxed);
    return {static_cast<std::size_t>(word >> 32), static_cast<std::uint32_t>(word), ring};
  }

 private:
  static constexpr std::uint64_t pack(std::uint32_t first, std::uint32_t count) noexcept {
    return std::uint64_t{first} << 32 | count;
  }

  atomic<std::uint64_t> word_{pack(0, 1)};
};

}  // namespace bwos::detail
