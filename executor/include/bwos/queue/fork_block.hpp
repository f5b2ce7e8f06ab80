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

// What the fork queue is made of: its blocks, the position where its thieves are, the owner's
// limits, and a thief's request (fork_queue.hpp has the roles, the invariants and their sources).
// All atomic accesses of the queue stand in this file, each in a function named after its part in
// the protocol.
//
// State: two words and a link a block,
//   grant_   height : 31 | pending : 1 | end : 16 | index : 16; thieves may claim the entries
//            [index, end). pending: a thief is about to raise the end, unless the owner writes
//            first
//   stolen_  height : 32 | entries that thieves have finished reading at this height : 32
//   above_   the next block of the ring
// and a queue:
//   bottom   height : 32 | block's number : 32, where the oldest entry may be
//   cursor   where the next put goes; low: entries below may belong to thieves; high: the room ends
//   top      the block that the cursor is in
//   request  a thief has asked for entries
//
// The entries themselves are plain: release-acquire pairs keep their accesses apart, and a race
// detector proves it.

namespace bwos::detail {

// A grant's round is height : 31 | pending : 1 here, so heights wrap at 2^31.

inline constexpr std::uint32_t height_mask = 0x7fff'ffff;
inline constexpr position grant_pending = position{1} << 32;

constexpr position make_grant_at(std::uint32_t height, std::uint32_t end,
                                 std::uint32_t index) noexcept {
  return make_grant(height << 1, end, index);
}
constexpr std::uint32_t granted_height(position word) noexcept {
  return round_of(word) >> 1;
}

template <class T, std::size_t Entries>
class alignas(cache_line) fork_block {
  static_assert(Entries >= 1 && Entries <= 0xffff, "end and index have 16 bits each");

 public:
  static constexpr std::uint32_t entries = static_cast<std::uint32_t>(Entries);

  T* begin() noexcept { return entries_.data() + 1; }
  T* end() noexcept { return begin() + Entries; }
  const T* begin() const noexcept { return entries_.data() + 1; }

  // Owner. Plain: thieves read the number only, which never changes.

  fork_block* below = nullptr;
  std::uint32_t height = 0;  // the last that the block was used at
  std::uint32_t number = 0;

  /// Before thieves can reach the block: as if it had been used at `at` and all been stolen.
  void construct(std::uint32_t its_number, std::uint32_t at) noexcept {
    number = its_number;
    height = at;
    // [fork.construct_grant] relaxed: whoever links the block, or hands the queue to a thread,
    // orders this. Partner: none (not shared yet).
    grant_.store(make_grant_at(at, entries, entries), relaxed);
    // [fork.construct_stolen] relaxed: as for grant_ above. Partner: none (not shared yet).
    stolen_.store(make_position(at, entries), relaxed);
  }

  fork_block* above() const noexcept {
    // [fork.above] acquire: a thief that goes there, or names it in bottom, must see the block as
    // it was constructed. The owner linked it itself. Partner: [fork.link].
    return above_.load(order_of("fork.above", acquire));
  }

  void link_above(fork_block* next) noexcept {
    // [fork.link] release: publishes the construction of `next`. Partner: [fork.above].
    above_.store(next, order_of("fork.link", release));
  }

  /// Whether thieves have taken every entry and have finished reading: then the block may be used
  /// anew (K5).
  bool all_stolen() const noexcept {
    // [fork.reuse] acquire: the entries are overwritten next, so the thieves' reads must have
    // happened before. Partner: [fork.steal_finish].
    return stolen_.load(order_of("fork.reuse", acquire)) == make_position(height, entries);
  }

  /// Starts to use it at `at`, still closed. Only after all_stolen().
  void begin_height(std::uint32_t at) noexcept {
    height = at;
    // [fork.begin_height] relaxed: thieves add to it only after a claim at this height, which
    // synchronises with a later grant. Partner: [fork.steal_finish].
    stolen_.store(make_position(at, 0), relaxed);
  }

  /// Makes the top block's word say that nothing is granted and nobody is about to grant. After the
  /// store of `low` (K3).
  void enter() noexcept {
    // [fork.enter] acq_rel: a thief that sets the pending bit hereafter has its store of `low`
    // behind the owner's; what one asked before it set the bit that this takes away is seen.
    // Partner: [fork.pend].
    grant_.exchange(make_grant_at(height, 0, 0), order_of("fork.enter", acq_rel));
  }

  position look() const noexcept {
    // [fork.look] relaxed: what follows from it is decided by a compare-exchange of the same word,
    // or stays true: that everything put is claimed. Partner: [fork.claim], [fork.expose].
    return grant_.load(relaxed);
  }

  /// From the word `seen` to one that grants up to `to`, at least as much as now. False: it is
  /// another word now, which `seen` becomes.
  bool grant(position& seen, std::uint32_t to) noexcept {
    // [fork.grant] release/relaxed: a thief that claims one of these entries must see it. Partner:
    // [fork.claim].
    return grant_.compare_exchange_strong(seen, make_grant_at(height, to, grant_index(seen)),
                                          order_of("fork.grant", release), relaxed);
  }

  /// From the word `seen` to one that grants up to `to` only; nobody is about to raise that. After
  /// the stores of the cursor (K4) and of `low` (K3). False: it is another word now.
  bool take(position seen, std::uint32_t to) noexcept {
    // [fork.take] acq_rel/relaxed: a thief that sets the pending bit hereafter has its store of
    // `low` behind the owner's, and sees the lowered cursor; what one asked before it set the bit
    // that this takes away is seen. Partner: [fork.pend].
    return grant_.compare_exchange_strong(seen, make_grant_at(height, to, grant_index(seen)),
                                          order_of("fork.take", acq_rel), relaxed);
  }

  // Thieves.

  /// Whether the block is in use at `at`, or was.
  bool is_at(std::uint32_t at) const noexcept { return granted_height(look()) == at; }

  /// Whether a claim would have succeeded a moment ago.
  bool stealable(std::uint32_t at) const noexcept { return is_open(look(), at); }

  /// Takes up to `max` entries, oldest first.
  steal_result steal(std::uint32_t at, T* out, std::size_t max) noexcept {
    // [fork.steal_position] relaxed: only names a candidate; the claim has the acquire, as the word
    // may come back (ABA: lifo_block.hpp). Partner: [fork.grant], [fork.expose].
    position first = grant_.load(relaxed);
    if (!is_open(first, at)) return {0, steal_status::empty};
    const std::uint32_t index = grant_index(first);
    const std::uint32_t left = grant_end(first) - index;
    const std::uint32_t count = max < left ? static_cast<std::uint32_t>(max) : left;
    // [fork.claim] acquire/relaxed: synchronises with the very grant whose entries it gets, and its
    // atomicity gives them to one thread. Failed, nothing is read. Partner: [fork.grant],
    // [fork.expose], [fork.take].
    if (!grant_.compare_exchange_strong(first, first + count, order_of("fork.claim", acquire),
                                        relaxed)) {
      return {0, steal_status::conflict};
    }
    for (std::uint32_t i = 0; i < count; ++i) out[i] = begin()[index + i];
    // [fork.steal_finish] release: the reads above must be over before the owner sees the count and
    // writes these entries anew. Partner: [fork.reuse].
    stolen_.fetch_add(count, order_of("fork.steal_finish", release));
    return {count, steal_status::ok};
  }

  /// Whether all of the block is granted and claimed at this height: for good (K6).
  bool may_leave(std::uint32_t at) const noexcept {
    const position word = look();
    return granted_height(word) == at && grant_index(word) == entries;
  }

  /// First step of an exposure: marks the word, unless all of the block is granted already. Returns
  /// the marked word, or 0.
  position begin_exposure() noexcept {
    position word = look();
    while (grant_end(word) < entries) {
      // [fork.pend] acq_rel/relaxed: the owner's store of `low` that came before a take or an enter
      // which this one follows is overwritten by the caller's; the owner that takes the mark away
      // sees what the caller has asked. Partner: [fork.take], [fork.enter].
      if (grant_.compare_exchange_weak(word, word | grant_pending, order_of("fork.pend", acq_rel),
                                       relaxed)) {
        return word | grant_pending;
      }
    }
    return 0;
  }

  /// Last step: grants the entries below `count`, if the owner has not written the word since
  /// (else: conflict). Where `count` is no number of entries beyond what is granted: empty. One
  /// more than there can be is a put that is about to go elsewhere.
  steal_status expose(position marked, std::ptrdiff_t count) noexcept {
    if (count == std::ptrdiff_t{entries} + 1) count = entries;
    for (position word = marked; (word & grant_pending) != 0;) {
      const bool grants =
          count > std::ptrdiff_t{grant_end(word)} && count <= std::ptrdiff_t{entries};
      const position next =
          grants ? make_grant_at(granted_height(word), static_cast<std::uint32_t>(count),
                                 grant_index(word))
                 : word & ~grant_pending;
      // [fork.expose] release/relaxed: passes on what the load of the cursor has acquired, the
      // entries, to the thieves that claim them. Partner: [fork.claim], [fork.take].
      if (grant_.compare_exchange_weak(word, next, order_of("fork.expose", release), relaxed)) {
        return grants ? steal_status::ok : steal_status::empty;
      }
    }
    return steal_status::conflict;
  }

 private:
  static bool is_open(position word, std::uint32_t at) noexcept {
    return granted_height(word) == at && grant_index(word) < grant_end(word);
  }

  atomic<position> grant_{0};
  atomic<position> stolen_{0};
  atomic<fork_block*> above_{nullptr};
  // So that the first entry begins a line, which thieves do not write.
  static constexpr std::size_t head = 4 * sizeof(void*) + 2 * sizeof(std::uint32_t);
  std::array<unsigned char, cache_line - head - sizeof(T)> unused_;
  // One more at each end: get lowers the cursor, and put raises it, before it compares it with the
  // limit.
  std::array<T, Entries + 2> entries_;
};

/// Where thieves are: the block of the oldest entry that nobody has taken, or one below it. It
/// moves upwards only.
class alignas(cache_line) fork_bottom {
 public:
  explicit fork_bottom(position start) noexcept : word_(start) {}

  position look() const noexcept {
    // [fork.bottom_look] acquire: a block's number is good only with the table that has its place.
    // Partner: [fork.bottom_move].
    return word_.load(order_of("fork.bottom_look", acquire));
  }

  /// From `seen` to `next`, unless another thread was faster.
  void move(position seen, position next) noexcept {
    // [fork.bottom_move] release/relaxed: passes on what was acquired with the link to the block
    // that `next` names: the table with its place. Partner: [fork.bottom_look].
    word_.compare_exchange_strong(seen, next, order_of("fork.bottom_move", release), relaxed);
  }

 private:
  atomic<position> word_;
};

/// The cursor and the two limits that put and get compare it with. The cursor is the owner's. A
/// limit is never laxer than the truth: anybody may forbid the fast way, and only the owner allows
/// it.
template <class T>
class fork_limits {
 public:
  // Owner.

  T* cursor() const noexcept {
    // [fork.cursor] relaxed: written by its reader only. Partner: none (own store).
    return cursor_.load(relaxed);
  }

  void set_cursor(T* to) noexcept {
    // [fork.set_cursor] release: a thief that reads any value hereof must see the entries below, so
    // that lowering it is a release, too. Partner: [fork.cursor_seen].
    cursor_.store(to, order_of("fork.set_cursor", release));
  }

  bool has_room(const T* at) const noexcept {
    // [fork.high] relaxed: the fence between the store of the cursor and this load decides, with
    // the heavy one of a thief that asks and exposes (K10). Partner: [fork.forbid_puts].
    return number(at) < number(high_.load(relaxed));
  }

  bool owns(const T* at) const noexcept {
    // [fork.low] relaxed: the fence between the store of the cursor and this load decides, with the
    // heavy one of the thief (K4). Partner: [fork.forbid_gets].
    return number(at) >= number(low_.load(relaxed));
  }

  void allow_puts(T* below) noexcept {
    // [fork.allow_puts] seq_cst: with the load of the request behind it. If this store overwrites a
    // thief's, then that thief's request came before, and is read. Partner: [fork.forbid_puts],
    // [fork.request].
    high_.store(below, order_of("fork.allow_puts", seq_cst));
  }

  void suspend_puts() noexcept {
    // [fork.suspend_puts] relaxed: the owner's own store, which its next put reads or a later one
    // that says the same. Partner: [fork.high].
    high_.store(nullptr, relaxed);
  }

  void allow_gets(T* from) noexcept {
    // [fork.allow_gets] relaxed: the release of the take or enter behind it orders it against a
    // thief's store. Partner: [fork.forbid_gets].
    low_.store(from, relaxed);
  }

  // Owner and thieves.

  void forbid_gets() noexcept {
    // [fork.forbid_gets] relaxed: forbids at any time. What a thief needs of it, the heavy fence
    // behind it gives. Partner: [fork.low], [fork.allow_gets].
    low_.store(above_all(), relaxed);
  }

  // Thieves.

  void forbid_puts() noexcept {
    // [fork.forbid_puts] seq_cst: behind the request. It reads as well as writes: what the owner
    // had put before a store to the limit that this follows is seen by an exposure. Partner:
    // [fork.allow_puts].
    high_.exchange(nullptr, order_of("fork.forbid_puts", seq_cst));
  }

  bool puts_are_forbidden() const noexcept {
    // [fork.puts_forbidden] seq_cst: behind the load of a request: it is somebody's who has
    // forbidden puts, and the owner allows none without looking at it. Partner: [fork.allow_puts].
    return high_.load(seq_cst) == nullptr;
  }

  T* cursor_seen() const noexcept {
    // [fork.cursor_seen] acquire: the entries below are granted next. Partner: [fork.set_cursor].
    return cursor_.load(order_of("fork.cursor_seen", acquire));
  }

 private:
  // Of different blocks, pointers may be compared as numbers only.
  static std::uintptr_t number(const T* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at);
  }
  static T* above_all() noexcept { return reinterpret_cast<T*>(~std::uintptr_t{0}); }

  atomic<T*> cursor_{nullptr};
  atomic<T*> low_{above_all()};
  atomic<T*> high_{nullptr};
};

/// Whether a thief wants the owner to grant something.
class fork_request {
 public:
  bool pending() const noexcept {
    // [fork.request] seq_cst: behind the owner's store to the limit. Partner: [fork.ask],
    // [fork.allow_puts].
    return word_.load(order_of("fork.request", seq_cst));
  }

  bool noticed() const noexcept {
    // [fork.request_noticed] relaxed: a hint, on the way of a get. Partner: [fork.ask].
    return word_.load(relaxed);
  }

  void answer() noexcept {
    // [fork.answer] seq_cst: a thief that reads the request as it was comes before what the owner
    // does next. Partner: [fork.request].
    word_.store(false, seq_cst);
  }

  void ask() noexcept {
    // [fork.ask] seq_cst: before the limits are forbidden: the owner that allows puts behind that
    // finds the request. Partner: [fork.request].
    word_.store(true, order_of("fork.ask", seq_cst));
  }

 private:
  atomic<bool> word_{false};
};

/// The block that the owner works in, for thieves.
template <class Block>
class fork_top {
 public:
  void set(Block* to) noexcept {
    // [fork.set_top] release: publishes the construction of a block that is new. Partner:
    // [fork.top].
    block_.store(to, order_of("fork.set_top", release));
  }

  Block* look() const noexcept {
    // [fork.top] acquire: the block is used next. It may be the top no longer, which its word and
    // the cursor tell. Partner: [fork.set_top].
    return block_.load(order_of("fork.top", acquire));
  }

 private:
  atomic<Block*> block_{nullptr};
};

/// At most one thief at a time exposes; nobody waits for it.
class fork_exposer {
 public:
  bool try_begin() noexcept {
    // [fork.try_exposer] acquire: behind the last exposure. Partner: [fork.end_exposer].
    return !busy_.exchange(true, acquire);
  }

  void end() noexcept {
    // [fork.end_exposer] release: before the next exposure. Partner: [fork.try_exposer].
    busy_.store(false, release);
  }

 private:
  atomic<bool> busy_{false};
};

}  // namespace bwos::detail
